"""Kinds with one file per record: what of them is in memory, and how a query finds it there.

A folder is listed and read when something first asks for all of it; after that only files that others have
touched are read again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from holdfast.backends import _file_names as names
from holdfast.backends._file_changes import Change, change
from holdfast.backends._file_disk import Disk
from holdfast.backends._file_journal import Step
from holdfast.backends._file_lines import key_in, lines_in, read_line, salvage, write_line
from holdfast.contracts import Key, Query, Record
from holdfast.filters import Scalar, matches
from holdfast.kinds import Kind


def passing(query: Query) -> Callable[[Record], bool]:
    """The test a query's filters make."""
    columns = [column.name for column in query.kind.columns()]
    exact = [(columns.index(one.field), one.value) for one in query.where if one.compare == "="]
    other = tuple(one for one in query.where if one.compare != "=")

    def passes(record: Record) -> bool:
        row = record.key + record.fields
        return all(row[at] == value for at, value in exact) and (not other or matches(record.values(), other))

    return passes


def ordered(found: Iterable[Record], query: Query) -> Iterator[Record]:
    """Records by the query's order field, then by key, behind `after`; None comes before everything."""
    at = [column.name for column in query.kind.columns()].index(query.order or "")

    def rank(values: tuple[Scalar, ...]) -> tuple[Any, ...]:
        return (values[0] is not None, *values)

    ranked = sorted(((rank(((one.key + one.fields)[at], *one.key)), one) for one in found), key=lambda pair: pair[0])
    for place, record in reversed(ranked) if query.reverse else ranked:
        if query.after is None or (place < rank(query.after) if query.reverse else place > rank(query.after)):
            yield record


def key_range(keys: list[Key], query: Query) -> list[Key]:
    """The keys a query may find, out of sorted ones, in its direction."""
    prefix, depth = query.prefix, len(query.prefix)
    low = bisect_left(keys, prefix if query.low is None else (*prefix, query.low))
    if query.high is None:
        high = bisect_right(keys, prefix, key=lambda key: key[:depth])
    else:
        high = bisect_right(keys, (*prefix, query.high), key=lambda key: key[: depth + 1])
    if query.after is not None and query.order is None:
        if query.reverse:
            high = min(high, bisect_left(keys, query.after))
        else:
            low = max(low, bisect_right(keys, query.after))
    return keys[low:high][::-1] if query.reverse else keys[low:high]


class _Folder:
    """A folder of records: of which names memory has the truth, and which others there are, once it is listed."""

    __slots__ = ("known", "listed", "unread")

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.listed = False
        self.unread: set[str] = set()

    def learn(self, name: str) -> None:
        self.known.add(name)
        self.unread.discard(name)

    def doubt(self, name: str) -> None:
        self.known.discard(name)
        self.unread.add(name)

    def knows(self, name: str) -> bool:
        return name in self.known or (self.listed and name not in self.unread)


class PlainTable:
    """The records of one kind."""

    def __init__(self, kind: Kind, disk: Disk) -> None:
        self.kind = kind
        self._disk = disk
        self._single = len(kind.key) == 1
        self._within_owner = bool(kind.unique) and not self._single and kind.unique[0] == kind.key[0].name
        self.forget()

    def forget(self) -> None:
        """Drop everything."""
        self._rows: dict[Key, Record] = {}
        self._keys: list[Key] = []
        self._unique: dict[tuple[Scalar, ...], Key] = {}
        self._folders: dict[str, _Folder] = {}
        self._owners_known = self._single

    def notice(self, touched: Change) -> None:
        """Drop what another process has touched."""
        key = tuple(touched.key)
        owner = names.owner_name(self.kind, key)
        self._keep(key, None)
        if owner in self._folders or self._owners_known:
            self._folder(owner).doubt(names.record_name(self.kind, key))

    def _folder(self, owner: str) -> _Folder:
        return self._folders.setdefault(owner, _Folder())

    # reading

    def get(self, key: Key) -> Record | None:
        """The record with this key, or None."""
        found = self._rows.get(key)
        if found is not None:
            return found
        owner, name = names.owner_name(self.kind, key), names.record_name(self.kind, key)
        if not self._folder(owner).knows(name):
            self._read(owner, name, key)
        return self._rows.get(key)

    def _read(self, owner: str, name: str, key: Key | None) -> None:
        self._folder(owner).learn(name)
        content = self._disk.read(f"{names.folder(self.kind, owner)}/{name}")
        if content is not None:
            record = read_file(self.kind, owner, name, key, content)
            self._keep(record.key, record)

    def match(self, query: Query) -> Iterator[Record]:
        """All that match, in order."""
        self._load(query.prefix)
        found: Iterable[Record] = (self._rows[key] for key in key_range(self._keys, query))
        if query.where:
            found = filter(passing(query), found)
        if query.order is not None:
            found = ordered(found, query)
        return islice(found, query.limit)

    def _load(self, prefix: Key) -> None:
        if self._single:
            owners = [""]
        elif prefix:
            owners = [names.part(prefix[0])]
        else:
            owners = self._owners()
        for owner in owners:
            self._load_folder(owner, self._folder(owner))

    def _owners(self) -> list[str]:
        if not self._owners_known:
            for owner in self._disk.names(names.owners_folder(self.kind)):
                self._folder(owner)
            self._owners_known = True
        return list(self._folders)

    def _load_folder(self, owner: str, folder: _Folder) -> None:
        if not folder.listed:
            present = self._disk.names(names.folder(self.kind, owner))
            folder.unread = {name for name in present if name.endswith(names.RECORD)} - folder.known
            folder.listed = True
        for name in sorted(folder.unread):
            self._read(owner, name, names.key_of(self.kind, owner, name))

    # changing, in memory first

    def rival(self, record: Record) -> Record | None:
        """The record that holds this key or this record's unique values."""
        present = self.get(record.key)
        if present is not None or not self.kind.unique:
            return present
        self._load(record.key[:1] if self._within_owner else ())
        holder = self._unique.get(self._unique_of(record))
        return None if holder is None else self._rows[holder]

    def set(self, key: Key, record: Record | None) -> Record | None:
        """Have this record there, or nothing; returns what was there before."""
        before = self.get(key)
        self._keep(key, record)
        self._folder(names.owner_name(self.kind, key)).learn(names.record_name(self.kind, key))
        return before

    def _keep(self, key: Key, record: Record | None) -> None:
        before = self._rows.pop(key, None)
        if before is not None:
            if self.kind.unique:
                self._unique.pop(self._unique_of(before), None)
            if record is None:
                del self._keys[bisect_left(self._keys, key)]
        elif record is not None:
            insort(self._keys, key)
        if record is not None:
            self._rows[key] = record
            if self.kind.unique:
                self._unique[self._unique_of(record)] = key

    def _unique_of(self, record: Record) -> tuple[Scalar, ...]:
        values = record.values()
        return tuple(values[name] for name in self.kind.unique)

    # changing the disk

    def steps(self, changed: dict[Key, Record | None]) -> Iterator[Step]:
        """What brings the files to what is in memory, for these keys."""
        for key in changed:
            owner = names.owner_name(self.kind, key)
            path = f"{names.folder(self.kind, owner)}/{names.record_name(self.kind, key)}"
            record = self._rows.get(key)
            if record is not None:
                yield Step(do="replace", path=path, content=write_line(record))
            elif changed[key] is not None:
                yield Step(do="remove", path=path)

    def touched(self, changed: Iterable[Key]) -> Iterator[Change]:
        """What to tell other processes about these keys."""
        return (change(self.kind.name, key) for key in changed)


def read_file(kind: Kind, owner: str, name: str, key: Key | None, content: bytes) -> Record:
    """The record in a file, or what is left of it; without a key from the names, the content has to tell."""
    for _, line in lines_in(content):
        record = read_line(kind, line)
        if record is not None and record.key == (key or _vouched(kind, owner, name, record.key)):
            return record
    said = key_in(content)
    true = key or _vouched(kind, owner, name, tuple(said or ()))
    return salvage(kind, true or names.fallback_key(kind, owner, name), content.rstrip(b"\n"))


def _vouched(kind: Kind, owner: str, name: str, key: Key) -> Key | None:
    """The key if it is the one these names were made of."""
    if len(key) != len(kind.key):
        return None
    made = (names.owner_name(kind, key), names.record_name(kind, key))
    return key if made == (owner, name) else None
