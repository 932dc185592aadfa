"""The tables of a PostgreSQL store, and how an older store becomes a present one.

One row says the version. Whoever has to make or migrate something locks that row first, so that of many that open
a store at once one does the work, in one transaction, and the others find it done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from psycopg import errors as pg

from holdfast.backends._postgres_connection import Connection
from holdfast.backends._postgres_search import FORGETTING
from holdfast.backends._postgres_search import TABLES as SEARCH_TABLES
from holdfast.backends._sql import POSTGRES, columns, only_known, quoted
from holdfast.errors import BackendError, MigrationError, NotFound
from holdfast.kinds import KINDS, Kind

VERSION = 1
MIGRATIONS: Mapping[int, Sequence[str]] = {}
"""What makes a store of a version of the one before; {0} is the schema. Never changed once released."""

CLASHES = (pg.UniqueViolation, pg.DuplicateSchema, pg.DuplicateTable, pg.DuplicateObject)
FIRST_TRIES = 100
NARROW = " WITH (fillfactor = 70)"  # room for the next version of a row beside it, so that no index is touched

OWN_TABLES: Mapping[str, tuple[str, str]] = {
    "spaces": (
        "space integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE",
        "namespaces by the number that stands in front of every key",
    ),
    "blobs": (
        "blob uuid PRIMARY KEY, space integer NOT NULL, digest bytea, size bigint NOT NULL, put_at bigint NOT NULL,"
        " UNIQUE (space, digest)",
        "bytes by their SHA-256; one without a digest was not put to its end",
    ),
    "chunks": (
        "blob uuid NOT NULL, n integer NOT NULL, bytes bytea NOT NULL, PRIMARY KEY (blob, n)",
        "the bytes of blobs, a megabyte each",
    ),
    **SEARCH_TABLES,
}


def prepare(
    con: Connection,
    schema: str,
    namespace: str,
    *,
    version: int = VERSION,
    migrations: Mapping[int, Sequence[str]] = MIGRATIONS,
) -> int:
    """Create or migrate what is there; returns the namespace's number."""
    if _found(con, schema, version) < version or _missing(con, schema):
        _found_schema(con, schema)
        with con.transaction():
            _bring_up(con, schema, version, migrations)
    if not _space(con, schema, namespace):
        con.execute(f"INSERT INTO {schema}.spaces (name) VALUES (%s) ON CONFLICT DO NOTHING", (namespace,))
    return _space(con, schema, namespace)


def look(con: Connection, schema: str, namespace: str) -> int:
    """The number of a namespace, without changing anything; 0, which has no rows, if it is not there."""
    found = _found(con, schema, VERSION)
    if found == 0:
        raise NotFound(f"there is no store in schema {schema} yet; open it once without read_only")
    if found < VERSION or _missing(con, schema):
        raise MigrationError("the store is of an older version; open it once without read_only")
    return _space(con, schema, namespace)


def _space(con: Connection, schema: str, namespace: str) -> int:
    row = con.execute(f"SELECT space FROM {schema}.spaces WHERE name = %s", (namespace,)).fetchone()
    return 0 if row is None else int(row[0])


def _found(con: Connection, schema: str, version: int) -> int:
    """The version that is there, 0 for none; MigrationError if it is newer."""
    present = con.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{schema}.version",)).fetchone()
    if present is None or not present[0]:
        return 0
    return _checked(con.execute(f"SELECT version FROM {schema}.version").fetchone(), version)


def _checked(row: tuple[int] | None, version: int) -> int:
    found = 0 if row is None else int(row[0])
    if found > version:
        raise MigrationError(f"the store has schema {found}, this version knows {version}; upgrade Holdfast to open it")
    return found


def _found_schema(con: Connection, schema: str) -> None:
    """Make the schema and its row of a version; others may be about to, and then it is theirs."""
    for _ in range(FIRST_TRIES):
        try:
            with con.transaction():
                if con.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,):
                    con.execute(f"CREATE SCHEMA {schema}")
                con.execute(
                    f"CREATE TABLE IF NOT EXISTS {schema}.version"
                    " (only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), version integer NOT NULL)"
                )
                con.execute(f"INSERT INTO {schema}.version (version) VALUES (0) ON CONFLICT DO NOTHING")
                con.execute(_comment(schema, "version", "the version of these tables").encode())
            return
        except CLASHES:
            continue
    raise BackendError(f"schema {schema} could not be made: others were faster {FIRST_TRIES} times; open it again")


def _bring_up(con: Connection, schema: str, version: int, migrations: Mapping[int, Sequence[str]]) -> None:
    found = _checked(con.execute(f"SELECT version FROM {schema}.version FOR UPDATE").fetchone(), version)
    for step in range(found + 1, version + 1) if found else ():
        for statement in migrations[step]:
            con.execute(statement.format(schema).encode())
    for statement in _creating(schema, _missing(con, schema)):
        con.execute(statement.encode())
    con.execute(f"UPDATE {schema}.version SET version = %s", (version,))


def _missing(con: Connection, schema: str) -> set[str]:
    """Tables that the store has not seen yet; a new kind needs no migration."""
    rows = con.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
    return {*OWN_TABLES, *(kind.name for kind in KINDS)} - {str(name) for (name,) in rows}


def _creating(schema: str, missing: Iterable[str]) -> Iterator[str]:
    """The statements that make these tables."""
    for name, (body, about) in OWN_TABLES.items():
        if name in missing:
            yield f"CREATE TABLE {schema}.{name} ({body})"
            yield _comment(schema, name, about)
    if "chunks" in missing:
        # Most large files are compressed already, and a part of plain storage is read without the rest.
        yield f"ALTER TABLE {schema}.chunks ALTER COLUMN bytes SET STORAGE EXTERNAL"
    for kind in KINDS:
        if kind.name in missing:
            yield from _creating_kind(schema, kind)
    if "texts" in missing:
        yield from (statement.format(schema) for statement in FORGETTING)


def _creating_kind(schema: str, kind: Kind) -> Iterator[str]:
    named, table = columns(kind, POSTGRES), f"{schema}.{kind.name}"
    typed = [f"{name} {POSTGRES.types[column.type]}" for name, column in zip(named, kind.columns(), strict=True)]
    body = ", ".join(["space integer NOT NULL", *typed, "digest bytea NOT NULL", "body bytea NOT NULL"])
    keys = ", ".join(["space", *named[: len(kind.key)]])
    yield f"CREATE TABLE {table} ({body}, PRIMARY KEY ({keys})){NARROW if kind.narrow else ''}"
    for index in kind.indexes:
        only = only_known(kind, index, POSTGRES)
        yield f"CREATE INDEX {kind.name}_by_{'_'.join(index)} ON {table} ({_indexed(index)}){only}"
    if kind.unique:
        yield f"CREATE UNIQUE INDEX {kind.name}_once ON {table} ({_indexed(kind.unique)})"
    yield _comment(schema, kind.name, kind.about)


def _indexed(names: Sequence[str]) -> str:
    return ", ".join(["space", *(quoted(name, POSTGRES) for name in names)])


def _comment(schema: str, table: str, about: str) -> str:
    text = about.replace("'", "''")
    return f"COMMENT ON TABLE {schema}.{table} IS '{text}'"
