"""Whose turn it is: writers alone, readers together, each finding everything finished and nothing stale."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from holdfast.backends._file.changes import Change, Changes
from holdfast.backends._file.disk import Disk
from holdfast.backends._file.journal import (
    FOLDER,
    JOURNAL,
    TEMPORARY,
    Journal,
    Step,
    is_pending,
    read_steps,
    removes,
    unknown,
)
from holdfast.backends._file.lock import SharedLock
from holdfast.backends._file.overlay import ReadOnlyDisk
from holdfast.backends._group import closed
from holdfast.backends._turn import Turn

_PATIENCE_S = 1.0


class Turns:
    """The lock of a folder, its journal, and the news of what others have changed.

    `notice` is called, within a turn, with what others have touched since this process' last one; None
    means that it may be anything.
    """

    def __init__(self, disk: Disk, notice: Callable[[list[Change] | None], None]) -> None:
        self.journal = Journal(disk)
        self._disk = disk
        self._read_only = isinstance(disk, ReadOnlyDisk)
        self._notice = notice
        self._turn = Turn()
        self._entered = False  # whether the one in use has begun
        self._closed = False
        self._broken = False  # whether the last one broke off, so that what is in memory may be anything
        self._shown = b""
        self._files: tuple[SharedLock, Changes, int] | None = None
        if not self._read_only:
            disk.make_folder(TEMPORARY)
            self._open_files()

    def _open_files(self) -> bool:
        """Open what processes meet at; False where only a writer could make it and none has yet."""
        if self._files is None:
            if self._read_only and not os.path.exists(self._disk.path(JOURNAL)):
                return False
            flags = os.O_RDONLY if self._read_only else os.O_RDWR | os.O_CREAT
            lock = SharedLock(self._disk.path(f"{FOLDER}/lock"), self._read_only)
            changes = Changes(self._disk.path(f"{FOLDER}/changes"), self._read_only)
            self._files = (lock, changes, os.open(self._disk.path(JOURNAL), flags | os.O_CLOEXEC, 0o644))
        return True

    def begin(self) -> None:
        """Make ready what power loss must not take, and clean up; within the first turn, which is one's own."""
        assert self._files is not None
        self.journal.begin()
        self._files[1].scrub()

    def mine(self) -> bool:
        """Whether it is this thread's turn already."""
        return self._entered and self._turn.is_used_here()

    def take(self, shared: bool, until: float, do: Callable[[], object]) -> bool:
        """Do this within a turn that begins by this moment of the monotonic clock, or say False.

        What one that breaks off has read or changed is not trusted any more.
        """
        if not self._turn.take(max(0.0, until - time.monotonic())):
            return False
        try:
            with self._turn.in_use:
                return self._take(shared, until, do)
        finally:
            self._turn.give_back()

    def _take(self, shared: bool, until: float, do: Callable[[], object]) -> bool:
        if self._closed:  # by another thread, or a signal's handler, since somebody looked
            raise closed()
        try:
            self._entered = False
            if not self._enter(shared, until):
                return False
            self._entered = True
            do()
            self._broken = False
            return True
        finally:
            if self._files is not None:
                self._files[0].release()

    def _enter(self, shared: bool, until: float) -> bool:
        if not self._open_files():
            self._notice(None)
            return True
        assert self._files is not None
        lock, changes, journal = self._files
        if not lock.acquire(shared, until):
            return False
        broken, self._broken = self._broken, True  # until it has ended
        if isinstance(self._disk, ReadOnlyDisk):
            self._show_finished(self._disk, journal)
        elif is_pending(journal):
            if shared:
                lock.release()
                if not lock.acquire(False, until):
                    return False
            with suppress(OSError):  # first, so that all know of it even if this process does not come to its end
                changes.start_afresh()
            if self.journal.recover():
                changes.start_afresh()
            broken = True
        news = changes.news()
        self._notice(None if broken else news)
        return True

    def _show_finished(self, disk: ReadOnlyDisk, journal: int) -> None:
        """Lay an interrupted commit over what is read; a writer will finish it on the disk."""
        pending = os.pread(journal, 100, 0) if is_pending(journal) else b""
        if pending != self._shown:
            disk.lay_over(read_steps(disk.read(JOURNAL) or b"") or ())
            self._notice(None)
            self._shown = pending

    def carry_out(self, steps: Sequence[Step], touched: list[Change]) -> None:
        """Make a commit's changes durable, and tell the other processes; only within a turn of one's own."""
        assert self._files is not None
        self.journal.carry_out(steps)
        try:
            self._files[1].note(touched, removal=removes(steps))
            self.journal.mark_done(steps)
        except OSError as cause:
            raise unknown(cause) from cause

    def check_outside(self) -> None:
        """BackendError within a turn of this thread."""
        self._turn.check_outside()

    def heal(self) -> None:
        """Let go of what an interrupted call of this thread has left taken, and for which others may wait."""
        self._turn.heal()

    def close(self) -> None:
        """Give the files back, with no trace in them of what this process has removed."""
        self._turn.take(threading.TIMEOUT_MAX)
        try:
            with self._turn.in_use:
                self._close()
        finally:
            self._turn.give_back()

    def _close(self) -> None:
        self._closed = True
        files, self._files = self._files, None
        if files is not None:
            lock, changes, journal = files
            try:
                if changes.names_removed and lock.acquire(shared=False, until=time.monotonic() + _PATIENCE_S):
                    changes.scrub()
            finally:
                lock.close()
                changes.close()
                os.close(journal)
