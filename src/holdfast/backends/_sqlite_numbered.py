"""Tables of numbered rows: a log for each owner, whose rows are found by their fields, too.

A row goes to the end of its owner's, where a page that is full stays as it is and the next one begins; by a key of
texts each full page is shared out among its neighbours, which are then written as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from msgspec.structs import replace

from holdfast.backends import _sql
from holdfast.backends._sqlite_logs import LAST, POSITIONS, LogTable, bounds, within
from holdfast.backends._sqlite_rows import Finder, Runs, finder_of
from holdfast.contracts import Key, Query, Record
from holdfast.filters import Scalar
from holdfast.kinds import Kind

_MORE = 50  # rows of an owner who has had a turn
_GREATEST = (1 << 63) - 1
_NO_NUMBER = -1  # what is read of one that damage has made something else


class NumberedTable(LogTable):
    """Rows by owner and number, for kinds whose key is that and whose ids are unique in the namespace."""

    _lost = "SELECT log FROM logs WHERE kind = ? AND (family IS NOT space OR branch <> 0)"

    def __init__(self, kind: Kind, space: int) -> None:
        super().__init__(kind, space)
        owner, number = (part.name for part in kind.key)
        numbered = f'place & {LAST} AS "{number}", {kind.name}.*'
        self._from = (
            f'(SELECT owner AS "{owner}", {numbered} FROM {kind.name} CROSS JOIN logs ON log = place >> {POSITIONS})',
            f"(SELECT {numbered} FROM {kind.name})",
        )
        self._finders: dict[tuple[int, bool], Finder] = {}

    def create(self) -> Iterator[str]:
        yield from super().create()
        for name in (index[-1] for index in self.kind.indexes):
            if name not in self.kind.orders:  # in which each owner's rows are already
                only = f'"{name}" IS NOT NULL'
                yield f'CREATE INDEX {self.kind.name}_by_{name} ON {self.kind.name} ("{name}") WHERE {only}'

    def _named(self, name: Key) -> tuple[Scalar, Scalar]:
        return name[0], 0

    def _family(self, _con: Runs, _owner: Scalar, _log: int) -> int:
        return self._space

    def select(self, con: Runs, query: Query) -> Iterator[Record]:
        if query.order is not None and not query.where and not query.prefix:
            return self._select_in_turns(con, query, query.order)
        if query.order is not None or (query.where and not query.prefix):
            return self._select_all(con, query)
        return super().select(con, query)

    def _select_log(self, con: Runs, query: Query) -> Iterator[Record]:
        finder = self._finder(1, query.bodies_only)
        clause, values = within(query)
        statement = f"{finder.select} WHERE place BETWEEN ? AND ?{clause}"
        low, high = bounds(query)

        def read(start: int) -> list[Record]:
            return finder.fetch(con, statement, (start | low, start | high, *values), query.prefix)

        return iter(self._at(con, query.prefix, read))

    def _select_all(self, con: Runs, query: Query) -> Iterator[Record]:
        """Rows of all owners, by a field."""
        finder = self._finder(0, query.bodies_only)
        parts, values = _sql.where(query)
        statement = f"{finder.select} WHERE {' AND '.join(['family = ?', *parts])}{_sql.order_by(query)}"
        return iter(finder.fetch(con, statement, (self._space, *values), ()))

    def _select_in_turns(self, con: Runs, query: Query, order: str) -> Iterator[Record]:
        """Rows of all owners by a field by which each owner's are in order already: what comes next of each, merged.

        A row that is out of order all the same, by damage or by an older version, goes with the one before it. That is
        an order, too, so that a list which goes on behind any row finds the rest, and nothing twice.
        """
        column = [field.name for field in self.kind.fields].index(order)
        last, of = (query.after[0], query.after[1]) if query.after is not None else (None, None)

        def rank(record: Record) -> tuple[Scalar, ...]:
            return (record.fields[column], *record.key)

        turns = [
            _in_order(self._walk(con, query, record), column, query.reverse, last if record.key[0] == of else None)
            for record in self._next_of_each(con, query, order)
        ]
        return islice(merge(*turns, key=rank, reverse=query.reverse), query.limit)

    def _next_of_each(self, con: Runs, query: Query, order: str) -> list[Record]:
        """The next row of each owner whose turn comes first, with its place instead of its number."""
        table, (owner, number) = self.kind.name, (part.name for part in self.kind.key)
        compare, direction, least = ("<", " DESC", _GREATEST) if query.reverse else (">", "", -_GREATEST)
        # What no number can be read of comes first of its owner, or with the one before it.
        at = f'iif(typeof("{order}") = \'integer\' AND "{order}" <> {_NO_NUMBER}, "{order}", {least})'
        behind = ""
        values: tuple[Scalar, ...] = ()
        if query.after is not None:
            last, of, reached = query.after
            behind = f" AND CASE owner WHEN ? THEN place & {LAST} {compare} ? ELSE ({at}, owner) {compare} (?, ?) END"
            values = of, reached, last, of
        low, high = f"log << {POSITIONS}", f"(log << {POSITIONS} | {LAST})"
        own = f"SELECT place FROM {table} WHERE place BETWEEN {low} AND {high}{behind} ORDER BY place{direction}"
        each = f"SELECT owner AS of, ({own} LIMIT 1) AS following FROM logs WHERE space = ? AND kind = ?"
        joined = f"({each}) CROSS JOIN {table} ON place = following"
        finder = finder_of(
            self.kind, 0, False, f'(SELECT of AS "{owner}", place AS "{number}", {table}.* FROM {joined})'
        )
        statement = f'{finder.select} ORDER BY {at}{direction}, "{owner}"{direction} LIMIT ?'
        limit = -1 if query.limit is None else query.limit
        return finder.fetch(con, statement, (*values, self._space, table, limit), ())

    def _walk(self, con: Runs, query: Query, record: Record) -> Iterator[Record]:
        """A row and those of its owner behind it, many at a time: most owners have one turn and need none of them."""
        owner, place = record.key[0], int(record.key[1])
        first, last, position = place & ~LAST, place | LAST, place & LAST
        yield replace(record, key=(owner, position))
        finder, direction = self._finder(1, False), " DESC" if query.reverse else ""
        statement = f"{finder.select} WHERE place BETWEEN ? AND ? ORDER BY place{direction} LIMIT {_MORE}"
        while position > 1 or not query.reverse:
            low, high = (first, first + position - 1) if query.reverse else (first + position + 1, last)
            rows = finder.fetch(con, statement, (low, high), (owner,))
            yield from rows
            if len(rows) < _MORE:
                return
            position = int(rows[-1].key[1])

    def _finder(self, known: int, bodies_only: bool) -> Finder:
        """What reads rows of all owners, or with one known part of the key those of one."""
        found = self._finders.get((known, bodies_only))
        if found is None:
            found = finder_of(self.kind, known, bodies_only, self._from[known])
            self._finders[known, bodies_only] = found
        return found


def _in_order(rows: Iterator[Record], column: int, reverse: bool, last: Scalar) -> Iterator[Record]:
    """An owner's rows, each with its place in the order; the last one before them had this, if there was one."""
    for row in rows:
        value = row.fields[column]
        if not isinstance(value, int) or value == _NO_NUMBER:
            value = last if isinstance(last, int) else _GREATEST if reverse else -_GREATEST
        elif isinstance(last, int) and (value > last if reverse else value < last):
            value = last
        last = value
        if value != row.fields[column]:
            row = replace(row, fields=(*row.fields[:column], value, *row.fields[column + 1 :]))
        yield row
