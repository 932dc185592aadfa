"""Group commit: whoever waits shares one transaction and one sync.

A thread that finds nobody ahead commits by itself at once. One that has to wait leaves its request in the
queue, and whoever gets the turn next carries out everything that is queued.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from holdfast.contracts import Rebase, Write
from holdfast.deadlines import deadline
from holdfast.errors import Busy

MAX_BATCH = 256

Commit = Callable[[Sequence[Write] | None, Rebase | None], Sequence[Write]]


class Request:
    """One commit that somebody waits for."""

    __slots__ = ("deadline", "done", "error", "future", "rebase", "result", "writes")

    def __init__(self, writes: Sequence[Write] | None, rebase: Rebase | None) -> None:
        self.writes = writes
        self.rebase = rebase
        self.deadline = deadline()
        self.done = False
        self.result: Sequence[Write] = ()
        self.error: BaseException | None = None
        self.future: Future[Sequence[Write]] | None = None

    def finish(self, result: Sequence[Write] = (), error: BaseException | None = None) -> None:
        """Answer whoever waits."""
        self.result, self.error, self.done = result, error, True
        if self.future is not None:
            if error is None:
                self.future.set_result(result)
            else:
                self.future.set_exception(error)


def expired() -> Busy:
    """The error at the deadline."""
    return Busy("another writer holds the store; nothing was written. Repeat, or raise timeout=")


class GroupCommit:
    """The queue in front of a store's commits.

    `alone` carries out one commit; `together` carries out several and must finish every request it is given.
    """

    def __init__(self, alone: Commit, together: Callable[[list[Request]], None]) -> None:
        self._alone = alone
        self._together = together
        self._queue: deque[Request] = deque()
        self._turn = threading.Lock()
        self._wake = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._closed = False

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None) -> Sequence[Write]:
        """Have the request carried out, by this thread or by another, and return what was applied."""
        if not self._queue and self._turn.acquire(False):
            try:
                return self._alone(writes, rebase)
            finally:
                self._turn.release()
        request = Request(writes, rebase)
        self._queue.append(request)
        while not request.done:
            self._take_turn(request)
            try:
                if not request.done:
                    self._lead()
            finally:
                self._turn.release()
        if request.error is not None:
            raise request.error
        return request.result

    @contextmanager
    def alone(self) -> Iterator[None]:
        """The turn, for work that is no commit."""
        if not self._turn.acquire(timeout=max(0.0, deadline() - time.monotonic())):
            raise expired()
        try:
            yield
        finally:
            self._turn.release()

    def _take_turn(self, request: Request) -> None:
        if self._turn.acquire(blocking=False):
            return
        if self._turn.acquire(timeout=max(0.0, request.deadline - time.monotonic())):
            return
        try:
            self._queue.remove(request)
        except ValueError:
            # Somebody is carrying it out: its outcome is moments away and must not be guessed.
            self._turn.acquire()
            return
        raise expired()

    def _lead(self) -> None:
        batch: list[Request] = []
        while self._queue and len(batch) < MAX_BATCH:
            request = self._queue.popleft()
            if request.future is None or request.future.set_running_or_notify_cancel():
                batch.append(request)
        if batch:
            self._together(batch)

    def submit(self, writes: Sequence[Write] | None, rebase: Rebase | None) -> Future[Sequence[Write]]:
        """Queue the request for the committing thread."""
        request = Request(writes, rebase)
        request.future = Future()
        self._queue.append(request)
        if self._thread is None:
            self._start()
        self._wake.release()
        return request.future

    def _start(self) -> None:
        with self._turn:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="holdfast-commit", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while True:
            self._wake.acquire()
            with self._turn:
                while self._queue:
                    self._lead()
            if self._closed:
                return

    def close(self) -> None:
        """Carry out what is queued and stop."""
        self._closed = True
        self._wake.release()
        if self._thread is not None:
            self._thread.join()
