"""An engine in this process: one per folder, behind a lock file, shared by the stores on that folder."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

from surrealdb.connections.blocking_embedded import BlockingEmbeddedSurrealConnection
from surrealdb.errors import SurrealError

from holdfast.backends._locks import FileLock
from holdfast.backends._surreal.engine import Engine
from holdfast.contracts import Sharing
from holdfast.errors import BackendError, Busy, NotFound

LOCK_FILE = "holdfast.lock"
_SYNC = "SURREAL_SYNC_DATA"

# Two engines on one folder lose each other's rows without a word, so whoever opens it again must get the same one.
_folders: dict[str, Folder] = {}
_door = threading.Lock()
_homes: set[int] = set()  # the process that has used the engine, whose threads no child of it has


class Folder(Engine):
    """An engine on a folder that no other process has open."""

    sharing: Sharing = "threads"

    def __init__(self, path: str, read_only: bool) -> None:
        super().__init__()
        self.name = path
        self.users = 0
        self._connection: BlockingEmbeddedSurrealConnection | None = None
        if read_only and not os.path.exists(os.path.join(path, LOCK_FILE)):
            raise NotFound(f"there is no store at {path} yet; open it once without read_only")
        self._lock = _take(path)
        try:
            self._connection = _connect(path)
            self.prepare(read_only)
        except BaseException:
            self.close()
            raise

    def send(self, text: str, variables: dict[str, Any]) -> dict[str, Any]:
        if self._connection is None:
            raise BackendError("the store is closed; open it again")
        try:
            return self._connection.query_raw(text, variables)
        except (RuntimeError, SurrealError) as cause:
            raise BackendError(f"SurrealDB failed: {cause}") from cause

    def version(self) -> str:
        return "" if self._connection is None else self._connection.version()

    def keep(self) -> None:
        """See to it that a forked child never ends the engine: it would wait for threads that it does not have."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))

    def close(self) -> None:
        """Give the files back, and then the lock."""
        with self.writing:
            # The driver's own close does nothing: files are closed when the last reference goes.
            self._connection = None
        self._lock.release()
        self._lock.close()


def enter(path: str, read_only: bool) -> Folder:
    """The engine on a folder, opened if this process has none; Busy at once if another process has it."""
    path = os.path.realpath(path)
    if _homes - {os.getpid()}:
        raise BackendError("SurrealDB was used before a fork, and cannot be in the child; start a new process instead")
    with _door:
        folder = _folders.get(path)
        if folder is None:
            folder = _folders[path] = Folder(path, read_only)
        else:
            folder.prepare(read_only)
        folder.users += 1
        return folder


def leave(folder: Folder) -> None:
    """Give an engine back; the last user closes it."""
    with _door:
        folder.users -= 1
        if folder.users == 0:
            del _folders[folder.name]
            folder.close()


def _take(path: str) -> FileLock:
    try:
        os.makedirs(path, exist_ok=True)
        lock = FileLock(os.path.join(path, LOCK_FILE))
    except OSError as cause:
        raise BackendError(f"{path} cannot be a store's folder: {cause}") from cause
    if not lock.take_free():
        lock.close()
        raise Busy(f"another process has {path} open; SurrealDB allows one at a time: close it there first")
    return lock


def _connect(path: str) -> BlockingEmbeddedSurrealConnection:
    # Without this the engine never syncs. It is read once in a process, so it cannot be a choice per store.
    os.environ[_SYNC] = "true"
    if not _homes:
        os.register_at_fork(after_in_child=_keep_all)
        _homes.add(os.getpid())
    try:
        connection = BlockingEmbeddedSurrealConnection(f"surrealkv://{path}")
        connection.connect()
        connection.use("holdfast", "holdfast")
    except (RuntimeError, SurrealError) as cause:
        raise BackendError(f"SurrealDB cannot open {path}: {cause}") from cause
    return connection


def _keep_all() -> None:
    for folder in _folders.values():
        folder.keep()
