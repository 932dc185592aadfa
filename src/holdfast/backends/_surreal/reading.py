"""Reading: records by key, and scans along the keys or along an index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from surrealdb import RecordID

from holdfast.backends._paging import in_pages, order_of
from holdfast.backends._surreal import ranges
from holdfast.backends._surreal.engine import Engine
from holdfast.backends._surreal.ranges import Range
from holdfast.backends._surreal.schema import Index, Parts, indexes_of, record_of, selection, unique_of
from holdfast.contracts import Key, Query, Record
from holdfast.filters import Scalar, matches
from holdfast.kinds import Kind

BATCH = 500  # records that one statement reads by their ids


class Way(Struct, frozen=True):
    """How a query is answered: along the keys, or by following the pointers of an index."""

    index: Index | None
    fixed: tuple[Scalar, ...] = ()


class SurrealReader:
    """Reads without a lock: each statement sees one instant. Inside a commit it is handed to `rebase`."""

    def __init__(self, engine: Engine, namespace: str) -> None:
        self._engine = engine
        self._namespace = namespace

    def place(self, table: str, key: Parts) -> RecordID:
        """The record id of a row of this namespace."""
        return RecordID(table, [self._namespace, *key])

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        found: dict[Key, Record] = {}
        for start in range(0, len(keys), BATCH):
            some = [self.place(kind.name, key) for key in keys[start : start + BATCH]]
            for record in self._read(kind, f"SELECT VALUE {selection(kind)} FROM $ids", {"ids": some}):
                found[record.key] = record
        return [found.get(key) for key in keys]

    def holders(self, kind: Kind, places: Sequence[Parts]) -> list[Record]:
        """The records that hold these unique values."""
        index, found = unique_of(kind), list[Record]()
        text = f"SELECT VALUE {selection(kind)} FROM (SELECT VALUE row FROM $ids)"
        for start in range(0, len(places), BATCH):
            some = [self.place(index.table, place) for place in places[start : start + BATCH]] if index else []
            found += self._read(kind, text, {"ids": some})
        return found

    def scan(self, query: Query) -> Iterator[Record]:
        return in_pages(query, self.page)

    def page(self, query: Query) -> list[Record]:
        """The first records that match, as many as the limit says."""
        assert query.limit is not None
        way, found = _way(query), list[Record]()
        if way.index is None:
            return self._along_keys(query)
        limit = size = query.limit
        while len(found) < limit:
            batch = self._along_index(way, query, size)
            found += [record for record in batch if _fits(record, query)]
            if len(batch) < size:
                break
            query = replace(query, after=order_of(batch[-1], query))
            size = BATCH
        return found[:limit]

    def _along_keys(self, query: Query) -> list[Record]:
        span = ranges.of_keys(query.kind.name, (self._namespace,), query)
        where, values = ranges.conditions(query)
        if not where:
            return self._walk(query.kind, span, "", query.reverse, query.limit or 0)
        variables = {**span.variables(), **values, "limit": query.limit}
        source = f"{span.text()}{where}"
        if query.reverse:
            source = f"(SELECT VALUE id FROM {source} ORDER BY id DESC LIMIT $limit)"
        text = f"SELECT VALUE {selection(query.kind)} FROM {source} LIMIT $limit"
        return [] if span.empty() or not query.limit else self._read(query.kind, text, variables)

    def _along_index(self, way: Way, query: Query, size: int) -> list[Record]:
        assert way.index is not None
        lead = (self._namespace, *way.fixed)
        if way.index.unique:
            span = ranges.whole(way.index.table, lead, len(lead))
        elif query.order is None:
            span = ranges.of_keys(way.index.table, lead, query)
        else:
            span = ranges.of_order(way.index.table, lead, query)
        return self._walk(query.kind, span, "row", query.reverse, size)

    def _walk(self, kind: Kind, span: Range, pointer: str, reverse: bool, size: int) -> list[Record]:
        """So many records from one end of a range, themselves or by their pointers."""
        if span.empty() or not size:
            return []
        variables = {**span.variables(), "limit": size}
        part = f"{span.text()}{' START $start' if reverse else ''} LIMIT $limit"
        source = f"(SELECT VALUE {pointer} FROM {part})" if pointer else part
        text = f"SELECT VALUE {selection(kind)} FROM {source}"
        if not reverse:
            return self._read(kind, text, variables)
        # No range is read backwards, but counting and skipping touch only ids.
        start = f"math::max([0, ((SELECT count() FROM {span.text()} GROUP ALL)[0].count ?? 0) - $limit])"
        return self._read(kind, f"BEGIN; LET $start = {start}; {text}; COMMIT", variables)[::-1]

    def count(self, query: Query) -> int:
        if _way(query).index is not None:
            return sum(1 for _ in self.scan(query))
        span = ranges.of_keys(query.kind.name, (self._namespace,), query)
        if span.empty():
            return 0
        where, values = ranges.conditions(query)
        text = f"SELECT count() FROM {span.text()}{where} GROUP ALL"
        found = self._engine.rows(text, {**span.variables(), **values})
        return int(found[0]["count"]) if found else 0

    def size(self, kind: Kind) -> int:
        """The bytes of all bodies of a kind."""
        span = ranges.whole(kind.name, (self._namespace,), 1 + len(kind.key))
        text = f"RETURN math::sum((SELECT VALUE bytes::len(body) FROM {span.text()}))"
        return int(self._engine.ask(text, span.variables())[-1])

    def _read(self, kind: Kind, text: str, variables: dict[str, Any]) -> list[Record]:
        return [record_of(kind, row) for row in self._engine.rows(text, variables)]


def _way(query: Query) -> Way:
    """The index that leads most directly to what is asked for, in the order that is asked for."""
    fixed: dict[str, Scalar] = {field.name: part for field, part in zip(query.kind.key, query.prefix, strict=False)}
    fixed |= {one.field: one.value for one in query.where if one.compare == "=" and one.value is not None}
    useful = [index for index in indexes_of(query.kind) if _leads(index, query, fixed)]
    best = max(useful, key=lambda index: (index.unique, len(index.fields)), default=None)
    return Way(best, () if best is None else tuple(fixed[name] for name in _led_by(best, query)))


def _leads(index: Index, query: Query, fixed: dict[str, Scalar]) -> bool:
    """Whether the pointers of an index that stand behind the fixed values are in order."""
    ordered = index.unique or query.order in (None, index.fields[-1])
    return ordered and all(name in fixed for name in _led_by(index, query))


def _led_by(index: Index, query: Query) -> tuple[str, ...]:
    return index.fields if index.unique or query.order is None else index.fields[:-1]


def _fits(record: Record, query: Query) -> bool:
    after = query.after
    if not ranges.key_fits(record.key, query) or not matches(record.values(), query.where):
        return False
    order = order_of(record, query)
    return after is None or (order < after if query.reverse else order > after)
