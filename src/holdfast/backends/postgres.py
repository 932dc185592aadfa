"""PostgreSQL: real tables in a schema of its own, many processes, one round trip per commit that nobody contests.

No session state, no advisory locks: it works behind a pooler that lends connections by the transaction. LISTEN, on a
direct connection alone, only shortens the wait of who follows a run.
A broken connection is repaired by whoever meets it, and a commit that was under way is looked for before it is
repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg import errors as pg

from holdfast.backends import _postgres_schema as schemas
from holdfast.backends._insist import Again, Outcome
from holdfast.backends._pool import Pool
from holdfast.backends._postgres_blobs import STATEMENTS
from holdfast.backends._postgres_connection import Connection, connect, is_idle, rest, translate
from holdfast.backends._postgres_hasty import HastyWriter, is_append
from holdfast.backends._postgres_search import PostgresSearch
from holdfast.backends._postgres_sharing import FirstTries
from holdfast.backends._postgres_vectors import PostgresVectors
from holdfast.backends._postgres_vectors import prepare as prepare_vectors
from holdfast.backends._postgres_waking import listen, name_of, tell
from holdfast.backends._postgres_writes import Writer
from holdfast.backends._sql import POSTGRES, columns
from holdfast.backends._sql_reading import Rows, SqlReader, Statement, Tables, Values
from holdfast.backends._sql_server import Left, Place, SqlServerStore
from holdfast.backends._waking import Waking
from holdfast.contracts import Inspection, Key, Planned, Rebase, Write
from holdfast.deadlines import DEFAULT_TIMEOUT_S
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.kinds import Kind

Durability = Literal["full", "normal"]
POOL_SIZE = 10
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# What is said in the commit itself holds for it alone: a server set to forget is told not to, or to do so.
DURABLY: dict[Durability, str] = {
    "full": "CASE current_setting('synchronous_commit') WHEN 'off'"
    " THEN set_config('synchronous_commit', 'on', true) END",
    "normal": "set_config('synchronous_commit', 'off', true)",
}


class PostgresTables(Tables):
    """How the records of one namespace are read from PostgreSQL."""

    def getting(self, kind: Kind, keys: Sequence[Key]) -> Statement:
        named = columns(kind, POSTGRES)[: len(kind.key)]
        if len(keys) == 1:
            same = " AND ".join([f"t.space = {self.space}", *(f"t.{name} = %s" for name in named)])
            return f"{self.selects[kind.name]} WHERE {same}", list(keys[0])
        casts = ", ".join("%s::text[]" if part.type == "text" else "%s::bigint[]" for part in kind.key)
        same = " AND ".join([f"t.space = {self.space}", *(f"t.{name} = g.{name}" for name in named)])
        given = f"(SELECT DISTINCT * FROM unnest({casts}) AS g ({', '.join(named)})) g"
        ordered = ", ".join(f"t.{name}" for name in named)
        text = f"{self.selects[kind.name]} JOIN {given} ON {same} ORDER BY {ordered}"
        return text, [list(part) for part in zip(*keys, strict=True)]


class PostgresReader(SqlReader):
    """Reads on one connection to PostgreSQL."""

    def __init__(self, con: Connection, tables: Tables, *, locking: bool) -> None:
        super().__init__(tables, locking=locking)
        self._con = con

    def fetch(self, text: str, values: Values) -> Rows:
        if self.locking and is_idle(self._con):
            with self._con.pipeline():
                self._con.execute(BEGIN)
                cursor = self._con.execute(text.encode(), values, binary=True)
        else:
            cursor = self._con.execute(text.encode(), values, binary=True)
        return cursor.fetchall()


class PostgresStore(SqlServerStore[Connection]):
    """A record store in a PostgreSQL database."""

    blob_statements = STATEMENTS

    def __init__(
        self,
        conninfo: str,
        *,
        namespace: str = "",
        schema: str = "holdfast",
        durability: Durability = "full",
        read_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
        pool_size: int = POOL_SIZE,
        prepare: bool = True,
        pgvector: bool = True,
    ) -> None:
        self._schema = schema
        self._durability = durability
        self._may_use_pgvector = pgvector and not read_only  # whoever searches an index also fills it
        making = partial(connect, conninfo, limit_s=timeout, prepare=prepare)
        pool: Pool[Connection] = Pool(making, rest=rest, close=Connection.close, size=pool_size)
        super().__init__(pool, read_only=read_only, timeout=timeout)
        opening = schemas.look if read_only else schemas.prepare
        try:
            with self.connection() as con:
                self.space = opening(con, schema, namespace)
        except BaseException:
            pool.close()
            raise
        self._tables = PostgresTables(POSTGRES, self.space, lambda name: f"{schema}.{name}")
        self._writer = Writer(schema, self.space, DURABLY[durability])
        self._hasty = HastyWriter(self._writer)
        self._first_tries = FirstTries(self._trip, self, timeout)
        self.text = PostgresSearch(self, schema, read_only=read_only)
        self._waking = Waking(partial(listen, conninfo))

    def meaning(self, error: BaseException, con: Connection, outcome: Left) -> HoldfastError | None:
        return translate(error, con, outcome) if isinstance(error, psycopg.Error) else None

    def _reader(self, con: Connection, *, locking: bool) -> PostgresReader:
        return PostgresReader(con, self._tables, locking=locking)

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        # One who holds a connection waits for nobody who may be waiting for one.
        if writes is None or self._pool.lends_to_me() or not is_append(writes):
            return super().commit(writes, rebase)
        self._opened.to_write()
        return self._first_tries.commit(writes, rebase)

    def submit(self, plans: Sequence[Planned]) -> list[Future[Sequence[Write]]]:
        """Like `commit` for each, in one trip with whatever else is queued."""
        self._opened.to_write()
        return self._first_tries.submit(plans)

    def write(self, writes: Sequence[Write]) -> Outcome:
        if self._pool.lends_to_me() or not is_append(writes):
            return super().write(writes)
        return self._first_tries.write(writes)

    def _trip(self, commits: Sequence[Sequence[Write]]) -> list[Outcome]:
        alone = len(commits) == 1
        statements = [self._hasty.statement(writes, alone=alone) for writes in commits]
        with self.connection("unknown") as con:
            try:
                fitted = con.ask(statements)
            except (pg.UniqueViolation, pg.LockNotAvailable) as refusal:
                if not alone:
                    raise
                return ["taken" if isinstance(refusal, pg.UniqueViolation) else "moved"]
            con.confirm()
            tell(con, self.space, [writes for writes, fits in zip(commits, fitted, strict=True) if fits])
        return ["done" if fits else "moved" for fits in fitted]

    def _send(self, con: Connection, writes: Sequence[Write], absent: set[Place]) -> Outcome:
        try:
            fitted = self._fits(con, self._writer.statements(writes, absent))
        except pg.UniqueViolation:
            return "taken"
        if fitted:
            tell(con, self.space, [writes])
        return "done" if fitted else "moved"

    def _fits(self, con: Connection, statements: list[Statement]) -> bool:
        """Carry out the statements as one transaction; whether they fitted."""
        begun = not is_idle(con)
        if len(statements) == 1 and not begun:
            answer = con.ask(statements)[0]
            con.confirm()
            return answer
        with con.pipeline():
            if not begun:
                con.execute(BEGIN)
            for text, values in statements:
                cursor = con.execute(text.encode(), values)
            con.execute("COMMIT")
        con.confirm()
        (row,) = cursor.fetchall()
        return bool(row[0])

    def _rows(self, con: Connection, statement: str, values: Mapping[str, Any]) -> Rows:
        try:
            cursor = con.execute(statement.format(self._schema).encode(), values, binary=True)
        except pg.UniqueViolation as cause:
            raise Again("another has put the same bytes at this moment") from cause
        return [] if cursor.description is None else cursor.fetchall()

    def wake(self, owner: str, woken: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `woken` when events of an owner were added, where a direct connection can be had."""
        return self._waking.waiting(name_of(self.space, owner), woken)

    def _end(self) -> None:
        self._first_tries.close()
        self._waking.close()
        super()._end()

    def vectors(self) -> PostgresVectors | None:
        """The indexes of vectors in the same database; None without pgvector, or for one who only reads."""
        if not self._may_use_pgvector:
            return None
        found = self.at_server(lambda con: prepare_vectors(con, self._schema))
        return None if found is None else PostgresVectors(self, self._schema, found)

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:
        version, synced, fsync = self.read(INSPECT)[0]
        if self._durability == "normal" or synced == "off":
            synced = "off" if self._durability == "normal" else "on"  # as each commit says for itself
        size = self._reading(lambda reader: reader.measure()) if measure else None
        problems = tuple(str(row[0]) for row in self.read(CHECK, {"schema": self._schema})) if check else ()
        return Inspection(
            backend="postgresql",
            version=str(version),
            durability=f"synchronous_commit={synced}, fsync={fsync}",
            bytes=size,
            problems=problems,
        )


INSPECT = "SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync')"
CHECK = """
SELECT 'index ' || indexrelid::regclass || ' is not valid; REINDEX it' FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %(schema)s AND NOT indisvalid
UNION ALL
SELECT checksum_failures || ' pages of the database failed their checksum' FROM pg_stat_database
WHERE datname = current_database() AND checksum_failures > 0
"""


def open_url(url: str, **options: Any) -> PostgresStore:
    """The store that an address such as `postgresql://user@host/database` names.

    Besides libpq's own parameters it may have `schema`, `pool_size`, `prepare` (off behind old poolers) and `pgvector`
    (off to leave vectors to the client).
    """
    address, _, query = url.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    schema, size = given.pop("schema", "holdfast"), given.pop("pool_size", "")
    switches = {name: given.pop(name, "on") for name in ("prepare", "pgvector")}
    if not re.fullmatch("[a-z_][a-z0-9_]{0,62}", schema):
        raise InvalidInput(f"schema is a lower-case name of letters, digits and _, not {schema!r}")
    if not re.fullmatch("|[1-9][0-9]{0,3}", size):
        raise InvalidInput(f"pool_size is a number from 1 to 9999, not {size!r}")
    for name, value in switches.items():
        if value not in ("on", "off"):
            raise InvalidInput(f"{name} is on or off, not {value!r}")
    conninfo = f"{address}?{urlencode(given, quote_via=quote)}" if given else address
    options |= {"schema": schema, "pool_size": int(size or POOL_SIZE)}
    options |= {name: value == "on" for name, value in switches.items()}
    return PostgresStore(conninfo, **options)
