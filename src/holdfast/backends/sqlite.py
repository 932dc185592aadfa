"""SQLite, the embedded default: one file, many threads and processes, one sync per group of commits.

An acknowledged commit survives power loss (WAL, synchronous=FULL) unless `durability="normal"` is chosen
by name. One connection writes; readers have their own and never wait.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from typing import Literal

import apsw
from msgspec.structs import replace

from holdfast.backends import _sqlite_schema as schema
from holdfast.backends._group import GroupCommit, Request, expired
from holdfast.backends._locks import FileLock
from holdfast.backends._sqlite_blobs import SqliteBlobs
from holdfast.backends._sqlite_search import SqliteSearch
from holdfast.backends._sqlite_tables import PAGE, LogTable, Table, tables
from holdfast.backends._sqlite_words import Leaving
from holdfast.contracts import (
    MAX_BYTES,
    MAX_WRITES,
    Delete,
    Insert,
    Inspection,
    Key,
    Moved,
    Put,
    Query,
    Rebase,
    Record,
    Require,
    Sharing,
    Taken,
    Write,
    check_limits,
)
from holdfast.deadlines import DEFAULT_TIMEOUT_S, deadline
from holdfast.errors import (
    AlreadyExists,
    BackendError,
    Busy,
    ConnectionFailed,
    HoldfastError,
    NotFound,
    Unsupported,
)
from holdfast.kinds import KINDS, MESSAGES, Kind

Durability = Literal["full", "normal"]
FIRST_PAGE = 40  # who asks without a limit often wants only the first
WAL_LIMIT = 16 * 1024 * 1024


class SqliteReader:
    """Reads on one connection; inside a commit it is handed to `rebase`."""

    def __init__(self, con: apsw.Connection, layout: dict[str, Table]) -> None:
        self.con = con
        self.layout = layout
        self.indexed_at: int | None = None  # the data version at which all text was known to be indexed

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        table = self.layout[kind.name]
        return [table.get(self.con, key) for key in keys]

    def scan(self, query: Query) -> Iterator[Record]:
        return self.layout[query.kind.name].select(self.con, query)

    def count(self, query: Query) -> int:
        return self.layout[query.kind.name].count(self.con, query)


class SqliteStore:
    """A record store in one SQLite file."""

    sharing: Sharing = "processes"

    def __init__(
        self,
        path: str,
        *,
        namespace: str = "",
        durability: Durability = "full",
        read_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
        vfs: str | None = None,
    ) -> None:
        self._path = path
        self._durability = durability
        self._read_only = read_only
        self._timeout = timeout
        self._vfs = vfs
        self._pid = os.getpid()
        self._closed = False
        self._idle: deque[SqliteReader] = deque()
        self._lock = None if read_only else FileLock(_lock_path(path))
        with _translated():
            self._open(namespace)
        self._group = GroupCommit(self._commit_alone, self._commit_together)

    def _open(self, namespace: str) -> None:
        if self._lock is not None:
            # The first open of a fresh file is a race between processes, so it queues like any commit.
            if not self._lock.acquire(min(deadline(), time.monotonic() + self._timeout)):
                raise expired()
            try:
                self._con = self._connect()
                self.space = schema.prepare(self._con, namespace, KINDS)
            finally:
                self._lock.release()
            _sync_folder(self._path)
        else:
            self._con = self._connect()
            self.space = schema.look(self._con, namespace)
        self._writer = SqliteReader(self._con, tables(KINDS, self.space, remember=True))
        self._layout = tables(KINDS, self.space, remember=False)
        self.text = SqliteSearch(self, self._read_only)
        self._leaving = Leaving(self.space)
        messages = self._writer.layout[MESSAGES.name]
        assert isinstance(messages, LogTable)
        messages.note = self._leaving.note

    def _connect(self) -> apsw.Connection:
        if self._read_only:
            return _connect_read_only(self._path, self._vfs, self._timeout)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        con = apsw.Connection(self._path, flags=flags, vfs=self._vfs)
        con.set_busy_timeout(int(self._timeout * 1000))
        con.execute("PRAGMA journal_mode = WAL")
        con.execute(f"PRAGMA synchronous = {'FULL' if self._durability == 'full' else 'NORMAL'}")
        con.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
        # From the first write on: a page that is split keeps a copy of what later is to be gone.
        con.execute("PRAGMA secure_delete = ON")
        return con

    # reading

    @contextmanager
    def reading(self) -> Iterator[SqliteReader]:
        """A connection to read on, for as long as the block lasts."""
        self._check_usable()
        try:
            reader = self._idle.pop()
        except IndexError:
            reader = SqliteReader(self._connect_reader(), self._layout)
        try:
            yield reader
        except apsw.Error as cause:
            raise _translate(cause) from cause
        finally:
            self._idle.append(reader)

    def _connect_reader(self) -> apsw.Connection:
        with _translated():
            return _connect_read_only(self._path, self._vfs, self._timeout)

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        with self.reading() as reader:
            return reader.get(kind, keys)

    def scan(self, query: Query) -> Iterator[Record]:
        left, page_size = query.limit, FIRST_PAGE
        while True:
            limit = page_size if left is None else min(PAGE, left)
            with self.reading() as reader:
                page = list(reader.scan(replace(query, limit=limit)))
            yield from page
            left = None if left is None else left - len(page)
            if len(page) < limit or left == 0:
                return
            query = replace(query, after=_order_of(page[-1], query))
            page_size = PAGE

    def count(self, query: Query) -> int:
        with self.reading() as reader:
            return reader.count(query)

    # writing

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        if self._read_only or self._closed or os.getpid() != self._pid:
            self._check_writable()
        return self._group.commit(writes, rebase)

    def submit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Future[Sequence[Write]]:
        """Like `commit`, carried out together with whatever else is queued."""
        self._check_writable()
        return self._group.submit(writes, rebase)

    def _commit_alone(self, writes: Sequence[Write] | None, rebase: Rebase | None) -> Sequence[Write]:
        lock, con = self._lock, self._con
        assert lock is not None
        if not (lock.take_free() or lock.acquire(deadline(self._timeout))):
            raise expired()
        try:
            con.execute("BEGIN IMMEDIATE")
            try:
                applied = self._planned(rebase) if writes is None else self._apply(writes)
            except (Moved, Taken):
                if writes is None or rebase is None:
                    raise
                self._undo()
                con.execute("BEGIN IMMEDIATE")
                applied = self._planned(rebase)
            con.execute("COMMIT")
            return applied
        except BaseException as cause:
            self._undo()
            if isinstance(cause, apsw.Error):
                raise _translate(cause) from cause
            raise
        finally:
            lock.release()

    def _planned(self, rebase: Rebase | None) -> Sequence[Write]:
        """Apply what `rebase` makes of what is there now."""
        return () if rebase is None else self._apply(rebase(self._writer))

    def _undo(self) -> None:
        self._forget()
        if self._con.in_transaction:
            self._con.execute("ROLLBACK")

    def _commit_together(self, batch: list[Request]) -> None:
        """One transaction for the whole batch, under the lock that processes queue on."""
        try:
            batch = self._take_lock(batch)
            if batch:
                assert self._lock is not None
                try:
                    self._transaction(batch)
                finally:
                    self._lock.release()
        except BaseException as cause:
            error = _translate(cause) if isinstance(cause, apsw.Error) else cause
            for request in batch:
                if not request.done:
                    request.finish(error=error)
            if not isinstance(cause, Exception):
                raise

    def _take_lock(self, batch: list[Request]) -> list[Request]:
        assert self._lock is not None
        while batch and not self._lock.acquire(min(request.deadline for request in batch)):
            present = time.monotonic()
            for request in batch:
                if request.deadline <= present:
                    request.finish(error=expired())
            batch = [request for request in batch if not request.done]
        return batch

    def _transaction(self, batch: list[Request]) -> None:
        self._con.execute("BEGIN IMMEDIATE")
        try:
            outcomes = [self._member(request) for request in batch]
            self._con.execute("COMMIT")
        except BaseException:
            self._undo()
            raise
        for request, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, HoldfastError):
                request.finish(error=outcome)
            else:
                request.finish(outcome)

    def _member(self, request: Request) -> Sequence[Write] | HoldfastError:
        """Apply one request of a batch; a refusal undoes it alone."""
        try:
            if request.writes is not None:
                try:
                    return self._apply_or_undo(request.writes)
                except (Moved, Taken):
                    if request.rebase is None:
                        raise
            return () if request.rebase is None else self._apply_or_undo(request.rebase(self._writer))
        except HoldfastError as refusal:
            return refusal

    def _forget(self) -> None:
        for table in self._writer.layout.values():
            if isinstance(table, LogTable):
                table.forget()

    def _apply_or_undo(self, writes: Sequence[Write]) -> Sequence[Write]:
        with self._con:  # a savepoint
            self._apply(writes)
        return writes

    def _apply(self, writes: Sequence[Write]) -> Sequence[Write]:
        con, layout, leaving, size = self._con, self._writer.layout, self._leaving, 0
        if leaving.some:
            leaving.clear()
        for write in writes:
            if type(write) is Insert:
                record = write.record
                layout[record.kind.name].insert(con, record)
            elif type(write) is Put:
                record = write.record
                layout[record.kind.name].put(con, record, write.over)
            else:
                self._rarer(write)
                continue
            size += len(record.body)
        if size > MAX_BYTES or len(writes) > MAX_WRITES:
            check_limits(writes)  # which says so; what was applied is undone
        if leaving.some:
            leaving.carry_out(con)
        return writes

    def _rarer(self, write: Write) -> None:
        con, layout = self._con, self._writer.layout
        if isinstance(write, Delete):
            if write.over is not None:
                self._rarer(Require(write.kind, write.key, write.over))
            layout[write.kind.name].delete(con, Query(kind=write.kind, prefix=write.key, where=write.where))
        elif isinstance(write, Require):
            present = layout[write.kind.name].get(con, write.key)
            if (None if present is None else present.digest) != write.digest:
                raise Moved(write.kind, write.key, present)

    # the store as a whole

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:
        with self.reading() as reader:
            size = sum(table.size(reader.con) for table in self._layout.values()) if measure else None
            reader.con.execute("SELECT count(*) FROM spaces").fetchone()
            problems = tuple(_engine_check(reader.con)) if check else ()
        return Inspection(
            backend="sqlite",
            version=apsw.sqlite_lib_version(),
            durability=f"synchronous={self._durability}",
            bytes=size,
            problems=problems,
        )

    def blobs(self) -> SqliteBlobs:
        """The blobs in the same file."""
        return SqliteBlobs(self)

    def compact(self) -> None:
        """Give the file's free pages back once they are a tenth of it; writers wait meanwhile."""
        self._check_writable()
        with _translated(), self._exclusive():
            if 10 * self._con.pragma("freelist_count") > self._con.pragma("page_count"):
                self._con.execute("VACUUM")
                self._con.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """No other writer, of this process or another, for as long as the block lasts."""
        assert self._lock is not None
        with self._group.alone():
            if not self._lock.acquire(deadline(self._timeout)):
                raise expired()
            try:
                yield
            finally:
                self._lock.release()

    def backup(self, path: str) -> None:
        """A whole copy of the file as of one moment, while others go on writing."""
        if os.path.exists(path):
            raise AlreadyExists(f"{path} exists; name a file that does not")
        with self.reading() as reader, closing(apsw.Connection(path)) as target:
            with target.backup("main", reader.con, "main") as copy:
                copy.step()
            target.execute("PRAGMA journal_mode = DELETE")
        _sync_folder(path)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._group.close()
        while self._idle:
            self._idle.pop().con.close()
        self._con.close()
        if self._lock is not None:
            self._lock.close()

    def _check_usable(self) -> None:
        if self._closed:
            raise BackendError("the store is closed; open it again")
        if os.getpid() != self._pid:
            raise BackendError("the store was opened before a fork; open it again in the child process")

    def _check_writable(self) -> None:
        self._check_usable()
        if self._read_only:
            raise Unsupported("the store was opened read-only; open it without read_only to write")


def _order_of(record: Record, query: Query) -> tuple[str | int | bytes | None, ...]:
    return record.key if query.order is None else (record.values()[query.order], *record.key)


def _lock_path(path: str) -> str:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise NotFound(f"the folder {folder} does not exist; create it first")
    return f"{path}-lock"


def _connect_read_only(path: str, vfs: str | None, timeout: float) -> apsw.Connection:
    if not os.path.exists(path):
        raise NotFound(f"there is no store at {path}")
    con = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    con.set_busy_timeout(int(timeout * 1000))
    return con


def _sync_folder(path: str) -> None:
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _engine_check(con: apsw.Connection) -> Iterator[str]:
    for (finding,) in con.execute("PRAGMA integrity_check"):
        if finding != "ok":
            yield str(finding)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except apsw.Error as cause:
        raise _translate(cause) from cause


def _translate(cause: apsw.Error) -> HoldfastError:
    if isinstance(cause, apsw.BusyError | apsw.LockedError):
        return Busy(f"the database is locked by another program: {cause}. Repeat, or raise timeout=")
    if isinstance(cause, apsw.CantOpenError):
        return ConnectionFailed(f"the database cannot be opened: {cause}")
    if isinstance(cause, apsw.NotADBError | apsw.CorruptError):
        return BackendError(f"the file is damaged or is no SQLite database: {cause}")
    if isinstance(cause, apsw.FullError):
        return BackendError(f"the disk is full; nothing was written: {cause}")
    return BackendError(f"SQLite failed: {cause}")
