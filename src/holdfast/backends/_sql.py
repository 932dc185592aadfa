"""SQL text made of kinds: names come from kinds.py, values are always parameters."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.contracts import Query
from holdfast.filters import Filter, Scalar
from holdfast.kinds import Kind

SQL_TYPES = {"text": "TEXT", "int": "INTEGER", "bytes": "BLOB"}


def columns(kind: Kind) -> list[str]:
    """The names of key and fields, quoted."""
    return [f'"{column.name}"' for column in kind.columns()]


def conditions(filters: Sequence[Filter]) -> tuple[list[str], list[Scalar]]:
    """Filters as conditions with their parameters; only IS compares None as a value, only = uses an index well."""
    return [f'"{one.field}" {_operator(one)} ?' for one in filters], [one.value for one in filters]


def _operator(one: Filter) -> str:
    if one.compare == "=":
        return "IS" if one.value is None else "="
    return "IS NOT" if one.compare == "!=" else one.compare


def where(query: Query) -> tuple[list[str], list[Scalar]]:
    """Prefix, range, filters and continuation of a query as conditions with their parameters."""
    names = columns(query.kind)
    parts = [f"{name} = ?" for name in names[: len(query.prefix)]]
    values: list[Scalar] = list(query.prefix)
    bounded = names[len(query.prefix)] if len(query.prefix) < len(query.kind.key) else ""
    for bound, compare in ((query.low, ">="), (query.high, "<=")):
        if bound is not None:
            parts.append(f"{bounded} {compare} ?")
            values.append(bound)
    filtered, filter_values = conditions(query.where)
    parts += filtered
    values += filter_values
    if query.after is not None:
        marks = ", ".join("?" * len(query.after))
        parts.append(f"({', '.join(order_columns(query))}) {'<' if query.reverse else '>'} ({marks})")
        values += query.after
    return parts, values


def _fixes(query: Query, index: tuple[str, ...]) -> bool:
    """Whether filters, with the prefix, leave one value for each field of an index."""
    filtered = {one.field for one in query.where if one.compare == "=" and one.value is not None}
    prefixed = {part.name for part in query.kind.key[: len(query.prefix)]}
    return not filtered.isdisjoint(index) and filtered | prefixed >= set(index)


def order_columns(query: Query) -> list[str]:
    """What a query sorts by."""
    keys = [f'"{part.name}"' for part in query.kind.key]
    return keys if query.order is None else [f'"{query.order}"', *keys]


def order_by(query: Query) -> str:
    """The ORDER BY and LIMIT of a query; nothing where at most one row can match."""
    if query.kind.unique and _fixes(query, query.kind.unique):
        return ""
    direction = " DESC" if query.reverse else ""
    ordered = ", ".join(name + direction for name in order_columns(query))
    limit = "" if query.limit is None else f" LIMIT {int(query.limit)}"
    return f" ORDER BY {ordered}{limit}"


def chosen_index(query: Query) -> tuple[str, ...] | None:
    """The index that answers the filters best; a planner without statistics would rather walk the key."""
    return max((index for index in query.kind.indexes if _fixes(query, index)), key=len, default=None)
