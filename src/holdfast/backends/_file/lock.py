"""A lock between processes that writers hold alone and readers share, with a deadline."""

from __future__ import annotations

import fcntl
import os

from holdfast.backends._locks import Queued, Wait


class SharedLock(Queued):
    """A dead holder's locks go with its process.

    Readers pass a gate on their way in and a writer stands in it, so that new readers queue behind a
    waiting writer instead of starving it.
    """

    def __init__(self, path: str, read_only: bool = False) -> None:
        super().__init__()
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT)
        self._lock = os.open(path, flags, 0o644)
        try:
            self._gate = os.open(f"{path}-gate", flags, 0o644)
        except OSError:
            os.close(self._lock)
            raise

    def acquire(self, shared: bool, until: float) -> bool:
        """Take the lock by this moment of the monotonic clock, or say False."""
        while True:
            wait = self._take_or_queue(shared)
            if wait is None:
                return True
            if not self._is_granted(wait, until):
                return False
            if shared or not wait.shared:
                return True
            # A place left over from a reader that gave up; what is wanted now is more.
            self.release()

    def _take_or_queue(self, shared: bool) -> Wait | None:
        with self._mutex:
            if self._wait is None and self._take(shared, fcntl.LOCK_NB):
                return None
            return self._queue_up(shared)

    def _take(self, shared: bool, blocking: int) -> bool:
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._gate, mode | blocking)
        except BlockingIOError:
            return False
        try:
            fcntl.flock(self._lock, mode | blocking)
        except BlockingIOError:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
            return False
        if shared:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
        return True

    def _let_go(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        fcntl.flock(self._gate, fcntl.LOCK_UN)

    def _give_back(self) -> None:
        os.close(self._lock)
        os.close(self._gate)
