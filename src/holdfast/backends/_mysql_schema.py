"""The tables of a store in MySQL, and how an older store becomes a present one.

One row says the version. The server carries out each CREATE by itself and for good, so whoever makes or migrates
something holds a named lock meanwhile, and whatever it does can be done again by the next if it breaks off.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from holdfast.backends._mysql_connection import Connection
from holdfast.backends._mysql_search import TABLES as SEARCH_TABLES
from holdfast.backends._mysql_writes import PREFIX, table
from holdfast.backends._sql import MYSQL, columns, quoted
from holdfast.deadlines import deadline
from holdfast.errors import Busy, MigrationError, NotFound
from holdfast.kinds import KINDS, Kind

VERSION = 1
MIGRATIONS: Mapping[int, Sequence[str]] = {}
"""What makes a store of a version of the one before, so that it may be repeated. Never changed once released."""

ENGINE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4"
OWN_TABLES: Mapping[str, tuple[str, str]] = {
    "version": ("only_row INT PRIMARY KEY, version INT NOT NULL", "the version of these tables"),
    "spaces": (
        "space INT AUTO_INCREMENT PRIMARY KEY, name VARBINARY(1400) NOT NULL UNIQUE",
        "namespaces by the number that stands in front of every key",
    ),
    "blobs": (
        "blob_id BINARY(16) PRIMARY KEY, space INT NOT NULL, digest VARBINARY(32), size BIGINT NOT NULL,"
        " put_at BIGINT NOT NULL, UNIQUE (space, digest)",
        "bytes by their SHA-256; one without a digest was not put to its end",
    ),
    "chunks": (
        "blob_id BINARY(16) NOT NULL, n INT NOT NULL, piece LONGBLOB NOT NULL, PRIMARY KEY (blob_id, n)",
        "the bytes of blobs, a megabyte each",
    ),
    **SEARCH_TABLES,
}


def prepare(
    con: Connection,
    namespace: str,
    *,
    limit_s: float,
    version: int = VERSION,
    migrations: Mapping[int, Sequence[str]] = MIGRATIONS,
) -> int:
    """Create or migrate what is there; returns the namespace's number."""
    if _missing(con) or _found(con, version) < version:
        with _alone(con, limit_s):
            _bring_up(con, version, migrations)
    if not _space(con, namespace):
        con.carry_out([(f"INSERT IGNORE INTO {table('spaces')} (name) VALUES (%s)", [namespace])])
    return _space(con, namespace)


def look(con: Connection, namespace: str) -> int:
    """The number of a namespace, without changing anything; 0, which has no rows, if it is not there."""
    missing = _missing(con)
    if "version" in missing:
        raise NotFound("there is no store in this database yet; open it once without read_only")
    if _found(con, VERSION) < VERSION or missing:
        raise MigrationError("the store is of an older version; open it once without read_only")
    return _space(con, namespace)


def _space(con: Connection, namespace: str) -> int:
    rows = con.carry_out([(f"SELECT space FROM {table('spaces')} WHERE name = %s", [namespace])])
    return int(rows[0][0]) if rows else 0


def _found(con: Connection, version: int) -> int:
    """The version that is there, 0 for none; MigrationError if it is newer."""
    rows = con.carry_out([(f"SELECT version FROM {table('version')}", [])])
    found = int(rows[0][0]) if rows else 0
    if found > version:
        raise MigrationError(f"the store has schema {found}, this version knows {version}; upgrade Holdfast to open it")
    return found


@contextmanager
def _alone(con: Connection, limit_s: float) -> Iterator[None]:
    """Keep others from making tables in the same database; the server gives the lock back if the connection breaks."""
    name = "CONCAT('holdfast ', MD5(DATABASE()))"
    seconds = max(1, math.ceil(deadline(limit_s) - time.monotonic()))
    if con.carry_out([(f"SELECT GET_LOCK({name}, {seconds})", [])]) != [(1,)]:
        raise Busy("another has been making the tables of the store until the timeout; repeat")
    try:
        yield
    finally:
        con.carry_out([(f"SELECT RELEASE_LOCK({name})", [])])


def _bring_up(con: Connection, version: int, migrations: Mapping[int, Sequence[str]]) -> None:
    missing = _missing(con)
    found = 0 if "version" in missing else _found(con, version)
    for step in range(found + 1, version + 1) if found else ():
        con.carry_out((statement, []) for statement in migrations[step])
    con.carry_out((statement, []) for name, statement in _creating() if name in missing)
    con.carry_out([(f"REPLACE INTO {table('version')} VALUES (1, {version})", [])])


def _missing(con: Connection) -> set[str]:
    """Tables that the store has not seen yet; a new kind needs no migration."""
    rows = con.carry_out([("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()", [])])
    return {*OWN_TABLES, *(kind.name for kind in KINDS)} - {str(name).removeprefix(PREFIX) for (name,) in rows}


def _creating() -> Iterator[tuple[str, str]]:
    """The statements that make the tables."""
    for name, (body, about) in OWN_TABLES.items():
        yield name, _create(name, body, about)
    for kind in KINDS:
        yield kind.name, _create(kind.name, _body(kind), kind.about)


def _body(kind: Kind) -> str:
    named, depth = columns(kind, MYSQL), len(kind.key)
    typed = [f"{name} {MYSQL.types[column.type]}" for name, column in zip(named, kind.columns(), strict=True)]
    typed[:depth] = [f"{column} NOT NULL" for column in typed[:depth]]
    parts = ["space INT NOT NULL", *typed, "digest VARBINARY(255) NOT NULL", "body LONGBLOB NOT NULL"]
    parts.append(f"PRIMARY KEY ({', '.join(['space', *named[:depth]])})")
    parts += [f"KEY by_{'_'.join(index)} ({_indexed(index)})" for index in kind.indexes]
    if kind.unique:
        parts.append(f"UNIQUE KEY once ({_indexed(kind.unique)})")
    return ", ".join(parts)


def _indexed(names: Sequence[str]) -> str:
    return ", ".join(["space", *(quoted(name, MYSQL) for name in names)])


def _create(name: str, body: str, about: str) -> str:
    text = about.replace("'", "''")
    return f"CREATE TABLE IF NOT EXISTS {table(name)} ({body}) {ENGINE} COMMENT '{text}'"
