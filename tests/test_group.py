"""Group commit, when a thread is interrupted in it or asks for more than one commit at a time."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.backends._group import GroupCommit, Request
from holdfast.backends._turn import Turn
from holdfast.backends.file import FileStore
from holdfast.backends.sqlite import SqliteStore
from holdfast.contracts import Insert, Planned, Reader, Rebase, Write
from holdfast.errors import BackendError
from holdfast.testing.records import message

LONG_S = 30


class Interrupted:
    """Commits that are interrupted as soon as they are of several."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.group = GroupCommit(self.alone, self.together, LONG_S)

    def alone(self, writes: Sequence[Write] | None, _: Rebase | None) -> Sequence[Write]:
        assert self.go_on.wait(LONG_S)
        return writes or ()

    def together(self, _: list[Request]) -> None:
        raise KeyboardInterrupt


def test_who_waits_for_an_interrupted_thread_is_told() -> None:
    store = Interrupted()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(store.group.commit, (), None)
        while not store.group._turn.in_use.locked():
            pass
        others = [pool.submit(store.group.commit, (), None) for _ in range(2)]
        while len(store.group._queue) < 2:
            pass
        store.go_on.set()
        assert first.result(LONG_S) == ()
        errors = {type(other.exception(LONG_S)) for other in others}
    assert errors == {KeyboardInterrupt, BackendError}


def test_a_turn_that_an_interrupt_has_left_taken_is_given_back_by_the_next_commit() -> None:
    store = Interrupted()
    store.go_on.set()
    store.group._turn.take(0)  # as one who was interrupted before he could use it
    with ThreadPoolExecutor(1) as another:
        store.group.commit((), None)
        assert another.submit(store.group.commit, (), None).result(LONG_S) == ()


def test_nobody_waits_for_the_files_of_one_who_waits_for_them(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "agents"))
    store._turns._turn.take(0)  # as one who was interrupted before he could use it
    with ThreadPoolExecutor(1) as another:
        waiting = another.submit(store.commit, [Insert(message("h", 1, 1))])
        while not store._group._turn.in_use.locked():
            pass
        store.commit([Insert(message("k", 1, 1))])
        waiting.result(LONG_S)
    store.close()


@pytest.mark.parametrize("kind", [SqliteStore, FileStore])
def test_a_commit_within_a_commit_is_refused_at_once(tmp_path: Path, kind: type[SqliteStore | FileStore]) -> None:
    store = kind(str(tmp_path / "agents"))
    rows = [message("h", 1, seq) for seq in (1, 2)]

    def plan(_: Reader) -> Sequence[Write]:
        with pytest.raises(BackendError, match="within another"):
            store.commit([Insert(rows[1])])
        return [Insert(rows[0])]

    store.commit(None, plan)
    assert store.get(rows[0].kind, [row.key for row in rows]) == [rows[0], None]
    store.close()


@pytest.mark.parametrize("kind", [SqliteStore, FileStore])
def test_a_store_is_not_closed_within_a_commit(tmp_path: Path, kind: type[SqliteStore | FileStore]) -> None:
    store = kind(str(tmp_path / "agents"))
    row = message("h", 1, 1)

    def plan(_: Reader) -> Sequence[Write]:
        with pytest.raises(BackendError, match="within another"):
            store.close()
        return [Insert(row)]

    store.submit([Planned([Insert(message("k", 1, 1))], None, time.monotonic() + LONG_S)])[0].result(LONG_S)
    store.commit(None, plan)
    assert store.get(row.kind, [row.key]) == [row]
    store.close()
    with pytest.raises(BackendError, match="closed"):
        store.commit([Insert(message("l", 1, 1))])


def test_files_are_not_closed_within_a_read(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "agents"))
    row = message("h", 1, 1)
    store.commit([Insert(row)])

    def close(*_: object) -> None:
        with pytest.raises(BackendError, match="within another"):
            store.close()

    store._turns.take(True, time.monotonic() + LONG_S, close)
    assert store.get(row.kind, [row.key]) == [row]
    store.close()


@pytest.mark.parametrize("kind", [SqliteStore, FileStore])
def test_a_handler_that_closes_while_the_store_is_closing_leaves_that_to_it(
    tmp_path: Path, kind: type[SqliteStore | FileStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = kind(str(tmp_path / "agents"))
    store.commit([Insert(message("h", 1, 1))])
    group, before = store._group, len(os.listdir("/proc/self/fd"))
    closing = group.close

    def close(end: Callable[[], None]) -> None:
        def interrupted() -> None:
            store.close()  # as a signal's handler does
            end()

        closing(interrupted)

    monkeypatch.setattr(group, "close", close)
    store.close()
    store.close()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) < before


def test_a_turn_that_a_handler_has_given_back_is_given_back() -> None:
    turn = Turn()
    here = turn._is_here

    def interrupted() -> bool:
        found = here()
        turn._is_here = here
        turn.give_back()  # as a signal's handler does that uses the store
        return found

    assert turn.take(0)
    turn._is_here = interrupted
    turn.give_back()
    with ThreadPoolExecutor(1) as another:
        assert another.submit(turn.take, 0).result(LONG_S)


def test_a_read_that_meets_a_close_opens_no_files(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "agents"))
    row = message("h", 1, 1)
    store.commit([Insert(row)])
    looked = store._opened.to_read

    def closed_since() -> None:
        looked()
        store.close()

    store._opened.to_read = closed_since  # type: ignore[method-assign]
    open_files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(BackendError, match="closed"):
        store.get(row.kind, [row.key])
    assert len(os.listdir("/proc/self/fd")) < open_files
