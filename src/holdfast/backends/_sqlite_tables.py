"""How SQLite lays out a kind: a plain table by key, or by one integer as a log or numbered rows of each owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

import apsw
from msgspec.structs import replace

from holdfast.backends import _sql
from holdfast.backends._sqlite_logs import LogTable
from holdfast.backends._sqlite_numbered import NumberedTable
from holdfast.backends._sqlite_rows import Finder, Runs, checked, finder_of
from holdfast.contracts import Key, Moved, Query, Record, Taken
from holdfast.errors import IntegrityError
from holdfast.filters import Filter, Scalar
from holdfast.kinds import Kind

_MOST_KEYS = 256  # that one statement looks up

Sought: TypeAlias = tuple[str, list[Scalar]]  # a statement, and what is bound to it beside the space


class PlainTable:
    """Rows by namespace and key."""

    def __init__(self, kind: Kind, space: int) -> None:
        self.kind = kind
        self._space = space
        self._depth = len(kind.key)
        names = _sql.columns(kind)
        keys = names[: self._depth]
        by_key = " AND ".join(["space = ?", *(f"{name} = ?" for name in keys)])
        changes = ", ".join(f"{name} = ?" for name in [*names[self._depth :], "digest", "body"])
        self._finders: dict[tuple[int, bool], Finder] = {}
        self._with_key = f" WHERE {by_key}"
        self._insert = self.inserting(_bound)
        self._update = f"UPDATE {kind.name} SET {changes} WHERE {by_key}"
        self._update_over = f"{self._update} AND digest = ?"
        self._indexed = {name for index in kind.indexes for name in index}
        places = [(place, field.name in self._indexed) for place, field in enumerate(kind.fields)]
        self._moving = _pick([place for place, indexed in places if not indexed])
        self._still = _pick([place for place, indexed in places if indexed])
        self._quiet = self.updating(_bound)
        self._ranges: dict[tuple[object, ...], str] = {}

    def inserting(self, value: Callable[[str], str]) -> str:
        """The statement that inserts a row; `value` says where that of a column comes from."""
        names = ["space", *(column.name for column in self.kind.columns()), "digest", "body"]
        columns, values = ", ".join(f'"{name}"' for name in names), ", ".join(map(value, names))
        return f"INSERT INTO {self.kind.name} ({columns}) VALUES ({values})"

    def updating(self, value: Callable[[str], str]) -> str:
        """The same for an update of what has the digest `over`.

        It leaves the indexed fields alone, since SQLite rewrites every index it is told to set.
        """
        names, still = [field.name for field in self.kind.fields], self._indexed
        moving = [*(name for name in names if name not in still), "digest", "body"]
        wanted = [f'"{name}" = {value(name)}' for name in ("space", *(field.name for field in self.kind.key))]
        wanted += [f"digest = {value('over')}", *(f'"{name}" IS {value(name)}' for name in names if name in still)]
        changes = ", ".join(f'"{name}" = {value(name)}' for name in moving)
        return f"UPDATE {self.kind.name} SET {changes} WHERE {' AND '.join(wanted)}"

    def create(self) -> Iterator[str]:
        """The statements that make the table."""
        columns = [f'"{part.name}" {_sql.SQLITE.types[part.type]} NOT NULL' for part in self.kind.key]
        columns += [f'"{field.name}" {_sql.SQLITE.types[field.type]}' for field in self.kind.fields]
        keys = ", ".join(_sql.columns(self.kind)[: self._depth])
        tail = " WITHOUT ROWID" if self.kind.narrow else ""
        body = ", ".join(["space INTEGER NOT NULL", *columns, "digest BLOB NOT NULL", "body BLOB NOT NULL"])
        yield f"CREATE TABLE {self.kind.name} ({body}, PRIMARY KEY (space, {keys})){tail}"
        for index in self.kind.indexes:
            named = ", ".join(f'"{name}"' for name in index)
            only = _sql.only_known(self.kind, index)
            yield f"CREATE INDEX {self._index(index)} ON {self.kind.name} (space, {named}){only}"
        if self.kind.unique:
            named = ", ".join(f'"{name}"' for name in self.kind.unique)
            yield f"CREATE UNIQUE INDEX {self.kind.name}_once ON {self.kind.name} (space, {named})"

    def _index(self, fields: tuple[str, ...]) -> str:
        return f"{self.kind.name}_by_{'_'.join(fields)}"

    def get(self, con: Runs, key: Key) -> Record | None:
        finder = self._finder(self._depth)
        found = finder.fetch(con, finder.select + self._with_key, (self._space, *key), key)
        return found[0] if found else None

    def is_one_look(self, keys: Sequence[Key]) -> bool:
        """Whether these are looked up by one statement, which sees them as of one instant."""
        return len(keys) == 1 or (self._depth == 1 and len(keys) <= _MOST_KEYS)

    def get_all(self, con: Runs, keys: Sequence[Key]) -> list[Record | None]:
        """What stands at each of these keys; many of one part each are looked up by few statements."""
        if self._depth > 1 or len(keys) == 1:
            return [self.get(con, key) for key in keys]
        found: dict[Key, Record] = {}
        for start in range(0, len(keys), _MOST_KEYS):
            for record in self._any_of(con, keys[start : start + _MOST_KEYS]):
                found[record.key] = record
        return [found.get(key) for key in keys]

    def _any_of(self, con: Runs, keys: Sequence[Key]) -> list[Record]:
        """Records by keys of one part, which are repeated up to a power of two so that few statements serve all."""
        count = 1 << (len(keys) - 1).bit_length()
        values = [key[0] for key in keys] + [keys[-1][0]] * (count - len(keys))
        finder, (name,) = self._finder(0), self.kind.key
        statement = f'{finder.select} WHERE space = ? AND "{name.name}" IN ({", ".join("?" * count)})'
        return finder.fetch(con, statement, (self._space, *values), ())

    def _finder(self, known: int, bodies_only: bool = False) -> Finder:
        """What reads records whose keys begin with so many known parts; most of a process's are never asked for."""
        found = self._finders.get((known, bodies_only))
        if found is None:
            found = self._finders[known, bodies_only] = finder_of(self.kind, known, bodies_only)
        return found

    def insert(self, con: apsw.Cursor, record: Record) -> None:
        try:
            con.execute(self._insert, (self._space, *record.key, *record.fields, record.digest, record.body))
        except apsw.ConstraintError:
            present = self.get(con, record.key) or self._rival(con, record)
            if present is None:
                raise
            if present.key != record.key or present.digest != record.digest:
                raise Taken(record, present) from None

    def _rival(self, con: Runs, record: Record) -> Record | None:
        """Another record with the same unique values."""
        values = record.values()
        same = tuple(Filter(name, "=", values[name]) for name in self.kind.unique)
        found = self.select(con, Query(kind=self.kind, where=same)) if same else iter(())
        return next((other for other in found if other.key != record.key), None)

    def put(self, con: apsw.Cursor, record: Record, over: bytes | None) -> None:
        fields, key = record.fields, record.key
        if over is not None:
            moving, still = self._moving(fields), self._still(fields)
            con.execute(self._quiet, (*moving, record.digest, record.body, self._space, *key, over, *still))
            if con.connection.changes() == 1:
                return
        changed = (*fields, record.digest, record.body, self._space, *key)
        try:
            if over is None:
                con.execute(self._update, changed)
            else:
                con.execute(self._update_over, (*changed, over))
        except apsw.ConstraintError:
            rival = self._rival(con, record)
            if rival is None:
                raise
            raise Taken(record, rival) from None
        if con.connection.changes() == 0:
            if over == b"":
                raise IntegrityError(f"{record.kind.name} {key} is damaged; run verify")  # as its Finder says
            if over is not None:
                raise Moved(record.kind, key, self.get(con, key))
            self.insert(con, record)

    def select(self, con: Runs, query: Query) -> Iterator[Record]:
        finder = self._finder(len(query.prefix), query.bodies_only)
        plain = not query.where and query.after is None
        statement, values = self._by_range(finder, query) if plain else self._by_filter(finder, query)
        return iter(finder.fetch(con, statement, (self._space, *values), query.prefix))

    def _by_range(self, finder: Finder, query: Query) -> Sought:
        """The statement for a prefix and a range of keys, made once for all that differ in values only."""
        low, high = query.low, query.high
        shape = (len(query.prefix), low is None, high is None, query.order, query.reverse, query.bodies_only)
        statement = self._ranges.get(shape)
        if statement is None:
            parts, _ = _sql.where(query)
            clause = " AND ".join(["space = ?", *parts])
            order = _sql.order_by(replace(query, limit=None))
            statement = self._ranges[shape] = f"{finder.select} WHERE {clause}{order} LIMIT ?"
        bounds = [bound for bound in (low, high) if bound is not None]
        return statement, [*query.prefix, *bounds, -1 if query.limit is None else query.limit]

    def _by_filter(self, finder: Finder, query: Query) -> Sought:
        parts, values = _sql.where(query)
        clause = " AND ".join(["space = ?", *parts])
        index = _sql.chosen_index(query)
        hint = "" if index is None else f" INDEXED BY {self._index(index)}"
        return f"{finder.select}{hint} WHERE {clause}{_sql.order_by(query)}", values

    def delete(self, con: apsw.Cursor, query: Query) -> None:
        parts, values = _sql.where(query)
        clause = " AND ".join(["space = ?", *parts])
        with checked():
            con.execute(f"DELETE FROM {self.kind.name} WHERE {clause}", (self._space, *values))

    def count(self, con: Runs, query: Query) -> int:
        parts, values = _sql.where(query)
        return self._sum(con, "count(*)", parts, values)

    def size(self, con: Runs) -> int:
        """The bytes of all bodies."""
        return self._sum(con, "coalesce(sum(length(body)), 0)", [], [])

    def _sum(self, con: Runs, what: str, parts: list[str], values: list[Scalar]) -> int:
        clause = " AND ".join(["space = ?", *parts])
        found = con.execute(f"SELECT {what} FROM {self.kind.name} WHERE {clause}", (self._space, *values))
        return int(found.fetchone()[0])  # type: ignore[index]


def _bound(_column: str) -> str:
    return "?"


def _pick(places: list[int]) -> Callable[[tuple[Scalar, ...]], tuple[Scalar, ...]]:
    """A function that picks these places of a tuple; itemgetter gives no tuple for fewer than two."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple(values[place] for place in places)


Table = PlainTable | LogTable


def _table(kind: Kind, space: int) -> Table:
    laid_out: type[Table] = LogTable if kind.log else NumberedTable if kind.numbered else PlainTable
    return laid_out(kind, space)


def tables(kinds: Iterable[Kind], space: int, known: Mapping[str, Table] | None = None) -> dict[str, Table]:
    """The layout of each kind; what knows statements only is taken from another layout of the same space."""
    plain = {name: table for name, table in (known or {}).items() if isinstance(table, PlainTable)}
    return {kind.name: plain.get(kind.name) or _table(kind, space) for kind in kinds}
