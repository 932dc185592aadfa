"""The log beside a SQLite file, synced by whoever has committed, after it has let the next one commit.

A commit is durable once the log is synced up to its end. SQLite would sync before it gives its lock back; done
afterwards, the syncs of several processes run side by side, and each covers all that was committed before it. What
others see of a commit in between is nothing that they could build on and keep without it: their own sync covers it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import apsw

_fdatasync = getattr(os, "fdatasync", os.fsync)
# Pages after which SQLite writes the log back. A short one stays in the processor's cache, but is synced more often.
_SHORT, _LONG = 256, 1000
_NOTHING_S = 5e-6  # what a sync takes on a RAM disk
_CERTAIN = 3  # syncs in a row that take longer than that, as one may wherever another process comes in between


class Log:
    """The log of one file. It stays the same file for as long as a connection is open."""

    def __init__(self, vfs: str | None) -> None:
        self._vfs = vfs
        self._fd: int | None = None
        self._sync: Callable[[], None] | None = None
        self._doubts = _CERTAIN  # until it is known that syncs take their time

    def sync(self, con: apsw.Connection) -> None:
        """Return once everything in a connection's log is on the disk; OSError or apsw.Error if that cannot be."""
        if self._sync is None:
            self._sync = self._open(con.filename_wal)
            con.wal_autocheckpoint(_SHORT)
        if not self._doubts:
            self._sync()
            return
        start = time.perf_counter()
        self._sync()
        self._doubts = self._doubts - 1 if time.perf_counter() - start > _NOTHING_S else _CERTAIN
        if not self._doubts:
            con.wal_autocheckpoint(_LONG)

    def _open(self, path: str) -> Callable[[], None]:
        if self._vfs is None:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return partial(_fdatasync, self._fd)
        file = apsw.VFSFile(self._vfs, path, [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0])
        return partial(file.xSync, apsw.SQLITE_SYNC_NORMAL | apsw.SQLITE_SYNC_DATAONLY)

    def close(self) -> None:
        """Give the file back."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._sync, self._doubts = None, None, _CERTAIN
