"""Everything in RAM: for tests, for trying things out, and as the model the other backends are compared with."""

from __future__ import annotations

import hashlib
import threading
import time
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

from holdfast.backends._opened import Opened
from holdfast.backends._paging import order_of
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
from holdfast.filters import Scalar, matches
from holdfast.kinds import Kind


class Table:
    """The records of one kind, by key and by what must be unique."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.rows: dict[Key, Record] = {}
        self.unique: dict[tuple[Scalar, ...], Key] = {}
        self._keys: list[Key] = []

    def set(self, key: Key, record: Record | None) -> Record | None:
        """Put a record there, or nothing; returns what was there before."""
        before = self.rows.pop(key, None)
        if before is not None:
            self.unique.pop(self._unique_of(before), None)
            if record is None:
                del self._keys[bisect_left(self._keys, key)]
        elif record is not None:
            insort(self._keys, key)
        if record is not None:
            self.rows[key] = record
            if self.kind.unique:
                self.unique[self._unique_of(record)] = key
        return before

    def rival(self, record: Record) -> Record | None:
        """The record that holds this key or this record's unique values."""
        return self.rows.get(record.key) or self.holder(record)

    def holder(self, record: Record) -> Record | None:
        """The record that holds this record's unique values."""
        holder = self.unique.get(self._unique_of(record)) if self.kind.unique else None
        return None if holder is None else self.rows[holder]

    def _unique_of(self, record: Record) -> tuple[Scalar, ...]:
        values = record.values()
        unique = tuple(values[name] for name in self.kind.unique)
        return (*unique, *record.key) if None in unique else unique  # a None collides with nothing

    def _named(self, query: Query) -> list[Record] | None:
        """Whoever holds the unique values that a query asks for; None if it does not name them all."""
        named: dict[str, Scalar] = {part.name: value for part, value in zip(self.kind.key, query.prefix, strict=False)}
        named |= {one.field: one.value for one in query.where if one.compare == "="}
        unique = tuple(named.get(name) for name in self.kind.unique)
        if not unique or None in unique:
            return None
        key = self.unique.get(unique)
        return [] if key is None or key[: len(query.prefix)] != query.prefix else [self.rows[key]]

    def match(self, query: Query) -> list[Record]:
        """All that match, in order."""
        found = [record for record in self._range(query) if matches(record.values(), query.where)]
        if query.order is not None:
            found.sort(key=lambda record: order_of(record, query))
        if query.reverse:
            found.reverse()
        if query.after is not None:
            found = [record for record in found if _behind(order_of(record, query), query)]
        return found if query.limit is None else found[: query.limit]

    def _range(self, query: Query) -> list[Record]:
        holder = self._named(query)
        if holder is not None and query.low is None and query.high is None:
            return holder
        depth = len(query.prefix)
        start = bisect_left(self._keys, query.prefix if query.low is None else (*query.prefix, query.low))
        found = []
        for at in range(start, len(self._keys)):
            key = self._keys[at]
            if key[:depth] != query.prefix or (query.high is not None and key[depth] > query.high):  # type: ignore[operator]
                break
            found.append(self.rows[key])
        return found


def _behind(order: tuple[Scalar, ...], query: Query) -> bool:
    return order < query.after if query.reverse else order > query.after  # type: ignore[operator]


class MemoryReader:
    """Reads from the tables; inside a commit it is handed to `rebase`."""

    def __init__(self, tables: dict[str, Table], lock: threading.RLock) -> None:
        self._tables = tables
        self._lock = lock

    def table(self, kind: Kind) -> Table:
        return self._tables.setdefault(kind.name, Table(kind))

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        with self._lock:
            rows = self.table(kind).rows
            return [rows.get(key) for key in keys]

    def scan(self, query: Query) -> Iterator[Record]:
        with self._lock:
            found = self.table(query.kind).match(query)
        return iter(found)

    def count(self, query: Query) -> int:
        with self._lock:
            return len(self.table(query.kind).match(query))


class Contents:
    """What stores in RAM hold; it outlives a closed one, so that another can be opened on it."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}
        self.lock = threading.RLock()
        self.blobs = MemoryBlobs()


class MemoryStore(MemoryReader):
    """A record store that ends with its process."""

    sharing: Sharing = "threads"

    def __init__(self, contents: Contents | None = None) -> None:
        self._contents = contents or Contents()
        super().__init__(self._contents.tables, self._contents.lock)
        self._opened = Opened()

    def table(self, kind: Kind) -> Table:
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
        undo: list[tuple[Table, Key, Record | None]] = []
        try:
            for write in writes:
                self._write(write, undo)
        except BaseException:
            for table, key, before in reversed(undo):
                table.set(key, before)
            raise
        return writes

    def _write(self, write: Write, undo: list[tuple[Table, Key, Record | None]]) -> None:
        match write:
            case Insert(record):
                table = self.table(record.kind)
                rival = table.rival(record)
                if rival is None:
                    undo.append((table, record.key, table.set(record.key, record)))
                elif rival.key != record.key or rival.digest != record.digest:
                    raise Taken(record, rival)
            case Put(record, over):
                table = self.table(record.kind)
                present = table.rows.get(record.key)
                if over is not None and (present is None or present.digest != over):
                    raise Moved(record.kind, record.key, present)
                rival = table.holder(record)
                if rival is not None and rival.key != record.key:
                    raise Taken(record, rival)
                undo.append((table, record.key, table.set(record.key, record)))
            case Delete(kind, key, where, over):
                table = self.table(kind)
                present = table.rows.get(key)
                if over is not None and (present is None or present.digest != over):
                    raise Moved(kind, key, present)
                for found in table.match(Query(kind=kind, prefix=key, where=where)):
                    undo.append((table, found.key, table.set(found.key, None)))
            case Require(kind, key, digest):
                present = self.table(kind).rows.get(key)
                if (None if present is None else present.digest) != digest:
                    raise Moved(kind, key, present)

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:  # noqa: ARG002 — no engine to check
        self._opened.to_read()
        size = None
        if measure:
            with self._lock:
                size = sum(len(row.body) for table in self._tables.values() for row in table.rows.values())
        return Inspection(backend="memory", version="1", durability="none: ends with the process", bytes=size)

    def blobs(self) -> MemoryBlobs:
        """The blobs that live as long as these records."""
        return self._contents.blobs

    def close(self) -> None:
        self._opened.close()


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
