"""Rows as SQLite gives them, and how they are read where they are damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from holdfast.errors import IntegrityError
from holdfast.filters import Scalar
from holdfast.kinds import Field

Row = tuple[Any, ...]
Runs = apsw.Connection | apsw.Cursor

_NOTHING = "x''"


class Careful:
    """Reads rows, also those in which damage has turned a value into another type.

    A body comes as bytes whatever it is, and as no bytes where it is gone. A text that is no Unicode cannot be read as
    one: what should be bytes then comes as no bytes, and anything else as a text that tells what is there.
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
        except UnicodeEncodeError as cause:  # a damaged name that was read before
            raise _damaged(cause) from cause
        return [self._decoded(row) for row in rows]

    def _decoded(self, row: Row) -> Row:
        stored = {place: row[place] for place in self._loose if isinstance(row[place], bytes)}
        texts = {place: value.decode(errors="surrogateescape") for place, value in stored.items()}
        return tuple(texts.get(place, value) for place, value in enumerate(row))


def bytes_of(name: str) -> str:
    """What reads a column as bytes, whatever is there."""
    return f"coalesce({_bytes(name)}, {_NOTHING})"


@contextmanager
def checked() -> Iterator[None]:
    """IntegrityError where texts that are read inside are no Unicode."""
    try:
        yield
    except UnicodeError as cause:
        raise _damaged(cause) from cause


def whole(value: object, below: int = 1 << 63) -> int:
    """The number itself; IntegrityError if damage has made it something else."""
    if not isinstance(value, int) or not 0 <= value < below:
        raise _damaged(f"{value!r} should be a number")
    return value


def _damaged(what: object) -> IntegrityError:
    return IntegrityError(f"the database file is damaged, restore a backup: {what}")


def _bytes(name: str) -> str:
    return f'CAST("{name}" AS BLOB)'


def _unless_text(name: str, instead: str) -> str:
    return f'CASE typeof("{name}") WHEN \'text\' THEN {instead} ELSE "{name}" END'
