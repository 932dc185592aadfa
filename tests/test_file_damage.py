"""Whatever happens to a byte of a stored record in a file is found and named, and the rest stays readable."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from holdfast.backends._file.disk import Disk
from holdfast.backends._file.folder import files
from holdfast.backends._file.lines import key_in
from holdfast.backends.file import FileStore
from holdfast.contracts import RecordStore
from holdfast.kinds import KINDS
from holdfast.testing.damage import Damage, furnish, survive

DAMAGES = int(os.environ.get("HOLDFAST_DAMAGES", "2000"))
Line = tuple[str, int, bytes]  # a file, an offset in it, and what stands there up to the line end


class FileVandal:
    """Changes bytes in the files of a closed store."""

    def __init__(self, path: str) -> None:
        self._path = path
        store = FileStore(path)
        furnish(store)
        store.close()
        self._lines = [line for name in files(Disk(path), KINDS) for line in _lines(path, name)]
        self._whole: dict[str, bytes] = {}

    def open(self) -> RecordStore:
        return FileStore(self._path, read_only=True)

    def damage(self, random: Random) -> Damage:
        """See Vandal."""
        while True:
            name, offset, line = random.choice(self._lines)
            way = random.choice((_flip, _zero, _truncate, _cut_off, _swap, _exchange))
            content = Path(self._path, name).read_bytes()
            spoilt = way(content, offset, len(line), random)
            if spoilt != content:
                self._whole = {name: content}
                Path(self._path, name).write_bytes(spoilt)
                lost = [one for one in self._lines if one[0] == name and one[1] > offset and way is _cut_off]
                places = (_place(name, line), *(_place(name, one[2]) for one in lost))
                return Damage(what=f"{way.__name__} {name} at {offset}", places=places)

    def mend(self) -> None:
        """See Vandal."""
        for name, content in self._whole.items():
            Path(self._path, name).write_bytes(content)


class FileExchanger(FileVandal):
    """Exchanges the contents of two files of one kind."""

    def damage(self, random: Random) -> Damage:
        while True:
            one, other = random.sample(sorted({line[0] for line in self._lines}), 2)
            kinds = {_place(line[0], line[2])[0] for line in self._lines if line[0] in (one, other)}
            if len(kinds) == 1:
                self._whole = {name: Path(self._path, name).read_bytes() for name in (one, other)}
                Path(self._path, one).write_bytes(self._whole[other])
                Path(self._path, other).write_bytes(self._whole[one])
                places = [_place(line[0], line[2]) for line in self._lines if line[0] in (one, other)]
                return Damage(what=f"exchanged {one} and {other}", places=tuple(places))


def _lines(path: str, name: str) -> list[Line]:
    found, offset = [], 0
    for line in Path(path, name).read_bytes().splitlines(keepends=True):
        found.append((name, offset, line))
        offset += len(line)
    return found


def _place(name: str, line: bytes) -> tuple[str, tuple[str | int, ...]]:
    kinds = {kind.name: kind for kind in KINDS}
    parts = name.split("/")
    kind = next(kinds[part] for part in (parts[-1].split(".")[0], parts[-2], parts[0]) if part in kinds)
    return kind.name, tuple(key_in(line) or ())


def _flip(content: bytes, offset: int, length: int, random: Random) -> bytes:
    at = offset + random.randrange(length)
    return content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]


def _zero(content: bytes, offset: int, length: int, random: Random) -> bytes:
    """A run of zeros in the line, at times over its line end."""
    start, stop = sorted(random.sample(range(offset, offset + length + 1), 2))
    return content[:start] + bytes(stop - start) + content[stop:]


def _truncate(content: bytes, offset: int, length: int, random: Random) -> bytes:
    """A line that is too short; more than its line end is missing."""
    at = offset + random.randrange(length - 1)
    return content[:at] + b"\n" + content[offset + length :]


def _cut_off(content: bytes, offset: int, length: int, random: Random) -> bytes:
    """A file that ends in the middle of the line."""
    return content[: offset + random.randrange(1, length - 1)]


def _swap(content: bytes, offset: int, length: int, random: Random) -> bytes:
    """Two bytes of the line in each other's place."""
    one, other = sorted(random.sample(range(offset, offset + length), 2))
    swapped = bytearray(content)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    return bytes(swapped)


def _exchange(content: bytes, offset: int, length: int, random: Random) -> bytes:
    """Two pieces of the line in each other's place."""
    one, middle, other = sorted(random.sample(range(offset, offset + length), 3))
    return content[:one] + content[middle:other] + content[one:middle] + content[other:]


def test_damage_to_any_byte_of_a_record_is_named_and_the_rest_stays_readable(tmp_path: Path) -> None:
    assert survive(FileVandal(str(tmp_path / "agents")), DAMAGES) == []


def test_files_in_each_others_place_are_named_and_the_rest_stays_readable(tmp_path: Path) -> None:
    assert survive(FileExchanger(str(tmp_path / "agents")), DAMAGES // 10) == []
