"""A lock file that processes queue on, with a deadline, and that a dead holder cannot keep."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting

# A commit takes less time than waking somebody who queues. So who finds the lock taken looks again for a few
# milliseconds before it queues, and goes on at once when it finds it free.
_PAUSES_S = (*[0.00005] * 10, *[0.0005] * 8)

_flock = fcntl.flock
_TRY = fcntl.LOCK_EX | fcntl.LOCK_NB
_LET_GO = fcntl.LOCK_UN


class FileLock:
    """An exclusive lock between processes. Within one process its user takes turns by other means."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._mutex = threading.Lock()
        self._waiter: ThreadPoolExecutor | None = None
        self._waiting: Future[None] | None = None
        self._wanted = False
        self._granted = False

    def take_free(self) -> bool:
        """Take the lock if nobody has it and nobody of this process waits for it."""
        if self._waiting is not None:
            return False
        try:
            _flock(self._fd, _TRY)
        except BlockingIOError:
            return False
        return True

    def acquire(self, until: float) -> bool:
        """Take the lock by this moment of the monotonic clock, or say False."""
        for pause in _PAUSES_S:
            if self.take_free():
                return True
            if time.monotonic() + pause >= until:
                break
            time.sleep(pause)
        waiting = self._join_queue()
        with contextlib.suppress(StillWaiting):
            waiting.result(timeout=max(0.0, until - time.monotonic()))
        with self._mutex:
            if self._granted:
                self._waiting = None
            else:
                self._wanted = False
            return self._granted

    def _join_queue(self) -> Future[None]:
        with self._mutex:
            self._wanted = True
            if self._waiting is None:
                self._granted = False
                self._waiter = self._waiter or ThreadPoolExecutor(1, "holdfast-lock")
                self._waiting = self._waiter.submit(self._wait)
            return self._waiting

    def _wait(self) -> None:
        # flock has no timeout, but its queue is fair; so a thread waits in it and may outlive the deadline.
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        with self._mutex:
            self._granted = self._wanted
            if not self._wanted:
                self._waiting = None
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def release(self) -> None:
        """Let the next one have it."""
        _flock(self._fd, _LET_GO)

    def close(self) -> None:
        """Give the file back."""
        if self._waiter is not None:
            self._waiter.shutdown(wait=False)
        os.close(self._fd)
