"""Tables of numbered rows: a log for each owner, whose rows are found by their fields, too.

A row goes to the end of its owner's, where a page that is full stays as it is and the next one begins; by a key of
texts each full page is shared out among its neighbours, which are then written as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.backends import _sql
from holdfast.backends._sqlite_logs import LAST, POSITIONS, LogTable, bounds, within
from holdfast.backends._sqlite_rows import Finder, Runs, finder_of
from holdfast.contracts import Key, Query, Record
from holdfast.filters import Scalar
from holdfast.kinds import Kind


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
        for index in self.kind.indexes:
            name = index[-1]
            shared, only = ("family, ", "") if name in self.kind.orders else ("", f' WHERE "{name}" IS NOT NULL')
            yield f'CREATE INDEX {self.kind.name}_by_{name} ON {self.kind.name} ({shared}"{name}"){only}'

    def _named(self, name: Key) -> tuple[Scalar, Scalar]:
        return name[0], 0

    def _family(self, _con: Runs, _owner: Scalar, _log: int) -> int:
        return self._space

    def select(self, con: Runs, query: Query) -> Iterator[Record]:
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

    def _finder(self, known: int, bodies_only: bool) -> Finder:
        """What reads rows of all owners, or with one known part of the key those of one."""
        found = self._finders.get((known, bodies_only))
        if found is None:
            found = finder_of(self.kind, known, bodies_only, self._from[known])
            self._finders[known, bodies_only] = found
        return found
