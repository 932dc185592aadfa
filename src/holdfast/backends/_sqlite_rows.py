"""Rows as SQLite gives them, and how they are read where they are damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import apsw

from holdfast.contracts import Key, Record
from holdfast.errors import IntegrityError
from holdfast.filters import Scalar
from holdfast.kinds import Field, Kind, Type

Row = tuple[Any, ...]
Runs = apsw.Connection | apsw.Cursor
Make = Callable[..., list[Record]]  # of rows, and of what is known of their keys

_NOTHING = "x''"
_TYPES: Mapping[Type, type] = {"text": str, "int": int, "bytes": bytes}


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
        body = f"{bytes_of('body')} FROM {table}"
        self.select = f"SELECT {', '.join([*names, 'digest', body])}"
        self._careful = f"SELECT {', '.join([*careful, _unless_text('digest', _NOTHING), body])}"

    def fetch(self, con: Runs, statement: str, values: tuple[Scalar, ...]) -> list[Row]:
        """All rows of a statement that begins with `select`."""
        try:
            return con.execute(statement, values).fetchall()
        except UnicodeDecodeError:
            rows = con.execute(statement.replace(self.select, self._careful, 1), values).fetchall()
        except UnicodeEncodeError as cause:  # a damaged name that was read before
            raise damaged(cause) from cause
        return [self._decoded(row) for row in rows]

    def _decoded(self, row: Row) -> Row:
        stored = {place: row[place] for place in self._loose if isinstance(row[place], bytes)}
        texts = {place: value.decode(errors="surrogateescape") for place, value in stored.items()}
        return tuple(texts.get(place, value) for place, value in enumerate(row))


class Finder:
    """Reads records of a kind, of whose key the first parts are known; with or without their fields.

    `table` is what has their columns, where that is not the table of their name.
    """

    def __init__(self, kind: Kind, known: int, bodies_only: bool, table: str | None) -> None:
        fields = () if bodies_only else kind.fields
        self._columns = [*kind.key[known:], *fields]
        self._needed = len(kind.key) - known
        self._careful = Careful(self._columns, table or kind.name)
        self.select = self._careful.select
        self._make = _maker(kind, known, fields)

    def fetch(self, con: Runs, statement: str, values: tuple[Scalar, ...], known: Key) -> list[Record]:
        """All that a statement finds which begins with `select`; one with a value of a wrong type fits no checksum."""
        rows = self._careful.fetch(con, statement, values)
        found = self._make(rows, *known)
        if len(found) == len(rows):
            return found
        return [(self._make([row], *known) or self._make([self._typed(row)], *known))[0] for row in rows]

    def _typed(self, row: Row) -> Row:
        values = zip(row[:-2], self._columns, strict=True)
        typed = [_as_typed(value, column.type, place >= self._needed) for place, (value, column) in enumerate(values)]
        return (*typed, b"", row[-1])


@cache
def finder_of(kind: Kind, known: int, bodies_only: bool, table: str | None = None) -> Finder:
    """What reads such records, made once for all stores."""
    return Finder(kind, known, bodies_only, table)


def _maker(kind: Kind, known: int, fields: Sequence[Field]) -> Make:
    """What makes records of rows and the known parts of their key, and leaves out rows with a value of a wrong type.

    It is compiled for the kind, whose names are the code's own: to take rows apart by a loop over columns takes twice
    as long. Of checkpoints whose owner is known:

        lambda rows, owner_, : [
            Record(kind, (owner_, number_, ), body, digest, (id_, step_, at_, ))
            for number_, id_, step_, at_, digest, body in rows
            if type(number_) is int and type(digest) is bytes and (id_ is None or type(id_) is str) and …
        ]
    """
    types = {f"{column.name}_": _TYPES[column.type].__name__ for column in [*kind.key, *fields]}
    keys, others = [*types][: len(kind.key)], [*types][len(kind.key) :]
    sound = [*(f"type({name}) is {types[name]}" for name in keys[known:]), "type(digest) is bytes"]
    sound += [f"({name} is None or type({name}) is {types[name]})" for name in others]
    given, found, beside = ("".join(f"{name}, " for name in some) for some in (keys[:known], keys[known:], others))
    made = f"Record(kind, ({given}{found}), body, digest, ({beside}))"
    each = f"for {found}{beside}digest, body in rows if {' and '.join(sound)}"
    make: Make = eval(f"lambda rows, {given}: [{made} {each}]", {"Record": Record, "kind": kind})
    return make


def _as_typed(value: object, type: Type, may_be_none: bool) -> Scalar:
    """A value as its column should have it; what it is instead is told where that can be."""
    if isinstance(value, _TYPES[type]) or (value is None and may_be_none):
        return value  # type: ignore[return-value]
    return ascii(value) if type == "text" else -1 if type == "int" else b""


def bytes_of(name: str) -> str:
    """What reads a column as bytes, whatever is there."""
    return f"coalesce({_bytes(name)}, {_NOTHING})"


@contextmanager
def checked() -> Iterator[None]:
    """IntegrityError where texts that are read inside are no Unicode."""
    try:
        yield
    except UnicodeError as cause:
        raise damaged(cause) from cause


def whole(value: object, below: int = 1 << 63) -> int:
    """The number itself; IntegrityError if damage has made it something else."""
    if not isinstance(value, int) or not 0 <= value < below:
        raise damaged(f"{value!r} should be a number")
    return value


def text(value: object) -> str:
    """The text itself; IntegrityError if damage has made it something else."""
    if not isinstance(value, str):
        raise damaged(f"{value!r} should be a text")
    return value


def damaged(what: object) -> IntegrityError:
    """The error of a file that is not as it was written."""
    return IntegrityError(f"the database file is damaged, restore a backup: {what}")


def _bytes(name: str) -> str:
    return f'CAST("{name}" AS BLOB)'


def _unless_text(name: str, instead: str) -> str:
    return f'CASE typeof("{name}") WHEN \'text\' THEN {instead} ELSE "{name}" END'
