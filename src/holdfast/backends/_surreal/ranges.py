"""Ranges of record ids, as text with bound variables."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.backends._surreal.schema import Parts, column
from holdfast.contracts import Key, Query


class Range(Struct, frozen=True, kw_only=True):
    """The rows of a table whose ids, arrays of `depth` parts, lie between two arrays that may be shorter."""

    table: str
    depth: int
    low: Parts
    high: Parts
    above: bool = False  # without the row at `low`
    below: bool = False  # without the row at `high`

    def empty(self) -> bool:
        """Whether nothing can lie there; the engine does not take such a range."""
        shared = min(len(self.low), len(self.high))
        low, high = self.low[:shared], self.high[:shared]
        whole = len(self.low) == len(self.high) == self.depth
        return low > high or (whole and low == high and (self.above or self.below))

    def text(self) -> str:
        """The range as a statement names it."""
        # An array that is shorter than the ids sorts behind them, so both ends are filled up.
        low = self._end("low", len(self.low), "NONE")
        high = self._end("high", len(self.high), "..")
        return f"{self.table}:{low}{'>' if self.above else ''}..{'' if self.below else '='}{high}"

    def _end(self, name: str, count: int, filler: str) -> str:
        parts = [f"${name}{at}" for at in range(count)]
        return f"[{', '.join(parts if count == self.depth else [*parts, filler])}]"

    def variables(self) -> dict[str, Any]:
        """What the text leaves open."""
        ends = (("low", self.low), ("high", self.high))
        return {f"{name}{at}": part for name, parts in ends for at, part in enumerate(parts)}


def whole(table: str, lead: Parts, depth: int) -> Range:
    """Everything that begins so."""
    return Range(table=table, depth=depth, low=lead, high=lead)


def of_keys(table: str, lead: Parts, query: Query) -> Range:
    """The part of a table in which the ids go on with the keys that a query is about."""
    low = query.prefix if query.low is None else (*query.prefix, query.low)
    high = query.prefix if query.high is None else (*query.prefix, query.high)
    return _bounded(table, lead, low, high, query, len(query.kind.key))


def of_order(table: str, lead: Parts, query: Query) -> Range:
    """The part of a table in which the ids go on with the field that a query orders by, and then the key."""
    return _bounded(table, lead, (), (), query, 1 + len(query.kind.key))


def _bounded(table: str, lead: Parts, low: Parts, high: Parts, query: Query, rest: int) -> Range:
    after, above, below = query.after, False, False
    if after is not None and not query.reverse and _beyond(after, low):
        low, above = after, True
    elif after is not None and query.reverse and _beyond(high, after):
        high, below = after, True
    ends = {"low": (*lead, *low), "high": (*lead, *high)}
    return Range(table=table, depth=len(lead) + rest, above=above, below=below, **ends)


def _beyond(one: Parts, other: Parts) -> bool:
    """Whether one end is not before the other, as far as both go."""
    shared = min(len(one), len(other))
    return one[:shared] >= other[:shared]


def conditions(query: Query) -> tuple[str, dict[str, Any]]:
    """The filters of a query as text, empty if there are none, and what that leaves open."""
    found, variables = [], {}
    for at, one in enumerate(query.where):
        name = column(one.field)
        if one.value is None:
            found.append(f"{name} {one.compare} NONE")
            continue
        variables[f"is{at}"] = one.value
        # Without a value a field would be less than any other.
        guard = f"{name} != NONE AND " if one.compare in (">=", "<") else ""
        found.append(f"{guard}{name} {one.compare} $is{at}")
    return f" WHERE {' AND '.join(found)}" if found else "", variables


def key_fits(key: Key, query: Query) -> bool:
    """Whether a key lies where a query looks."""
    depth = len(query.prefix)
    if key[:depth] != query.prefix:
        return False
    low, high = query.low, query.high
    return (low is None or key[depth] >= low) and (high is None or key[depth] <= high)  # type: ignore[operator]
