"""A disk for the file backend that notes what is done to it, and what a power loss may leave of that.

What was synced is there; of the rest each write may be there, torn or missing, and each name made, moved or
removed may or may not be so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple

from holdfast.backends._file.disk import Disk

SECTOR = 512


class Event(NamedTuple):
    """Something that was done to the disk, or the acknowledgement of a commit."""

    do: str
    name: str = ""
    other: str = ""
    offset: int = 0
    content: bytes = b""
    cut: bool = False


ASKED = Event("asked")
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
