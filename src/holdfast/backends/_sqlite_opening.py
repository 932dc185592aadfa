"""What comes before a SQLite store: whether a file is one, how it is connected to, and what its errors mean."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from holdfast.backends._opened import no_folder
from holdfast.backends._sqlite_line import Line
from holdfast.errors import BackendError, Busy, HoldfastError, IntegrityError, InvalidInput, NotFound

_MAGIC = b"SQLite format 3\0"
READER_KB = 8 * 1024  # of pages that a reader keeps


def check_is_unicode(path: str) -> None:
    """InvalidInput for a name that SQLite cannot be told."""
    try:
        path.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInput(f"the path {path!r} is no Unicode, which SQLite needs; rename it") from cause


def check_is_database(path: str) -> None:
    """BackendError for a file that something else has written, before anything is made beside it."""
    check_is_unicode(path)
    if path == ":memory:":
        raise InvalidInput("SQLite's :memory: is not kept for a second connection; open 'memory:' instead")
    if not os.path.exists(path):
        return
    if os.path.isdir(path):
        raise BackendError(f"{path} is a folder; name a file in it")
    try:
        beginning = _beginning(path)
    except apsw.Error as cause:
        raise BackendError(f"{path} cannot be opened; is it a file that you may read? {cause}") from cause
    # A power loss may tear the first page while a log beside it has it whole: then SQLite repairs it.
    repairable = any(os.path.exists(f"{path}-{log}") for log in ("wal", "journal"))
    if beginning and beginning != _MAGIC and not repairable:
        raise BackendError(f"{path} is no SQLite database; name another file, or restore this one from a backup")


def _beginning(path: str) -> bytes:
    """As many bytes as tell a database.

    They are read by SQLite's own means: to close a file that Python has opened would take back all locks that this
    process has on it, those of another store among them.
    """
    file = apsw.VFSFile("", os.path.abspath(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        return file.xRead(len(_MAGIC), 0)
    finally:
        file.xClose()


def line_of(path: str) -> Line:
    """The line that writers of this file queue in; its lock file is made where there is none."""
    try:
        return Line(_lock_path(path))
    except OSError as cause:
        raise BackendError(f"{path} cannot be written to: {cause}") from cause


def _lock_path(path: str) -> str:
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise no_folder(path)
    return f"{path}-lock"


def connect_read_only(path: str, vfs: str | None, timeout: float) -> apsw.Connection:
    if not os.path.exists(path):
        raise NotFound(f"there is no store at {path}")
    con = connect(path, apsw.SQLITE_OPEN_READONLY, vfs)
    try:
        con.set_busy_timeout(int(timeout * 1000))
        con.execute(f"PRAGMA cache_size = {-READER_KB}")
    except BaseException:
        con.close()
        raise
    return con


def connect(path: str, flags: int, vfs: str | None) -> apsw.Connection:
    # Each connection is used by one thread at a time, so SQLite need not lock it for every value that is read.
    con = apsw.Connection(path, flags=flags | apsw.SQLITE_OPEN_NOMUTEX, vfs=vfs)
    # Else a statement is compiled anew for every value that is bound to it, in case another plan were better.
    con.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    con.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)  # a column that is not there is an error, and no text
    return con


def sync_folder(path: str) -> None:
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except apsw.Error as cause:
        raise translate(cause) from cause


def translate(cause: apsw.Error) -> HoldfastError:
    if isinstance(cause, apsw.BusyError | apsw.LockedError):
        return Busy(f"another writer holds the database; nothing was written: {cause}. Repeat, or raise timeout=")
    if isinstance(cause, apsw.CantOpenError):
        return BackendError(f"the database cannot be opened: {cause}")
    if isinstance(cause, apsw.NotADBError | apsw.CorruptError):
        return IntegrityError(f"the database file is damaged, restore a backup: {cause}")
    if isinstance(cause, apsw.FullError):
        return BackendError("the disk is full; nothing was written")
    if isinstance(cause, apsw.ReadOnlyError):
        return BackendError(f"SQLite may not write beside the file, as it must to read; copy it elsewhere: {cause}")
    return BackendError(f"SQLite failed: {cause}")
