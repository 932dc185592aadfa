"""A connection to MySQL or MariaDB that keeps to the deadline of the present call, and what its errors mean.

The deadline is kept on this side: who waits too long has the statement killed through a second connection, and takes
what the server then says. The server's own limits are whole seconds, and not the same in both systems.
"""

from __future__ import annotations

import time
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import UUID

import pymysql
from pymysql.connections import Connection as Driver
from pymysql.constants import CLIENT, CR, ER, SERVER_STATUS

from holdfast.backends._insist import Again
from holdfast.backends._sql_reading import Rows
from holdfast.deadlines import deadline
from holdfast.errors import (
    AccessDenied,
    BackendError,
    Busy,
    ConnectionFailed,
    HoldfastError,
    InvalidInput,
    NotFound,
    Unsupported,
)

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

    Plain = Driver[Cursor]
else:
    Plain = Driver

Values: TypeAlias = Sequence[Any] | Mapping[str, Any]

PIECE = 256 * 1024
PACKET = 4 * 1024 * 1024  # text that goes in one round trip; a single large body may be more
LARGEST = 12 * 1024 * 1024  # what a server must take: the largest body, as text
GRACE_S = 2.0  # for the server to confirm that it has killed a statement
LONGEST_S = 86_400.0
SHORT = 256  # bytes that are sent as hexadecimal digits; base64 is shorter

SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION time_zone = '+00:00'",
    "SELECT @@max_allowed_packet",
)

MISFIT = ER.SUBQUERY_NO_1_ROW  # what a statement of ours fails with that was to hold
KILLED = 1927  # MariaDB: the connection was killed
LOST = (CR.CR_SERVER_LOST, CR.CR_SERVER_GONE_ERROR, ER.SERVER_SHUTDOWN, KILLED, 3169, 4031)
READ_ONLY = (ER.OPTION_PREVENTS_STATEMENT, 1792, 1836)  # a primary has become a replica
LOCKED = 3572  # MySQL: a lock that was not to be waited for
GAVE_WAY = (ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, ER.CHECKREAD, LOCKED)
STOPPED = (ER.QUERY_INTERRUPTED, 1969, 3024)
DENIED = (
    ER.DBACCESS_DENIED_ERROR,
    ER.ACCESS_DENIED_ERROR,
    ER.TABLEACCESS_DENIED_ERROR,
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
)
# A host that may not connect, a user without a password or with one that has run out, a locked one in either system.
NOT_LET_IN = (ER.HOST_NOT_PRIVILEGED, 1698, 1820, 1862, 3118, 4151)
FULL = (ER.DISK_FULL, ER.RECORD_FILE_FULL)
UNFIT = (ER.DATA_TOO_LONG, ER.WARN_DATA_OUT_OF_RANGE, ER.NET_PACKET_TOO_LARGE)


class Connection(Plain):
    """A connection whose every wait ends at the deadline: by a killed statement, or closed if nothing is heard.

    The methods with an underscore are the driver's own, replaced: it has no other place for a limit per call.
    """

    def __init__(self, address: Mapping[str, Any], limit_s: float) -> None:
        self._address = address
        self._limit_s = limit_s
        self._heard = bytearray()
        self._connected = False
        self.is_clean = True
        self.is_marked = False  # for a kill that may yet hit another statement than was meant
        super().__init__(
            **address,
            connect_timeout=_seconds(deadline(limit_s)),
            autocommit=True,
            charset="utf8mb4",
            client_flag=CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS,
        )
        self._connected = True

    def carry_out(self, statements: Iterable[tuple[str, Values]]) -> Rows:
        """Carry statements out one after the other, up to the first that fails; the rows of all of them."""
        self.is_clean = False
        rows: Rows = []
        for packet in _packets(statements):
            with self.cursor() as cursor:
                cursor.execute(packet)
                rows += cursor.fetchall()
                while cursor.nextset():
                    rows += cursor.fetchall()
        self.is_clean = self.is_idle
        return rows

    @property
    def is_idle(self) -> bool:
        """Whether no transaction was open when the server last answered."""
        status: int = self.server_status  # type: ignore[attr-defined]
        return not status & SERVER_STATUS.SERVER_STATUS_IN_TRANS

    def _create_ssl_ctx(self, given: object) -> SSLContext:
        # Where nothing is checked, the driver would read every authority of the system, for each connection anew.
        return given if isinstance(given, SSLContext) else unchecked()

    def _read_bytes(self, num_bytes: int) -> bytes:
        while len(self._heard) < num_bytes:
            piece = self._receive()
            if not piece:
                raise self._gone("the server has closed it")
            self._heard += piece
        answer = bytes(self._heard[:num_bytes])
        del self._heard[:num_bytes]
        return answer

    def _write_bytes(self, data: bytes) -> None:
        self._wait_until(deadline(self._limit_s))
        super()._write_bytes(data)  # type: ignore[misc]

    def _receive(self) -> bytes:
        try:
            self._wait_until(deadline(self._limit_s))
            return self._recv()
        except TimeoutError:
            if not self._connected or not self._kill():
                raise self._gone("the server has stopped answering") from None
        except OSError as cause:
            raise self._gone(str(cause)) from cause
        try:
            self._wait_until(time.monotonic() + GRACE_S)
            return self._recv()
        except OSError as cause:
            raise self._gone("the server has stopped answering") from cause

    def _recv(self) -> bytes:
        piece: bytes = self._sock.recv(PIECE)  # type: ignore[attr-defined]
        return piece

    def _wait_until(self, until: float) -> None:
        if self._sock is not None:  # type: ignore[attr-defined]
            self._sock.settimeout(_seconds(until))  # type: ignore[attr-defined]

    def _kill(self) -> bool:
        """Have the present statement killed; whether the server has taken the order."""
        self.is_marked = True
        limits: dict[str, Any] = {"connect_timeout": GRACE_S, "read_timeout": GRACE_S, "write_timeout": GRACE_S}
        with suppress(pymysql.MySQLError):
            with pymysql.connect(**self._address, **limits) as other, other.cursor() as cursor:
                cursor.execute(f"KILL QUERY {self.thread_id()}")  # type: ignore[no-untyped-call]
                return True
        return False

    def _gone(self, reason: str) -> pymysql.OperationalError:
        self._force_close()  # type: ignore[attr-defined]
        return pymysql.OperationalError(CR.CR_SERVER_LOST, f"the connection is lost: {reason}")


def _seconds(until: float) -> float:
    """What is left, in bounds that every clock takes."""
    return min(max(0.001, until - time.monotonic()), LONGEST_S)


def unchecked() -> SSLContext:
    """Encryption for servers that have it, whoever they are."""
    context = SSLContext(PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = CERT_NONE
    return context


def connect(address: Mapping[str, Any], limit_s: float) -> Connection:
    """A new connection that begins no transaction by itself; ConnectionFailed if there is none to be had."""
    try:
        con = Connection(address, limit_s)
        ((largest,),) = con.carry_out((statement, []) for statement in SESSION)
    except pymysql.MySQLError as cause:
        raise _refused(cause, address) from cause
    except RuntimeError as cause:  # for a way to prove a password that needs a package
        raise Unsupported(
            f"the server's way to check a password needs TLS, or pip install cryptography: {cause}"
        ) from cause
    if largest < LARGEST:
        con.close()
        raise Unsupported(f"the server's max_allowed_packet is {largest}; set it to 16M or more")
    return con


def _refused(cause: pymysql.MySQLError, address: Mapping[str, Any]) -> HoldfastError:
    code = _code(cause)
    if code == ER.BAD_DB_ERROR:
        return NotFound(f"there is no database {address['database']!r}; create it and open it again")
    if code in (*DENIED, *NOT_LET_IN):
        return AccessDenied(
            f"the server does not let us in; check the user and the password of the address, and its rights: {cause}"
        )
    return ConnectionFailed(f"MySQL cannot be reached: {cause}")


def rest(con: Connection) -> bool:
    """Make a connection ready for its next use; False if it has none."""
    if not con.open or con.is_marked:
        return False
    if con.is_clean:
        return True
    try:
        con.carry_out([("ROLLBACK", [])])
    except pymysql.MySQLError:
        return False
    return con.open and con.is_clean


def close(con: Connection) -> None:
    """End a connection, however it stands."""
    if con.open:
        with suppress(pymysql.MySQLError):  # it may have been lost unnoticed
            con.close()


def translate(cause: pymysql.MySQLError, con: Connection, outcome: Literal["none", "unknown"]) -> HoldfastError:
    """What an error means; where the connection is lost, with what that leaves of the outcome."""
    code = _code(cause)
    if code in READ_ONLY:
        close(con)
        return ConnectionFailed(f"the server takes no writes: {cause}")
    if not con.open or code in LOST:
        close(con)
        return ConnectionFailed(f"the connection to MySQL broke: {cause}", outcome=outcome)
    if code in GAVE_WAY:
        return Again(f"MySQL gave way to another writer until the timeout; nothing was written: {cause}")
    if code in STOPPED:
        return Busy(f"MySQL did not answer within the timeout; nothing was written: {cause}")
    if code in UNFIT:
        return InvalidInput(f"MySQL cannot store the value: {cause}")
    if code in DENIED:
        return AccessDenied(f"the user of the address lacks a right; grant it and repeat: {cause}")
    if code in FULL:
        return BackendError(f"the server's disk is full; nothing was written: {cause}")
    return BackendError(f"MySQL failed: {cause}")


def is_duplicate(cause: pymysql.MySQLError) -> bool:
    """Whether a key or a unique value is taken."""
    return _code(cause) == ER.DUP_ENTRY


def is_misfit(cause: pymysql.MySQLError) -> bool:
    """Whether a condition of a commit did not hold."""
    return _code(cause) == MISFIT


def _code(cause: pymysql.MySQLError) -> int:
    return int(cause.args[0]) if cause.args and isinstance(cause.args[0], int) else 0


# statements as text


def _packets(statements: Iterable[tuple[str, Values]]) -> Iterator[str]:
    """The statements with their values, as many at a time as go in one packet."""
    waiting: list[str] = []
    size = 0
    for text, values in statements:
        statement = text % _literals(values)
        if waiting and size + len(statement) > PACKET:
            yield ";".join(waiting)
            waiting, size = [], 0
        waiting.append(statement)
        size += len(statement)
    if waiting:
        yield ";".join(waiting)


def _literals(values: Values) -> tuple[str, ...] | dict[str, str]:
    if isinstance(values, Mapping):
        return {name: literal(value) for name, value in values.items()}
    return tuple(map(literal, values))


def literal(value: object) -> str:
    """A value as it stands in a statement; text and bytes as digits only, which no setting reads in another way."""
    match value:
        case None:
            return "NULL"
        case int():
            return str(int(value))
        case str():
            return f"x'{value.encode().hex()}'"
        case UUID():
            return f"x'{value.hex}'"
        case bytes():
            return (
                f"x'{value.hex()}'"
                if len(value) < SHORT
                else f"FROM_BASE64('{b2a_base64(value, newline=False).decode()}')"
            )
        case _:
            raise TypeError(f"no literal of {type(value).__name__}")
