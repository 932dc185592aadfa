"""Reading other programs' SQLite files from a copy, so that nothing of theirs changes, not even a journal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from holdfast.errors import CorruptData

MAGIC = b"SQLite format 3\x00"


def is_database(path: Path) -> bool:
    """Whether a file begins as every SQLite database does."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


class Database:
    """A copy of a database, open for reading; damage is CorruptData naming the file."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self._path = path
        self._connection = connection

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, as they come."""
        try:
            yield from self._connection.execute(sql, values)
        except apsw.Error as cause:
            raise CorruptData(f"{self._path} cannot be read any further: {cause}") from cause

    def tables(self) -> dict[str, set[str]]:
        """The names of the tables, each with those of its columns."""
        names = [str(name) for (name,) in self.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        columns = "SELECT name FROM pragma_table_info(?)"
        return {table: {str(name) for (name,) in self.rows(columns, (table,))} for table in names}


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """A copy of a database with its write-ahead log, in a temporary folder that goes away with it."""
    with TemporaryDirectory(prefix="holdfast-import-") as folder:
        copy = Path(folder) / "copy.db"
        try:
            shutil.copyfile(path, copy)
            log = path.with_name(path.name + "-wal")
            if log.exists():
                shutil.copyfile(log, copy.with_name("copy.db-wal"))
            connection = apsw.Connection(str(copy))
        except (OSError, apsw.Error) as cause:
            raise CorruptData(f"{path} cannot be read: {cause}") from cause
        try:
            # A stored name or value must never become code or reach outside of the copy.
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            yield Database(path, connection)
        finally:
            connection.close()
