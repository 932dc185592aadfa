"""Rows as SQLite gives them, and how they are read where they are damaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from holdfast.errors import IntegrityError
from holdfast.filters import Scalar
from holdfast.kinds import Field

Row = tuple[Any, ...]
Runs = apsw.Connection | apsw.Cursor

_NOTHING = "x''"


class Careful:
    """Reads rows, and where damage has turned one type into another, what has become of them.

    A body is read as bytes whatever it is, and as none where it is gone. Any other value that has become a text which
    is no Unicode cannot be read as it is: then none is read for bytes, and for others what has become of them.
    """

    def __init__(self, columns: Sequence[Field], table: str) -> None:
        self._loose = [place for place, column in enumerate(columns) if column.type != "bytes"]
        names = [f'"{column.name}"' for column in columns]
        instead = (_NOTHING if column.type == "bytes" else _bytes(column.name) for column in columns)
        careful = [_unless_text(column.name, text) for column, text in zip(columns, instead, strict=True)]
        rest = f"{bytes_of('body')} FROM {table}"
        self.select = f"SELECT {', '.join(names)}, digest, {rest}"
        self._careful = f"SELECT {', '.join(careful)}, {_unless_text('digest', _NOTHING)}, {rest}"

    def fetch(self, con: Runs, statement: str, values: tuple[Scalar, ...]) -> list[Row]:
        """All rows of a statement that begins with `select`."""
        try:
            return con.execute(statement, values).fetchall()
        except UnicodeDecodeError:
            rows = con.execute(statement.replace(self.select, self._careful, 1), values).fetchall()
        return [self._decoded(row) for row in rows]

    def _decoded(self, row: Row) -> Row:
        stored = {place: row[place] for place in self._loose if isinstance(row[place], bytes)}
        texts = {place: value.decode(errors="surrogateescape") for place, value in stored.items()}
        return tuple(texts.get(place, value) for place, value in enumerate(row))


def bytes_of(name: str) -> str:
    """What reads a column as bytes, whatever is there."""
    return f"coalesce({_bytes(name)}, {_NOTHING})"


def whole(value: object, below: int = 1 << 63) -> int:
    """The number itself; IntegrityError if damage has made it something else."""
    if not isinstance(value, int) or not 0 <= value < below:
        raise IntegrityError(f"the database file is damaged, restore a backup: {value!r} should be a number")
    return value


def _bytes(name: str) -> str:
    return f'CAST("{name}" AS BLOB)'


def _unless_text(name: str, instead: str) -> str:
    return f'CASE typeof("{name}") WHEN \'text\' THEN {instead} ELSE "{name}" END'
