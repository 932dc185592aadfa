"""The writes of a commit, sorted for statements that carry out many at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from holdfast.backends._sql import Dialect, where
from holdfast.contracts import Delete, Insert, Put, Query, Require, Write
from holdfast.kinds import Kind

Sort = Literal["insert", "put", "put over", "delete", "delete over", "require", "delete some"]
CONDITIONS: tuple[Sort, ...] = ("put over", "delete over", "require")


class Group(Struct):
    """Writes of one sort and kind as rows; `some` are the conditions of what is deleted by a filter."""

    sort: Sort
    kind: Kind
    rows: list[tuple[Any, ...]]
    some: str = ""

    def in_order(self) -> list[tuple[Any, ...]]:
        """The rows in the order in which all lock them."""
        depth = len(self.kind.key)
        return sorted(self.rows, key=lambda row: row[:depth])


def grouped(writes: Sequence[Write], dialect: Dialect) -> list[Group]:
    """All writes but those that require that something is absent."""
    groups: dict[tuple[Any, ...], Group] = {}
    for write in writes:
        for sort, kind, row, some in _sorted(write, dialect):
            place = (sort, kind.name, id(write) if some else 0)
            group = groups.setdefault(place, Group(sort, kind, [], some))
            group.rows.append(row)
    return [*groups.values()]


def _sorted(write: Write, dialect: Dialect) -> Iterator[tuple[Sort, Kind, tuple[Any, ...], str]]:
    """The sort of a write, its kind, its row and its conditions."""
    if isinstance(write, Insert | Put):
        record = write.record
        row = (*record.key, *record.fields, record.digest, record.body)
        if isinstance(write, Insert):
            yield "insert", record.kind, row, ""
        elif write.over is None:
            yield "put", record.kind, row, ""
        else:
            yield "put over", record.kind, (*row, write.over), ""
    elif isinstance(write, Require):
        if write.digest is not None:
            yield "require", write.kind, (*write.key, write.digest), ""
    elif write.over is not None:
        yield "delete over", write.kind, (*write.key, write.over), ""
    elif len(write.key) == len(write.kind.key) and not write.where:
        yield "delete", write.kind, write.key, ""
    else:
        yield _deleting_some(write, dialect)


def _deleting_some(write: Delete, dialect: Dialect) -> tuple[Sort, Kind, tuple[Any, ...], str]:
    parts, values = where(Query(kind=write.kind, prefix=write.key, where=write.where), dialect)
    return "delete some", write.kind, tuple(values), "".join(f" AND {part}" for part in parts) or " AND true"
