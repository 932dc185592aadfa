"""What the text index at an SQL server promises beyond the kit: who pays for it, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import pytest

from holdfast import InvalidInput, Message
from holdfast.backends import _sql_search
from holdfast.backends._sql_search import Log, SqlSearch
from holdfast.backends._sql_server import SqlServerStore
from holdfast.backends._sql_terms import MOST_TERMS, term
from holdfast.backends.mysql import MysqlStore
from holdfast.backends.postgres import PostgresStore
from holdfast.client import Holdfast
from holdfast.contracts import Hit
from holdfast.matching import words
from holdfast.testing.opening import new_namespace

NAME = "Rumpelstiltskin"

Store: TypeAlias = PostgresStore | MysqlStore


def filled(hf: Holdfast, id: str, *texts: str) -> list[Message]:
    hf.sessions.create(id=id, title="t")
    return hf.sessions.append(id, *(Message.user(text) for text in texts))


def found(hf: Holdfast, query: str, **options: Any) -> list[str]:
    return sorted(one.message.text for one in hf.search(query, limit=1000, **options))


class SearchAtServer:
    """Subclass it as `TestSearch` and say how a store is opened, and what the tables are called."""

    tables = "holdfast."

    def open(self, namespace: str, *, read_only: bool = False) -> Store:
        raise NotImplementedError

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, from a connection of its own."""
        raise NotImplementedError

    def holding(self, statement: str) -> AbstractContextManager[object]:
        """A transaction that has locked the rows of a statement, and goes on until the block ends."""
        raise NotImplementedError

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = self.open(new_namespace())
        yield store
        store.close()

    @pytest.fixture
    def hf(self, store: Store) -> Iterator[Holdfast]:
        with Holdfast(store) as hf:
            yield hf

    def indexed(self, store: Store) -> int:
        """How many messages are in the index."""
        return int(self.ask(f"SELECT count(*) FROM {self.tables}texts WHERE space = {store.space}")[0][0])

    def marks(self, store: Store) -> list[tuple[Any, ...]]:
        """Up to where the logs are indexed."""
        return self.ask(f"SELECT upto FROM {self.tables}searched WHERE space = {store.space} ORDER BY upto")

    # who pays

    def test_an_append_writes_nothing_into_the_index(self, hf: Holdfast, store: Store) -> None:
        filled(hf, "s", "hello")
        assert self.indexed(store) == 0
        hf.search("hello")
        hf.sessions.append("s", Message.user("again"))
        assert (self.indexed(store), self.marks(store)) == (1, [(1,)])

    def test_one_who_only_reads_finds_what_nobody_has_indexed(self) -> None:
        namespace = new_namespace()
        with Holdfast(self.open(namespace)) as writer, Holdfast(self.open(namespace, read_only=True)) as reader:
            filled(writer, "s", "hello 1")
            assert found(reader, "hello") == ["hello 1"]
            writer.search("hello")
            writer.sessions.append("s", Message.user("hello 2"))
            assert found(reader, "hello") == ["hello 1", "hello 2"]

    def test_only_what_is_in_scope_is_indexed(self, hf: Holdfast, store: Store) -> None:
        filled(hf, "a", "hello a")
        filled(hf, "b", "hello b", "hello c")
        assert found(hf, "hello", session_id="a") == ["hello a"]
        assert self.indexed(store) == 1
        assert found(hf, "hello") == ["hello a", "hello b", "hello c"]
        assert self.marks(store) == [(1,), (2,)]

    def test_a_search_does_not_wait_for_one_who_fills(self, hf: Holdfast, store: Store) -> None:
        filled(hf, "s", "hello 1")
        hf.search("hello")
        hf.sessions.append("s", Message.user("hello 2"))
        with self.holding(f"SELECT 1 FROM {self.tables}searches WHERE space = {store.space} FOR UPDATE"):
            assert found(hf, "hello") == ["hello 1", "hello 2"]
            assert self.indexed(store) == 1
        assert found(hf, "hello") == ["hello 1", "hello 2"]
        assert self.indexed(store) == 2

    def test_a_search_does_not_wait_for_one_who_deletes(self, hf: Holdfast, store: Store) -> None:
        filled(hf, "s", "hello 1")
        with self.holding(f"SELECT 1 FROM {self.tables}messages WHERE space = {store.space} FOR UPDATE"):
            assert found(hf, "hello") == ["hello 1"]
            assert self.indexed(store) == 0

    def test_a_writer_at_the_end_of_a_log_keeps_nobody_from_indexing_it(self, hf: Holdfast, store: Store) -> None:
        filled(hf, "s", "hello 1", "hello 2")
        with self.holding(self.one_more(store)):
            assert found(hf, "hello") == ["hello 1", "hello 2"]
            assert self.indexed(store) == 2

    def one_more(self, store: Store) -> str:
        """A statement that adds a row behind the second message of the only log."""
        ((history,),) = self.ask(f"SELECT history FROM {self.tables}branches WHERE space = {store.space}")
        named = history.decode() if isinstance(history, bytes) else history
        return (
            f"INSERT INTO {self.tables}messages (space, history, branch, seq, id, n, link, digest, body)"
            f" VALUES ({store.space}, '{named}', 1, 3, 'third', 3, '', 'x', '')"
        )

    def test_a_fill_that_breaks_off_is_gone_on_with(self, hf: Holdfast) -> None:
        for n in range(3):
            filled(hf, f"s{n}", *(f"hello {n} {m}" for m in range(250)))

        def stop(done: int, total: int) -> None:
            raise RuntimeError(f"{done} of {total}")

        with pytest.raises(RuntimeError, match="500 of 750"):
            hf.search("hello", progress=stop)
        told = list[tuple[int, int]]()
        assert len(found(hf, "hello", progress=lambda *done: told.append(done))) == 750
        assert told == [(250, 250)]

    def test_an_append_of_what_is_there_and_more_leaves_the_index(self, hf: Holdfast, store: Store) -> None:
        first, second = filled(hf, "s", "hello 1", "hello 2")
        hf.search("hello")
        hf.sessions.append("s", first, second, Message.user("hello 3"))
        assert (self.indexed(store), self.marks(store)) == (2, [(2,)])
        assert found(hf, "hello") == ["hello 1", "hello 2", "hello 3"]

    def test_a_log_that_goes_before_it_is_indexed_leaves_no_mark(self, hf: Holdfast, store: Store) -> None:
        filled(hf, "s", "hello 1", "hello 2")
        looked = store.at_server(lambda con: store.text._look(con, [term(store.space, "hello")], None, 1))  # type: ignore[arg-type]
        hf.sessions.delete("s")
        with store.connection() as con:
            store.text._take(con, looked.behind)  # type: ignore[arg-type]
        assert (self.indexed(store), self.marks(store)) == (0, [])

    # what is found

    def test_more_hits_than_are_fetched_at_first_are_all_found(self, hf: Holdfast) -> None:
        texts = [f"hello {n}" for n in range(_sql_search.BEST + 50)]
        filled(hf, "s", *texts)
        assert found(hf, "hello") == sorted(texts)

    def test_what_leaves_the_index_between_two_looks_is_found(self, hf: Holdfast, store: Store) -> None:
        first, *_ = filled(hf, "s", *(f"hello {n}" for n in range(_sql_search.BEST + 50)))
        filled(hf, "t", "hello t")
        hf.search("hello")
        with store.text.find(words("hello"), None) as ranked:
            hits: Iterator[Hit] = ranked.hits
            early = [next(hits).record.key for _ in range(10)]
            hf.sessions.redact("s", first.id, "asked to")
            keys = [*early, *(hit.record.key for hit in hits)]
        assert ranked.unseen == []
        assert len(keys) == len(set(keys)) == _sql_search.BEST + 51

    def test_a_text_of_very_many_words_is_found(self, hf: Holdfast, store: Store) -> None:
        long = " ".join(f"w{n}" for n in range(MOST_TERMS + 1))
        filled(hf, "s", long, "w1 and others")
        assert len(hf.search("w1")) == 2
        assert len(hf.search(f"w{MOST_TERMS}")) == 1
        assert hf.search("none") == []
        assert self.indexed(store) == 2

    def test_a_text_without_words_takes_no_place(self, hf: Holdfast, store: Store) -> None:
        filled(hf, "s", "!!!", "", "hello")
        hf.search("hello")
        assert (self.indexed(store), self.marks(store)) == (1, [(3,)])

    def test_what_one_who_only_reads_has_not_indexed_is_found_beside_many_hits(self) -> None:
        namespace, texts = new_namespace(), [f"hello {n}" for n in range(_sql_search.BEST + 50)]
        with Holdfast(self.open(namespace)) as writer, Holdfast(self.open(namespace, read_only=True)) as reader:
            filled(writer, "s", *texts)
            writer.search("hello")
            writer.sessions.append("s", Message.user("hello again"))
            assert found(reader, "hello") == sorted([*texts, "hello again"])

    def test_appends_that_contend_leave_the_index_as_it_is(self, hf: Holdfast, store: Store) -> None:
        filled(hf, "s", "hello")
        hf.search("hello")
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda n: hf.sessions.append("s", Message.user(f"hello {n}")), range(60)))
        assert self.marks(store) == [(1,)]
        assert len(found(hf, "hello")) == 61

    # what goes

    @pytest.mark.parametrize("count", [1, 30])
    def test_deleted_messages_leave_the_index(self, hf: Holdfast, store: Store, count: int) -> None:
        filled(hf, "kept", "kept hello")
        filled(hf, "s", *(f"{NAME} {n}" for n in range(count)))
        assert len(found(hf, NAME)) == count
        hf.sessions.delete("s")
        assert (self.indexed(store), self.marks(store)) == (1, [(1,)])
        assert (found(hf, NAME), found(hf, "hello")) == ([], ["kept hello"])

    def test_redacted_words_leave_the_index_at_once(self, hf: Holdfast, store: Store) -> None:
        secret, _ = filled(hf, "s", f"my name is {NAME}", "hello")
        assert len(found(hf, NAME)) == 1
        hf.sessions.redact("s", secret.id, "asked to")
        assert self.indexed(store) == 0
        assert (found(hf, NAME), found(hf, "hello")) == ([], ["hello"])
        assert self.indexed(store) == 1

    def test_whoever_is_late_marks_nothing_that_was_deleted_meanwhile(self, hf: Holdfast, store: Store) -> None:
        filled(hf, "s", "old 1", "old 2", "old 3")
        hf.search("old")
        hf.sessions.append("s", Message.user("old 4"))
        behind = behind_at(store)
        hf.sessions.delete("s")
        filled(hf, "s", "new 1", "new 2", "new 3", "new 4", "new 5")
        store.text._fill(behind, None)
        assert found(hf, "new") == [f"new {n}" for n in range(1, 6)]
        assert self.marks(store) == [(5,)]

    # an index that cannot be used

    def test_an_index_of_another_version_is_made_anew(self, hf: Holdfast, store: Store) -> None:
        filled(hf, "s", "hello 1", "hello 2")
        hf.search("hello")
        self.ask(f"UPDATE {self.tables}searches SET version = '0' WHERE space = {store.space}")
        self.ask(f"DELETE FROM {self.tables}texts WHERE space = {store.space}")
        assert found(hf, "hello") == ["hello 1", "hello 2"]
        assert self.indexed(store) == 2

    def test_terms_of_two_namespaces_have_nothing_in_common(self, hf: Holdfast) -> None:
        assert term(1, "hello") != term(2, "hello")
        with pytest.raises(InvalidInput):
            hf.search(" ")


def behind_at(store: SqlServerStore[Any]) -> list[Log]:
    """What is not indexed just now."""
    index: SqlSearch[Any] = store.text  # type: ignore[attr-defined]
    return store.at_server(lambda con: index._look(con, [term(store.space, "any")], None, 1)).behind
