"""The tables of a SQLite store, and how an older file becomes a present one.

The file says its version in `user_version`. Migrations are numbered, go forward only, and run in the
transaction that bumps the number, so an interrupted one is simply repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import apsw

from holdfast.backends._sqlite_blobs import TABLES as BLOB_TABLES
from holdfast.backends._sqlite_rows import whole
from holdfast.backends._sqlite_tables import tables
from holdfast.errors import MigrationError, NotFound
from holdfast.kinds import Kind

VERSION = 2
APPLICATION_ID = 0x484F4C44  # "HOLD"

SPACES = "CREATE TABLE spaces (space INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)"
LOGS = (
    "CREATE TABLE logs (log INTEGER PRIMARY KEY AUTOINCREMENT, family INTEGER, space INTEGER NOT NULL,"
    " kind TEXT NOT NULL, owner TEXT NOT NULL, branch INTEGER NOT NULL, UNIQUE (space, kind, owner, branch))"
)
# A log is (owner, branch), as a history and its branch; all logs of one owner are a family, numbered by
# the first of them, within which ids are unique.


def _add_blobs(con: apsw.Connection) -> None:
    for statement in BLOB_TABLES:
        con.execute(statement)


MIGRATIONS: Mapping[int, Callable[[apsw.Connection], None]] = {2: _add_blobs}


def prepare(con: apsw.Connection, namespace: str, kinds: Sequence[Kind]) -> int:
    """Create or migrate what is there; returns the namespace's number."""
    con.execute("BEGIN IMMEDIATE")
    try:
        _bring_up(con, kinds)
        con.execute("INSERT OR IGNORE INTO spaces (name) VALUES (?)", (namespace,))
        con.execute("COMMIT")
    except BaseException:
        if con.in_transaction:  # SQLite ends it by itself where the disk is full
            con.execute("ROLLBACK")
        raise
    return look(con, namespace, kinds)


def _bring_up(con: apsw.Connection, kinds: Sequence[Kind]) -> None:
    version = version_of(con)
    if version == 0:
        _create(con, kinds)
    else:
        for step in range(version + 1, VERSION + 1):
            MIGRATIONS[step](con)
        _add_missing(con, kinds)
    con.execute(f"PRAGMA user_version = {VERSION}")


def look(con: apsw.Connection, namespace: str, kinds: Sequence[Kind]) -> int:
    """The number of a namespace, without changing anything; 0, which has no rows, if it is not there."""
    version = version_of(con)
    if version == 0:
        raise NotFound("the file is no Holdfast store yet; open it once without read_only")
    if version < VERSION:
        raise MigrationError(
            f"the store has schema {version}, this version needs {VERSION}; open it once without read_only"
        )
    known = {name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not known.issuperset(kind.name for kind in kinds):
        raise MigrationError("the store lacks kinds of records that are new; open it once without read_only")
    row = con.execute("SELECT space FROM spaces WHERE name = ?", (namespace,)).fetchone()
    return 0 if row is None else whole(row[0])


def version_of(con: apsw.Connection) -> int:
    """The version of the schema, 0 without any; MigrationError if that is another program's, or a later version."""
    (version,) = con.execute("PRAGMA user_version").fetchone()  # type: ignore[misc]
    (application,) = con.execute("PRAGMA application_id").fetchone()  # type: ignore[misc]
    (objects,) = con.execute("SELECT count(*) FROM sqlite_master").fetchone()  # type: ignore[misc]
    if objects and application != APPLICATION_ID:
        raise MigrationError("the file is another program's SQLite database; name a file of Holdfast's own")
    if int(version) > VERSION:
        raise MigrationError(
            f"the store has schema {version}, this version knows {VERSION}; upgrade Holdfast to open it"
        )
    return int(version)


def _create(con: apsw.Connection, kinds: Sequence[Kind]) -> None:
    con.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    con.execute(SPACES)
    con.execute(LOGS)
    _add_blobs(con)
    _add_missing(con, kinds)


def _add_missing(con: apsw.Connection, kinds: Sequence[Kind]) -> None:
    """Make the tables of kinds that the file has not seen yet; a new kind needs no migration."""
    present = {name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in tables((kind for kind in kinds if kind.name not in present), 0).values():
        for statement in table.create():
            con.execute(statement)
