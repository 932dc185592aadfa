"""A commit: what its writes change, decided under the lock, and the one transaction that changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from surrealdb import RecordID

from holdfast.backends._insist import Outcome
from holdfast.backends._surreal.reading import SurrealReader
from holdfast.backends._surreal.schema import Parts, indexes_of, row_of, unique_of
from holdfast.backends._surreal.turns import Turn
from holdfast.contracts import Delete, Insert, Key, Moved, Put, Query, Rebase, Record, Taken, Write, check_limits
from holdfast.kinds import Kind

Place = tuple[str, Parts]  # table, and id without the namespace
Whose = tuple[str, Key]  # kind, and key


class Changes:
    """What a commit makes of the records it names."""

    def __init__(self, reader: SurrealReader, writes: Sequence[Write]) -> None:
        self._reader = reader
        self._present = dict(_present(reader, writes))
        self._before: dict[Whose, Record | None] = {}
        self._holders = dict(_holders(reader, writes))
        for write in writes:
            self._decide(write)

    def _decide(self, write: Write) -> None:
        """Take a write in; Moved or Taken if it does not fit."""
        if isinstance(write, Insert):
            present = self._present[_whose(write.record)]
            if present is None:
                self._set(write.record)
            elif present.digest != write.record.digest:
                raise Taken(write.record, present)
        elif isinstance(write, Put):
            if write.over is not None:
                self._require(write.record.kind, write.record.key, write.over)
            self._set(write.record)
        elif isinstance(write, Delete):
            self._delete(write)
        else:
            self._require(write.kind, write.key, write.digest)

    def _delete(self, write: Delete) -> None:
        if write.over is not None:
            self._require(write.kind, write.key, write.over)
        for record in self._reader.scan(Query(kind=write.kind, prefix=write.key, where=write.where)):
            self._before.setdefault(_whose(record), record)
            self._present[_whose(record)] = None
            self._holders.pop(_unique_place(record), None)

    def _require(self, kind: Kind, key: Key, digest: bytes | None) -> None:
        present = self._present[kind.name, key]
        if (None if present is None else present.digest) != digest:
            raise Moved(kind, key, present)

    def _set(self, record: Record) -> None:
        place, whose = _unique_place(record), _whose(record)
        rival = self._holders.get(place)
        if rival is not None and rival.key != record.key:
            raise Taken(record, rival)
        before = self._present[whose]
        self._before.setdefault(whose, before)
        self._present[whose] = record
        if before is not None:
            self._holders.pop(_unique_place(before), None)
        if place is not None:
            self._holders[place] = record

    def carry_out(self, turn: Turn) -> None:
        """Change the rows in one transaction."""
        gone = {place: before for before in self._before.values() if before for place in _places(before)}
        made = {place: after for after in map(self._present.get, self._before) if after for place in _places(after)}
        kept = {place for place in gone.keys() & made.keys() if _is_kept(place, gone[place], made[place])}
        tables: dict[str, list[dict[str, Any]]] = {}
        for place in made.keys() - kept:
            tables.setdefault(place[0], []).append(self._row(place, made[place]))
        _transact(turn, [self._reader.place(*place) for place in gone.keys() - kept], tables)

    def _row(self, place: Place, record: Record) -> dict[str, Any]:
        id = self._reader.place(*place)
        if _is_pointer(place, record):
            return {"id": id, "row": self._reader.place(record.kind.name, record.key)}
        return {"id": id, **row_of(record)}


def apply(turn: Turn, reader: SurrealReader, writes: Sequence[Write]) -> Sequence[Write]:
    """Apply all writes or none; Moved or Taken if one does not fit. The reader was not used before the turn."""
    check_limits(writes)
    Changes(reader, writes).carry_out(turn)
    return writes


class ServerTries:
    """A commit at a server, at one go; each try is a turn of its own."""

    def __init__(self, begin: Callable[[], Turn], reader: SurrealReader) -> None:
        self._begin = begin
        self._reader = reader

    def write(self, writes: Sequence[Write]) -> Outcome:
        """Apply all writes or none."""
        try:
            apply(self._begin(), self._reader, writes)
        except Moved:
            return "moved"
        except Taken:
            return "taken"
        return "done"

    def plan(self, rebase: Rebase) -> Sequence[Write] | None:
        """Apply what `rebase` makes of what it reads in this turn; Moved or Taken if that does not fit even so."""
        turn = self._begin()
        return apply(turn, self._reader, rebase(self._reader))


def _transact(turn: Turn, gone: list[RecordID], made: dict[str, list[dict[str, Any]]]) -> None:
    variables: dict[str, Any] = {f"in_{table}": rows for table, rows in made.items()}
    statements = [f"INSERT INTO {table} $in_{table} RETURN NONE" for table in made]
    if gone:
        statements.insert(0, "DELETE $gone RETURN NONE")
        variables["gone"] = gone
    turn.transact("; ".join(statements), variables)


# what is there


def _present(reader: SurrealReader, writes: Sequence[Write]) -> Iterator[tuple[Whose, Record | None]]:
    """What is stored under each whole key that the writes name."""
    named: dict[Kind, list[Key]] = {}
    for write in writes:
        one = write.record if isinstance(write, Insert | Put) else write
        if len(one.key) == len(one.kind.key):
            named.setdefault(one.kind, []).append(one.key)
    for kind, keys in named.items():
        for key, record in zip(keys, reader.get(kind, keys), strict=True):
            yield (kind.name, key), record


def _holders(reader: SurrealReader, writes: Sequence[Write]) -> Iterator[tuple[Place | None, Record]]:
    """Who holds the unique values that the writes are to give."""
    wanted: dict[Kind, list[Parts]] = {}
    for write in writes:
        place = _unique_place(write.record) if isinstance(write, Insert | Put) else None
        if place is not None:
            wanted.setdefault(write.record.kind, []).append(place[1])  # type: ignore[union-attr]
    for kind, places in wanted.items():
        for record in reader.holders(kind, places):
            yield _unique_place(record), record


# where it is


def _whose(record: Record) -> Whose:
    return record.kind.name, record.key


def _unique_place(record: Record) -> Place | None:
    index = unique_of(record.kind)
    place = None if index is None else index.place(record)
    return None if index is None or place is None else (index.table, place)


def _places(record: Record) -> Iterable[Place]:
    """Every row that stands for a record: its own, and a pointer in each index."""
    yield record.kind.name, record.key
    for index in indexes_of(record.kind):
        place = index.place(record)
        if place is not None:
            yield index.table, place


def _is_pointer(place: Place, record: Record) -> bool:
    return place[0] != record.kind.name


def _is_kept(place: Place, before: Record, after: Record) -> bool:
    """Whether a row may stay as it is: a pointer at the same record."""
    return _is_pointer(place, after) and before.key == after.key
