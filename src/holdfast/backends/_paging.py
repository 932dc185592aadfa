"""A scan as pages, each read in one piece, so that no reader holds a lock for as long as somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from holdfast.contracts import Query, Record
from holdfast.errors import IntegrityError
from holdfast.filters import Scalar

FIRST_PAGE = 40  # who asks without a limit often wants only the first
PAGE = 500


def in_pages(query: Query, read: Callable[[Query], list[Record]]) -> Iterator[Record]:
    """All that match, by reading one page behind the other."""
    if query.limit is not None and query.limit <= PAGE:
        return iter(read(query))
    return _paged(query, read)


def _paged(query: Query, read: Callable[[Query], list[Record]]) -> Iterator[Record]:
    left, size = query.limit, FIRST_PAGE
    ends: set[tuple[Scalar, ...]] = set()
    while True:
        limit = size if left is None else min(PAGE, left)
        page = read(query if limit == query.limit else replace(query, limit=limit))
        yield from page
        left = None if left is None else left - len(page)
        if len(page) < limit or left == 0:
            return
        end = order_of(page[-1], query)
        if end in ends:  # what is out of order leads back, and would for ever
            raise IntegrityError(f"{query.kind.name} are not in their order; the store is damaged, restore a backup")
        ends.add(end)
        query = replace(query, after=end)
        size = PAGE


def order_of(record: Record, query: Query) -> tuple[Scalar, ...]:
    """What a record is ordered by."""
    return record.key if query.order is None else (record.values()[query.order], *record.key)
