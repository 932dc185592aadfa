"""Lock files that processes queue on, with a deadline, and that a dead holder cannot keep."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from _thread import start_new_thread
from abc import ABC, abstractmethod

# A commit takes less time than waking somebody who queues. So who finds the lock taken looks again for a few
# milliseconds before it queues, and goes on at once when it finds it free.
_PAUSES_S = (*[0.00005] * 10, *[0.0005] * 8)

_flock = fcntl.flock
_TRY = fcntl.LOCK_EX | fcntl.LOCK_NB
_LET_GO = fcntl.LOCK_UN


class Wait:
    """A place in the queue for a lock, kept by a thread of its own."""

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.wanted = True
        self.granted = False
        self._told = (
            threading.Lock()
        )  # not an Event, which is written in Python: interrupted, it raises errors of its own
        self._told.acquire()

    def grant(self) -> None:
        """Let whoever waits go on."""
        self.granted = True
        self._told.release()

    def wait(self, until: float) -> None:
        """Until it is granted, or until this moment of the monotonic clock."""
        self._told.acquire(timeout=max(0.0, until - time.monotonic()))


class Queued(ABC):
    """A lock on files that is waited for until a deadline. Within one process its user takes turns by other means.

    flock has no timeout, but its queue is fair; so a thread waits in it and may outlive the deadline. Whoever of this
    process holds the lock, `_wait` is None: while a thread stands in the queue, nobody may take or release it.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._wait: Wait | None = None
        self._closed = False

    @abstractmethod
    def _take(self, shared: bool, blocking: int) -> bool:
        """Take the files' locks; False where that would block, and may not."""

    @abstractmethod
    def _let_go(self) -> None:
        """Let the next one have them."""

    @abstractmethod
    def _give_back(self) -> None:
        """Close the files."""

    def _queue_up(self, shared: bool) -> Wait:
        """Stand in the queue, or take the place that somebody has given up; with the mutex held."""
        if self._wait is None:
            self._wait = wait = Wait(shared)
            try:
                # Not a Thread, whose start waits for it: interrupted there, one would not know whether it stands.
                start_new_thread(self._stand, (wait,))
            except BaseException as cause:
                wait.wanted = False
                if isinstance(cause, RuntimeError):  # there was none to be had
                    self._wait = None
                raise
        self._wait.wanted = True
        return self._wait

    def _stand(self, wait: Wait) -> None:
        self._take(wait.shared, blocking=0)
        with self._mutex:
            if self._closed:
                self._give_back()
            elif wait.wanted:
                wait.grant()
            else:
                self._let_go()  # before anybody of this process can take it again
                self._wait = None

    def _is_granted(self, wait: Wait, until: float) -> bool:
        """Whether the lock comes by this moment of the monotonic clock; after it, it is wanted no more."""
        try:
            wait.wait(until)
        except BaseException:  # as by Ctrl-C; nobody would ever let go of what comes later
            if self._leave_queue(wait):
                self.release()
            raise
        return self._leave_queue(wait)

    def _leave_queue(self, wait: Wait) -> bool:
        with self._mutex:
            if wait.granted:
                self._wait = None
            else:
                wait.wanted = False
            return wait.granted

    def release(self) -> None:
        """Let the next one have it; fine if it is not held."""
        if self._wait is None:
            self._let_go()

    def close(self) -> None:
        """Give the files back, at once or when the one who waits for them wakes."""
        with self._mutex:
            if not self._closed:
                self._closed = True
                if self._wait is None or self._wait.granted:
                    self._give_back()


class FileLock(Queued):
    """An exclusive lock between processes."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.held = False  # or about to be, so that who finds it so after an interrupt can let go
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def take_free(self) -> bool:
        """Take the lock if nobody has it and nobody of this process waits for it."""
        if self._wait is not None:
            return False
        self.held = True
        try:
            _flock(self._fd, _TRY)
        except BlockingIOError:
            self.held = False
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
        with self._mutex:
            wait = self._queue_up(shared=False)
        return self._is_granted(wait, until)

    def _take(self, shared: bool, blocking: int) -> bool:  # noqa: ARG002 — it is held alone
        self.held = True
        _flock(self._fd, fcntl.LOCK_EX | blocking)
        return True

    def _let_go(self) -> None:
        _flock(self._fd, _LET_GO)
        self.held = False

    def _give_back(self) -> None:
        os.close(self._fd)
