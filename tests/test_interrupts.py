"""An interrupt at any line of a commit leaves all of it or nothing, and nothing that a later one joins.

Nor does one at any line of a reader leave others with what was there at that moment. The lines at which a lock changes
hands are left out: there an interrupt may leave it with the interrupted process, as docs/crash-safety.md says.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from types import FrameType

import pytest

from holdfast.backends.file import FileStore
from holdfast.backends.sqlite import SqliteStore
from holdfast.contracts import Insert, Planned, Query, Require, Write
from holdfast.kinds import MESSAGES
from holdfast.testing.records import message

SQLITE = ("_sqlite_writing.py", "_sqlite_reading.py", "_sqlite_logs.py", "_sqlite_tables.py")
FILES = (
    "_rows.py",
    *(f"_file/{name}.py" for name in ("changes", "disk", "folder", "journal", "log", "logs", "tables")),
)
REFUSED: list[Write] = [Insert(message("x", 1, 1)), Require(MESSAGES, ("none", 1, 1), b"x" * 32)]
WANTED: list[list[Write]] = [
    [Insert(message("h", 1, 1, "m1"))],
    [Insert(message("h", 1, 2, "m2")), Insert(message("k", 1, 1))],
]
KEYS = {("h", 1, 1), ("h", 1, 2), ("k", 1, 1)}
Store = SqliteStore | FileStore


class At:
    """Interrupts at the nth line that is run of what writes."""

    def __init__(self, files: tuple[str, ...], nth: int) -> None:
        self.files = files
        self.left = nth

    def __call__(self, frame: FrameType, event: str, _: object) -> At | None:
        if not frame.f_code.co_filename.endswith(self.files):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def alone(store: Store) -> None:
    store.commit([write for writes in WANTED for write in writes])


def together(store: Store) -> None:
    """One behind a refusal, so that numbers are given, taken back and looked up again."""
    assert isinstance(store, SqliteStore)
    store._swift = True
    plans = [Planned(writes, None, time.monotonic() + 30) for writes in (WANTED[0], REFUSED, WANTED[1])]
    assert store.commit_at_once(plans) is not None


@pytest.mark.parametrize(
    ("kind", "files", "commit"),
    [(SqliteStore, SQLITE, alone), (SqliteStore, SQLITE, together), (FileStore, FILES, alone)],
)
def test_an_interrupt_leaves_all_or_nothing(
    tmp_path: Path, kind: type[Store], files: tuple[str, ...], commit: Callable[[Store], None]
) -> None:
    for nth in count(1):
        at = At(files, nth)
        with ExitStack() as stack:
            path = str(tmp_path / f"{nth}.db")
            one, other = (stack.enter_context(closing(kind(path, durability="normal"))) for _ in range(2))
            sys.settrace(at)
            with suppress(KeyboardInterrupt):
                commit(one)
            sys.settrace(None)
            other.commit([Insert(message("other", 1, 1))])
            one.commit([Insert(message("h", 1, 3)), Insert(message("later", 1, 1))])
            found = {record.key for record in other.scan(Query(kind=MESSAGES))}
            assert found - KEYS == {("h", 1, 3), ("later", 1, 1), ("other", 1, 1)}, f"after line {nth}"
            assert found & KEYS in (set(), KEYS), f"after line {nth}"
        if at.left > 0:
            break
    assert nth > 50


def test_an_interrupted_reader_sees_what_is_written_later(tmp_path: Path) -> None:
    with ExitStack() as stack:
        path = str(tmp_path / "agents.db")
        one, other = (stack.enter_context(closing(SqliteStore(path, durability="normal"))) for _ in range(2))
        for nth in count(1):
            at = At(SQLITE, nth)
            sys.settrace(at)
            with suppress(KeyboardInterrupt):
                one.get(MESSAGES, [("h", 1, nth), ("h", 1, nth - 1)])
            sys.settrace(None)
            other.commit([Insert(message("h", 1, nth))])
            assert None not in one.get(MESSAGES, [("h", 1, nth)]), f"after line {nth}"
            if at.left > 0:
                break
        assert nth > 10
