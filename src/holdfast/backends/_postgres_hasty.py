"""The commit of an append as one statement that waits for no row, or alone for a moment: then the answer is no.

It does the same as the statement that `_postgres_writes` makes for any commit, but for this one shape, and costs less.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from holdfast.backends._postgres_writes import CAST, Writer
from holdfast.backends._sql import POSTGRES, columns
from holdfast.backends._sql_reading import Statement
from holdfast.contracts import Insert, Put, Record, Write
from holdfast.kinds import KINDS, Kind

MOST_WRITES = 50
MOST_BYTES = 64 * 1024  # more than that keeps the neighbours of a shared trip waiting
# A key that another is just inserting is waited for, but not for long; by one who goes alone the row is, too.
_WAITING = "set_config('lock_timeout', '{0}', true) <> ''"
_TOGETHER, _ALONE = _WAITING.format("200ms"), _WAITING.format("20ms")
_BY_NAME = {kind.name: kind for kind in KINDS}

Shape = tuple[tuple[str, bool], ...]


def is_append(writes: Sequence[Write]) -> bool:
    """Whether a small commit replaces one record on a condition, and inserts others."""
    puts = size = 0
    for write in writes:
        if type(write) is Put and write.over is not None:
            puts += 1
        elif type(write) is not Insert:
            return False
        size += len(write.record.body)
    return puts == 1 and len(writes) <= MOST_WRITES and size <= MOST_BYTES


class HastyWriter:
    """Makes these statements for the namespace whose other commits are the writer's."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._text = lru_cache(maxsize=100)(self._made)

    def statement(self, writes: Sequence[Write], *, alone: bool) -> Statement:
        """What carries out a commit that `is_append`, and writes no row if it does not fit."""
        values: list[Any] = []
        replaced = ""
        inserted: dict[str, list[Record]] = {}
        for write in writes:
            assert isinstance(write, Insert | Put)
            record = write.record
            if type(write) is Put:
                place = (*record.key, write.over)
                values = [*record.fields, record.digest, record.body, *place, *(() if alone else place)]
                replaced = record.kind.name
            else:
                inserted.setdefault(record.kind.name, []).append(record)
        for first, *others in inserted.values():
            values += map(list, zip(*map(_row, (first, *others)), strict=True)) if others else _row(first)
        return self._text(replaced, tuple([(name, len(some) > 1) for name, some in inserted.items()]), alone), values

    def _made(self, replaced: str, inserted: Shape, alone: bool) -> str:
        kind = _BY_NAME[replaced]
        replacing = self._replacing(kind, alone)
        *before, last = [replacing, *(self._inserting(_BY_NAME[name], many) for name, many in inserted)]
        if not before:
            return last
        # The last stands by itself: how many rows it has written is an answer that takes the server no row to give.
        steps = [f"w AS ({replacing} RETURNING 1)", *(f"w{n} AS ({text})" for n, text in enumerate(before[1:]))]
        return f"WITH {', '.join(steps)} {last}"

    def _replacing(self, kind: Kind, alone: bool) -> str:
        named, table, depth = columns(kind, POSTGRES), self._writer.table(kind), len(kind.key)
        setting = zip([*named[depth:], "digest", "body"], _types(kind)[depth:], strict=True)
        same = zip([*named[:depth], "digest"], [*_types(kind)[:depth], "bytea"], strict=True)
        place = " AND ".join([f"space = {self._writer.space}", *(f"{name} = %s::{type}" for name, type in same)])
        free = _ALONE if alone else f"(SELECT {_TOGETHER} FROM {table} WHERE {place} FOR UPDATE SKIP LOCKED)"
        sets = ", ".join(f"{name} = %s::{type}" for name, type in setting)
        durable = f"({self._writer.durably}) IS DISTINCT FROM ''"  # always so
        return f"UPDATE {table} SET {sets} WHERE {place} AND {free} AND {durable}"

    def _inserting(self, kind: Kind, many: bool) -> str:
        named = ", ".join(["space", *columns(kind, POSTGRES), "digest", "body"])
        if many:
            given = f"g.* FROM w, unnest({', '.join(f'%s::{type}[]' for type in _types(kind))}) g"
        else:
            given = f"{', '.join(f'%s::{type}' for type in _types(kind))} FROM w"
        return f"INSERT INTO {self._writer.table(kind)} ({named}) SELECT {self._writer.space}, {given}"


def _row(record: Record) -> tuple[Any, ...]:
    return (*record.key, *record.fields, record.digest, record.body)


def _types(kind: Kind) -> list[str]:
    """Of key, fields, digest and body."""
    return [*(CAST[column.type] for column in kind.columns()), "bytea", "bytea"]
