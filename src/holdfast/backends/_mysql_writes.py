"""From a commit to statements that go to the server together.

A condition that does not hold fails its statement, and none behind it is carried out, the COMMIT least of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from holdfast.backends._groups import Group, grouped
from holdfast.backends._sql import MYSQL, columns
from holdfast.backends._sql_reading import Statement
from holdfast.contracts import Delete, Key, Put, Require, Write
from holdfast.kinds import KINDS, MESSAGES, Kind

PREFIX = "holdfast_"
PORTION = 3 * 1024 * 1024  # bytes of bodies in one statement
BEGIN: Statement = ("START TRANSACTION", [])
COMMIT: Statement = ("COMMIT", [])
# There is no IF outside of a routine: two rows where one may be are an error, and that is asked for.
INSIST = "SET @holdfast_fits = IF({0} = {1}, 1, (SELECT 1 UNION SELECT 2))"


def table(name: str) -> str:
    """The table of a kind."""
    return PREFIX + name


def one_of(kind: Kind, keys: Iterable[Key]) -> Statement:
    """The condition that a key is among these, in a form for which both servers use the index."""
    by_stem: dict[Key, list[Any]] = {}
    for key in keys:
        by_stem.setdefault(key[:-1], []).append(key[-1])
    *stem, last = [f"t.{name}" for name in columns(kind, MYSQL)[: len(kind.key)]]
    parts, values = [], []
    for fixed, lasts in by_stem.items():
        listed = f"{last} IN ({', '.join(['%s'] * len(lasts))})"
        parts.append(" AND ".join([*(f"{name} = %s" for name in stem), listed]))
        values += [*fixed, *lasts]
    return " OR ".join(f"({part})" for part in parts), values


class Writer:
    """Makes the statements of one namespace."""

    def __init__(self, space: int) -> None:
        self._space = space

    def statements(self, writes: Sequence[Write], absent: Iterable[tuple[Kind, Key]] = ()) -> list[Statement]:
        """What carries out a commit, between its BEGIN and its COMMIT.

        What must be absent comes first: a row in its place, taken away at once, holds it until the commit is over.
        Then everything goes that is to go, so that unique values are free before they are given to others.
        """
        missing = {*absent, *((one.kind, one.key) for one in writes if isinstance(one, Require) and one.digest is None)}
        groups = grouped(writes, MYSQL)
        return [
            *(statement for kind in KINDS for statement in self._holding(kind, missing)),
            *(statement for group in groups for statement in self._checking(group)),
            *(statement for group in groups for statement in self._clearing(group)),
            *(statement for group in groups for statement in self._filling(group)),
            *self._forgetting(writes),
        ]

    def _holding(self, kind: Kind, missing: set[tuple[Kind, Key]]) -> Iterator[Statement]:
        keys = sorted(key for of, key in missing if of is kind)
        if keys:
            named = [*columns(kind, MYSQL)[: len(kind.key)], "digest", "body"]
            yield self._inserting(kind, named, [(*key, b"", b"") for key in keys])
            yield self._deleting(kind, keys)

    def _checking(self, group: Group) -> Iterator[Statement]:
        """What looks whether conditions hold and locks their rows; a single replacement or deletion looks itself."""
        kind, rows = group.kind, group.in_order()
        if group.sort == "require" or (group.sort in ("put over", "delete over") and len(rows) > 1):
            depth = len(kind.key)
            same = " AND ".join(f"t.{name} = %s" for name in [*columns(kind, MYSQL)[:depth], "digest"])
            any_of = " OR ".join([f"({same})"] * len(rows))
            lock = "LOCK IN SHARE MODE" if group.sort == "require" else "FOR UPDATE"
            count = f"(SELECT COUNT(*) FROM {self._rows_of(kind)} AND ({any_of}) {lock})"
            values = [value for row in rows for value in (*row[:depth], row[-1])]
            yield INSIST.format(count, len(rows)), values

    def _clearing(self, group: Group) -> Iterator[Statement]:
        kind, keys = group.kind, [row[: len(group.kind.key)] for row in group.in_order()]
        if group.sort == "delete some":
            yield f"DELETE FROM {table(kind.name)} WHERE space = {self._space}{group.some}", list(group.rows[0])
        elif group.sort == "delete over" and len(keys) == 1:
            text, values = self._deleting(kind, keys)
            yield f"{text} AND t.digest = %s", [*values, group.rows[0][-1]]
            yield INSIST.format("ROW_COUNT()", 1), []
        elif group.sort in ("delete", "delete over", "put") or (group.sort == "put over" and len(keys) > 1):
            yield self._deleting(kind, keys)

    def _filling(self, group: Group) -> Iterator[Statement]:
        kind = group.kind
        named = [*columns(kind, MYSQL), "digest", "body"]
        if group.sort == "put over" and len(group.rows) == 1:
            yield self._replacing(kind, named, group.rows[0])
            yield INSIST.format("ROW_COUNT()", 1), []
        elif group.sort in ("insert", "put", "put over"):
            for rows in portions([row[: len(named)] for row in group.in_order()]):
                yield self._inserting(kind, named, rows)

    def _forgetting(self, writes: Sequence[Write]) -> Iterator[Statement]:
        """Take logs out of the text index of which a message goes or changes.

        The row of `searched` goes first: who fills the same log holds it, and what it has added is then seen to go.
        """
        for log in dict.fromkeys(key[:2] for key in _changed_messages(writes)):
            named = columns(MESSAGES, MYSQL)[: len(log)]
            same = " AND ".join([f"space = {self._space}", *(f"{name} = %s" for name in named)])
            for name in ("searched", "texts"):
                yield f"DELETE FROM {table(name)} WHERE {same}", [*log]

    def _inserting(self, kind: Kind, named: list[str], rows: Sequence[tuple[Any, ...]]) -> Statement:
        row = f"({self._space}, {', '.join(['%s'] * len(named))})"
        text = f"INSERT INTO {table(kind.name)} (space, {', '.join(named)}) VALUES {', '.join([row] * len(rows))}"
        return text, [value for row in rows for value in row]

    def _replacing(self, kind: Kind, named: list[str], row: tuple[Any, ...]) -> Statement:
        depth = len(kind.key)
        setting = ", ".join(f"{name} = %s" for name in named[depth:])
        same = " AND ".join([f"space = {self._space}", *(f"{name} = %s" for name in named[:depth]), "digest = %s"])
        return f"UPDATE {table(kind.name)} SET {setting} WHERE {same}", [*row[depth:-1], *row[:depth], row[-1]]

    def _deleting(self, kind: Kind, keys: Iterable[Key]) -> Statement:
        among, values = one_of(kind, keys)
        return f"DELETE t FROM {self._rows_of(kind)} AND ({among})", values

    def _rows_of(self, kind: Kind) -> str:
        # Without the hint a small table is read as a whole, and a writer then waits for rows that are none of its own.
        return f"{table(kind.name)} t FORCE INDEX (PRIMARY) WHERE t.space = {self._space}"


def _changed_messages(writes: Sequence[Write]) -> Iterator[Key]:
    """The keys, or the beginnings of keys, of messages that may be there and go or change."""
    for write in writes:
        if isinstance(write, Delete) and write.kind is MESSAGES:
            yield write.key
        elif isinstance(write, Put) and write.record.kind is MESSAGES:
            yield write.record.key


def portions(rows: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """The rows, as many at a time as one statement should hold."""
    waiting: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        if waiting and size + len(row[-1]) > PORTION:
            yield waiting
            waiting, size = [], 0
        waiting.append(row)
        size += len(row[-1])
    if waiting:
        yield waiting
