"""The log beside a SQLite file, synced by whoever has committed, after it has let the next one commit.

A commit is durable once the log is synced up to its end. SQLite would sync before it gives its lock back; done
afterwards, the syncs of several processes run side by side, and each covers all that was committed before it. What
others see of a commit in between is nothing that they could build on and keep without it: their own sync covers it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import apsw

_sync = getattr(os, "fdatasync", os.fsync)


class Log:
    """The log of one file. It stays the same file for as long as a connection is open."""

    def __init__(self, path: str, vfs: str | None) -> None:
        self._path = f"{os.path.abspath(path)}-wal"
        self._vfs = vfs
        self._fd: int | None = None
        self.sync: Callable[[], None] = self._open_and_sync
        """Return once everything in it is on the disk; OSError or apsw.Error if that cannot be."""

    def _open_and_sync(self) -> None:
        if self._vfs is None:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self.sync = partial(_sync, self._fd)
        else:
            file = apsw.VFSFile(self._vfs, self._path, [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0])
            self.sync = partial(file.xSync, apsw.SQLITE_SYNC_NORMAL | apsw.SQLITE_SYNC_DATAONLY)
        self.sync()

    def close(self) -> None:
        """Give the file back."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self.sync = None, self._open_and_sync
