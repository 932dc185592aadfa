"""MySQL and MariaDB: real tables, many processes, one round trip per commit that nobody contests.

A commit is one packet of statements from START TRANSACTION to COMMIT, of which the first that does not fit is the
last. A broken connection is repaired by whoever meets it, and a commit that was under way is looked for before it is
repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from ssl import SSLContext, create_default_context
from typing import Any, Literal
from urllib.parse import SplitResult, parse_qsl, unquote

import pymysql

from holdfast.backends import _mysql_schema as schemas
from holdfast.backends._addresses import parts_of
from holdfast.backends._insist import Again, Outcome
from holdfast.backends._mysql_blobs import STATEMENTS
from holdfast.backends._mysql_connection import Connection, close, connect, is_duplicate, is_misfit, rest, translate
from holdfast.backends._mysql_search import MysqlSearch
from holdfast.backends._mysql_writes import BEGIN, COMMIT, Writer, one_of, table
from holdfast.backends._pool import Pool
from holdfast.backends._sql import MYSQL
from holdfast.backends._sql_reading import Rows, SqlReader, Statement, Tables, Values
from holdfast.backends._sql_server import Left, Place, SqlServerStore
from holdfast.contracts import Inspection, Key, Record, Write
from holdfast.deadlines import DEFAULT_TIMEOUT_S
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.filters import Scalar
from holdfast.kinds import KINDS, Kind

POOL_SIZE = 10
PORT = 3306
OPTIONS = ("pool_size", "unix_socket", "ssl_ca", "ssl_cert", "ssl_key")
INSPECT = "SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog"


class MysqlTables(Tables):
    """How the records of one namespace are read from MySQL."""

    def getting(self, kind: Kind, keys: Sequence[Key]) -> Statement:
        among, values = one_of(kind, sorted(set(keys)))
        return f"{self.selects[kind.name]} FORCE INDEX (PRIMARY) WHERE t.space = {self.space} AND ({among})", values


class MysqlReader(SqlReader):
    """Reads on one connection to MySQL."""

    def __init__(self, con: Connection, tables: Tables, *, locking: bool) -> None:
        super().__init__(tables, locking=locking)
        self._con = con

    def fetch(self, text: str, values: Values) -> Rows:
        begin = [BEGIN] if self.locking and self._con.is_idle else []
        return self._con.carry_out([*begin, (text, values)])

    def record(self, kind: Kind, row: tuple[Any, ...]) -> Record:
        return super().record(kind, (*map(_decoded, _text_columns(kind), row[:-2]), *row[-2:]))


def _text_columns(kind: Kind) -> Iterator[bool]:
    return (column.type == "text" for column in kind.columns())


def _decoded(is_text: bool, value: Any) -> Scalar:
    """Text is kept as bytes."""
    return value.decode() if is_text and value is not None else value  # type: ignore[no-any-return]


class MysqlStore(SqlServerStore[Connection]):
    """A record store in a database of MySQL or MariaDB."""

    blob_statements = STATEMENTS

    def __init__(
        self,
        address: Mapping[str, Any],
        *,
        namespace: str = "",
        durability: Literal["full", "normal"] = "full",  # noqa: ARG002 — the server decides, for all its clients
        read_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
        pool_size: int = POOL_SIZE,
    ) -> None:
        making = partial(connect, address, timeout)
        pool: Pool[Connection] = Pool(making, rest=rest, close=close, size=pool_size)
        super().__init__(pool, read_only=read_only, timeout=timeout)
        opening: Callable[[Connection, str], int] = (
            schemas.look if read_only else partial(schemas.prepare, limit_s=timeout)
        )
        try:
            with self.connection() as con:
                self.space = opening(con, namespace)
        except BaseException:
            pool.close()
            raise
        self._tables = MysqlTables(MYSQL, self.space, table)
        self._writer = Writer(self.space)
        self.text = MysqlSearch(self, read_only=read_only)

    def meaning(self, error: BaseException, con: Connection, outcome: Left) -> HoldfastError | None:
        return translate(error, con, outcome) if isinstance(error, pymysql.MySQLError) else None

    def _reader(self, con: Connection, *, locking: bool) -> MysqlReader:
        return MysqlReader(con, self._tables, locking=locking)

    def _send(self, con: Connection, writes: Sequence[Write], absent: set[Place]) -> Outcome:
        begin = [BEGIN] if con.is_idle else []
        try:
            con.carry_out([*begin, *self._writer.statements(writes, absent), COMMIT])
        except pymysql.MySQLError as cause:
            if is_misfit(cause):
                return "moved"
            if is_duplicate(cause):
                return "taken"
            raise
        return "done"

    def _rows(self, con: Connection, statement: str, values: Mapping[str, Any]) -> Rows:
        try:
            return con.carry_out([(statement, values)])
        except pymysql.IntegrityError as cause:
            raise Again("another has put the same bytes at this moment") from cause

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:
        version, flushed, logs, synced = self.read(INSPECT)[0]
        size = self._reading(lambda reader: reader.measure()) if measure else None
        return Inspection(
            backend="mysql",
            version=str(version),
            durability=f"innodb_flush_log_at_trx_commit={flushed}" + (f", sync_binlog={synced}" if logs else ""),
            bytes=size,
            problems=tuple(self._problems()) if check else (),
        )

    def _problems(self) -> Iterator[str]:
        """What the server finds wrong with its tables."""
        named = ", ".join(table(name) for name in [*schemas.OWN_TABLES, *(kind.name for kind in KINDS)])
        for name, _, sort, text in self.read(f"CHECK TABLE {named}"):
            if (sort, text) != ("status", "OK"):
                yield f"table {name}: {text}"


def open_url(url: str, **options: Any) -> MysqlStore:
    """The store that an address such as `mysql://user:password@host:3306/database` names.

    It may have `pool_size`, `unix_socket`, and `ssl_ca`, `ssl_cert`, `ssl_key` (files) to know the server by.
    """
    parts = parts_of(url)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := given.keys() - OPTIONS:
        raise InvalidInput(f"the address has an unknown option {min(unknown)!r}; known are {', '.join(OPTIONS)}")
    size = given.pop("pool_size", "")
    if not re.fullmatch("|[1-9][0-9]{0,3}", size):
        raise InvalidInput(f"pool_size is a number from 1 to 9999, not {size!r}")
    return MysqlStore(_address(parts, given), pool_size=int(size or POOL_SIZE), **options)


def _address(parts: SplitResult, given: dict[str, str]) -> dict[str, Any]:
    """What the driver is told."""
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise InvalidInput(f"the address names no database; write {parts.scheme}://user@host/database")
    address: dict[str, Any] = {"host": parts.hostname or "localhost", "port": parts.port or PORT, "database": database}
    address |= {"user": unquote(parts.username or "") or None, "password": unquote(parts.password or "")}
    if "unix_socket" in given:
        address["unix_socket"] = given["unix_socket"]
    if "ssl_ca" in given or "ssl_cert" in given:
        address["ssl"] = _checked(given)
    return address


def _checked(given: dict[str, str]) -> SSLContext:
    """Encryption with a server that proves its name."""
    try:
        context = create_default_context(cafile=given.get("ssl_ca"))
        if "ssl_cert" in given:
            context.load_cert_chain(given["ssl_cert"], given.get("ssl_key"))
    except OSError as cause:
        raise InvalidInput(f"ssl_ca, ssl_cert and ssl_key name files with certificates: {cause}") from cause
    return context
