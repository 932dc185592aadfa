"""Kinds with one file per record.

A folder is listed and read when something first asks for all of it; after that, only files that others have
touched are read again.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.backends._file import names
from holdfast.backends._file.changes import Change
from holdfast.backends._file.disk import Disk
from holdfast.backends._file.journal import Journal, Step
from holdfast.backends._file.lines import key_in, lines_in, read_sound, salvage, write_line
from holdfast.backends._file.log import Row
from holdfast.backends._rows import Rows
from holdfast.contracts import Key, Query, Record
from holdfast.kinds import Kind

KEPT_BODY = 4096


class _Folder:
    """Of which names memory has the truth, and which others there are, once the folder is listed."""

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
    """The records of one kind, in memory as far as they were asked for."""

    def __init__(self, kind: Kind, disk: Disk) -> None:
        self.kind = kind
        self._disk = disk
        self._rows = Rows(kind)
        self._large: dict[Key, str] = {}
        self._single = len(kind.key) == 1
        self._folders: dict[str, _Folder] = {"": _Folder()} if self._single else {}
        self._owners_known = self._single

    def slim_down(self) -> None:
        """Nothing to do: large bodies are not kept, and small ones must be at hand for queries."""

    def notice(self, key: Key, grown: bool) -> None:  # noqa: ARG002 — only logs grow
        """Forget a record that another process has put or removed."""
        owner = names.owner_name(self.kind, key)
        self._rows.keep(key, None)
        self._large.pop(key, None)
        if owner in self._folders or self._owners_known:
            self._folder(owner).doubt(names.record_name(self.kind, key))

    def _folder(self, owner: str) -> _Folder:
        return self._folders.setdefault(owner, _Folder())

    # reading

    def get(self, key: Key) -> Record | None:
        """The record with this key, or None."""
        found = self._rows.get(key)
        if found is None:
            owner, name = names.owner_name(self.kind, key), names.record_name(self.kind, key)
            if not self._folder(owner).knows(name):
                self._read(owner, name, key)
            found = self._rows.get(key)
        return None if found is None else self._whole(found)

    def match(self, query: Query) -> Iterator[Record]:
        """All that match, in order."""
        return map(self._whole, self._found(query))

    def _found(self, query: Query) -> Iterator[Record]:
        self._load(query.prefix)
        return self._rows.match(query)

    def count(self, query: Query) -> int:
        """How many match."""
        return sum(1 for _ in self._found(query))

    def keys(self, query: Query) -> list[Key]:
        """The keys of all that match."""
        return [record.key for record in self._found(query)]

    def _load(self, prefix: Key) -> None:
        """Have everything in memory whose key begins so."""
        for owner in [names.part(prefix[0])] if prefix and not self._single else self._owners():
            folder = self._folder(owner)
            if not folder.listed:
                present = self._disk.names(names.folder(self.kind, owner))
                folder.unread = {name for name in present if name.endswith(names.RECORD)} - folder.known
                folder.listed = True
            for name in sorted(folder.unread):
                self._read(owner, name, names.key_of(self.kind, owner, name))

    def _owners(self) -> list[str]:
        if not self._owners_known:
            for owner in self._disk.names(names.owners_folder(self.kind)):
                self._folder(owner)
            self._owners_known = True
        return list(self._folders)

    def _read(self, owner: str, name: str, key: Key | None) -> None:
        content = self._disk.read(f"{names.folder(self.kind, owner)}/{name}")
        if content is not None:
            record = read_file(self.kind, owner, name, key, content)
            if len(record.body) > KEPT_BODY:
                self._large[record.key] = f"{owner}/{name}"
                record = replace(record, body=b"")
            self._rows.keep(record.key, record)
        self._folder(owner).learn(name)

    def _whole(self, record: Record) -> Record:
        """The record with its body, read again if that was too large to keep."""
        if record.key not in self._large:
            return record
        owner, _, name = self._large[record.key].rpartition("/")
        content = self._disk.read(f"{names.folder(self.kind, owner)}/{name}") or b""
        return read_file(self.kind, owner, name, record.key, content)

    # changing, in memory first

    def make_way(self, key: Key) -> None:
        """Nothing to do: a damaged file is simply replaced."""

    def rival(self, record: Record) -> Record | None:
        """The record under another key that holds this one's unique values."""
        unique = self.kind.unique
        if not unique:
            return None
        self._load(record.key[:1] if self.kind.key[0].name in unique else ())
        holder = self._rows.holder(record)
        return None if holder is None or holder.key == record.key else self._whole(holder)

    def set(self, key: Key, row: Row | None) -> Row | None:
        """Have this record there, or nothing; returns what was there before."""
        assert row is None or isinstance(row, Record)
        before = self.get(key)
        self._large.pop(key, None)
        self._rows.keep(key, row)
        self._folder(names.owner_name(self.kind, key)).learn(names.record_name(self.kind, key))
        return before

    # changing the disk

    def steps(self, changed: dict[Key, Row | None], journal: Journal) -> Iterator[tuple[Step, Change]]:  # noqa: ARG002 — logs need it
        """What brings the files to what is in memory, for these keys with what was there before."""
        for key, before in changed.items():
            folder = names.folder(self.kind, names.owner_name(self.kind, key))
            path = f"{folder}/{names.record_name(self.kind, key)}"
            record = self._rows.get(key)
            if record is None and before is not None:
                yield Step(do="remove", path=path), (self.kind.name, key, False)
            elif record is not None and record != before:
                yield Step(do="replace", path=path, content=write_line(record)), (self.kind.name, key, False)


def read_file(kind: Kind, owner: str, name: str, key: Key | None, content: bytes) -> Record:
    """The record in a file, or what is left of it; without a key from the names, the content has to tell."""
    for line in lines_in(content):
        record = read_sound(kind, line.raw) if line.sound else None
        if record is not None and record.key == (key or _vouched(kind, owner, name, record.key)):
            return record
    true = key or _vouched(kind, owner, name, tuple(key_in(content) or ()))
    return salvage(kind, true or names.fallback_key(kind, owner, name), content.rstrip(b"\n"))


def _vouched(kind: Kind, owner: str, name: str, key: Key) -> Key | None:
    """The key if it is the one these names were made of."""
    if len(key) != len(kind.key):
        return None
    made = (names.owner_name(kind, key), names.record_name(kind, key))
    return key if made == (owner, name) else None
