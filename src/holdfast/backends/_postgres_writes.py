"""From a commit to one statement: conditions, and behind them everything that is written if they hold.

Writes of one sort become one part of it, with a row for each. A commit that does not fit is answered, not failed,
so that rivalry leaves no errors in the server's log; only values that must be unique are left to their index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from holdfast.backends._groups import CONDITIONS, Group, Sort, grouped
from holdfast.backends._sql import POSTGRES, columns
from holdfast.backends._sql_reading import Statement, Values
from holdfast.contracts import Key, Require, Write
from holdfast.kinds import KINDS, Field, Kind

_BY_NAME = {kind.name: kind for kind in KINDS}
_BYTES = {name: Field(name, "bytes") for name in ("digest", "body", "over")}
_WHOLE = (_BYTES["digest"], _BYTES["body"])
CAST = {"text": "text", "int": "bigint", "bytes": "bytea"}


class Part(Struct, frozen=True):
    """The shape of some writes of one sort and kind; `some` are the conditions of what is deleted by a filter."""

    sort: Sort
    kind: str
    many: bool
    some: str = ""

    @property
    def is_condition(self) -> bool:
        """Whether the commit depends on what this finds."""
        return self.sort in CONDITIONS


class Writer:
    """Makes the statements of one namespace."""

    def __init__(self, schema: str, space: int, durably: str) -> None:
        self._schema = schema
        self.space = space
        self.durably = durably
        self._text = lru_cache(maxsize=500)(self._made)

    def statements(self, writes: Sequence[Write], absent: Iterable[tuple[Kind, Key]] = ()) -> list[Statement]:
        """What carries out a commit; the last one answers whether it fitted.

        What must be absent comes first: a row in its place, taken away at once, holds it until the commit is over.
        """
        missing = {*absent, *((one.kind, one.key) for one in writes if isinstance(one, Require) and one.digest is None)}
        guards = [statement for kind in KINDS for statement in self._holding(kind, missing)]
        return [*guards, self._written(_ordered(writes))]

    def _written(self, groups: list[Group]) -> Statement:
        shape = tuple(_part(group) for group in groups)
        values = [value for group in groups if not group.some for value in _values(group)]
        conditions = sum(len(group.rows) for group in groups if _part(group).is_condition)
        if conditions and not _gates_itself(shape):
            values.append(conditions)
        values += [value for group in groups if group.some for value in _values(group)]
        return self._text(shape), values

    def _holding(self, kind: Kind, missing: set[tuple[Kind, Key]]) -> Iterator[Statement]:
        keys = sorted(key for of, key in missing if of is kind)
        if keys:
            group = Group("delete", kind, [*keys])
            given, table = self._given(_part(group), "g"), self.table(kind)
            named = ", ".join(columns(kind, POSTGRES)[: len(kind.key)])
            yield (
                f"WITH {given} INSERT INTO {table} (space, {named}, digest, body)"
                f" SELECT {self.space}, g.*, '', '' FROM g",
                _values(group),
            )
            yield f"WITH {given} DELETE FROM {table} t USING g WHERE {self._match(kind, 'g')}", _values(group)

    def table(self, kind: Kind) -> str:
        """What the table of a kind is called."""
        return f"{self._schema}.{kind.name}"

    # the text, made once for each shape

    def _made(self, shape: tuple[Part, ...]) -> str:
        given = [self._given(part, f"g{i}") for i, part in enumerate(shape) if not part.some]
        checks, fits = self._checks(shape)
        gate = f" WHERE {fits}" if fits else ""
        itself = _gates_itself(shape)
        writing = []
        for i, part in enumerate(shape):
            ungated = itself and part.is_condition
            text = self._writing(part, f"g{i}", "" if ungated else gate)
            if text:
                writing.append(f"w{i} AS ({text})")
        steps = ", ".join([*given, *checks, *writing])
        return f"{f'WITH {steps} ' if steps else ''}SELECT {fits or 'true'}, {self.durably}"

    def _checks(self, shape: tuple[Part, ...]) -> tuple[list[str], str]:
        """What looks whether the conditions hold, and the expression that says so; none where there are none."""
        conditions = [(i, part) for i, part in enumerate(shape) if part.is_condition]
        if not conditions:
            return [], ""
        if _gates_itself(shape):
            return [], f"(SELECT count(*) = 1 FROM w{conditions[0][0]})"
        checks = [f"c{i} AS ({self._check(part, f'g{i}')})" for i, part in conditions]
        counts = " + ".join(f"(SELECT count(*) FROM c{i})" for i, _ in conditions)
        fits = f"fits (ok) AS MATERIALIZED (SELECT {counts} = %s)"
        return [*checks, fits], "(SELECT ok FROM fits)"

    def _check(self, part: Part, given: str) -> str:
        kind = _BY_NAME[part.kind]
        lock = "SHARE" if part.sort == "require" else "UPDATE"
        matched = f"{self._match(kind, given)} AND t.digest = {given}.over"
        return f"SELECT 1 FROM {self.table(kind)} t, {given} WHERE {matched} FOR {lock} OF t"

    def _given(self, part: Part, name: str) -> str:
        """The rows as a table of this name."""
        columns_given = _columns_of(part)
        named = ", ".join(f'"{column.name}"' for column in columns_given)
        if part.many:
            lists = ", ".join(f"%s::{CAST[column.type]}[]" for column in columns_given)
            return f"{name} ({named}) AS (SELECT * FROM unnest({lists}))"
        return f"{name} ({named}) AS (SELECT {', '.join(f'%s::{CAST[column.type]}' for column in columns_given)})"

    def _writing(self, part: Part, given: str, gate: str) -> str:
        kind = _BY_NAME[part.kind]
        table, also = self.table(kind), gate.replace(" WHERE ", " AND ", 1)
        named = [*columns(kind, POSTGRES), "digest", "body"]
        match part.sort:
            case "insert":
                return self._inserting(kind, named, given, gate)
            case "put":
                keys = ", ".join(["space", *named[: len(kind.key)]])
                setting = ", ".join(f"{name} = EXCLUDED.{name}" for name in named[len(kind.key) :])
                return f"{self._inserting(kind, named, given, gate)} ON CONFLICT ({keys}) DO UPDATE SET {setting}"
            case "put over":
                setting = ", ".join(f"{name} = {given}.{name}" for name in named[len(kind.key) :])
                matched = f"{self._match(kind, given)} AND t.digest = {given}.over"
                return f"UPDATE {table} t SET {setting} FROM {given} WHERE {matched}{also} RETURNING 1"
            case "delete" | "delete over":
                return f"DELETE FROM {table} t USING {given} WHERE {self._match(kind, given)}{also}"
            case "delete some":
                return f"DELETE FROM {table} WHERE space = {self.space}{part.some}{also}"
            case "require":
                return ""

    def _inserting(self, kind: Kind, named: list[str], given: str, gate: str) -> str:
        into = f"{self.table(kind)} (space, {', '.join(named)})"
        return f"INSERT INTO {into} SELECT {self.space}, {given}.* FROM {given}{gate}"

    def _match(self, kind: Kind, given: str) -> str:
        same = [f"t.{name} = {given}.{name}" for name in columns(kind, POSTGRES)[: len(kind.key)]]
        return " AND ".join([f"t.space = {self.space}", *same])


def _columns_of(part: Part) -> tuple[Field, ...]:
    kind = _BY_NAME[part.kind]
    match part.sort:
        case "insert" | "put":
            return (*kind.columns(), *_WHOLE)
        case "put over":
            return (*kind.columns(), *_WHOLE, _BYTES["over"])
        case "delete over" | "require":
            return (*kind.key, _BYTES["over"])
        case _:
            return kind.key


def _gates_itself(shape: Sequence[Part]) -> bool:
    """Whether the only condition is a replacement of one record, which then need not be looked at first."""
    conditions = [part for part in shape if part.is_condition]
    return len(conditions) == 1 and conditions[0].sort == "put over" and not conditions[0].many


def _part(group: Group) -> Part:
    """The shape of a group."""
    return Part(group.sort, group.kind.name, len(group.rows) > 1, group.some)


def _values(group: Group) -> Values:
    """The rows as they are, or as one list for each column."""
    if group.some or len(group.rows) == 1:
        return list(group.rows[0])
    return [list(column) for column in zip(*group.in_order(), strict=True)]


def _ordered(writes: Sequence[Write]) -> list[Group]:
    """What others depend on stands first. PostgreSQL carries out the last of the rest first, so deletions stand last:
    they give unique values back before those are given to others.
    """
    groups = grouped(writes, POSTGRES)
    return sorted(groups, key=lambda group: (group.sort not in CONDITIONS, "delete" in group.sort))
