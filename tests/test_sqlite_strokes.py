"""Appends and steps on SQLite are one statement each, which does all of it or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import AlreadyExists, Message, NotFound
from holdfast.backends.sqlite import SqliteStore
from holdfast.client import Holdfast
from holdfast.contracts import Insert, Moved, Planned, Query, Require, Write
from holdfast.kinds import MESSAGES
from holdfast.testing.records import dump, message

LONG_S = 30


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[SqliteStore]]:
    """Two stores on one file, as two processes have them."""
    both = [SqliteStore(str(tmp_path / "agents.db")) for _ in range(2)]
    yield both
    for store in both:
        store.close()


@contextmanager
def statements(store: SqliteStore) -> Iterator[list[str]]:
    """The beginnings of what its writer is told to do."""
    told: list[str] = []

    def note(_cursor: object, statement: str, _values: object) -> bool:
        told.append(statement.partition(" VALUES")[0])
        return True

    assert store._writing is not None
    store._writing._cursor.exec_trace = note
    yield told
    store._writing._cursor.exec_trace = None


def test_an_append_and_a_step_are_one_statement_each(stores: list[SqliteStore]) -> None:
    hf = Holdfast(stores[0])
    hf.sessions.create(id="s", title="t")
    hf.checkpoints.create(session_id="s", messages=[Message.user("first")])
    with statements(stores[0]) as told:
        hf.sessions.append("s", Message.user("second"))
        hf.checkpoints.create(session_id="s", messages=[Message.user("third")])
    assert told == ["INSERT INTO appending", "INSERT INTO stepping"]
    assert [one.text for one in hf.sessions.messages("s")] == ["first", "second", "third"]
    assert hf.verify().problems == []


def test_a_head_that_another_has_moved_is_seen(stores: list[SqliteStore]) -> None:
    one, other = map(Holdfast, stores)
    one.sessions.create(id="s", title="t")
    for hf, text in ((one, "a"), (other, "b"), (one, "c"), (other, "d")):
        hf.sessions.append("s", Message.user(text))
        hf.checkpoints.create(session_id="s", messages=[Message.user(f"{text} kept")])
    said = [message.text for message in one.sessions.messages("s")]
    assert said == ["a", "a kept", "b", "b kept", "c", "c kept", "d", "d kept"]
    assert one.verify().problems == []


def test_a_refused_append_is_tried_once_and_then_one_by_one(stores: list[SqliteStore]) -> None:
    one, other = map(Holdfast, stores)
    one.sessions.create(id="s", title="t")
    for hf in (one, other, one, other):
        hf.sessions.append("s", Message.user("hello"))
    with statements(stores[0]) as told:
        one.sessions.append("s", Message.user("hello"))
    assert [words for words in told if words.startswith(("INSERT", "BEGIN", "ROLLBACK"))] == [
        "INSERT INTO appending",
        "BEGIN IMMEDIATE",
        "ROLLBACK",
        "BEGIN IMMEDIATE",
        next(words for words in told if words.startswith("INSERT INTO messages")),
    ]


def test_a_refused_append_leaves_the_others_at_one_statement(stores: list[SqliteStore]) -> None:
    one, other = map(Holdfast, stores)
    for name in "ab":
        one.sessions.create(id=name, title="t")
        one.sessions.append(name, Message.user("first"))
    other.sessions.append("a", Message.user("faster"))
    one.sessions.append("a", Message.user("refused, and said again"))
    with statements(stores[0]) as told:
        one.sessions.append("b", Message.user("second"))
    assert told == ["INSERT INTO appending"]


def test_a_number_of_a_conversation_that_was_undone_is_not_used(stores: list[SqliteStore]) -> None:
    one, other = stores
    with pytest.raises(Moved):
        one.commit([Insert(message("h", 1, 1)), Require(MESSAGES, ("none", 1, 1), b"x" * 32)])
    other.commit([Insert(message("other", 1, 1))])  # gets the number that was given back
    one.commit([Insert(message("h", 1, 1))])
    found = [record.key for record in other.scan(Query(kind=MESSAGES))]
    assert found == [("h", 1, 1), ("other", 1, 1)]


def test_a_number_found_behind_a_refusal_goes_with_its_transaction(stores: list[SqliteStore]) -> None:
    one, other = stores
    refused: list[Write] = [Insert(message("x", 1, 1)), Require(MESSAGES, ("none", 1, 1), b"x" * 32)]
    batch: list[list[Write]] = [[Insert(message("h", 1, 1))], refused, [Insert(message("h", 1, 2))]]
    one._con.set_commit_hook(lambda: True)  # the commit fails
    for done in one.submit([Planned(writes, None, time.monotonic() + LONG_S) for writes in batch]):
        assert done.exception(LONG_S) is not None
    one._con.set_commit_hook(None)
    other.commit([Insert(message("other", 1, 1))])  # gets the number that was given back
    one.commit([Insert(message("h", 1, 2))])
    assert [record.key for record in other.scan(Query(kind=MESSAGES))] == [("h", 1, 2), ("other", 1, 1)]


@pytest.mark.parametrize("again", [False, True])
def test_what_an_interrupted_commit_has_left_open_is_not_joined(stores: list[SqliteStore], again: bool) -> None:
    hf = Holdfast(stores[0])
    hf.sessions.create(id="s", title="t")
    hf.sessions.append("s", Message.user("first"))
    stores[0]._con.execute("BEGIN IMMEDIATE")
    if again:
        (done,) = stores[0].submit([Planned([Insert(message("h", 1, 1))], None, time.monotonic() + LONG_S)])
        assert done.exception(LONG_S) is None
    hf.sessions.append("s", Message.user("second"))
    assert [one.text for one in Holdfast(stores[1]).sessions.messages("s")] == ["first", "second"]


def test_a_refused_stroke_among_others_is_refused_alone(stores: list[SqliteStore]) -> None:
    one, other = map(Holdfast, stores)
    for name in "abc":
        one.sessions.create(id=name, title="t")
        for _ in range(2):
            one.sessions.append(name, Message.user("said"))
    plans = {name: one.sessions._plan_append(name, [Message.user("planned")], None, True) for name in "abc"}
    other.sessions.append("b", Message.user("faster"))
    until = time.monotonic() + LONG_S
    done = stores[0].submit([Planned(plan.writes, None, until) for plan in plans.values()])
    assert [type(one.exception(LONG_S)) for one in done] == [type(None), Moved, type(None)]
    assert [[one.text for one in other.sessions.messages(name, last=1)] for name in "abc"] == [
        ["planned"],
        ["faster"],
        ["planned"],
    ]
    assert other.verify().problems == []


@pytest.mark.parametrize("again", [False, True])
def test_a_session_that_another_has_deleted_gets_nothing(stores: list[SqliteStore], again: bool) -> None:
    one, other = map(Holdfast, stores)
    one.sessions.create(id="s", title="t")
    for _ in range(3):
        one.sessions.append("s", Message.user("gone"))
    other.sessions.delete("s")
    if again:
        other.sessions.create(id="s", title="t")
        one.sessions.append("s", Message.user("new"))
        assert [message.text for message in other.sessions.messages("s")] == ["new"]
    else:
        with pytest.raises(NotFound):
            one.sessions.append("s", Message.user("new"))
    assert one.verify().problems == []


def test_what_is_refused_leaves_nothing(stores: list[SqliteStore]) -> None:
    hf = Holdfast(stores[0])
    hf.sessions.create(id="s", title="t")
    hf.sessions.append("s", Message.user("first", id="m"))
    kept = hf.checkpoints.create(session_id="s", messages=[Message.user("second")], id="c")
    before = dump(stores[0])
    with pytest.raises(AlreadyExists):
        hf.sessions.append("s", Message.user("another", id="m"))
    with pytest.raises(AlreadyExists):
        hf.checkpoints.create(session_id="s", messages=[Message.user("another", id="m")])
    with pytest.raises(AlreadyExists):
        hf.checkpoints.create(session_id="s", messages=[Message.user("third")], id=kept.id)
    assert dump(stores[0]) == before
    assert not stores[0]._con.in_transaction
