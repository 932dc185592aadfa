"""Rows as SQLite gives them, and how they are read where they are damaged."""

from __future__ import annotations

from typing import Any

import apsw

from holdfast.filters import Scalar
from holdfast.kinds import Field

Row = tuple[Any, ...]
Runs = apsw.Connection | apsw.Cursor


class Careful:
    """Reads rows, and where a damaged text is no longer Unicode, reads it as what it has become."""

    def __init__(self, select: str, columns: list[Field], rest: str) -> None:
        self._select = select
        self._texts = [place for place, column in enumerate(columns) if column.type == "text"]
        read = [f'CAST("{one.name}" AS BLOB)' if one.type == "text" else f'"{one.name}"' for one in columns]
        self._careful = f"SELECT {', '.join(read)}, {rest}"

    def fetch(self, con: Runs, statement: str, values: tuple[Scalar, ...]) -> list[Row]:
        """All rows of a statement that begins with the plain selection."""
        try:
            return con.execute(statement, values).fetchall()
        except UnicodeDecodeError:
            rows = con.execute(statement.replace(self._select, self._careful, 1), values).fetchall()
        return [self._decoded(row) for row in rows]

    def _decoded(self, row: Row) -> Row:
        texts = {place: row[place].decode(errors="surrogateescape") for place in self._texts if row[place] is not None}
        return tuple(texts.get(place, value) for place, value in enumerate(row))
