"""The line in which the writers of a file wait for each other.

SQLite's own lock keeps them apart. But who waits for that one polls, and starves beside another that is busy. So
processes queue on a lock file while there are several: whoever has to wait says so, in memory that all of them share,
and for a while nobody goes past the line. A writer that is by itself spares taking and releasing the lock file.
"""

from __future__ import annotations

import mmap
import os
import time

from holdfast.backends._locks import FileLock

A_WHILE_S = 0.1
_BYTES = 8  # a moment of the monotonic clock, which all processes share


class Line(FileLock):
    """The lock file; the moment in it says until when writers queue."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        try:
            if os.fstat(self._fd).st_size < _BYTES:
                os.pwrite(self._fd, bytes(_BYTES), 0)  # by a call that can fail; written to memory, it would kill us
            self._memory = mmap.mmap(self._fd, _BYTES)
        except BaseException:
            os.close(self._fd)
            raise
        self._until = memoryview(self._memory).cast("d")

    def is_formed(self) -> bool:
        """Whether writers queue just now; what is left of an earlier start of the machine tells nothing."""
        until = self._until[0]
        return until != 0.0 and 0.0 < until - time.monotonic() <= A_WHILE_S

    def form(self) -> None:
        """Have all writers queue for a while, since one has to wait."""
        self._until[0] = time.monotonic() + A_WHILE_S

    def acquire(self, until: float) -> bool:
        if self.take_free():
            return True
        self.form()
        return super().acquire(until)

    def _give_back(self) -> None:
        self._until.release()
        self._memory.close()
        super()._give_back()
