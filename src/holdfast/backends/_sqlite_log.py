"""The log beside a SQLite file, synced by whoever has committed, after it has let the next one commit.

A commit is durable once the log is synced up to its end. SQLite would sync before it gives its lock back; done
afterwards, the syncs of several processes run side by side, and each covers all that was committed before it. What
others see of a commit in between is nothing that they could build on and keep without it: their own sync covers it.

A sync of a file that has grown takes half as long again on most disks, since there is its new size to write, too. So
whoever finds that frames have reached the end of the log writes zeros behind them, which later ones replace. To SQLite
they are no frame, and end the log.

A log that has lost its name is nobody's: another program has taken it for left behind, and removed it. What is written
to it then is lost with the last who has it open, so it is no commit. To ask for a file's state has its next write note
the time anew, which takes as long as a quarter of an append; so that is asked for every few milliseconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import apsw
from msgspec import Struct

_fdatasync = getattr(os, "fdatasync", os.fsync)
# Pages after which SQLite writes the log back. A short one stays in the processor's cache, but is synced more often.
_SHORT, _LONG = 256, 1000
_NOTHING_S = 5e-6  # what a sync takes on a RAM disk
_CERTAIN = 3  # syncs in a row that take longer than that, as one may wherever another process comes in between
_FULL = (_LONG + 100) * (24 + 4096)  # bytes of a log until it is written back, with room for the commit that does it
_AHEAD = 128 * 1024  # bytes that it is made longer by
_LOOK_S = 0.005  # how often it is asked whether the log still has a name
_ZEROS = bytes(64 * 1024)  # at once: SQLite's own files take less than twice as many


class _File(Struct, frozen=True):
    """The log's file, as the system has it or a VFS."""

    sync: Callable[[], None]
    names: Callable[[], int]
    size: Callable[[], int]
    read: Callable[[int, int], bytes]
    write: Callable[[bytes, int], object]


class Log:
    """The log of one file. It stays the same file for as long as a connection is open."""

    def __init__(self, vfs: str | None) -> None:
        self._vfs = vfs
        self._fd: int | None = None
        self._file: _File | None = None
        self._end = 0  # of the file, as it was last seen
        self._looked = 0.0  # when it was last seen to have a name
        self._doubts = _CERTAIN  # until it is known that syncs take their time

    def sync(self, con: apsw.Connection) -> None:
        """Return once everything in a connection's log is on the disk; OSError or apsw.Error if that cannot be."""
        file = self._file
        if file is None:
            file = self._file = self._open(con.filename_wal)
            con.wal_autocheckpoint(_SHORT)
        self._look(con, file)
        if not self._doubts:
            if file.size() != self._end:
                self._lengthen(con, file)
            file.sync()
            return
        start = time.perf_counter()
        file.sync()
        self._doubts = self._doubts - 1 if time.perf_counter() - start > _NOTHING_S else _CERTAIN
        if not self._doubts:
            con.wal_autocheckpoint(_LONG)

    def _look(self, con: apsw.Connection, file: _File) -> None:
        """OSError if the log has lost its name."""
        present = time.monotonic()
        if present - self._looked > _LOOK_S:
            if not file.names():
                # Else closing would write it over what others have done since, and remove their log.
                con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                raise OSError("another program has removed the log")
            self._looked = present

    def _lengthen(self, con: apsw.Connection, file: _File) -> None:
        """Put zeros behind the last frame, if that stands at the end."""
        with suppress(apsw.Error, OSError):  # they spare time only
            try:
                con.execute("BEGIN IMMEDIATE")  # so that nobody writes frames there meanwhile
                size = file.size()
                if 0 < size < _FULL and any(file.read(8, size - 8)):
                    for place in range(size, size + _AHEAD, len(_ZEROS)):
                        file.write(_ZEROS, place)
            finally:
                if con.in_transaction:
                    con.execute("ROLLBACK")
        self._end = file.size()

    def _open(self, path: str) -> _File:
        if self._vfs is None:
            fd = self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            return _File(
                sync=partial(_fdatasync, fd),
                names=lambda: os.fstat(fd).st_nlink,
                size=partial(os.lseek, fd, 0, os.SEEK_END),
                read=partial(os.pread, fd),
                write=partial(os.pwrite, fd),
            )
        file = apsw.VFSFile(self._vfs, path, [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0])
        sync = partial(file.xSync, apsw.SQLITE_SYNC_NORMAL | apsw.SQLITE_SYNC_DATAONLY)
        return _File(sync, names=lambda: 1, size=file.xFileSize, read=file.xRead, write=file.xWrite)

    def close(self) -> None:
        """Give the file back."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._file, self._end, self._doubts = None, None, 0, _CERTAIN
