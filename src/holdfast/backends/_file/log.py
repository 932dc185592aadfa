"""One log file: where its lines are, and the steps that change it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from holdfast.backends._file.disk import Disk
from holdfast.backends._file.journal import Journal, Step
from holdfast.backends._file.lines import is_sound, lines_in, read_line, read_sound, salvage, write_line
from holdfast.backends._rows import Values, picker
from holdfast.contracts import Key, Record
from holdfast.kinds import Kind


class Spot(NamedTuple):
    """Where a line is in its file, and the values in it that must be unique; None if it is damaged."""

    offset: int
    length: int
    unique: Values | None


Row: TypeAlias = Spot | Record  # a Record until the commit that writes it


class Log:
    """The lines of one file by position; `first` is where it began."""

    def __init__(self, kind: Kind, path: str, key: Key, first: int) -> None:
        self.first = first
        self.kind = kind
        self.path = path
        self.key = key
        self.unique_of = picker(kind, kind.unique)
        self.rows: dict[int, Row] = {}
        self.positions: list[int] = []
        self.end = 0  # where the next line goes
        self.live = 0  # how many bytes before that are lines of records
        self.unended = False  # whether the last line lacks its line end
        self.torn = False  # whether behind `end` there is a line that was never finished
        self.grown = True  # whether there may be more in the file

    def set(self, position: int, row: Row | None) -> Row | None:
        """Have this row there, or nothing; returns what was there before."""
        before = self.rows.pop(position, None)
        self.live += _length(row) - _length(before)
        if row is not None:
            self.rows[position] = row
            if before is None:
                insort(self.positions, position)
        elif before is not None:
            del self.positions[bisect_left(self.positions, position)]
        return before

    def between(self, low: int | None, high: int | None) -> range:
        """Where in `positions` those from low to high are, both inclusive."""
        start = 0 if low is None else bisect_left(self.positions, low)
        stop = len(self.positions) if high is None else bisect_right(self.positions, high)
        return range(start, max(start, stop))

    def records(self, disk: Disk, positions: list[int]) -> list[Record]:
        """The records at these positions, all of which must be there."""
        rows = [self.rows[position] for position in positions]
        start = min((row.offset for row in rows if isinstance(row, Spot)), default=0)
        stop = max((row.offset + row.length for row in rows if isinstance(row, Spot)), default=0)
        content = disk.read_part(self.path, start, stop - start) if stop else b""
        return [
            row
            if isinstance(row, Record)
            else self._record(position, content[row.offset - start : row.offset - start + row.length])
            for position, row in zip(positions, rows, strict=True)
        ]

    def _record(self, position: int, line: bytes) -> Record:
        record = read_line(self.kind, line)
        key = (*self.key, position)
        return record if record is not None and record.key == key else salvage(self.kind, key, line)

    # taking in what is in the file

    def take_in(self, content: bytes) -> Iterator[tuple[Values, int]]:
        """Index what follows the part that is known; gives the unique values found, with their positions."""
        base, damaged = self.end, list[tuple[int, Spot]]()
        last = self.positions[-1] if self.positions else self.first - 1
        for line in lines_in(content):
            record = read_sound(self.kind, line.raw) if line.sound else None
            spot = Spot(base + line.offset, len(line.raw), None if record is None else self.unique_of(record))
            if spot.unique is not None and record is not None and record.key[:-1] == self.key:
                last = int(record.key[-1])
                self.set(last, spot)
                yield spot.unique, last
            else:
                damaged.append((last, spot._replace(unique=None)))
        for after, spot in damaged:
            position = self._free_behind(after)
            if position is not None:
                self.set(position, spot)
        self._find_end(content)
        self.grown = False

    def _find_end(self, content: bytes) -> None:
        """Where the next line goes: behind the last whole one."""
        start = content.rfind(b"\n") + 1
        last = content[start:]
        whole = last if is_sound(last) else last[:-1]
        self.torn = bool(last) and not is_sound(whole)
        self.unended = bool(last) and not self.torn
        self.end += start + (len(whole) if self.unended else 0)

    def make_way(self, disk: Disk) -> int | None:
        """Prepare for an append: a torn last line is gone, one that only lacks its end is whole.

        Returns the position of the latter, if it counted as damaged until now.
        """
        behind = [at for at, row in self.rows.items() if isinstance(row, Spot) and row.offset + row.length > self.end]
        for position in behind if self.torn else ():
            self.set(position, None)
        self.torn = False
        for position in behind if self.unended else ():
            spot = self.rows[position]
            assert isinstance(spot, Spot)
            self.set(position, spot._replace(length=self.end - spot.offset))
            record = self.records(disk, [position])[0]
            self.set(position, Spot(spot.offset, self.end - spot.offset, self.unique_of(record)))
            return position
        return None

    def _free_behind(self, position: int) -> int | None:
        """The position of a damaged line that follows this one; None if a sound line has it."""
        while True:
            position += 1
            row = self.rows.get(position)
            if row is None:
                return position
            if not isinstance(row, Spot) or row.unique is not None:
                return None

    # changing the file

    def steps(self, disk: Disk, befores: dict[int, Row | None], journal: Journal) -> Iterator[Step]:
        """What brings the file to the rows, which differ from it at these positions."""
        dead = [row for row in befores.values() if isinstance(row, Spot)]
        fresh = [position for position in befores if isinstance(self.rows.get(position), Record)]
        if not self.rows:
            if self.end:
                yield Step(do="remove", path=self.path)
        elif any(befores[position] is not None for position in fresh) or (dead and self.live * 2 < self.end):
            yield Step(do="move", path=self.path, source=journal.prepare(self._rewritten(disk, befores)))
        else:
            if dead:
                yield Step(do="blank", path=self.path, spans=[(row.offset, row.length) for row in dead])
            if fresh:
                yield self._append(fresh)

    def _append(self, fresh: list[int]) -> Step:
        offset = self.end
        lines = [b"\n"] if self.unended else []
        self.end += len(lines)
        for position in fresh:
            lines.append(self._write(position))
        self.unended = False
        return Step(do="append", path=self.path, offset=offset, content=b"".join(lines))

    def _write(self, position: int) -> bytes:
        """The line of a fresh record, which goes to the end."""
        record = self.rows[position]
        assert isinstance(record, Record)
        line = write_line(record)
        self.set(position, Spot(self.end, len(line) - 1, self.unique_of(record)))
        self.end += len(line)
        return line

    def _rewritten(self, disk: Disk, befores: dict[int, Row | None]) -> bytes:
        """The whole file anew, its lines in their old order, fresh ones at the end."""
        old = disk.read(self.path) or b""
        places = {position: befores.get(position) or self.rows[position] for position in self.positions}
        known = [(place.offset, position) for position, place in places.items() if isinstance(place, Spot)]
        fresh = [position for position in befores if isinstance(places.get(position), Record)]
        lines: list[bytes] = []
        self.end, self.unended = 0, False
        for position in [*(position for _, position in sorted(known)), *fresh]:
            row = self.rows[position]
            if isinstance(row, Record):
                lines.append(self._write(position))
            else:
                lines.append(old[row.offset : row.offset + row.length] + b"\n")
                self.rows[position] = row._replace(offset=self.end)
                self.end += row.length + 1
        return b"".join(lines)


def _length(row: Row | None) -> int:
    return row.length + 1 if isinstance(row, Spot) else 0
