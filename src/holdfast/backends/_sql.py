"""SQL text made of kinds: names come from kinds.py, values are always parameters.

Where engines differ, a dialect says how; the functions are the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.contracts import Query
from holdfast.filters import Filter, Scalar
from holdfast.kinds import Kind, Type


class Dialect(Struct, frozen=True, kw_only=True):
    """How one engine spells what they all can do."""

    types: dict[Type, str]
    mark: str  # a parameter
    differs: str  # whether a column {0} and a parameter {1} differ, None being a value
    quote: str = '"'
    now: str = ""  # the server's clock in microseconds
    locking: str = " FOR UPDATE"
    ranges_of_rows: bool = True  # whether an index is used to compare (a, b) with (x, y)


SQLITE = Dialect(types={"text": "TEXT", "int": "INTEGER", "bytes": "BLOB"}, mark="?", differs="{0} IS NOT {1}")
POSTGRES = Dialect(
    types={"text": 'text COLLATE "C"', "int": "bigint", "bytes": "bytea"},
    mark="%s",
    differs="{0} IS DISTINCT FROM {1}",
    now="(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    locking=" FOR UPDATE OF t",
)
# Bytes compare by code point, and a space at the end counts. Two texts of 255 characters fit into a key of 3072 bytes.
MYSQL = Dialect(
    types={"text": "VARBINARY(1400)", "int": "BIGINT", "bytes": "VARBINARY(1400)"},
    mark="%s",
    differs="NOT ({0} <=> {1})",
    quote="`",
    now="CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)",
    ranges_of_rows=False,
)


def quoted(name: str, dialect: Dialect = SQLITE) -> str:
    """A name that may be a word of the language."""
    return f"{dialect.quote}{name}{dialect.quote}"


def columns(kind: Kind, dialect: Dialect = SQLITE) -> list[str]:
    """The names of key and fields, quoted."""
    return [quoted(column.name, dialect) for column in kind.columns()]


def selected(kind: Kind, dialect: Dialect = SQLITE, *, bodies_only: bool = False) -> list[str]:
    """The names of the columns that make a record."""
    made_of = kind.key if bodies_only else kind.columns()
    return [*(quoted(column.name, dialect) for column in made_of), "digest", "body"]


def conditions(filters: Sequence[Filter], dialect: Dialect = SQLITE) -> tuple[list[str], list[Scalar]]:
    """Filters as conditions with their parameters; None is compared as a value."""
    parts: list[str] = []
    values: list[Scalar] = []
    for one in filters:
        name = quoted(one.field, dialect)
        if one.value is None and one.compare in ("=", "!="):
            parts.append(f"{name} IS NULL" if one.compare == "=" else f"{name} IS NOT NULL")
            continue
        compares = dialect.differs if one.compare == "!=" else f"{{0}} {one.compare} {{1}}"
        parts.append(compares.format(name, dialect.mark))
        values.append(one.value)
    return parts, values


def where(query: Query, dialect: Dialect = SQLITE) -> tuple[list[str], list[Scalar]]:
    """Prefix, range, filters and continuation of a query as conditions with their parameters."""
    names, mark = columns(query.kind, dialect), dialect.mark
    parts = [f"{name} = {mark}" for name in names[: len(query.prefix)]]
    values: list[Scalar] = list(query.prefix)
    bounded = names[len(query.prefix)] if len(query.prefix) < len(query.kind.key) else ""
    for bound, compare in ((query.low, ">="), (query.high, "<=")):
        if bound is not None:
            parts.append(f"{bounded} {compare} {mark}")
            values.append(bound)
    filtered, filter_values = conditions(query.where, dialect)
    parts += filtered
    values += filter_values
    if query.after is not None:
        behind, behind_values = _behind(query, query.after, dialect)
        parts.append(behind)
        values += behind_values
    return parts, values


def _behind(query: Query, after: tuple[Scalar, ...], dialect: Dialect) -> tuple[str, list[Scalar]]:
    """What comes behind these order values."""
    ordered, compare = order_columns(query, dialect), "<" if query.reverse else ">"
    if dialect.ranges_of_rows:
        marks = ", ".join([dialect.mark] * len(after))
        return f"({', '.join(ordered)}) {compare} ({marks})", list(after)
    fixed = min(len(query.prefix), len(ordered) - 1) if query.order is None else 0
    ordered, after = ordered[fixed:], after[fixed:]
    text, values = f"{ordered[-1]} {compare} {dialect.mark}", [after[-1]]
    for name, value in zip(reversed(ordered[:-1]), reversed(after[:-1]), strict=True):
        text = f"{name} {compare} {dialect.mark} OR ({name} = {dialect.mark} AND ({text}))"
        values = [value, value, *values]
    return f"({text})", values


def _fixes(query: Query, index: tuple[str, ...]) -> bool:
    """Whether filters, with the prefix, leave one value for each field of an index."""
    filtered = {one.field for one in query.where if one.compare == "=" and one.value is not None}
    prefixed = {part.name for part in query.kind.key[: len(query.prefix)]}
    return not filtered.isdisjoint(index) and filtered | prefixed >= set(index)


def only_known(kind: Kind, index: tuple[str, ...], dialect: Dialect = SQLITE) -> str:
    """The condition of an index: rows without its last field are no part of it, since whoever uses it asks for a value.

    So no planner can take it for a way to all rows, either.
    """
    sorts = {part.name for part in kind.key} | {*kind.orders}
    return "" if index[-1] in sorts else f" WHERE {quoted(index[-1], dialect)} IS NOT NULL"


def order_columns(query: Query, dialect: Dialect = SQLITE) -> list[str]:
    """What a query sorts by."""
    keys = [quoted(part.name, dialect) for part in query.kind.key]
    return keys if query.order is None else [quoted(query.order, dialect), *keys]


def order_by(query: Query, dialect: Dialect = SQLITE) -> str:
    """The ORDER BY and LIMIT of a query; nothing where at most one row can match."""
    if query.limit != 0 and query.kind.unique and _fixes(query, query.kind.unique):
        return ""
    direction = " DESC" if query.reverse else ""
    ordered = ", ".join(name + direction for name in order_columns(query, dialect))
    limit = "" if query.limit is None else f" LIMIT {int(query.limit)}"
    return f" ORDER BY {ordered}{limit}"


def chosen_index(query: Query) -> tuple[str, ...] | None:
    """The index that answers the filters best; a planner without statistics would rather walk the key."""
    return max((index for index in query.kind.indexes if _fixes(query, index)), key=len, default=None)
