"""Tables of logs: rows by one integer.

A log's rows sit under `log << 32 | position`, so that an append goes to the end of one page and an id
index, and touches nothing else. The table `logs` gives each (namespace, …, log) its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import apsw
from msgspec.structs import replace

from holdfast.backends import _sql
from holdfast.backends._sqlite_rows import Careful, Runs, checked, damaged, text, whole
from holdfast.contracts import Key, Moved, Query, Record, Taken
from holdfast.errors import InvalidInput
from holdfast.filters import Filter, Scalar
from holdfast.kinds import Field, Kind

POSITIONS = 32
LAST = (1 << POSITIONS) - 1
LOGS = 1 << 63 - POSITIONS
REMEMBERED = 4096

Note = Callable[[apsw.Connection, int, int, bool], None]
T = TypeVar("T")


class LogTable:
    """Rows by log and position, for kinds whose key is (owner, branch, position)."""

    _lost = "SELECT log FROM logs WHERE kind = ? AND space NOT IN (SELECT space FROM spaces)"

    def __init__(self, kind: Kind, space: int) -> None:
        self.kind = kind
        self._space = space
        self._depth = len(kind.key) - 1  # key parts that name a log
        self._known: dict[Key, int] = {}  # numbers of logs; once committed, none is used again
        self._made: set[Key] = set()  # those of the present transaction
        self.note: Note | None = None  # told which places are about to change, or to go
        names = [f'"{field.name}"' for field in kind.fields]
        changes = ", ".join(f"{name} = ?" for name in [*names, "digest", "body"])
        place = Field("place", "int")
        self._careful = Careful([place, *kind.fields], kind.name)
        self._lean = Careful([place], kind.name)
        self._insert = self.inserting(lambda _column: "?")
        self._update = f"UPDATE {kind.name} SET {changes} WHERE place = ?"

    def inserting(self, value: Callable[[str], str]) -> str:
        """The statement that inserts a row; `value` says where that of a column comes from, or `log`."""
        names = [*(field.name for field in self.kind.fields), "digest", "body"]
        columns, values = ", ".join(f'"{name}"' for name in names), ", ".join(map(value, names))
        return (
            f"INSERT INTO {self.kind.name} (place, family, {columns})"
            f" SELECT {value('place')}, family, {values} FROM logs WHERE log = {value('log')}"
        )

    def create(self) -> Iterator[str]:
        """The statements that make the table."""
        columns = [f'"{field.name}" {_sql.SQLITE.types[field.type]}' for field in self.kind.fields]
        body = ", ".join([*columns, "digest BLOB NOT NULL", "body BLOB NOT NULL"])
        yield f"CREATE TABLE {self.kind.name} (place INTEGER PRIMARY KEY, family INTEGER NOT NULL, {body})"
        if self.kind.unique:
            # The family last: ids grow with time, so that what many sessions say at once shares a page.
            unique = ", ".join(f'"{name}"' for name in self._unique())
            yield f"CREATE UNIQUE INDEX {self.kind.name}_once ON {self.kind.name} ({unique}, family)"

    def _unique(self) -> list[str]:
        """The fields that no two rows of a family have alike."""
        parts = {part.name for part in self.kind.key}
        return [name for name in self.kind.unique if name not in parts]

    def begin(self) -> None:
        """A transaction begins: the numbers that were given in earlier ones are committed, or forgotten."""
        self._made.clear()

    def forget(self) -> None:
        """Drop the numbers of the present transaction, since it, or a part of it, did not happen.

        What is left of it may look some of them up again, so they count as its own until the next one begins.
        """
        for name in self._made:
            self._known.pop(name, None)

    def _find(self, con: Runs, name: Key) -> int | None:
        return self._known.get(name) or self._look(con, name)

    def _look(self, con: Runs, name: Key) -> int | None:
        """The number of a log as it is stored, which is then remembered."""
        owner, branch = self._named(name)
        rows = con.execute(
            "SELECT log FROM logs WHERE space = ? AND kind = ? AND owner = ? AND branch = ?",
            (self._space, self.kind.name, owner, branch),
        ).fetchall()
        return self._remember(name, whole(rows[0][0], LOGS)) if rows else None

    def _named(self, name: Key) -> tuple[Scalar, Scalar]:
        """The owner and the branch of a log."""
        owner, branch = name
        return owner, branch

    def _remember(self, name: Key, log: int) -> int:
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[name] = log
        return log

    def _make(self, con: apsw.Cursor, name: Key) -> int:
        owner, branch = self._named(name)
        con.execute(
            "INSERT INTO logs (space, kind, owner, branch) VALUES (?, ?, ?, ?)",
            (self._space, self.kind.name, owner, branch),
        )
        log = con.connection.last_insert_rowid()
        con.execute("UPDATE logs SET family = ? WHERE log = ?", (self._family(con, owner, log), log))
        self._made.add(name)
        return self._remember(name, log)

    def _family(self, con: Runs, owner: Scalar, log: int) -> int:
        """What a new log shares with the others of its owner: the number of the first."""
        key = (self._space, self.kind.name, owner)
        first = con.execute("SELECT min(family) FROM logs WHERE space = ? AND kind = ? AND owner = ?", key).fetchall()
        return log if first[0][0] is None else whole(first[0][0])

    def _at(self, con: Runs, name: Key, read: Callable[[int], list[T]]) -> list[T]:
        """What is read of a log, by its first place.

        Where a number that was remembered finds none, another process may have deleted that log and begun it anew.
        """
        known = self._known.get(name)
        found = [] if known is None else read(known << POSITIONS)
        if found:
            return found
        log = self._look(con, name)
        return [] if log is None or log == known else read(log << POSITIONS)

    def get(self, con: Runs, key: Key) -> Record | None:
        found = self._select_log(con, Query(kind=self.kind, prefix=key[:-1], low=int(key[-1]), high=int(key[-1])))
        return next(found, None)

    def is_one_look(self, keys: Sequence[Key]) -> bool:
        """Whether no more than one record is looked up."""
        return len(keys) == 1

    def get_all(self, con: Runs, keys: Sequence[Key]) -> list[Record | None]:
        """What stands at each of these keys."""
        return [self.get(con, key) for key in keys]

    def insert_values(self, record: Record) -> tuple[Scalar, ...] | None:
        """What `inserting` takes, if the number of the log is known."""
        key = record.key
        log, position = self._known.get(key[:-1]), key[-1]
        if log is None:
            return None
        if type(position) is not int or not 0 <= position <= LAST:
            raise InvalidInput(f"{self.kind.name} count from 1 to {LAST:,}; {position} is none of these numbers")
        return (log << POSITIONS | position, *record.fields, record.digest, record.body, log)

    def insert(self, con: apsw.Cursor, record: Record) -> None:
        try:
            if not self._insert_at(con, record):
                # Another process has deleted this log since its number was learnt.
                self._known.pop(record.key[:-1], None)
                if not self._insert_at(con, record):
                    raise damaged(f"the log {record.key[:-1]} of {self.kind.name} is not where its name leads")
        except apsw.ConstraintError:
            present = self.get(con, record.key) or self._same_id(con, record)
            if present is None:
                raise
            if present.key != record.key or present.digest != record.digest:
                raise Taken(record, present) from None

    def _insert_at(self, con: apsw.Cursor, record: Record) -> bool:
        """Insert a row into its log, which is made if it has no number yet; False if that has none of this number."""
        values, name = self.insert_values(record), record.key[:-1]
        if values is None:
            if self._look(con, name) is None:
                self._make(con, name)
            values = self.insert_values(record)
            assert values is not None
        con.execute(self._insert, values)
        return con.connection.changes() == 1

    def _same_id(self, con: Runs, record: Record) -> Record | None:
        values, parts = record.values(), len(self.kind.unique) - len(self._unique())
        where = tuple(Filter(name, "=", values[name]) for name in self._unique())
        return next(self.select(con, Query(kind=self.kind, prefix=record.key[:parts], where=where)), None)

    def _place(self, con: Runs, key: Key) -> int:
        return (self._find(con, key[:-1]) or 0) << POSITIONS | int(key[-1])

    def put(self, con: apsw.Cursor, record: Record, over: bytes | None) -> None:
        present = self.get(con, record.key)
        if over is not None and (present is None or present.digest != over):
            raise Moved(record.kind, record.key, present)
        if present is None:
            self.insert(con, record)
            return
        place = self._place(con, record.key)
        if self.note is not None:
            self.note(con.connection, place, place, True)
        try:
            con.execute(self._update, (*record.fields, record.digest, record.body, place))
        except apsw.ConstraintError:
            rival = self._same_id(con, record)
            if rival is None:
                raise
            raise Taken(record, rival) from None

    def select(self, con: Runs, query: Query) -> Iterator[Record]:
        if len(query.prefix) == len(self.kind.key):
            *name, position = query.prefix
            query = replace(query, prefix=tuple(name), low=position, high=position)
        if len(query.prefix) == self._depth:
            return self._select_log(con, query)
        if query.where and len(query.prefix) == 1:
            return self._select_family(con, query)
        return self._select_logs(con, query)

    def _select_log(self, con: Runs, query: Query) -> Iterator[Record]:
        """Rows of one log, from position to position."""
        name, kind, (clause, values) = query.prefix, self.kind, within(query)
        careful = self._lean if query.bodies_only else self._careful
        statement = f"{careful.select} WHERE place BETWEEN ? AND ?{clause}"
        low, high = bounds(query)
        rows = self._at(con, name, lambda start: careful.fetch(con, statement, (start | low, start | high, *values)))
        if query.bodies_only:
            return iter([Record(kind, (*name, place & LAST), body, digest) for place, digest, body in rows])
        return iter([Record(kind, (*name, row[0] & LAST), row[-1], row[-2], row[1:-2]) for row in rows])

    def _select_family(self, con: Runs, query: Query) -> Iterator[Record]:
        """Rows of one owner by a filter, such as a message by its id."""
        owner = query.prefix[0]
        logs = {log: (family, branch) for log, family, branch in self._logs_of(con, owner)}
        if not logs:
            return iter(())
        parts, values = _sql.conditions(query.where)
        clause = " AND ".join(["family = ?", *parts])
        family = next(iter(logs.values()))[0]
        rows = self._careful.fetch(con, f"{self._careful.select} WHERE {clause}", (family, *values))
        found = [
            Record(self.kind, (owner, logs[whole(row[0]) >> POSITIONS][1], row[0] & LAST), row[-1], row[-2], row[1:-2])
            for row in rows
        ]
        found = [record for record in found if _chosen(record.key, query)]
        found.sort(key=lambda record: record.key, reverse=query.reverse)
        return iter(found[: query.limit])

    def _logs_of(self, con: Runs, owner: Scalar) -> list[tuple[int, int, int]]:
        found = con.execute(
            "SELECT log, family, branch FROM logs WHERE space = ? AND kind = ? AND owner = ? ORDER BY branch",
            (self._space, self.kind.name, owner),
        )
        return [(whole(log), whole(family), whole(branch)) for log, family, branch in found]

    def _select_logs(self, con: Runs, query: Query) -> Iterator[Record]:
        """Rows of several logs, one log after another."""
        owner = query.prefix[0] if query.prefix else None
        direction = "DESC" if query.reverse else "ASC"
        branches = query.low or 0, LAST if query.high is None else query.high
        with checked():
            logs = con.execute(
                "SELECT owner, branch FROM logs WHERE space = ? AND kind = ? AND (? IS NULL OR owner = ?)"
                f" AND branch BETWEEN ? AND ? ORDER BY owner {direction}, branch {direction}",
                (self._space, self.kind.name, owner, owner, *branches),
            ).fetchall()
        left = query.limit
        for log in logs:
            name, after = (text(log[0]), *map(whole, log[1 : self._depth])), query.after
            if after is not None and name != after[: self._depth]:
                if (name < after[: self._depth]) is not query.reverse:
                    continue
                after = None
            one = replace(query, prefix=name, low=None, high=None, after=after, limit=left)
            for record in self._select_log(con, one):
                yield record
                left = None if left is None else left - 1
            if left == 0:
                return

    def delete(self, con: apsw.Cursor, query: Query) -> None:
        if len(query.prefix) == len(self.kind.key) or query.where:
            found = list(self.select(con, query))
            for name in {record.key[:-1] for record in found}:
                self._look(con, name)  # another process may have deleted the log whose number is remembered
            for record in found:
                place = self._place(con, record.key)
                if self.note is not None:
                    self.note(con.connection, place, place, False)
                con.execute(f"DELETE FROM {self.kind.name} WHERE place = ?", (place,))
            return
        names = ["owner", "branch"][: len(query.prefix)]
        clause = " AND ".join(["space = ?", "kind = ?", *(f"{name} = ?" for name in names)])
        chosen = (self._space, self.kind.name, *query.prefix)
        for (log,) in con.execute(f"SELECT log FROM logs WHERE {clause}", chosen).fetchall():
            start = whole(log) << POSITIONS
            if self.note is not None:
                self.note(con.connection, start, start | LAST, False)
            con.execute(f"DELETE FROM {self.kind.name} WHERE place BETWEEN ? AND ?", (start, start | LAST))
        con.execute(f"DELETE FROM logs WHERE {clause}", chosen)
        self._known.clear()

    def count(self, con: Runs, query: Query) -> int:
        if query.prefix or query.where or query.limit is not None:
            return sum(1 for _ in self.select(con, query))
        return self._sum(con, "count(*)")

    def size(self, con: Runs) -> int:
        """The bytes of all bodies."""
        return self._sum(con, "coalesce(sum(length(body)), 0)")

    def strays(self, con: Runs) -> Iterator[str]:
        """What damage has made of rows that stand in no log of theirs, and of logs that are nobody's."""
        name = self.kind.name
        rows = (
            f"SELECT DISTINCT place >> {POSITIONS} FROM {name} LEFT JOIN logs"
            f" ON log = place >> {POSITIONS} AND kind = ? WHERE log IS NULL OR logs.family IS NOT {name}.family"
        )
        for (log,) in con.execute(rows, (name,)).fetchall():
            yield f"rows of {name} are in no log of theirs: nothing says whose number {log} is"
        for (log,) in con.execute(self._lost, (name,)).fetchall():
            yield f"log {log} of {name} is in no place of its own: nobody finds its rows"

    def _sum(self, con: Runs, what: str) -> int:
        """Of all rows of the space, and of no other: log by log, by the key."""
        found = con.execute(
            f"SELECT {what} FROM logs CROSS JOIN {self.kind.name} ON place BETWEEN log << {POSITIONS} AND"
            f" (log << {POSITIONS} | {LAST}) WHERE logs.space = ? AND logs.kind = ?",
            (self._space, self.kind.name),
        ).fetchall()
        return whole(found[0][0])


def _chosen(key: Key, query: Query) -> bool:
    """Whether a key is within a query's bounds on the branch, and behind where it continues."""
    branch = whole(key[1])
    if (query.low is not None and branch < query.low) or (query.high is not None and branch > query.high):
        return False
    return query.after is None or (key < query.after if query.reverse else key > query.after)


def within(query: Query) -> tuple[str, list[Scalar]]:
    """What else a query says of the rows of one log: its filters, its order and how many."""
    limit = -1 if query.limit is None else query.limit
    order = " ORDER BY place DESC LIMIT ?" if query.reverse else " ORDER BY place LIMIT ?"
    if not query.where:
        return order, [limit]
    parts, values = _sql.conditions(query.where)
    return f"{''.join(f' AND {part}' for part in parts)}{order}", [*values, limit]


def bounds(query: Query) -> tuple[int, int]:
    """The first and the last position that a query wants of one log; where it wants none, the last comes first."""
    low, high = max(query.low or 0, 0), LAST if query.high is None else min(query.high, LAST)
    if query.after is not None:
        at = int(query.after[-1])  # type: ignore[arg-type]
        low, high = (low, min(high, at - 1)) if query.reverse else (max(low, at + 1), high)
    return (low, high) if low <= high else (1, 0)
