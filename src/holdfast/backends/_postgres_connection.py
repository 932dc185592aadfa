"""A connection to PostgreSQL that keeps to the deadline of the present call, and what its errors mean.

The deadline is kept on this side, by cancelling: a statement_timeout would be state of a session, and behind a
pooler that lends connections by the transaction there is no session.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Generator
from typing import Any, Literal, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg import generators
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
from psycopg.types.string import BytesBinaryDumper

from holdfast.backends._insist import Again, Undecided
from holdfast.backends._postgres_asking import Asking
from holdfast.deadlines import deadline
from holdfast.errors import AccessDenied, BackendError, Busy, ConnectionFailed, HoldfastError, InvalidInput, Unsupported

R = TypeVar("R")
LOOK_S = 0.1  # how often a wait looks at the clock
GRACE_S = 2.0  # for the server to confirm that it has cancelled


class HexDumper(Dumper):
    """Bytes in a list; the driver's own escapes them as a server with standard_conforming_strings=off has literals."""

    oid = psycopg.adapters.types["bytea"].oid

    def dump(self, obj: bytes) -> bytes:
        return b"\\x" + obj.hex().encode()


ADAPTERS = AdaptersMap(psycopg.adapters)
# One type for all numbers: by their size they would be three, and each mixture a statement of its own to prepare.
ADAPTERS.register_dumper(int, Int8Dumper)
ADAPTERS.register_dumper(int, Int8BinaryDumper)
ADAPTERS.register_dumper(bytes, HexDumper)
ADAPTERS.register_dumper(bytes, BytesBinaryDumper)  # the last is taken wherever it can be

LOST = (
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.IdleInTransactionSessionTimeout,
    pg.IdleSessionTimeout,
    pg.ReadOnlySqlTransaction,  # a primary has become a standby
)
DENIED = re.compile(
    "authentication failed|no pg_hba.conf entry|pg_hba.conf rejects|role .* does not exist|not permitted to log in"
    "|permission denied for database|no such user"  # the last is PgBouncer's
)


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose every wait ends at the deadline: with QueryCanceled, or closed if nothing is heard."""

    limit_s: float
    ask: Asking
    unconfirmed = False

    def confirm(self) -> None:
        """Undecided if a commit was cancelled while its standby had still to confirm it, which is no error there."""
        if self.unconfirmed:
            self.unconfirmed = False
            raise Undecided(
                "PostgreSQL has committed, but its synchronous standby has not confirmed it within the timeout",
                outcome="unknown",
            )

    def hear(self, notice: psycopg.errors.Diagnostic) -> None:
        """What the server says beside its answers."""
        if notice.source_function == "SyncRepWaitForLSN":
            self.unconfirmed = True

    def wait(self, gen: Generator[Any, Any, R], interval: float = LOOK_S, timeout: float | None = None) -> R:
        until = deadline(self.limit_s)
        try:
            return self._wait_until(until, gen, interval, timeout)
        except psycopg.OperationalError:
            if not self._is_late(until):
                raise
            return self._cancelled(gen)

    def _wait_until(
        self, until: float, gen: Generator[Any, Any, R], interval: float = LOOK_S, timeout: float | None = None
    ) -> R:
        left = max(0.001, until - time.monotonic())
        if timeout is not None and timeout < left:
            left = timeout
        return super().wait(gen, interval, left)

    def _is_late(self, until: float) -> bool:
        """Whether a wait has failed by its deadline: the driver's error of that has no public name."""
        at_work = not self.closed and self.pgconn.transaction_status == TransactionStatus.ACTIVE
        return at_work and time.monotonic() >= until

    def _cancelled(self, gen: Generator[Any, Any, R]) -> R:
        """The answer after all, if it was on its way; else the server's word that it has stopped."""
        with contextlib.suppress(psycopg.Error):  # one that cannot be cancelled is heard of no more, below
            self.cancel_safe(timeout=GRACE_S)
        until = time.monotonic() + GRACE_S
        try:
            return self._wait_until(until, gen)
        except psycopg.OperationalError:
            if not self._is_late(until):
                raise
            self.close()
            raise psycopg.OperationalError("the server has stopped answering") from None


def connect(conninfo: str, *, limit_s: float, prepare: bool) -> Connection:
    """A new connection that begins no transaction by itself; ConnectionFailed if there is none to be had."""
    seconds = max(1, math.ceil(deadline(limit_s) - time.monotonic()))
    try:
        con = Connection.connect(
            conninfo,
            autocommit=True,
            prepare_threshold=5 if prepare else None,
            context=ADAPTERS,
            connect_timeout=seconds,
            client_encoding="utf8",  # whatever the environment or the server would rather have
            fallback_application_name="holdfast",
        )
    except psycopg.OperationalError as cause:
        raise _refused(cause) from cause
    except (psycopg.Error, UnicodeError) as cause:
        raise InvalidInput(
            f"the address of the store is not one that PostgreSQL knows{_why(cause, conninfo)}"
        ) from None
    con.limit_s = limit_s
    con.add_notice_handler(con.hear)
    _check_encoding(con)
    if prepare and not _is_direct(con):
        con.prepare_threshold, prepare = None, False
    con.ask = Asking(con, prepare=prepare)
    return con


def _is_direct(con: Connection) -> bool:
    """Whether who answers is who has let us in; behind a pooler, what one has prepared another may be told to use."""
    try:
        return con.execute("SELECT pg_backend_pid()", prepare=False).fetchone() == (con.info.backend_pid,)
    except psycopg.Error as cause:
        con.close()
        raise ConnectionFailed(f"PostgreSQL cannot be reached: {cause}") from cause


def _refused(cause: psycopg.OperationalError) -> HoldfastError:
    """Why there is no connection; a server that does not know a user has no code for it here, only words."""
    if (cause.pgconn is not None and cause.pgconn.needs_password) or DENIED.search(str(cause)):
        return AccessDenied(
            f"PostgreSQL does not let us in; check the user and the password of the address, and pg_hba.conf: {cause}"
        )
    return ConnectionFailed(f"PostgreSQL cannot be reached: {cause}")


def _why(cause: Exception, conninfo: str) -> str:
    """What is wrong with an address, unless that repeats something in front of its host: it may be a password."""
    said, public = str(cause).strip(), conninfo.rpartition("@")[2]
    if all(quoted in public for quoted in re.findall('"(.*)"', said)):
        return f": {said}"
    return "; in a user or a password, write %25 for %, %40 for @, %2F for /, %3F for ? and %23 for #"


def _check_encoding(con: Connection) -> None:
    """Unsupported if the database cannot hold every text."""
    encoding = con.info.parameter_status("server_encoding")
    if encoding not in ("UTF8", "SQL_ASCII"):  # the latter takes all bytes as they are
        con.close()
        raise Unsupported(f"the encoding of the database is {encoding}; make one with ENCODING 'UTF8'")


def rest(con: Connection) -> bool:
    """Make a connection ready for its next use; False if it has none."""
    if con.pgconn.pipeline_status != PipelineStatus.OFF:
        return False
    if is_idle(con):
        return True
    if con.closed:
        return False
    try:
        # Not by a cursor: behind a ROLLBACK of its own the driver has the server forget all that is prepared.
        con.pgconn.send_query(b"ROLLBACK")
        con.wait(generators.execute(con.pgconn))
    except psycopg.Error:
        return False
    return not con.closed and is_idle(con)


def is_idle(con: Connection) -> bool:
    """Whether no transaction is open on it."""
    return con.pgconn.transaction_status == TransactionStatus.IDLE


def _is_drivers_own(cause: psycopg.Error) -> bool:
    """Whether the driver says it, not the server: the line is broken, or in a state that cannot be told."""
    return isinstance(cause, psycopg.OperationalError) and cause.sqlstate is None


def translate(cause: psycopg.Error, con: Connection, outcome: Literal["none", "unknown"]) -> HoldfastError:
    """What an error means; where the connection is lost, with what that leaves of the outcome."""
    if con.closed or isinstance(cause, LOST) or _is_drivers_own(cause):
        con.close()
        kept = "none" if isinstance(cause, pg.ReadOnlySqlTransaction) else outcome
        return ConnectionFailed(f"the connection to PostgreSQL broke: {cause}", outcome=kept)
    if isinstance(cause, pg.DeadlockDetected | pg.SerializationFailure):
        return Again(f"PostgreSQL gave way to another writer until the timeout; nothing was written: {cause}")
    if isinstance(cause, pg.QueryCanceled | pg.LockNotAvailable):
        return Busy(f"PostgreSQL did not answer within the timeout; nothing was written: {cause}")
    if isinstance(cause, psycopg.DataError):
        return InvalidInput(f"PostgreSQL cannot store the value: {cause}")
    if isinstance(cause, pg.InsufficientPrivilege):
        return AccessDenied(f"the user of the address lacks a right; grant it and repeat: {cause}")
    if isinstance(cause, pg.DiskFull):
        return BackendError(f"the server's disk is full; nothing was written: {cause}")
    return BackendError(f"PostgreSQL failed: {cause}")
