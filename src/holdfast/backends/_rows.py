"""Records of one kind in memory: by key, by what is unique or indexed, and by what queries order by."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias

from holdfast.contracts import Key, Query, Record
from holdfast.filters import Scalar, matches
from holdfast.kinds import Kind

Values: TypeAlias = tuple[Scalar, ...]
Place: TypeAlias = tuple[Any, ...]  # an order value made comparable, then the key


def picker(kind: Kind, names: tuple[str, ...]) -> Callable[[Record], Values]:
    """What takes these values out of a record."""
    columns = [column.name for column in kind.columns()]
    places = [columns.index(name) for name in names]

    def pick(record: Record) -> Values:
        row = record.key + record.fields
        return tuple([row[at] for at in places])

    return pick


def passing(query: Query) -> Callable[[Record], bool]:
    """The test that a query's filters make."""
    columns = [column.name for column in query.kind.columns()]
    exact = [(columns.index(one.field), one.value) for one in query.where if one.compare == "="]
    other = tuple(one for one in query.where if one.compare != "=")

    def passes(record: Record) -> bool:
        row = record.key + record.fields
        return all(row[at] == value for at, value in exact) and (not other or matches(record.values(), other))

    return passes


def place_of(values: Values) -> Place:
    """An order value and a key as they sort: what a damaged record lacks comes first."""
    return (values[0] is not None, *values)


def ordered(found: Iterable[Record], query: Query) -> Iterator[Record]:
    """Records by the query's order field, then by key, behind `after`."""
    assert query.order is not None
    places = {place_of((record.values()[query.order], *record.key)): record for record in found}
    return (places[place] for place in _behind(sorted(places), query))


def _behind(places: list[Place], query: Query) -> Iterator[Place]:
    """Sorted places in the query's direction, from where it continues."""
    low, high = 0, len(places)
    if query.after is not None and query.reverse:
        high = bisect_left(places, place_of(query.after))
    elif query.after is not None:
        low = bisect_right(places, place_of(query.after))
    return (places[at] for at in _walk(low, high, query.reverse))


def _walk(low: int, high: int, reverse: bool) -> range:
    return range(high - 1, low - 1, -1) if reverse else range(low, high)


def keys_in(keys: list[Key], query: Query) -> Iterator[Key]:
    """The keys a query may find, out of sorted ones, in its direction."""
    prefix, depth = query.prefix, len(query.prefix)
    low = bisect_left(keys, prefix if query.low is None else (*prefix, query.low))
    if query.high is None:
        high = bisect_right(keys, prefix, key=lambda key: key[:depth])
    else:
        high = bisect_right(keys, (*prefix, query.high), key=lambda key: key[: depth + 1])
    if query.after is not None and query.order is None:
        if query.reverse:
            high = min(high, bisect_left(keys, query.after))
        else:
            low = max(low, bisect_right(keys, query.after))
    return (keys[at] for at in _walk(low, high, query.reverse))


class _Index:
    """The keys of records by some of their values."""

    def __init__(self, kind: Kind, names: tuple[str, ...]) -> None:
        self.names = names
        self.keys: dict[Values, set[Key]] = {}
        self._values_of = picker(kind, names)

    def add(self, record: Record) -> None:
        self.keys.setdefault(self._values_of(record), set()).add(record.key)

    def discard(self, record: Record) -> None:
        values = self._values_of(record)
        keys = self.keys[values]
        keys.discard(record.key)
        if not keys:
            del self.keys[values]


class Rows:
    """Records that can be found by key and by query."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._rows: dict[Key, Record] = {}
        self._keys: list[Key] = []
        self._unique: dict[Values, Key] = {}
        self._unique_of = picker(kind, kind.unique)
        self._indexes = [_Index(kind, names) for names in kind.indexes]
        self._orders: dict[str, list[Place]] = {}

    def get(self, key: Key) -> Record | None:
        """The record with this key, or None."""
        return self._rows.get(key)

    def holder(self, record: Record) -> Record | None:
        """The record that holds this one's unique values."""
        key = self._unique.get(self._unique_of(record))
        return None if key is None else self._rows[key]

    def keep(self, key: Key, record: Record | None) -> None:
        """Have this record there, or nothing."""
        before = self._rows.pop(key, None)
        if before is not None:
            self._unlist(before)
            if record is None:
                del self._keys[bisect_left(self._keys, key)]
        elif record is not None:
            insort(self._keys, key)
        if record is not None:
            self._rows[key] = record
            self._list(record)

    def mend(self, befores: Iterable[tuple[Key, Record | None]]) -> None:
        """Have these there again, whatever else of them was being changed when an interrupt came."""
        for key, record in befores:
            if record is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = record
        whole, rows = Rows(self.kind), self._rows.values()
        for record in rows:
            whole.keep(record.key, record)
        self._keys, self._unique, self._indexes = whole._keys, whole._unique, whole._indexes
        self._orders = {}

    def _list(self, record: Record) -> None:
        unique = self._unique_of(record)
        if unique and None not in unique:
            self._unique[unique] = record.key
        for index in self._indexes:
            index.add(record)
        for order, places in self._orders.items():
            insort(places, _place(record, order))

    def _unlist(self, record: Record) -> None:
        unique = self._unique_of(record)
        if self._unique.get(unique) == record.key:
            del self._unique[unique]
        for index in self._indexes:
            index.discard(record)
        for order, places in self._orders.items():
            del places[bisect_left(places, _place(record, order))]

    def match(self, query: Query) -> Iterator[Record]:
        """All that match, in order."""
        chosen = self._by_index(query)
        found: Iterable[Record]
        whole = not query.prefix and query.low is None and query.high is None
        if query.order is not None and chosen is None and whole:
            found = (self._rows[place[2:]] for place in _behind(self._by_order(query.order), query))
        else:
            found = (self._rows[key] for key in keys_in(self._keys if chosen is None else chosen, query))
            if query.order is not None:
                found = ordered(found, query)
        return islice(filter(passing(query), found) if query.where else found, query.limit)

    def _by_index(self, query: Query) -> list[Key] | None:
        """The keys that an index leaves, sorted; None where no index says anything about the query."""
        named = {one.field: one.value for one in query.where if one.compare == "="}
        if not named:
            return None
        named |= {part.name: value for part, value in zip(self.kind.key, query.prefix, strict=False)}
        unique = tuple(named.get(name) for name in self.kind.unique)
        if unique and None not in unique:
            key = self._unique.get(unique)
            return [] if key is None else [key]
        for index in self._indexes:
            if not set(index.names) - named.keys():
                return sorted(index.keys.get(tuple(named[name] for name in index.names), ()))
        return None

    def _by_order(self, order: str) -> list[Place]:
        if order not in self._orders:
            self._orders[order] = sorted(_place(record, order) for record in self._rows.values())
        return self._orders[order]


def _place(record: Record, order: str) -> Place:
    return place_of((record.values()[order], *record.key))
