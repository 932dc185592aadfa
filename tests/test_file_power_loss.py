"""Power loss on the file backend: whatever a disk may have kept of unsynced writes, each commit is whole.

A recorded run is cut at any point. What was synced by then is there; of the rest each write may be there,
torn or missing, and each name made, moved or removed may or may not be so. The store must then open and hold
exactly what was acknowledged, with or without the one commit that was under way.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple

import pytest

from holdfast.backends._file.disk import Disk
from holdfast.backends.file import FileStore
from holdfast.codec import digest
from holdfast.contracts import Delete, Insert, Put, Query, Record, Write
from holdfast.errors import HoldfastError
from holdfast.kinds import BRANCHES, HEADS, KINDS, MESSAGES, SESSIONS

RUNS = int(os.environ.get("HOLDFAST_POWER_RUNS", "12"))
CUTS = 40
COMMITS = 25
SECTOR = 512


class Event(NamedTuple):
    """Something that was done to the disk, or the acknowledgement of a commit."""

    do: str
    name: str = ""
    other: str = ""
    offset: int = 0
    content: bytes = b""
    cut: bool = False


ACKNOWLEDGED = Event("acknowledged")


class RecordedDisk(Disk):
    """A disk that notes what is done to it."""

    events: ClassVar[list[Event]] = []

    def write(self, name: str, offset: int, content: bytes, cut: bool = True) -> None:
        super().write(name, offset, content, cut)
        self.events.append(Event("write", name, offset=offset, content=content, cut=cut))

    def sync(self, name: str) -> None:
        self.events.append(Event("sync", name))

    def sync_folder(self, name: str) -> None:
        self.events.append(Event("sync_folder", name))

    def cut(self, name: str, size: int) -> None:
        raise NotImplementedError("nothing refuses a write here, so nothing is undone")

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.events.append(Event("rename", old, new))

    def remove(self, name: str) -> None:
        super().remove(name)
        self.events.append(Event("remove", name))

    def make_folder(self, name: str) -> list[str]:
        missing = [folder for folder in _with_above(name) if not os.path.isdir(self.path(folder))]
        self.events.extend(Event("make", folder) for folder in reversed(missing))
        return super().make_folder(name)

    def drop_empty(self, name: str) -> str:
        there = [folder for folder in _with_above(name) if os.path.isdir(self.path(folder))]
        stays = super().drop_empty(name)
        gone = [folder for folder in there if not os.path.isdir(self.path(folder))]
        self.events.extend(Event("drop", folder) for folder in gone)
        return stays


class UnsyncedDisk(RecordedDisk):
    """A disk whose files are never synced."""

    def sync(self, name: str) -> None:
        pass


class UnsyncedFolders(RecordedDisk):
    """A disk whose folders are never synced, but for those of an empty store."""

    def sync_folder(self, name: str) -> None:
        if ACKNOWLEDGED not in self.events:
            super().sync_folder(name)


def _with_above(name: str) -> Iterator[str]:
    while name:
        yield name
        name = os.path.dirname(name)


class File:
    """A file's content as synced, and the writes since."""

    def __init__(self) -> None:
        self.synced = b""
        self.writes: list[Event] = []

    def content(self) -> bytes:
        content = self.synced
        for event in self.writes:
            content = _written(content, event.offset, event.content, event.cut)
        return content

    def sync(self) -> None:
        self.synced, self.writes = self.content(), []

    def after_loss(self, chance: Random) -> bytes:
        """The content with each unsynced write there, torn or missing."""
        content = self.synced
        for event in self.writes:
            fate = chance.choice(("there", "torn", "missing"))
            if fate != "missing":
                kept = len(event.content)
                if fate == "torn":
                    kept = chance.randrange(0, kept + 1) // SECTOR * SECTOR
                content = _written(content, event.offset, event.content[:kept], event.cut and fate == "there")
        return content


def _written(content: bytes, offset: int, piece: bytes, cut: bool) -> bytes:
    end = offset + len(piece)
    tail = b"" if cut else content[end:]
    return content[:offset].ljust(offset, b"\0") + piece + tail


class Platter:
    """What a disk surely holds after some events, and what it may hold."""

    def __init__(self) -> None:
        self.names: dict[str, File | None] = {}  # None is a folder
        self.synced: dict[str, File | None] = {}
        self.changes: dict[str, list[tuple[str, File | None, bool]]] = {}

    def do(self, event: Event) -> None:
        file = self.names.get(event.name)
        if event.do == "write":
            if file is None:
                file = File()
                self._change(event.name, file)
            file.writes.append(event)
        elif event.do == "sync" and file is not None:
            file.sync()
        elif event.do == "sync_folder":
            for change in self.changes.pop(event.name, []):
                _set(self.synced, *change)
        elif event.do == "make":
            self._change(event.name, None)
        elif event.do == "remove":
            self._change(event.name, None, gone=True)
        elif event.do == "drop":
            # A folder made later under this name is another one, and begins empty.
            self.changes.setdefault(os.path.dirname(event.name), []).extend(self.changes.pop(event.name, []))
            self._change(event.name, None, gone=True)
        elif event.do == "rename":
            self._change(event.other, file)
            self._change(event.name, None, gone=True)

    def _change(self, name: str, file: File | None, gone: bool = False) -> None:
        _set(self.names, name, file, gone)
        self.changes.setdefault(os.path.dirname(name), []).append((name, file, gone))

    def lose_power(self, chance: Random, path: str) -> None:
        """Lay out what is left; one time in four nothing is lost, as when only the process dies."""
        names, odds = dict(self.synced), chance.choice((0.0, 0.5, 1.0, 1.0))
        killed = odds == 1.0 and chance.random() < 0.5
        for change in (one for changes in self.changes.values() for one in changes):
            if chance.random() < odds and not (change[2] and _only_name(names, change[0])):
                _set(names, *change)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        for name, file in sorted((self.names if killed else names).items()):
            if not all(folder in names for folder in list(_with_above(name))[1:]):
                continue
            if file is None:
                os.mkdir(f"{path}/{name}")
            else:
                Path(path, name).write_bytes(file.content() if killed else file.after_loss(chance))

    @classmethod
    def holding(cls, path: str) -> Platter:
        """A disk that surely holds what is there now."""
        platter = cls()
        for found in sorted(Path(path).rglob("*")):
            platter.names[str(found.relative_to(path))] = file = File() if found.is_file() else None
            if file is not None:
                file.synced = found.read_bytes()
        platter.synced = dict(platter.names)
        return platter


def _set(names: dict[str, File | None], name: str, file: File | None, gone: bool) -> None:
    if gone:
        for one in [one for one in names if one == name or one.startswith(f"{name}/")]:
            del names[one]
    else:
        names[name] = file


def _only_name(names: dict[str, File | None], name: str) -> bool:
    """Whether a temporary file would be lost altogether: a rename takes the old name only with the new one there."""
    file = names.get(name)
    return "/tmp/" in name and file is not None and sum(one is file for one in names.values()) == 1


# what is stored


def _record(chance: Random, number: int) -> Record:
    body = b'{"said":"%s"}' % (b"x" * chance.choice((5, 100, 3000)))
    history = f"h{chance.randint(1, 2)}"
    kind = chance.choice((MESSAGES, MESSAGES, HEADS, BRANCHES, SESSIONS))
    if kind is MESSAGES:
        key: tuple[str | int, ...] = (history, chance.randint(1, 2), number)
        return Record(kind, key, body, digest(body), (f"m{number}", number, b"link"))
    if kind is BRANCHES:
        return Record(kind, (history, chance.randint(1, 3)), body, digest(body))
    values = (None, None, "active", None, 0, number, number) if kind is HEADS else (None, history)
    return Record(kind, (f"s{chance.randint(1, 3)}",), body, digest(body), values)


def _commit(chance: Random, number: int, present: list[Record]) -> list[Write]:
    """A few writes of all sorts, each of another record."""
    writes: dict[tuple[str | int, ...], Write] = {}
    for _ in range(chance.choice((1, 2, 2, 4))):
        number += 1
        record = _record(chance, number)
        writes[record.kind.name, *record.key] = Insert(record) if record.kind is MESSAGES else Put(record)
    if present and chance.random() < 0.4:
        for old in chance.sample(present, min(len(present), chance.choice((1, 3)))):
            redacted = Record(old.kind, old.key, b'{"gone":1}', digest(b'{"gone":1}'), old.fields)
            writes[old.kind.name, *old.key] = chance.choice((Delete(old.kind, old.key), Put(redacted)))
    if chance.random() < 0.05:
        return [Delete(MESSAGES, ("h1",)), Delete(BRANCHES, ("h1",))]
    return list(writes.values())


def _dump(store: FileStore) -> list[Record]:
    return [record for kind in KINDS for record in store.scan(Query(kind=kind))]


def _recorded(path: str, disk: type[RecordedDisk], seed: int) -> tuple[list[Event], list[list[Record]]]:
    """A run of commits: what it did to the disk, and what the store held after each."""
    chance = Random(seed)
    disk.events = events = []
    store = FileStore(path, disk=disk)
    states = [_dump(store)]
    events.append(ACKNOWLEDGED)
    for number in range(0, COMMITS * 10, 10):
        store.commit(_commit(chance, number, states[-1]))
        events.append(ACKNOWLEDGED)
        states.append(_dump(store))
    store.close()
    return events, states


def _reopened(path: str, disk: type[RecordedDisk]) -> list[Record] | None:
    """What the store holds now; None if it does not open."""
    disk.events = []
    try:
        store = FileStore(path, disk=disk)
    except HoldfastError:
        return None
    found = _dump(store)
    store.close()
    return found


def _losses(tmp_path: Path, disk: type[RecordedDisk], seed: int) -> Iterator[str]:
    """What is wrong after power was lost at random points of a run, and again while that was being repaired."""
    events, states = _recorded(str(tmp_path / f"run{seed}"), disk, seed)
    chance, path = Random(seed), str(tmp_path / "left")
    first = events.index(ACKNOWLEDGED)
    for cut in sorted(chance.sample(range(first, len(events)), min(CUTS, len(events) - first))):
        acknowledged = events[: cut + 1].count(ACKNOWLEDGED)
        allowed = states[acknowledged - 1 : acknowledged + 1]
        for found in _lost_twice(Platter(), events[: cut + 1], disk, chance, path):
            if found not in allowed:
                yield f"seed {seed}, after event {cut} of {len(events)}: {events[cut]}"


def _lost_twice(
    platter: Platter, events: list[Event], disk: type[RecordedDisk], chance: Random, path: str
) -> Iterator[list[Record] | None]:
    """What the store holds after these events and a power loss, and after another in the repair of the first."""
    for _ in range(2):
        for event in events:
            platter.do(event)
        platter.lose_power(chance, path)
        platter = Platter.holding(path)
        yield _reopened(path, disk)
        events = disk.events[: chance.randint(0, len(disk.events))]


@pytest.mark.parametrize("seed", range(RUNS))
def test_whatever_the_disk_kept_a_commit_is_whole(tmp_path: Path, seed: int) -> None:
    assert list(_losses(tmp_path, RecordedDisk, seed)) == []


@pytest.mark.parametrize("disk", [UnsyncedDisk, UnsyncedFolders])
def test_a_store_that_does_not_sync_is_caught(tmp_path: Path, disk: type[RecordedDisk]) -> None:
    assert any(found for seed in range(20) for found in _losses(tmp_path, disk, seed))
