"""The promises of a RecordStore: commits that happen whole or not at all, and records that come back exact."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import pytest

from holdfast.contracts import MAX_BYTES, MAX_WRITES, Insert, Put, Query, Record, RecordStore
from holdfast.errors import BackendError, InvalidInput
from holdfast.filters import Scalar
from holdfast.kinds import KINDS, MESSAGES
from holdfast.testing.opening import new_namespace
from holdfast.testing.record_commits import CommitTests
from holdfast.testing.record_rebases import RebaseTests
from holdfast.testing.record_scans import ScanTests
from holdfast.testing.records import (
    EVERY_BYTE,
    HOSTILE,
    LARGEST,
    agent,
    branch,
    checkpoint,
    dump,
    head,
    insert,
    message,
    only,
    revision,
    session,
    usage,
)

_USES: tuple[Callable[[RecordStore], object], ...] = (
    lambda store: store.commit([Insert(session("later"))]),
    lambda store: store.get(MESSAGES, [("h", 1, 1)]),
    lambda store: list(store.scan(Query(kind=MESSAGES))),
    lambda store: store.count(Query(kind=MESSAGES)),
    lambda store: store.inspect(),
)


def _refusal(use: Callable[[RecordStore], object], store: RecordStore) -> str:
    """What a store has against being used: the word that tells."""
    try:
        use(store)
    except BackendError as error:
        return "fork" if "fork" in str(error) else str(error)
    return "nothing"


def in_forked_child(work: Callable[[], list[str]]) -> list[str]:
    """What a forked child makes of it, line by line; the child ends without any of its parent's cleaning up."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads are running is what users' forks do, too
        pid = os.fork()
    if pid == 0:
        try:
            os.write(theirs, "\n".join(work()).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    return said.split("\n")


class RecordStoreKit(CommitTests, RebaseTests, ScanTests):
    """Subclass it as `TestMyStore` and say how to `open` the store; never override a test."""

    # what went in comes out

    @pytest.mark.parametrize("size", [0, 1, 255, 1_000_000])
    def test_a_body_comes_back_byte_for_byte(self, store: RecordStore, size: int) -> None:
        body = (EVERY_BYTE * (size // 256 + 1))[:size]
        insert(store, [session("s", body), message("h", 1, 1, body=body)])
        assert [one.body for one in dump(store)] == [body, body]

    @pytest.mark.parametrize("number", [0, 1, -1, LARGEST, -LARGEST - 1])
    def test_a_whole_number_of_64_bits_comes_back(self, store: RecordStore, number: int) -> None:
        store.commit([Insert(head("s", number, created_at=number)), Insert(revision("a", number))])
        assert only(store, head("s")) == head("s", number, created_at=number)
        assert only(store, revision("a", number)) == revision("a", number)

    @pytest.mark.parametrize("value", [None, "", "0", "null", *HOSTILE])
    def test_a_text_field_comes_back(self, store: RecordStore, value: Scalar) -> None:
        store.commit([Insert(head("s", agent_id=value))])
        assert only(store, head("s")) == head("s", agent_id=value)

    @pytest.mark.parametrize("link", [b"", b"\0", EVERY_BYTE])
    def test_a_field_of_bytes_comes_back(self, store: RecordStore, link: bytes) -> None:
        store.commit([Insert(revision("a", 1, link=link))])
        assert only(store, revision("a", 1)) == revision("a", 1, link=link)

    def test_keys_that_look_alike_are_different(self, store: RecordStore) -> None:
        alike = [session(id, id.encode()) for id in (*HOSTILE, "a", "ab", "aa", "á")]
        insert(store, alike)
        assert store.get(alike[0].kind, [one.key for one in alike]) == alike

    def test_logs_whose_names_look_alike_are_different(self, store: RecordStore) -> None:
        alike = [message(name, 1, 1, "m", name.encode()) for name in (*HOSTILE, "a", "ab", "aa", "á")]
        insert(store, alike)
        assert store.get(MESSAGES, [one.key for one in alike]) == alike

    def test_a_log_goes_on_to_its_highest_position(self, store: RecordStore) -> None:
        last = message("h", 2**31 - 1, 2**32 - 1)
        store.commit([Insert(last)])
        assert dump(store) == [last]

    # getting

    def test_a_new_namespace_holds_nothing(self, store: RecordStore) -> None:
        assert dump(store) == []

    def test_getting_keeps_the_order_of_the_keys(self, store: RecordStore) -> None:
        insert(store, [session("a"), session("b")])
        found = store.get(session("a").kind, [("b",), ("none",), ("a",), ("b",)])
        assert found == [session("b"), None, session("a"), session("b")]

    def test_getting_no_keys_gives_nothing(self, store: RecordStore) -> None:
        assert store.get(MESSAGES, []) == []
        assert store.get(session("s").kind, []) == []

    def test_getting_thousands_of_keys_finds_each(self, store: RecordStore) -> None:
        said = [message("h", 1, seq, f"m{seq}", b"%d" % seq) for seq in range(1, 2_501)]
        insert(store, said)
        assert store.get(MESSAGES, [one.key for one in said]) == said

    def test_getting_hundreds_of_names_finds_those_that_are_there(self, store: RecordStore) -> None:
        insert(store, [session(f"s{number}") for number in range(0, 700, 2)])
        found = store.get(session("s").kind, [(f"s{number}",) for number in range(699, -1, -1)])
        assert found == [None if number % 2 else session(f"s{number}") for number in range(699, -1, -1)]

    # opening and closing

    def test_a_closed_store_says_so_and_closes_again(self, store: RecordStore) -> None:
        store.commit([Insert(session("s"))])
        store.close()
        store.close()
        for use in _USES:
            with pytest.raises(BackendError, match="closed"):
                use(store)

    def test_a_forked_child_is_told_to_open_its_own(self, store: RecordStore) -> None:
        store.commit([Insert(session("s"))])
        assert in_forked_child(lambda: [_refusal(use, store) for use in _USES]) == ["fork"] * len(_USES)
        assert dump(store) == [session("s")]

    # namespaces

    def test_namespaces_are_apart(self, store: RecordStore) -> None:
        other = self.open(new_namespace())
        store.commit([Insert(session("s", b"mine")), Insert(message("h", 1, 1, "m", b"mine"))])
        other.commit([Insert(session("s", b"theirs")), Insert(message("h", 2, 1, "m", b"theirs"))])
        assert [one.body for one in dump(store)] == [b"mine"] * 2
        assert [one.body for one in dump(other)] == [b"theirs"] * 2
        other.close()

    def test_namespaces_that_look_alike_are_apart(self, store: RecordStore, namespace: str) -> None:
        others = [self.open(namespace + ending) for ending in ("_", "%", "x", ":s", "/s", "😀")]
        store.commit([Insert(session("s")), Insert(message("h", 1, 1))])
        assert [dump(other) for other in others] == [[]] * len(others)
        for other in others:
            other.close()

    # limits

    def test_a_commit_takes_a_thousand_writes(self, store: RecordStore) -> None:
        store.commit([Insert(message("h", 1, seq)) for seq in range(1, MAX_WRITES + 1)])
        assert len(dump(store)) == MAX_WRITES

    def test_a_commit_of_more_writes_is_refused_whole(self, store: RecordStore) -> None:
        with pytest.raises(InvalidInput):
            store.commit([Insert(message("h", 1, seq)) for seq in range(1, MAX_WRITES + 2)])
        assert dump(store) == []

    def test_a_commit_takes_eight_megabytes(self, store: RecordStore) -> None:
        half = bytes(MAX_BYTES // 2)
        store.commit([Insert(session("s", half)), Put(message("h", 1, 1, body=half))])
        assert sum(len(one.body) for one in dump(store)) == MAX_BYTES

    def test_a_commit_of_more_bytes_is_refused_whole(self, store: RecordStore) -> None:
        half = bytes(MAX_BYTES // 2)
        with pytest.raises(InvalidInput):
            store.commit([Insert(session("s", half)), Put(message("h", 1, 1, body=half + b"1"))])
        assert dump(store) == []

    # the store as a whole

    def test_everything_is_there_when_it_is_opened_again(self, store: RecordStore, namespace: str) -> None:
        insert(store, _one_of_each())
        before = dump(store)
        store = self.reopen(store, namespace)
        assert dump(store) == before
        assert {one.kind.name for one in before} >= {one.kind.name for one in _one_of_each()}
        store.close()

    def test_inspecting_says_what_the_store_is(self, store: RecordStore) -> None:
        found = store.inspect(check=True)
        assert found.backend
        assert found.version
        assert found.problems == ()

    def test_the_bytes_of_a_namespace_are_its_bodies(self, store: RecordStore) -> None:
        insert(store, [session("s", b"12345"), message("h", 1, 1, body=b"123")])
        neighbour = self.open(new_namespace())
        neighbour.commit([Insert(session("s", b"1")), Insert(message("h", 1, 1, body=b"1"))])
        assert (store.inspect(measure=True).bytes, neighbour.inspect(measure=True).bytes) == (8, 2)
        neighbour.close()

    def test_closing_twice_is_fine(self, namespace: str) -> None:
        store = self.open(namespace)
        store.close()
        store.close()


def _one_of_each() -> list[Record]:
    made = [
        agent("a"),
        revision("a", 1),
        session("s"),
        head("s", 1),
        branch("h", 1),
        message("h", 1, 1, "m"),
        usage("h", 1, 1),
        checkpoint("s", 1, "c"),
    ]
    assert {one.kind for one in made} <= set(KINDS)
    return made
