"""SQLite, the embedded default: one file, many threads and processes, one sync per group of commits.

An acknowledged commit survives power loss (WAL, and a sync of it before the answer) unless `durability="normal"` is
chosen by name. One connection writes; readers have their own and never wait.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, Literal

import apsw

from holdfast.backends import _sqlite_schema as schema
from holdfast.backends._group import GroupCommit, Request, expired
from holdfast.backends._opened import Opened, no_folder, path_of
from holdfast.backends._paging import in_pages
from holdfast.backends._sqlite_blobs import SqliteBlobs
from holdfast.backends._sqlite_line import Line
from holdfast.backends._sqlite_log import Log
from holdfast.backends._sqlite_logs import LogTable
from holdfast.backends._sqlite_opening import (
    check_is_database,
    check_is_unicode,
    connect,
    connect_read_only,
    line_of,
    sync_folder,
    translate,
    translated,
)
from holdfast.backends._sqlite_reading import SqliteReader
from holdfast.backends._sqlite_search import SqliteSearch
from holdfast.backends._sqlite_tables import tables
from holdfast.backends._sqlite_writing import Outcome, Writing
from holdfast.contracts import Inspection, Key, Planned, Query, Rebase, Record, Sharing, Write
from holdfast.deadlines import DEFAULT_TIMEOUT_S, deadline
from holdfast.errors import AlreadyExists, BackendError
from holdfast.kinds import KINDS, Kind

Durability = Literal["full", "normal"]
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.0001, 0.05
MOMENT_S = 0.002  # as long as an event loop may wait for a sync
MOST_AT_ONCE = 64  # commits that it may do by itself in one go
WAL_LIMIT = 16 * 1024 * 1024
READERS_WAIT_S = 0.05  # for who reads, or was on its way to write, before the log stays as it is for now


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
        self._opened = Opened(read_only)
        self._timeout = timeout
        self._vfs = vfs
        self._until: float | None = min(deadline(), time.monotonic() + timeout)
        self._idle: deque[SqliteReader] = deque()
        self._swift = False  # whether the last sync of a batch took a moment only
        self._unsynced: str | None = None
        self._log = Log(vfs)
        check_is_database(path)
        self._line = None if read_only else line_of(path)
        with ExitStack() as undoing, translated():
            undoing.callback(self._log.close)
            if self._line is not None:
                undoing.callback(self._line.close)
            self._con = self._connect()
            undoing.callback(self._con.close)
            self._open(namespace)
            undoing.pop_all()
        self._group = GroupCommit(self._commit_alone, self._commit_together, timeout)

    def _open(self, namespace: str) -> None:
        if self._line is not None:
            # The first open of a fresh file is a race between processes, so it queues like any commit.
            try:
                self._take(self._line)
                self._set_up()
                self.space = schema.prepare(self._con, namespace, KINDS)
            finally:
                self._line.release()
            self._sync()
            sync_folder(self._path)
        else:
            self.space = schema.look(self._con, namespace, KINDS)
        self._layout = tables(KINDS, self.space)
        self._writing = None if self._opened.read_only else Writing(self._con, self.space, self._layout)
        self.text = SqliteSearch(self, self._opened.read_only)

    def _connect(self) -> apsw.Connection:
        if self._opened.read_only:
            return connect_read_only(self._path, self._vfs, self._timeout)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        return connect(self._path, flags, self._vfs)

    def _set_up(self) -> None:
        con = self._con
        con.set_busy_handler(self._wait)
        schema.version_of(con)  # so that a file of another program's is refused before it is changed
        con.execute("PRAGMA journal_mode = WAL")
        con.execute("PRAGMA synchronous = NORMAL")  # the rest is done by `_sync`
        con.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
        # From the first write on: a page that is split keeps a copy of what later is to be gone.
        con.execute("PRAGMA secure_delete = ON")

    def _wait(self, tries: int) -> bool:
        """What SQLite asks about its lock, which a writer has that did not queue, or another program."""
        assert self._line is not None
        self._line.form()
        if self._until is None:
            self._until = deadline(self._timeout)
        left = self._until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(SHORTEST_PAUSE_S * 2**tries, LONGEST_PAUSE_S, left))
        return True

    # reading

    def reading(self) -> SqliteReader:
        """A connection to read on, for as long as the block lasts."""
        self._opened.to_read()
        try:
            return self._idle.pop()
        except IndexError:
            return SqliteReader(self._connect_reader(), self._layout, self._idle)

    def _connect_reader(self) -> apsw.Connection:
        with translated():
            return connect_read_only(self._path, self._vfs, self._timeout)

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        with self.reading() as reader:
            return reader.get_at_once(kind, keys)

    def scan(self, query: Query) -> Iterator[Record]:
        return in_pages(query, self._page)

    def _page(self, query: Query) -> list[Record]:
        with self.reading() as reader:
            return list(reader.scan(query))

    def count(self, query: Query) -> int:
        with self.reading() as reader:
            return reader.count(query)

    # writing

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        self._opened.to_write()
        return self._group.commit(writes, rebase)

    def submit(self, plans: Sequence[Planned]) -> list[Future[Sequence[Write]]]:
        """Like `commit` for each, carried out together with whatever else is queued."""
        self._opened.to_write()
        return self._group.submit(plans)

    def commit_at_once(self, plans: Sequence[Planned]) -> list[BaseException | None] | None:
        """Like `commit` for each, in one transaction, where no lock is held and the disk is fast just now."""
        self._opened.to_write()
        if not self._swift or len(plans) > MOST_AT_ONCE:
            return None
        return self._group.at_once(self._if_free, plans)

    def _if_free(self, plans: Sequence[Planned]) -> list[BaseException | None] | None:
        """What came of these, each by itself; None, with nothing done, while another process has the file."""
        assert self._line is not None
        queued = self._queues(self._line)
        if queued and not self._line.take_free():
            return None
        try:
            outcomes = self._carry_out(plans, 0.0, queued)
        except apsw.BusyError:
            return None
        except Exception as cause:  # noqa: BLE001 — whoever waits gets it
            said = translate(cause) if isinstance(cause, apsw.Error) else cause
            return [said] * len(plans)
        return [outcome if isinstance(outcome, Exception) else None for outcome in outcomes]

    def _commit_alone(self, writes: Sequence[Write] | None, rebase: Rebase | None) -> Sequence[Write]:
        line, writing = self._line, self._writing
        assert line is not None
        assert writing is not None
        if self._unsynced is not None:
            raise self._stopped()
        try:
            if self._queues(line):
                applied = self._in_line(line, writing, writes, rebase)
            else:
                self._until = 0.0  # for SQLite not to wait
                try:
                    applied = writing.alone(writes, rebase)
                except apsw.BusyError:
                    applied = self._in_line(line, writing, writes, rebase)
        except apsw.Error as cause:
            raise translate(cause) from cause
        self._sync()  # even if nothing was written: what is there already may be another's, and not synced yet
        return applied

    def _queues(self, line: Line) -> bool:
        """Whether writers queue just now; where they do not, what an interrupted call has left taken is given back."""
        if line.is_formed():
            return True
        if line.held:
            line.release()
        return False

    def _in_line(
        self, line: Line, writing: Writing, writes: Sequence[Write] | None, rebase: Rebase | None
    ) -> Sequence[Write]:
        """Commit when it is this process's turn among others."""
        self._until = None  # asked for by whoever has to wait
        try:
            self._take(line)
            return writing.alone(writes, rebase)
        finally:
            line.release()

    def _take(self, line: Line) -> None:
        """Wait in the line of processes; Busy at the limit."""
        if line.take_free():
            return
        if self._until is None:
            self._until = deadline(self._timeout)
        if not line.acquire(self._until):
            raise expired()

    def _sync(self) -> None:
        """Make what was committed survive a power loss. Nobody else waits for it: the lock is free by now."""
        if self._durability == "full":
            self._until = 0.0  # for the log not to wait where it is made longer
            try:
                self._log.sync(self._con)
            except (OSError, apsw.Error) as cause:
                self._unsynced = f"the log cannot be synced, and what was written last may be lost: {cause}"
                raise BackendError(self._unsynced) from cause

    def _stopped(self) -> BackendError:
        """The error once a sync has failed: the next would succeed, and leave a hole in the log before it."""
        return BackendError(f"nothing is written until the store is opened anew: {self._unsynced}")

    def _commit_together(self, batch: list[Request]) -> None:
        """One transaction for the whole batch, under the lock that processes queue on."""
        outcomes: Sequence[Outcome] = ()
        while batch := self._take_lock(batch):
            try:
                outcomes = self._carry_out(batch, min(one.deadline for one in batch), True)
                break
            except apsw.BusyError:
                batch = _in_time(batch)  # another writer has SQLite's own lock, and nothing was begun
            except apsw.Error as cause:
                raise translate(cause) from cause
        for request, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Exception):
                request.finish(error=outcome)
            else:
                request.finish(outcome)

    def _carry_out(self, batch: Sequence[Request | Planned], until: float, queued: bool) -> Sequence[Outcome]:
        """Commit the batch, let others have the lock that was queued for, and sync; what came of each is then sure."""
        assert self._line is not None
        assert self._writing is not None
        try:
            if self._unsynced is not None:
                raise self._stopped()
            self._until = until
            outcomes = self._writing.together(batch)
        finally:
            if queued:
                self._line.release()
        start = time.perf_counter()
        self._sync()
        self._swift = time.perf_counter() - start < MOMENT_S
        return outcomes

    def _take_lock(self, batch: list[Request]) -> list[Request]:
        assert self._line is not None
        while batch and not self._line.acquire(min(request.deadline for request in batch)):
            batch = _in_time(batch)
        return batch

    # the store as a whole

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:
        with self.reading() as reader:
            size = sum(table.size(reader.con) for table in self._layout.values()) if measure else None
            reader.con.execute("SELECT count(*) FROM spaces").fetchone()
            problems = tuple(_engine_check(reader)) if check else ()
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
        self._opened.to_write()
        with translated(), self._exclusive():
            if 10 * self._con.pragma("freelist_count") > self._con.pragma("page_count"):
                self._con.execute("VACUUM")
                self._con.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def scrub(self) -> None:
        """Empty the log, which holds pages as they were before a deletion; one that readers need stays for now."""
        self._opened.to_write()
        with translated(), self._exclusive():
            self._until = time.monotonic() + READERS_WAIT_S
            self._con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """No other writer of this process for as long as the block lasts, and of others none that queues."""
        assert self._line is not None
        assert self._writing is not None
        with self._group.alone():
            self._until = None
            try:
                self._take(self._line)
                self._line.form()
                self._writing.undo()
                yield
            finally:
                self._line.release()

    def backup(self, path: str) -> None:
        """A whole copy of the file as of one moment, while others go on writing."""
        check_is_unicode(path)
        if os.path.exists(path):
            raise AlreadyExists(f"{path} exists; name a file that does not")
        if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise no_folder(path)
        with ExitStack() as undoing, translated():
            undoing.callback(_remove, path)
            with self.reading() as reader, closing(apsw.Connection(path)) as target:
                with target.backup("main", reader.con, "main") as copy:
                    copy.step()
                target.execute("PRAGMA journal_mode = DELETE")
            undoing.pop_all()
        sync_folder(path)

    def close(self) -> None:
        if self._opened.is_to_close():
            self._group.check_outside()
        if self._opened.close():
            self._group.close(self._close)

    def _close(self) -> None:
        while self._idle:
            self._idle.pop().con.close()
        self._con.close()
        self._log.close()
        if self._line is not None:
            self._line.close()


def _remove(path: str) -> None:
    """Take away what is of no use."""
    with suppress(OSError):
        os.remove(path)


def _in_time(batch: list[Request]) -> list[Request]:
    """Those whose limit is not reached; the others are told so."""
    present = time.monotonic()
    for request in batch:
        if request.deadline <= present:
            request.finish(error=expired())
    return [request for request in batch if not request.done]


def _engine_check(reader: SqliteReader) -> Iterator[str]:
    for (finding,) in reader.con.execute("PRAGMA integrity_check"):
        if finding != "ok":
            yield str(finding)
    for table in reader.layout.values():
        if isinstance(table, LogTable):
            yield from table.strays(reader.con)


def open_url(url: str, **options: Any) -> SqliteStore:
    """The store that an address such as `sqlite:///agents.db` names."""
    return SqliteStore(path_of(url, "agents.db"), **options)
