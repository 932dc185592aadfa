"""What stores at SQL servers have in common: how they read, insist on commits, and lend their connection to blobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from holdfast.backends._insist import Commit, Outcome, patiently
from holdfast.backends._opened import Opened
from holdfast.backends._paging import in_pages
from holdfast.backends._pool import Pool
from holdfast.backends._sql_blobs import BlobStatements, SqlBlobs
from holdfast.backends._sql_reading import Rows, SqlReader
from holdfast.contracts import Insert, Key, Put, Query, Rebase, Record, Sharing, Write, check_limits
from holdfast.deadlines import deadline
from holdfast.errors import HoldfastError
from holdfast.kinds import Kind

C = TypeVar("C")
R = TypeVar("R")
Place = tuple[Kind, Key]
Left = Literal["none", "unknown"]
Meaning: TypeAlias = Callable[[BaseException, C, Left], HoldfastError | None]
NOTHING: Mapping[str, Any] = {}


class Lent(Generic[C]):
    """A connection for as long as a block lasts; what its driver raises there is an error of ours.

    A class, since a generator takes three times as long, and there is one for every commit.
    """

    __slots__ = ("_con", "_meaning", "_pool", "_until", "outcome")
    _con: C

    def __init__(self, pool: Pool[C], until: float, meaning: Meaning[C], outcome: Left) -> None:
        self._pool = pool
        self._until = until
        self._meaning = meaning
        self.outcome: Left = outcome  # that a lost connection leaves

    def __enter__(self) -> C:
        self._con = self._pool.take(self._until)
        return self._con

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            said = None if error is None else self._meaning(error, self._con, self.outcome)
            if said is not None:
                raise said from error
        finally:
            self._pool.give_back(self._con)


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
    def meaning(self, error: BaseException, con: C, outcome: Left) -> HoldfastError | None:
        """What an error of the driver's means, where a lost connection leaves this outcome; None for any other."""

    def connection(self, outcome: Left = "none") -> Lent[C]:
        """A connection of the pool; what fails on it is an error of ours."""
        return Lent(self._pool, deadline(self._timeout), self.meaning, outcome)

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
        lent = self.connection()
        with lent as con:
            reader = self._reader(con, locking=True)
            writes = rebase(reader)
            if not writes:
                return writes
            check_limits(writes)
            made = {(write.record.kind, write.record.key) for write in writes if isinstance(write, Insert | Put)}
            lent.outcome = "unknown"
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
