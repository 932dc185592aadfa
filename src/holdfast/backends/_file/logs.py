"""Kinds that are logs: one file per log, a line per record, appended in place.

In memory is only where each line begins and what must be unique; bodies are read when asked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice

from holdfast.backends._file import names
from holdfast.backends._file.changes import Change
from holdfast.backends._file.disk import Disk
from holdfast.backends._file.journal import Journal, Step
from holdfast.backends._file.lines import key_in
from holdfast.backends._file.log import Log, Row
from holdfast.backends._rows import Values, ordered, passing, picker
from holdfast.contracts import Key, Query, Record
from holdfast.kinds import Kind

PAGE = 500
KEPT_ROWS = 1_000_000  # about 400 MB of memory


class _Family:
    """The logs of one owner, within which ids are unique."""

    def __init__(self, owner: str, folder: str) -> None:
        self.owner = owner
        self.folder = folder
        self.logs: dict[Key, Log] = {}
        self.unique: dict[Values, tuple[Key, int]] = {}
        self.listed = False
        self.stale = True


class LogTable:
    """The records of one kind whose key is (owner, …, position)."""

    def __init__(self, kind: Kind, disk: Disk) -> None:
        self.kind = kind
        self._disk = disk
        self._unique_of = picker(kind, kind.unique)
        self._families: dict[str, _Family] = {}
        self._last_used = ""
        self._rows = 0
        self._owners: list[str] | None = None

    # keeping in memory what nobody has touched

    def notice(self, key: Key, grown: bool) -> None:
        """Take in later what another process has appended to a log; forget the owner's if it did more."""
        name = names.part(key[0])
        family = self._families.get(name)
        if family is None or not grown:
            self._forget(name)
            return
        family.stale = True
        if key[1:] in family.logs:
            family.logs[key[1:]].grown = True
        else:
            family.listed = False

    def _forget(self, name: str) -> None:
        family = self._families.pop(name, None)
        self._rows -= 0 if family is None else sum(len(log.rows) for log in family.logs.values())
        self._owners = None

    def slim_down(self) -> None:
        """Keep only what was used last, if there is a lot."""
        if self._rows > KEPT_ROWS:
            for name in self._families.keys() - {self._last_used}:
                self._forget(name)

    def _family(self, owner: str | int) -> _Family:
        """The logs of an owner, as they are now."""
        self._last_used = name = names.part(owner)
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = _Family(str(owner), names.folder(self.kind, name))
            self._owners = None
        if family.stale:
            self._take_in(family)
        return family

    def _take_in(self, family: _Family) -> None:
        if not family.listed:
            self._list(family)
        for middle, log in family.logs.items():
            if log.grown:
                for unique, position in log.take_in(self._disk.read_part(log.path, log.end, -1)):
                    if unique and None not in unique:
                        family.unique[unique] = (middle, position)
                    self._rows += 1
        family.stale = False

    def _list(self, family: _Family) -> None:
        for file in self._disk.names(family.folder):
            found = names.log_of(self.kind, file)
            if found is not None and found[0] not in family.logs:
                middle, first = found
                family.logs[middle] = Log(self.kind, f"{family.folder}/{file}", (family.owner, *middle), first)
        family.listed = True

    def _all_owners(self) -> list[str]:
        """All owners, in order."""
        if self._owners is None:
            for name in self._disk.names(names.owners_folder(self.kind)):
                if name not in self._families:
                    self._families[name] = _Family(self._owner_of(name), names.folder(self.kind, name))
            self._owners = sorted(family.owner for family in self._families.values())
        return self._owners

    def _owner_of(self, name: str) -> str:
        """The owner a folder is named after; where the name is too long to say, its files have to."""
        spelled = names.unescape(name)
        if spelled is not None:
            return spelled
        folder = names.folder(self.kind, name)
        for file in self._disk.names(folder):
            for line in (self._disk.read(f"{folder}/{file}") or b"").split(b"\n"):
                said = key_in(line)
                if said and names.part(said[0]) == name:
                    return str(said[0])
        return name

    # reading

    def get(self, key: Key) -> Record | None:
        """The record with this key, or None."""
        log = self._family(key[0]).logs.get(key[1:-1])
        if log is None or key[-1] not in log.rows:
            return None
        return log.records(self._disk, [int(key[-1])])[0]

    def match(self, query: Query) -> Iterator[Record]:
        """All that match, in order; bodies are read as they are taken."""
        if query.order is not None:
            return islice(ordered(self._filtered(query), query), query.limit)
        return islice(self._filtered(query), query.limit)

    def _filtered(self, query: Query) -> Iterator[Record]:
        held = self._held(query)
        page = PAGE if query.where or query.limit is None else max(1, min(PAGE, query.limit))
        passes = passing(query)
        for log, positions in self._runs(query) if held is None else held:
            for start in range(0, len(positions), page):
                chosen = [log.positions[at] for at in positions[start : start + page]]
                yield from filter(passes, log.records(self._disk, chosen))

    def _held(self, query: Query) -> list[tuple[Log, range]] | None:
        """Where the one record is that can match, if the filters name what is unique; None if they do not."""
        named = {one.field: one.value for one in query.where if one.compare == "="}
        plain = query.low is None and query.high is None and query.after is None
        if not plain or len(query.prefix) != 1 or not self.kind.unique or set(self.kind.unique[1:]) - named.keys():
            return None
        unique = tuple(named[name] for name in self.kind.unique[1:])
        if None in unique:
            return None
        family = self._family(query.prefix[0])
        place = family.unique.get((query.prefix[0], *unique))
        if place is None:
            return []
        log = family.logs[place[0]]
        return [(log, log.between(place[1], place[1]))]

    def _runs(self, query: Query) -> Iterator[tuple[Log, range]]:
        """Logs with the run of positions in each that a query may find, in its direction."""
        for owner in self._owners_in(query):
            family = self._family(owner)
            for middle in sorted(family.logs, reverse=query.reverse):
                run = _run(family.logs[middle], query)
                yield family.logs[middle], run[::-1] if query.reverse else run

    def _owners_in(self, query: Query) -> Iterable[str | int]:
        """The owners a query may find something of, in its direction, from where it continues."""
        if query.prefix:
            return query.prefix[:1]
        owners, after = self._all_owners(), None if query.order is not None or query.after is None else query.after[0]
        if query.reverse:
            return owners[: len(owners) if after is None else bisect_right(owners, str(after))][::-1]
        return owners[0 if after is None else bisect_left(owners, str(after)) :]

    def count(self, query: Query) -> int:
        """How many match."""
        if query.where or query.order is not None:
            return sum(1 for _ in self.match(query))
        found = sum(len(run) for _, run in self._runs(query))
        return found if query.limit is None else min(found, query.limit)

    def keys(self, query: Query) -> list[Key]:
        """The keys of all that match."""
        if query.where:
            return [record.key for record in self.match(query)]
        return [(*log.key, log.positions[at]) for log, run in self._runs(query) for at in run]

    # changing, in memory first

    def make_way(self, key: Key) -> None:
        """Repair the end of a log before something is written to it."""
        family = self._family(key[0])
        log = family.logs.get(key[1:-1])
        if log is not None and (log.torn or log.unended):
            position = log.make_way(self._disk)
            if position is not None:
                self.set((*log.key, position), log.rows[position])

    def rival(self, record: Record) -> Record | None:
        """The record under another key that holds this one's unique values."""
        family = self._family(record.key[0])
        unique = self._unique(record)
        place = family.unique.get(unique) if unique else None
        if place is None or place == (record.key[1:-1], record.key[-1]):
            return None
        return family.logs[place[0]].records(self._disk, [place[1]])[0]

    def set(self, key: Key, row: Row | None) -> Row | None:
        """Have this row there, or nothing; returns what was there before."""
        family = self._family(key[0])
        middle, position = key[1:-1], int(key[-1])
        log = family.logs.get(middle)
        if log is None or not (log.rows or log.end):
            path = f"{family.folder}/{names.log_name(self.kind, middle, position)}"
            log = family.logs[middle] = Log(self.kind, path, (family.owner, *middle), position)
            log.grown = False
        before = log.set(position, row)
        self._rows += (row is not None) - (before is not None)
        for unique in (self._unique(before), self._unique(row)):
            if unique and family.unique.get(unique) == (middle, position):
                del family.unique[unique]
        if self._unique(row):
            family.unique[self._unique(row)] = (middle, position)
        return before

    def _unique(self, row: Row | None) -> Values:
        """The values of a row that collide with others; none where one of them is None."""
        found = self._unique_of(row) if isinstance(row, Record) else row and row.unique
        return () if found is None or None in found else found

    # changing the disk

    def steps(self, changed: dict[Key, Row | None], journal: Journal) -> Iterator[tuple[Step, Change]]:
        """What brings the files to what is in memory, for these keys with what was there before."""
        logs: dict[Key, dict[int, Row | None]] = {}
        for key, before in changed.items():
            logs.setdefault(key[:-1], {})[int(key[-1])] = before
        for key, befores in logs.items():
            family = self._family(key[0])
            log = family.logs[key[1:]]
            for step in log.steps(self._disk, befores, journal):
                yield step, (self.kind.name, key, step.do == "append")
            if not log.rows:
                del family.logs[key[1:]]


def _run(log: Log, query: Query) -> range:
    """Where in a log's positions those are that a query's prefix, bounds and continuation leave."""
    depth = len(query.prefix)
    if log.key[:depth] != query.prefix[: len(log.key)]:
        return range(0)
    low, high = query.low, query.high
    if depth > len(log.key):
        low = high = int(query.prefix[-1])
    elif depth < len(log.key):
        bounded = log.key[depth]
        if isinstance(bounded, int) and not (bounded if low is None else low) <= bounded <= (
            bounded if high is None else high
        ):
            return range(0)
        low = high = None
    if query.after is None or query.order is not None:
        return log.between(low, high)
    return _continued(log, query, low, high)


def _continued(log: Log, query: Query, low: int | None, high: int | None) -> range:
    assert query.after is not None
    reached, at = query.after[:-1], query.after[-1]
    assert isinstance(at, int)
    if log.key != reached:
        ahead = log.key < reached if query.reverse else log.key > reached
        return log.between(low, high) if ahead else range(0)
    if query.reverse:
        return log.between(low, at - 1 if high is None else min(high, at - 1))
    return log.between(at + 1 if low is None else max(low, at + 1), high)
