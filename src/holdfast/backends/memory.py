"""Everything in RAM: for tests, for trying things out, and as the model the other backends are compared with.

How it finds rows it shares with the file backend, so the two agree even where `_rows.py` is wrong; that has a model of
its own in the tests.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from holdfast.backends._opened import Opened
from holdfast.backends._rows import Rows
from holdfast.contracts import (
    Blob,
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
from holdfast.deadlines import remaining
from holdfast.errors import Busy, NotFound
from holdfast.kinds import Kind

Undo: TypeAlias = list[tuple[Rows, Key, Record | None]]  # what was there under a key, before each change


class MemoryReader:
    """Reads from the tables; inside a commit it is handed to `rebase`."""

    def __init__(self, tables: dict[str, Rows], lock: threading.RLock) -> None:
        self._tables = tables
        self._lock = lock

    def table(self, kind: Kind) -> Rows:
        found = self._tables.get(kind.name)
        return self._tables.setdefault(kind.name, Rows(kind)) if found is None else found

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        with self._lock:
            table = self.table(kind)
            return [table.get(key) for key in keys]

    def scan(self, query: Query) -> Iterator[Record]:
        with self._lock:
            found = list(self.table(query.kind).match(query))
        return iter(found)

    def count(self, query: Query) -> int:
        with self._lock:
            return sum(1 for _ in self.table(query.kind).match(query))


class Contents:
    """What stores in RAM hold; it outlives a closed one, so that another can be opened on it."""

    def __init__(self) -> None:
        self.tables: dict[str, Rows] = {}
        self.lock = threading.RLock()
        self.blobs = MemoryBlobs()


class MemoryStore(MemoryReader):
    """A record store that ends with its process."""

    sharing: Sharing = "threads"

    def __init__(self, contents: Contents | None = None) -> None:
        self._contents = contents or Contents()
        super().__init__(self._contents.tables, self._contents.lock)
        self._opened = Opened()

    def table(self, kind: Kind) -> Rows:
        self._opened.to_read()
        return super().table(kind)

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        self._opened.to_write()
        if not self._lock.acquire(timeout=remaining()):
            raise Busy("another thread holds the store; repeat, or raise timeout=")
        try:
            return self._commit(writes, rebase)
        finally:
            self._lock.release()

    def _commit(self, writes: Sequence[Write] | None, rebase: Rebase | None) -> Sequence[Write]:
        if writes is not None:
            try:
                return self._apply(writes)
            except (Moved, Taken):
                if rebase is None:
                    raise
        if rebase is None:
            return ()
        return self._apply(rebase(MemoryReader(self._tables, self._lock)))

    def _apply(self, writes: Sequence[Write]) -> Sequence[Write]:
        check_limits(writes)
        undo: Undo = []
        try:
            for write in writes:
                self._write(write, undo)
        except BaseException as cause:
            _take_back(undo, isinstance(cause, Exception))
            raise
        return writes

    def _write(self, write: Write, undo: Undo) -> None:
        match write:
            case Insert(record):
                table = self.table(record.kind)
                rival = table.get(record.key) or table.holder(record)
                if rival is None:
                    _keep(table, record.key, record, undo)
                elif rival.key != record.key or rival.digest != record.digest:
                    raise Taken(record, rival)
            case Put(record, over):
                table = self.table(record.kind)
                present = table.get(record.key)
                if over is not None and (present is None or present.digest != over):
                    raise Moved(record.kind, record.key, present)
                rival = table.holder(record)
                if rival is not None and rival.key != record.key:
                    raise Taken(record, rival)
                _keep(table, record.key, record, undo)
            case Delete(kind, key, where, over):
                table = self.table(kind)
                present = table.get(key)
                if over is not None and (present is None or present.digest != over):
                    raise Moved(kind, key, present)
                for found in list(table.match(Query(kind=kind, prefix=key, where=where))):
                    _keep(table, found.key, None, undo)
            case Require(kind, key, digest):
                present = self.table(kind).get(key)
                if (None if present is None else present.digest) != digest:
                    raise Moved(kind, key, present)

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:  # noqa: ARG002 — no engine to check
        self._opened.to_read()
        size = None
        if measure:
            with self._lock:
                all_rows = (table.match(Query(kind=table.kind)) for table in self._tables.values())
                size = sum(len(row.body) for rows in all_rows for row in rows)
        return Inspection(backend="memory", version="1", durability="none: ends with the process", bytes=size)

    def blobs(self) -> MemoryBlobs:
        """The blobs that live as long as these records."""
        return self._contents.blobs

    def close(self) -> None:
        self._opened.close()


def _take_back(undo: Undo, refused: bool) -> None:
    """Have everything there again that was; an interrupt may have come in the middle of a change, or comes in this."""
    done = False
    try:
        if refused:
            for table, key, before in reversed(undo):
                table.keep(key, before)
            done = True
    finally:
        if not done:
            for changed in {id(table): table for table, _, _ in undo}.values():
                changed.mend((key, before) for table, key, before in reversed(undo) if table is changed)


def _keep(table: Rows, key: Key, record: Record | None, undo: Undo) -> None:
    undo.append((table, key, table.get(key)))
    table.keep(key, record)


class MemoryBlobs:
    """A blob store that ends with its process."""

    def __init__(self) -> None:
        self._blobs: dict[bytes, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def put(self, chunks: Iterable[bytes]) -> Blob:
        content = b"".join(chunks)
        digest = hashlib.sha256(content).digest()
        put_at = time.time_ns() // 1000
        with self._lock:
            self._blobs[digest] = (content, put_at)
        return Blob(digest=digest, size=len(content), put_at=put_at)

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        found = self._blobs.get(digest)
        if found is None:
            raise NotFound(f"no blob {digest.hex()}")
        return iter([found[0][start:stop]])

    def delete(self, digest: bytes, before: int | None = None) -> bool:
        with self._lock:
            found = self._blobs.get(digest)
            if found is None or (before is not None and found[1] >= before):
                return False
            del self._blobs[digest]
            return True

    def list(self) -> Iterator[Blob]:
        with self._lock:
            found = sorted(self._blobs.items())
        for digest, (content, put_at) in found:
            yield Blob(digest=digest, size=len(content), put_at=put_at)


def open_url(url: str, **options: object) -> MemoryStore:  # noqa: ARG001 — there is nothing to choose
    """A new store; it has no address by which another could find it."""
    return MemoryStore()
