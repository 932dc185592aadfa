"""A lock between processes that writers hold alone and readers share, with a deadline."""

from __future__ import annotations

import fcntl
import os
import threading
import time


class _Wait:
    """A place in the queue for the lock, kept by a thread of its own."""

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.wanted = True
        self.granted = threading.Event()


class SharedLock:
    """Within one process its user takes turns by other means; a dead holder's locks go with its process.

    Readers pass a gate on their way in and a writer stands in it, so that new readers queue behind a
    waiting writer instead of starving it.
    """

    def __init__(self, path: str, read_only: bool = False) -> None:
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT)
        self._lock = os.open(path, flags, 0o644)
        try:
            self._gate = os.open(f"{path}-gate", flags, 0o644)
        except OSError:
            os.close(self._lock)
            raise
        self._mutex = threading.Lock()
        self._wait: _Wait | None = None
        self._closed = False

    def acquire(self, shared: bool, until: float) -> bool:
        """Take the lock by this moment of the monotonic clock, or say False."""
        while True:
            wait = self._join_queue(shared)
            if wait is None:
                return True
            wait.granted.wait(max(0.0, until - time.monotonic()))
            with self._mutex:
                if not wait.granted.is_set():
                    wait.wanted = False
                    return False
                self._wait = None
            if shared or not wait.shared:
                return True
            # A place left over from a reader that gave up; what is wanted now is more.
            self.release()

    def _join_queue(self, shared: bool) -> _Wait | None:
        with self._mutex:
            if self._wait is None:
                if self._take(shared, fcntl.LOCK_NB):
                    return None
                self._wait = _Wait(shared)
                # flock has no timeout; so a thread waits in its queue and may outlive the deadline.
                threading.Thread(target=self._stand, args=(self._wait,), name="holdfast-lock", daemon=True).start()
            self._wait.wanted = True
            return self._wait

    def _stand(self, wait: _Wait) -> None:
        self._take(wait.shared, blocking=0)
        with self._mutex:
            if self._closed:
                self._give_back()
            elif wait.wanted:
                wait.granted.set()
            else:
                self._wait = None
                self.release()

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

    def release(self) -> None:
        """Let the next ones have it."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        fcntl.flock(self._gate, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the files back, at once or when the one who waits for them wakes."""
        with self._mutex:
            if not self._closed:
                self._closed = True
                if self._wait is None:
                    self._give_back()

    def _give_back(self) -> None:
        os.close(self._lock)
        os.close(self._gate)
