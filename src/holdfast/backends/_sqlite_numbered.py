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
from holdfast.backends._sqlite_rows import Finder, Runs, checked, finder_of
from holdfast.contracts import Key, Query, Record
from holdfast.filters import Scalar
from holdfast.kinds import Kind

_MORE = 50  # rows of an owner who has had a turn


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
        """Rows of all owners by a field by which each owner's are in order already: what comes next of each, merged."""
        column = [field.name for field in self.kind.fields].index(order)

        def rank(record: Record) -> tuple[Scalar, ...]:
            return (record.fields[column], *record.key)

        turns = [self._walk(con, query, record) for record in self._next_of_each(con, query, order)]
        merged = merge(*(_in_order(rows, column, query.reverse) for rows in turns), key=rank, reverse=query.reverse)
        return islice(merged, query.limit)

    def _next_of_each(self, con: Runs, query: Query, order: str) -> list[Record]:
        """The next row of each owner whose turn comes first; one in which damage has left no number has none."""
        table, (owner, number) = self.kind.name, (part.name for part in self.kind.key)
        compare, direction = ("<", " DESC") if query.reverse else (">", "")
        behind = ""
        values: tuple[Scalar, ...] = ()
        if query.after is not None:
            at, last, reached = query.after
            behind = (
                f' AND CASE owner WHEN ? THEN place & {LAST} {compare} ? ELSE ("{order}", owner) {compare} (?, ?) END'
            )
            values = last, reached, at, last
        own = (
            f"SELECT place FROM {table} WHERE place BETWEEN log << {POSITIONS} AND (log << {POSITIONS} | {LAST})"
            f" AND typeof(\"{order}\") = 'integer'{behind} ORDER BY place{direction} LIMIT 1"
        )
        each = f"SELECT owner AS of, ({own}) AS following FROM logs WHERE space = ? AND kind = ?"
        joined = f"({each}) CROSS JOIN {table} ON place = following"
        rows = f'(SELECT of AS "{owner}", place & {LAST} AS "{number}", {table}.* FROM {joined})'
        finder = finder_of(self.kind, 0, False, rows)
        statement = f'{finder.select} ORDER BY "{order}"{direction}, "{owner}"{direction} LIMIT ?'
        limit = -1 if query.limit is None else query.limit
        return finder.fetch(con, statement, (*values, self._space, table, limit), ())

    def _walk(self, con: Runs, query: Query, record: Record) -> Iterator[Record]:
        """A row and those of its owner behind it, many at a time: most owners have one turn and need none of them."""
        own = Query(kind=self.kind, prefix=record.key[:-1], reverse=query.reverse, limit=_MORE)
        yield record
        while record.key[-1] != 1 or not query.reverse:
            with checked():
                rows = [*self._select_log(con, replace(own, after=record.key))]
            yield from rows
            if len(rows) < _MORE:
                return
            record = rows[-1]

    def _finder(self, known: int, bodies_only: bool) -> Finder:
        """What reads rows of all owners, or with one known part of the key those of one."""
        found = self._finders.get((known, bodies_only))
        if found is None:
            found = finder_of(self.kind, known, bodies_only, self._from[known])
            self._finders[known, bodies_only] = found
        return found


def _in_order(rows: Iterator[Record], column: int, reverse: bool) -> Iterator[Record]:
    """Rows that are in order by a field; one that damage has put out of order goes with the one before it.

    A list that goes on behind any of them then finds the rest, and nothing twice.
    """
    last: Scalar = None
    for row in rows:
        value = row.fields[column]
        if last is None or _goes_on(last, value, reverse):
            last = value
            yield row
        else:
            yield replace(row, fields=(*row.fields[:column], last, *row.fields[column + 1 :]))


def _goes_on(last: Scalar, value: Scalar, reverse: bool) -> bool:
    """Whether a value comes behind the last; -1 is what is read of one that damage has made no number."""
    assert isinstance(last, int)
    return isinstance(value, int) and value != -1 and (value <= last if reverse else value >= last)
