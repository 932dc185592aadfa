"""Kinds that are logs: one file per log, a line per record, appended in place.

In memory is only where each line begins and what must be unique; bodies are read when asked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from holdfast.backends import _file_names as names
from holdfast.backends._file_changes import Change, change
from holdfast.backends._file_disk import Disk
from holdfast.backends._file_journal import Step
from holdfast.backends._file_lines import key_in, lines_in, read_line, salvage, write_line
from holdfast.backends._file_tables import ordered, passing
from holdfast.contracts import Key, Query, Record
from holdfast.filters import Scalar
from holdfast.kinds import Kind

PAGE = 500
Unique: TypeAlias = tuple[Scalar, ...]


class Spot(NamedTuple):
    """Where a line is in its file, and the values in it that must be unique, None if it is damaged."""

    offset: int
    length: int
    unique: Unique | None


Row: TypeAlias = Spot | Record  # a Record until the commit that writes it


class Log:
    """One file: its lines by position."""

    def __init__(self, kind: Kind, path: str, key: Key) -> None:
        self.kind = kind
        self.path = path
        self.key = key
        self.rows: dict[int, Row] = {}
        self.positions: list[int] = []
        self.end = 0
        self.blank = 0
        self.unended = False
        self.grown = True

    def set(self, position: int, row: Row | None) -> Row | None:
        """Have this row there, or nothing; returns what was there before."""
        before = self.rows.pop(position, None)
        if row is not None:
            self.rows[position] = row
            if before is None:
                insort(self.positions, position)
        elif before is not None:
            del self.positions[bisect_left(self.positions, position)]
        return before

    def between(self, low: int | None, high: int | None) -> list[int]:
        """The positions from low to high, both inclusive."""
        start = 0 if low is None else bisect_left(self.positions, low)
        stop = len(self.positions) if high is None else bisect_right(self.positions, high)
        return self.positions[start:stop]

    # from the file

    def take_in(self, content: bytes) -> Iterator[tuple[Unique, int]]:
        """Index what follows the part that is known; gives the unique values found, with their positions."""
        base, damaged, last = self.end, list[tuple[int, Spot, bytes]](), self.positions[-1] if self.positions else 0
        for offset, line in lines_in(content):
            record = read_line(self.kind, line)
            if record is not None and record.key[:-1] == self.key:
                last = int(record.key[-1])
                spot = Spot(base + offset, len(line), unique_of(record))
                self.set(last, spot)
                yield unique_of(record), last
            elif content.find(b"\n", offset) >= 0:
                damaged.append((last, Spot(base + offset, len(line), None), line))
        self._find_end(content)
        self._place_damaged(damaged)
        self.grown = False

    def _find_end(self, content: bytes) -> None:
        """Where the next line goes: behind the last that is whole; a torn one is cut by writing there."""
        whole = content.rfind(b"\n") + 1
        behind = max((row.offset + row.length for row in self.rows.values() if isinstance(row, Spot)), default=0)
        self.unended = behind > self.end + whole
        used = self.end + whole
        self.end = max(used, behind)
