"""What has changed since a process last looked, so that it can drop just that from its memory.

One short line per commit, read by every process that has the store open. It is not synced: after power
loss nobody remembers anything. A new mark on top means: drop everything.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from holdfast.contracts import Key

# A kind; the key of a record, or of a log without the position; and whether a log has only grown.
Change: TypeAlias = tuple[str, Key, bool]

_MARK = 17
_LARGEST = 1 << 18
_REMOVAL = b" "  # in front of a line that names something removed

_decode = msgspec.json.Decoder(list[tuple[str, list[str | int], bool]]).decode_lines


class Changes:
    """A process' view of the file. Its user holds the lock, to write alone."""

    def __init__(self, path: str, read_only: bool = False) -> None:
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT)
        self._fd = os.open(path, flags, 0o644)
        self._mark = b""
        self._at = 0
        self.names_removed = False

    def news(self) -> list[Change] | None:
        """What others have touched since the last call; None means that it may be anything."""
        size = os.fstat(self._fd).st_size
        mark = os.pread(self._fd, _MARK, 0)
        known, since = mark == self._mark and len(mark) == _MARK and size >= self._at, self._at
        self._mark, self._at = mark, size
        if not known:
            return None
        if size == since:
            return []
        try:
            lines = _decode(os.pread(self._fd, size - since, since))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return [(kind, tuple(key), grown) for line in lines for kind, key, grown in line]

    def note(self, touched: Sequence[Change], removal: bool) -> None:
        """Tell the others what a commit has touched."""
        if self._at < _MARK or self._at > _LARGEST:
            self.start_afresh()
            return
        line = (_REMOVAL if removal else b"") + msgspec.json.encode(touched) + b"\n"
        os.pwrite(self._fd, line, self._at)
        self._at += len(line)
        self.names_removed |= removal

    def scrub(self) -> None:
        """Keep no trace of what was removed."""
        if b"\n" + _REMOVAL in os.pread(self._fd, 2 * _LARGEST, 0):
            self.start_afresh()

    def start_afresh(self) -> None:
        """Have all others drop everything."""
        self._mark, self._at = os.urandom((_MARK - 1) // 2).hex().encode() + b"\n", _MARK
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, self._mark, 0)
        self.names_removed = False

    def close(self) -> None:
        """Give the file back."""
        os.close(self._fd)
