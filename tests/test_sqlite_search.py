"""What the text index of a SQLite file promises beyond the kit: who pays for it, and what it leaves behind."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import apsw
import pytest

import holdfast
from holdfast import BackendError, Busy, Message, Unsupported, history
from holdfast.backends import _sqlite_search, _sqlite_words
from holdfast.backends.sqlite import SqliteStore
from holdfast.client import Holdfast
from holdfast.contracts import Delete, Planned
from holdfast.kinds import MESSAGES

NAME = "Rumpelstiltskin"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


def opened(path: Path, **options: Any) -> Holdfast:
    return holdfast.open(f"sqlite:///{path}", **options)


def filled(hf: Holdfast, id: str, *texts: str) -> list[Message]:
    hf.sessions.create(id=id, title="t")
    return hf.sessions.append(id, *(Message.user(text) for text in texts))


def texts(hf: Holdfast, query: str, **options: Any) -> list[str]:
    return sorted(found.message.text for found in hf.search(query, limit=1000, **options))


def tables(path: Path) -> list[str]:
    con = apsw.Connection(str(path))
    found = [str(name) for (name,) in con.execute("SELECT name FROM sqlite_master WHERE name LIKE 'search%'")]
    con.close()
    return found


def words(path: Path) -> set[str]:
    """Every word that the index still has."""
    con = apsw.Connection(str(path))
    con.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, search_1, row)")
    found = {str(term) for (term,) in con.execute("SELECT term FROM temp.vocabulary")}
    con.close()
    return found


# who pays


def test_a_store_that_was_never_searched_has_no_index(path: Path) -> None:
    with opened(path) as hf:
        (said,) = filled(hf, "s", "hello")
        hf.sessions.redact("s", said.id, "asked to")
        hf.sessions.delete("s")
    assert tables(path) == []


def test_an_append_writes_nothing_into_an_index_that_is_there(path: Path) -> None:
    with opened(path) as hf:
        filled(hf, "s", "hello")
        hf.search("hello")
        hf.sessions.append("s", Message.user("again"))
    assert words(path) == {"hello"}


def test_a_reader_finds_what_nobody_has_indexed(path: Path) -> None:
    with opened(path) as hf:
        filled(hf, "s", "hello 1")
        with opened(path, read_only=True) as reader:
            assert texts(reader, "hello") == ["hello 1"]
            hf.search("hello")
            hf.sessions.append("s", Message.user("hello 2"))
            assert texts(reader, "hello") == ["hello 1", "hello 2"]
            with pytest.raises(Unsupported, match="not all text is indexed"):
                reader.search("hello", syntax=True)


def test_a_search_does_not_wait_for_a_writer(path: Path) -> None:
    with opened(path) as hf, opened(path) as other:
        filled(hf, "s", "hello 1")
        hf.search("hello")
        hf.sessions.append("s", Message.user("hello 2"))
        assert isinstance(other._store, SqliteStore)
        with other._store._exclusive():
            assert texts(hf, "hello") == ["hello 1", "hello 2"]
            with pytest.raises(Busy, match="not all text is indexed"):
                hf.search("hello", syntax=True, timeout=0.2)
        assert words(path) == {"hello", "1"}
        assert texts(hf, "hello", syntax=True) == ["hello 1", "hello 2"]


def test_a_fill_that_breaks_off_is_gone_on_with(path: Path) -> None:
    with opened(path) as hf:
        for n in range(3):
            filled(hf, f"s{n}", *(f"hello {n} {m}" for m in range(400)))

        def stop(done: int, total: int) -> None:
            raise RuntimeError(f"{done} of {total}")

        with pytest.raises(RuntimeError, match="500 of 1200"):
            hf.search("hello", progress=stop)
        told = list[tuple[int, int]]()
        assert len(texts(hf, "hello", progress=lambda *done: told.append(done))) == 1000
        assert told == [(500, 700), (700, 700)]


def test_only_what_is_in_scope_is_indexed(path: Path) -> None:
    with opened(path) as hf:
        filled(hf, "a", "hello a")
        filled(hf, "b", "hello b")
        assert texts(hf, "hello", session_id="a") == ["hello a"]
        assert words(path) == {"hello", "a"}
        assert texts(hf, "hello") == ["hello a", "hello b"]


# what goes


@pytest.mark.parametrize("count", [1, _sqlite_words.CUT, _sqlite_words.CUT + 1, 450])
def test_deleted_words_leave_the_index_and_the_file(path: Path, count: int) -> None:
    with opened(path) as hf:
        filled(hf, "kept", "kept hello")
        filled(hf, "s", *(f"{NAME} {n}" for n in range(count)))
        assert len(texts(hf, NAME)) == count
        hf.sessions.delete("s")
        assert texts(hf, NAME) == []
        assert texts(hf, "hello") == ["kept hello"]
        assert hf.verify().ok
    assert words(path) == {"kept", "hello"}
    assert NAME.lower().encode() not in path.read_bytes()


def test_redacted_words_leave_the_index_and_the_file(path: Path) -> None:
    with opened(path) as hf:
        secret, _ = filled(hf, "s", f"my name is {NAME}", "hello")
        assert len(texts(hf, NAME)) == 1
        hf.sessions.redact("s", secret.id, "asked to")
        assert hf.verify().ok
    assert words(path) == {"hello"}
    assert NAME.lower().encode() not in path.read_bytes()


def test_what_another_client_has_indexed_goes_too(path: Path) -> None:
    with opened(path) as hf, opened(path) as other:
        secret, _ = filled(hf, "s", f"my name is {NAME}", "hello")
        other.search("hello")
        hf.sessions.redact("s", secret.id, "asked to")
        assert texts(other, NAME) == texts(hf, NAME) == []
    assert words(path) == {"hello"}


def test_deletes_that_share_a_transaction_leave_nothing(path: Path) -> None:
    with opened(path) as hf:
        for n in range(4):
            filled(hf, f"s{n}", *(f"{NAME} {n} {m}" for m in range(20 * n + 1)))
        hf.search(NAME)
        store = hf._store
        assert isinstance(store, SqliteStore)
        owners = [_history(hf, f"s{n}") for n in range(4)]
        plans = [Planned([Delete(MESSAGES, (owner,))], None, time.monotonic() + 30) for owner in owners]
        for answer in store.submit(plans):
            answer.result(timeout=30)
        hf.gc()
    assert words(path) == set()


def _history(hf: Holdfast, session_id: str) -> str:
    seen = history.look_up(hf._store, session_id)
    assert seen is not None
    return seen.pointer.history


# an index that cannot be used


def test_an_index_of_another_version_is_made_anew(path: Path) -> None:
    with opened(path) as hf:
        first, _ = filled(hf, "s", "hello 1", "hello 2")
        hf.search("hello")
        _forge(path, "UPDATE searches SET version = '0'", "INSERT INTO search_1(search_1) VALUES ('delete-all')")
        assert texts(hf, "hello") == ["hello 1", "hello 2"]
        _forge(path, "UPDATE searches SET version = '0'")
        with opened(path, read_only=True) as reader:
            assert texts(reader, "hello") == ["hello 1", "hello 2"]
        hf.sessions.redact("s", first.id, "asked to")
        assert tables(path) == ["searches", "searched"]
        assert texts(hf, "hello") == ["hello 2"]


def test_a_damaged_message_takes_the_index_with_it_and_not_the_search(path: Path) -> None:
    with opened(path) as hf:
        filled(hf, "s", "hello 1", "hello 2")
        hf.search("hello")
        _forge(path, "UPDATE messages SET body = CAST(replace(CAST(body AS TEXT), 'hello 1', 'hullo 1') AS BLOB)")
        assert texts(hf, "hello") == ["hello 2"]
        hf.sessions.delete("s")
        assert texts(hf, "hello") == []
        assert not [name for name in tables(path) if name.startswith("search_")]


def test_a_damaged_index_is_dropped_and_made_anew(path: Path) -> None:
    with opened(path) as hf:
        filled(hf, "s", "hello 1", "hello 2")
        hf.search("hello")
    with opened(path) as hf:
        _forge(path, "UPDATE search_1_data SET block = x'00' WHERE id > 10")
        with pytest.raises(BackendError, match="made anew"):
            hf.search("hello")
        assert texts(hf, "hello") == ["hello 1", "hello 2"]
    with opened(path) as hf:
        _forge(path, "UPDATE search_1_data SET block = x'00' WHERE id > 10")
        hf.sessions.delete("s")
        assert texts(hf, "hello") == []


def _forge(path: Path, *statements: str) -> None:
    con = apsw.Connection(str(path))
    for statement in statements:
        con.execute(statement)
    con.close()


# queries


@pytest.mark.parametrize(
    ("query", "made"),
    [
        ("one OR two*", "one OR two*"),
        ("ÉTÉ AND x", "été AND x"),
        ("旅館 OR x", '"旅 館" OR x'),
        ('"旅館 x" OR y', '"旅 館 x" OR y'),
        ("NEAR(旅 x, 2)", "NEAR(旅 x, 2)"),
        ("cafe\u0301*", "café*"),
        ("🎉 OR x", '"" OR x'),
    ],
)
def test_a_query_in_fts5_is_brought_into_the_form_of_the_index(query: str, made: str) -> None:
    assert _sqlite_search.spaced_out(query) == made
