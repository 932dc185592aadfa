"""How a query is answered: by a unique value, or by a range of one index, with the rest as filters.

The sorted set of a kind holds, in front of each entry, the number of the index it belongs to. Number 0 is the key
itself; an entry of another is the columns, the key, and the key's length in two bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from holdfast.backends._redis.rows import HIGHEST, LOWEST, behind, encode, encode_key
from holdfast.contracts import Query
from holdfast.filters import Scalar
from holdfast.kinds import Kind

Index = tuple[str, ...]


class Test(Struct, frozen=True):
    """A comparison of one column, by its number from 1, with encoded bytes."""

    column: int
    compare: str
    value: bytes


class Plan(Struct, frozen=True, kw_only=True):
    """Where to look, and what to look for there: a unique value, or what lies from `low` up to `high`."""

    claim: bytes = b""
    low: bytes = b"-"
    high: bytes = b"+"
    reverse: bool = False
    tests: tuple[Test, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing can lie there."""
        return not self.claim and self.high != b"+" and self.low[1:] >= self.high[1:]

    def behind(self, entry: bytes) -> Plan:
        """The same, from the other side of an entry on."""
        return replace(self, high=b"(" + entry) if self.reverse else replace(self, low=b"(" + entry)


@cache
def indexes(kind: Kind) -> tuple[Index, ...]:
    """The indexes of a kind: its own, its orders, and each of its own in each order."""
    ordered = ((*index, order) for index in kind.indexes for order in kind.orders if order not in index)
    return tuple(dict.fromkeys((*kind.indexes, *((order,) for order in kind.orders), *ordered)))


def plan(query: Query) -> Plan:
    """The shortest way to what a query asks for."""
    equal = _equal(query)
    unique = query.kind.unique
    if query.order is None and query.after is None and unique and all(name in equal for name in unique):
        return Plan(claim=b"".join(encode(equal[name]) for name in unique), tests=_tests(query))
    chosen = _choose(query, equal)
    return _by_key(query) if chosen is None else _by_index(query, chosen, equal)


def _equal(query: Query) -> dict[str, Scalar]:
    """The columns that can have one value only."""
    fixed = dict(zip((field.name for field in query.kind.key), query.prefix, strict=False))
    return {**fixed, **{one.field: one.value for one in query.where if one.compare == "=" and one.value is not None}}


def _choose(query: Query, equal: Mapping[str, Scalar]) -> int | None:
    """The number of the index that fixes most and has the right order; None for the key itself."""
    end = () if query.order is None else (query.order,)
    best: tuple[int, int] | None = None
    for number, index in enumerate(indexes(query.kind), 1):
        fixed = index[: len(index) - len(end)]
        if index[len(fixed) :] == end and all(name in equal for name in fixed) and (not best or len(fixed) > best[0]):
            best = (len(fixed), number)
    if best is None or (query.order is None and best[0] <= len(query.prefix)):
        return None
    return best[1]


def _by_key(query: Query) -> Plan:
    prefix = b"\0" + encode_key(query.prefix)
    low = prefix if query.low is None else prefix + encode(query.low)
    high = behind(prefix if query.high is None else prefix + encode(query.high))
    tests = tuple(_test(query.kind, one.field, one.compare, encode(one.value)) for one in query.where)
    after = None if query.after is None else b"\0" + encode_key(query.after)  # type: ignore[arg-type]
    return _bounded(query, low, high, after, tests)


def _by_index(query: Query, number: int, equal: Mapping[str, Scalar]) -> Plan:
    index = indexes(query.kind)[number - 1]
    fixed = index if query.order is None else index[:-1]
    prefix = bytes([number]) + b"".join(encode(equal[name]) for name in fixed)
    low, high = prefix, behind(prefix)
    for one in query.where:
        if one.field == query.order and one.compare == ">=":
            low = max(low, prefix + encode(one.value))
        elif one.field == query.order and one.compare == "<":
            high = prefix + encode(one.value)
    after = None if query.after is None else prefix + b"".join(map(encode, query.after))
    return _bounded(query, low, high, after, _tests(query))


def _bounded(query: Query, low: bytes, high: bytes | None, after: bytes | None, tests: tuple[Test, ...]) -> Plan:
    if after is not None and query.reverse:
        high = after if high is None else min(high, after)
    elif after is not None:
        low = max(low, behind(after) or after)
    return Plan(low=b"[" + low, high=b"+" if high is None else b"(" + high, reverse=query.reverse, tests=tests)


def _tests(query: Query) -> tuple[Test, ...]:
    """Everything that a query asks for, its prefix and its range included."""
    kind = query.kind
    names = [field.name for field in kind.key]
    tests = [_test(kind, name, "=", encode(part)) for name, part in zip(names, query.prefix, strict=False)]
    if query.low is not None and query.low > LOWEST:
        tests.append(_test(kind, names[len(query.prefix)], ">=", encode(query.low)))
    if query.high is not None and query.high < HIGHEST:
        tests.append(_test(kind, names[len(query.prefix)], "<", encode(query.high + 1)))
    return (*tests, *(_test(kind, one.field, one.compare, encode(one.value)) for one in query.where))


def _test(kind: Kind, name: str, compare: str, value: bytes) -> Test:
    return Test([field.name for field in kind.columns()].index(name) + 1, compare, value)


def arguments(tests: Sequence[Test]) -> list[bytes | int | str]:
    """Filters as a script reads them: how many, then each."""
    return [len(tests), *(part for one in tests for part in (one.column, one.compare, one.value))]
