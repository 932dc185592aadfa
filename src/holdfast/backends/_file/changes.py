"""What has changed since a process last looked, so that it can drop just that from its caches.

One short line per commit, read by every process that has the store open. It is not synced: after power
loss nobody has caches. A new mark on top means: drop everything.
"""

from __future__ import annotations

import os
from typing import TypeAlias

import msgspec

from holdfast.contracts import Key

_MARK = 17
_LARGEST = 1 << 18


Change: TypeAlias = tuple[str, Key]  # a kind, and the key of a record that was put, or of a log that grew

_decode = msgspec.json.Decoder(list[tuple[str, list[str | int]]]).decode_lines


class Changes:
    """A process' view of the file. Its user holds the lock."""

    def __init__(self, path: str, read_only: bool = False) -> None:
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT)
        self._fd = os.open(path, flags, 0o644)
        self._mark = b""
        self._at = 0

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
            return [(kind, tuple(key)) for line in lines for kind, key in line]
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def note(self, touched: list[Change]) -> None:
        """Tell the others what a commit has touched."""
        if self._at < _MARK or self._at > _LARGEST:
            self.start_afresh()
            return
        line = msgspec.json.encode(touched) + b"\n"
        os.pwrite(self._fd, line, self._at)
        self._at += len(line)

    def start_afresh(self) -> None:
        """Have all others drop everything, and keep no trace of what was touched before."""
        self._mark, self._at = os.urandom((_MARK - 1) // 2).hex().encode() + b"\n", _MARK
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, self._mark, 0)

    def close(self) -> None:
        """Give the file back."""
        os.close(self._fd)
