"""Readable JSON in a folder: a line per message, a file per other record, made for people and for git.

An acknowledged commit survives power loss: it is synced to the journal and then to the files before `commit`
returns. Processes take turns to write; readers share the lock, and keep in memory what nobody has touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, TypeVar

from holdfast.backends._file import folder
from holdfast.backends._file.blobs import FileBlobs
from holdfast.backends._file.changes import Change
from holdfast.backends._file.disk import Disk
from holdfast.backends._file.log import Row
from holdfast.backends._file.logs import LogTable
from holdfast.backends._file.overlay import ReadOnlyDisk
from holdfast.backends._file.tables import PlainTable
from holdfast.backends._file.turns import Turns
from holdfast.backends._group import GroupCommit, Request, expired
from holdfast.backends._opened import Opened, path_of
from holdfast.backends._paging import in_pages
from holdfast.contracts import (
    MAX_BYTES,
    Delete,
    Insert,
    Inspection,
    Key,
    Moved,
    Planned,
    Put,
    Query,
    Rebase,
    Record,
    Sharing,
    Taken,
    Write,
    check_limits,
)
from holdfast.deadlines import DEFAULT_TIMEOUT_S, deadline
from holdfast.errors import BackendError, HoldfastError
from holdfast.kinds import KINDS, Kind

R = TypeVar("R")
Durability = Literal["full", "normal"]
Table = PlainTable | LogTable
Undo = list[tuple[Table, Key, Row | None]]  # where what was


class FileReader:
    """Reads while its user holds the lock; inside a commit it is handed to `rebase`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._tables: dict[str, Table] = {}

    def table(self, kind: Kind) -> Table:
        found = self._tables.get(kind.name)
        if found is None:
            found = LogTable(kind, self._disk) if kind.log else PlainTable(kind, self._disk)
            self._tables[kind.name] = found
        return found

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        table = self.table(kind)
        return [table.get(key) for key in keys]

    def scan(self, query: Query) -> Iterator[Record]:
        return iter(list(self.table(query.kind).match(query)))

    def count(self, query: Query) -> int:
        return self.table(query.kind).count(query)

    def notice(self, news: list[Change] | None) -> None:
        """Drop what others have touched; None means everything."""
        for kind, key, grown in news or ():
            if kind in self._tables:
                self._tables[kind].notice(key, grown)
        if news is None:
            self._tables.clear()
        for table in self._tables.values():
            table.slim_down()


class FileStore:
    """A record store in a folder."""

    sharing: Sharing = "processes"

    def __init__(
        self,
        path: str,
        *,
        namespace: str = "",
        durability: Durability = "full",
        read_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
        disk: type[Disk] = Disk,
    ) -> None:
        self._durability = durability
        self._opened = Opened(read_only)
        self._timeout = timeout
        durable = durability == "full"
        self._blobs = FileBlobs(path, namespace=namespace, durable=durable, read_only=read_only)
        root = folder.folder_of(path, namespace)
        self._disk = ReadOnlyDisk(root) if read_only else disk(root, durable=durable)
        self._reader = FileReader(self._disk)
        with _translated():
            self._open(path, namespace)
        self._group = GroupCommit(self._commit_alone, self._commit_together, timeout)

    def _open(self, path: str, namespace: str) -> None:
        folder.enter(path, self._disk, self._opened.read_only)
        self._turns = Turns(self._disk, self._reader.notice)
        try:
            self._begin(namespace)
        except BaseException:
            self._turns.close()
            raise

    def _begin(self, namespace: str) -> None:
        def begin() -> None:
            if not self._opened.read_only:
                self._turns.begin()
                folder.prepare(self._disk, namespace)

        # The first open of a fresh folder is a race between processes, so it queues like any commit.
        if not self._turns.take(self._opened.read_only, deadline(self._timeout), begin):
            raise expired()

    # reading

    def _read(self, ask: Callable[[FileReader], R]) -> R:
        """What a reader answers, within a turn."""
        self._opened.to_read()
        if self._turns.mine():
            return ask(self._reader)
        answers: list[R] = []
        with _translated():
            if not self._turns.take(True, deadline(self._timeout), lambda: answers.append(ask(self._reader))):
                raise expired()
        return answers[0]

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        return self._read(lambda reader: reader.get(kind, keys))

    def scan(self, query: Query) -> Iterator[Record]:
        return in_pages(query, self._page)

    def _page(self, query: Query) -> list[Record]:
        return self._read(lambda reader: list(reader.scan(query)))

    def count(self, query: Query) -> int:
        return self._read(lambda reader: reader.count(query))

    # writing

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        self._opened.to_write()
        self._turns.heal()
        return self._group.commit(writes, rebase)

    def submit(self, plans: Sequence[Planned]) -> list[Future[Sequence[Write]]]:
        """Like `commit` for each, carried out together with whatever else is queued."""
        self._opened.to_write()
        self._turns.heal()
        return self._group.submit(plans)

    def _commit_alone(self, writes: Sequence[Write] | None, rebase: Rebase | None) -> Sequence[Write]:
        request = Request(writes, rebase, deadline(self._timeout))
        self._commit_together([request])
        if request.error is not None:
            raise request.error
        return request.result

    def _commit_together(self, batch: list[Request]) -> None:
        """One turn for the whole batch."""
        with _translated():
            until = min(request.deadline for request in batch)
            while batch and not self._turns.take(False, until, partial(self._transaction, batch)):
                present = time.monotonic()
                for request in batch:
                    if request.deadline <= present:
                        request.finish(error=expired())
                batch = [request for request in batch if not request.done]
                until = min((request.deadline for request in batch), default=present)

    def _transaction(self, batch: list[Request]) -> None:
        """Carry out the requests in memory and then on disk, so many at a time as one journal takes."""
        undo: Undo = []
        applied: list[tuple[Request, Sequence[Write]]] = []
        size = 0
        for request in batch:
            outcome = self._member(request, undo)
            if isinstance(outcome, HoldfastError):
                request.finish(error=outcome)
                continue
            applied.append((request, outcome))
            size += sum(len(write.record.body) for write in outcome if isinstance(write, Insert | Put))
            if size > MAX_BYTES:
                self._flush(undo, applied)
                size = 0
        self._flush(undo, applied)

    def _flush(self, undo: Undo, applied: list[tuple[Request, Sequence[Write]]]) -> None:
        """Bring to disk what was changed in memory, and answer."""
        changed: dict[Table, dict[Key, Row | None]] = {}
        for table, key, before in undo:
            changed.setdefault(table, {}).setdefault(key, before)
        planned = [step for table, befores in changed.items() for step in table.steps(befores, self._turns.journal)]
        if planned:
            self._turns.carry_out([step for step, _ in planned], [touched for _, touched in planned])
        for request, writes in applied:
            request.finish(writes)
        undo.clear()
        applied.clear()

    def _member(self, request: Request, undo: Undo) -> Sequence[Write] | HoldfastError:
        """Apply one request of the batch in memory; a refusal undoes it alone."""
        writes, rebase = request.writes, request.rebase
        try:
            if writes is not None:
                try:
                    return self._apply(writes, undo)
                except (Moved, Taken):
                    if rebase is None:
                        raise
            return () if rebase is None else self._apply(rebase(self._reader), undo)
        except HoldfastError as refusal:
            return refusal

    def _apply(self, writes: Sequence[Write], undo: Undo) -> Sequence[Write]:
        check_limits(writes)
        start = len(undo)
        try:
            for write in writes:
                self._write(write, undo)
        except HoldfastError:
            while len(undo) > start:
                table, key, before = undo.pop()
                table.set(key, before)
            raise
        return writes

    def _write(self, write: Write, undo: Undo) -> None:
        if isinstance(write, Insert | Put):
            table = self._reader.table(write.record.kind)
            table.make_way(write.record.key)
            if self._may_set(table, write):
                undo.append((table, write.record.key, table.set(write.record.key, write.record)))
        elif isinstance(write, Delete):
            table = self._reader.table(write.kind)
            if write.over is not None:
                _require(table, write.key, write.over)
            for key in table.keys(Query(kind=write.kind, prefix=write.key, where=write.where)):
                undo.append((table, key, table.set(key, None)))
        else:
            _require(self._reader.table(write.kind), write.key, write.digest)

    def _may_set(self, table: Table, write: Insert | Put) -> bool:
        """Whether there is anything to write; a refusal if something is in its place."""
        record = write.record
        if isinstance(write, Insert):
            present = table.get(record.key)
            if present is not None and present.digest == record.digest:
                return False
            if present is not None:
                raise Taken(record, present)
        elif write.over is not None:
            _require(table, record.key, write.over)
        rival = table.rival(record)
        if rival is not None:
            raise Taken(record, rival)
        return True

    # the store as a whole

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:
        def look(_: FileReader) -> list[str]:
            folder.look(self._disk)
            return list(folder.files(self._disk, KINDS)) if measure or check else []

        def examine(path: str, _: FileReader) -> tuple[int, list[str]]:
            size = folder.size_of(self._disk, path) if measure else 0
            return size, list(folder.problems_in(self._disk, path)) if check else []

        size, problems = 0, list[str]()
        for path in self._read(look):
            more, found = self._read(partial(examine, path))
            size += more
            problems += found
        return Inspection(
            backend="file",
            version=f"format {folder.FORMAT}",
            durability=f"sync={self._durability}",
            bytes=size if measure else None,
            problems=tuple(problems),
        )

    def blobs(self) -> FileBlobs:
        """The blobs in the same folder."""
        return self._blobs

    def close(self) -> None:
        if self._opened.is_to_close():
            self._group.check_outside()
            self._turns.check_outside()
        # A child must not touch the lock it shares with its parent.
        if self._opened.close():
            self._turns.heal()
            with _translated():
                self._group.close(self._turns.close)


def _require(table: Table, key: Key, digest: bytes | None) -> None:
    present = table.get(key)
    if (None if present is None else present.digest) != digest:
        raise Moved(table.kind, key, present)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise BackendError(f"the file system failed: {cause}") from cause


def open_url(url: str, **options: Any) -> FileStore:
    """The store that an address such as `file:///agents` names."""
    return FileStore(path_of(url, "agents"), **options)
