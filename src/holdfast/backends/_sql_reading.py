"""Records read from the tables of a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from holdfast.backends._paging import in_pages
from holdfast.backends._sql import Dialect, order_by, selected, where
from holdfast.contracts import Key, Query, Record
from holdfast.kinds import KINDS, Kind

Values: TypeAlias = list[Any]
Rows: TypeAlias = list[tuple[Any, ...]]
Statement: TypeAlias = tuple[str, Values]


class Tables(ABC):
    """The statements that read one namespace."""

    def __init__(self, dialect: Dialect, space: int, table: Callable[[str], str]) -> None:
        self.dialect = dialect
        self.space = space
        self.selects, self._lean_selects = (
            {
                kind.name: f"SELECT {', '.join(f't.{name}' for name in selected(kind, dialect, bodies_only=lean))}"
                f" FROM {table(kind.name)} t"
                for kind in KINDS
            }
            for lean in (False, True)
        )
        self._from = {kind.name: f"FROM {table(kind.name)}" for kind in KINDS}

    @abstractmethod
    def getting(self, kind: Kind, keys: Sequence[Key]) -> Statement:
        """The records with these keys, in any order, but locked in one."""

    def selecting(self, query: Query) -> Statement:
        """The records that match, in order."""
        clause, values = self._where(query)
        selects = self._lean_selects if query.bodies_only else self.selects
        return f"{selects[query.kind.name]}{clause}{order_by(query, self.dialect)}", values

    def counting(self, query: Query) -> Statement:
        """How many match."""
        clause, values = self._where(query)
        return f"SELECT count(*) {self._from[query.kind.name]}{clause}", values

    def measuring(self) -> Statement:
        """The bytes of all bodies."""
        sizes = " UNION ALL ".join(
            f"SELECT length(body) n {of} WHERE space = {self.space}" for of in self._from.values()
        )
        return f"SELECT coalesce(sum(n), 0) FROM ({sizes}) bodies", []

    def _where(self, query: Query) -> Statement:
        parts, values = where(query, self.dialect)
        return f" WHERE {' AND '.join([f'space = {self.space}', *parts])}", [*values]


class SqlReader(ABC):
    """Reads on one connection; what it gets it locks, where it is handed to `rebase`."""

    def __init__(self, tables: Tables, *, locking: bool) -> None:
        self._tables = tables
        self.locking = locking
        self.absent: set[tuple[Kind, Key]] = set()

    @abstractmethod
    def fetch(self, text: str, values: Values) -> Rows:
        """The rows of a statement, within a transaction if it locks."""

    def record(self, kind: Kind, row: tuple[Any, ...]) -> Record:
        """The record that a row holds."""
        depth = len(kind.key)
        return Record(kind, row[:depth], row[-1], row[-2], row[depth:-2])

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        if not keys:
            return []
        text, values = self._tables.getting(kind, keys)
        rows = self.fetch(text + self._tables.dialect.locking if self.locking else text, values)
        found = {record.key: record for record in (self.record(kind, row) for row in rows)}
        self.absent |= {(kind, key) for key in keys if key not in found}
        return [found.get(key) for key in keys]

    def scan(self, query: Query) -> Iterator[Record]:
        return in_pages(query, self.page)

    def page(self, query: Query) -> list[Record]:
        """All that match, at once."""
        return [self.record(query.kind, row) for row in self.fetch(*self._tables.selecting(query))]

    def count(self, query: Query) -> int:
        return int(self.fetch(*self._tables.counting(query))[0][0])

    def measure(self) -> int:
        """The bytes of all bodies."""
        return int(self.fetch(*self._tables.measuring())[0][0])

    def now(self) -> int:
        """The server's clock."""
        return int(self.fetch(f"SELECT {self._tables.dialect.now}", [])[0][0])
