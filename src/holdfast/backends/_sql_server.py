"""What stores at SQL servers have in common: how they read, insist on commits, and lend their connection to blobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Generic, Literal, TypeVar

from holdfast.backends._insist import Commit, Outcome, patiently
from holdfast.backends._opened import Opened
from holdfast.backends._paging import in_pages
from holdfast.backends._pool import Pool
from holdfast.backends._sql_blobs import BlobStatements, SqlBlobs
from holdfast.backends._sql_reading import Rows, SqlReader
from holdfast.contracts import Insert, Key, Put, Query, Rebase, Record, Sharing, Write, check_limits
from holdfast.deadlines import deadline
from holdfast.kinds import Kind

C = TypeVar("C")
R = TypeVar("R")
Place = tuple[Kind, Key]
NOTHING: Mapping[str, Any] = {}


class SqlServerStore(ABC, Generic[C]):
    """A record store at a server; a backend says how its driver is spoken to."""

    sharing: Sharing = "processes"
    blob_statements: ClassVar[BlobStatements]
    space: int

    def __init__(self, pool: Pool[C], *, read_only: bool, timeout: float) -> None:
        self._opened = Opened(read_only)
        self._timeout = timeout
        self._pool = pool

    @abstractmethod
    def _meaning(self, con: C, outcome: Literal["none", "unknown"]) -> AbstractContextManager[None]:
        """Translate the driver's errors; a lost connection leaves this outcome."""

    @contextmanager
    def connection(self, outcome: Literal["none", "unknown"] = "none") -> Iterator[C]:
        """A connection of the pool; what fails on it is an error of ours."""
        with self._pool.connection(deadline(self._timeout)) as con, self._meaning(con, outcome):
            yield con

    @abstractmethod
    def _reader(self, con: C, *, locking: bool) -> SqlReader: ...

    @abstractmethod
    def _send(self, con: C, writes: Sequence[Write], absent: set[Place]) -> Outcome:
        """Carry out writes as one transaction, or go on with the one that is open, if these places are empty."""

    @abstractmethod
    def _rows(self, con: C, statement: str, values: Mapping[str, Any]) -> Rows:
        """The rows of a statement; Again if it clashed with the same one of another."""

    def at_server(self, work: Callable[[C], R]) -> R:
        """Do what changes nothing, or may be repeated, on one connection, and on another where that one breaks."""
        self._opened.to_read()

        def once() -> R:
            with self.connection() as con:
                return work(con)

        return patiently(once, deadline(self._timeout))

    # reading

    def _reading(self, work: Callable[[SqlReader], R]) -> R:
        return self.at_server(lambda con: work(self._reader(con, locking=False)))

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        return self._reading(lambda reader: reader.get(kind, keys))

    def scan(self, query: Query) -> Iterator[Record]:
        return in_pages(query, lambda page: self._reading(lambda reader: reader.page(page)))

    def count(self, query: Query) -> int:
        return self._reading(lambda reader: reader.count(query))

    def now(self) -> int:
        """The server's clock in microseconds, so that leases need no agreement between hosts."""
        return self._reading(lambda reader: reader.now())

    # writing

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        self._opened.to_write()
        return Commit(self, writes, rebase).carry_out(deadline(self._timeout))

    def write(self, writes: Sequence[Write]) -> Outcome:
        """One try, in one round trip."""
        with self.connection("unknown") as con:
            return self._send(con, writes, set())

    def plan(self, rebase: Rebase) -> Sequence[Write] | None:
        """One try under row locks: what was read stays so until it is over, and so does what was not there."""
        with self._pool.connection(deadline(self._timeout)) as con:
            reader = self._reader(con, locking=True)
            with self._meaning(con, "none"):
                writes = rebase(reader)
            if not writes:
                return writes
            check_limits(writes)
            made = {(write.record.kind, write.record.key) for write in writes if isinstance(write, Insert | Put)}
            with self._meaning(con, "unknown"):
                return writes if self._send(con, writes, reader.absent - made) == "done" else None

    # the store as a whole

    def read(self, statement: str, values: Mapping[str, Any] = NOTHING) -> Rows:
        """The rows of a statement that changes nothing."""
        return self.at_server(lambda con: self._rows(con, statement, values))

    def change(self, statement: str, values: Mapping[str, Any]) -> Rows:
        """Carry out a statement that may be repeated, and return its rows."""
        self._opened.to_write()
        return self.read(statement, values)

    def blobs(self) -> SqlBlobs:
        """The blobs in the same database."""
        return SqlBlobs(self, self.space, self.blob_statements)

    def close(self) -> None:
        if self._opened.close():
            self._end()

    def _end(self) -> None:
        """Give everything back."""
        self._pool.close()
