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

from holdfast.contracts import Planned, Rebase, Write
from holdfast.deadlines import deadline
from holdfast.errors import BackendError, Busy

MAX_BATCH = 256

Commit = Callable[[Sequence[Write] | None, Rebase | None], Sequence[Write]]


class Request:
    """One commit that somebody waits for."""

    __slots__ = ("deadline", "done", "error", "rebase", "result", "submitted", "writes")

    def __init__(self, writes: Sequence[Write] | None, rebase: Rebase | None, until: float) -> None:
        self.writes = writes
        self.rebase = rebase
        self.deadline = until
        self.done = False
        self.result: Sequence[Write] = ()
        self.error: BaseException | None = None
        self.submitted: Submitted | None = None

    def finish(self, result: Sequence[Write] = (), error: BaseException | None = None) -> None:
        """Answer whoever waits."""
        self.result, self.error, self.done = result, error, True
        if self.submitted is not None:
            self.submitted.finished()


class Submitted:
    """Requests that are answered by one future, once all are done."""

    def __init__(self, plans: Sequence[Planned], done: deque[Submitted]) -> None:
        self.requests = [Request(plan.writes, plan.rebase, plan.until) for plan in plans]
        self.future: Future[list[BaseException | None]] = Future()
        self.future.set_running_or_notify_cancel()  # so that nobody can take it back
        self._open = len(self.requests)
        self._done = done
        for request in self.requests:
            request.submitted = self

    def finished(self) -> None:
        """One more is done; whoever has the turn says so."""
        self._open -= 1
        if self._open == 0:
            self._done.append(self)

    def answer(self) -> None:
        """Say what came of all."""
        self.future.set_result([request.error for request in self.requests])


def expired() -> Busy:
    """The error at the deadline."""
    return Busy("another writer holds the store; nothing was written. Repeat, or raise timeout=")


def closed() -> BackendError:
    """The error of one who comes too late."""
    return BackendError("the store is closed; open it again")


class GroupCommit:
    """The queue in front of a store's commits.

    `alone` carries out one commit; `together` carries out several and must finish every request it is given.
    """

    def __init__(self, alone: Commit, together: Callable[[list[Request]], None]) -> None:
        self._alone = alone
        self._together = together
        self._queue: deque[Request] = deque()
        self._done: deque[Submitted] = deque()
        self._turn = threading.Lock()
        self._wake = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._closed = False  # to those who come
        self._ended = False  # and to those who have the turn

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None) -> Sequence[Write]:
        """Have the request carried out, by this thread or by another, and return what was applied."""
        if not self._queue and self._turn.acquire(False):
            try:
                self._check_open()
                return self._alone(writes, rebase)
            finally:
                self._turn.release()
        request = Request(writes, rebase, deadline())
        self._queue.append(request)
        while not request.done:
            self._take_turn(request)
            try:
                if not request.done:
                    self._lead()
            finally:
                self._hand_on()
        if request.error is not None:
            raise request.error
        return request.result

    def at_once(self, plans: Sequence[Planned], carry_out: Callable[[list[Request]], bool]) -> list[Request] | None:
        """Carry requests out on this thread, unless somebody else has the turn or `carry_out` would have to wait."""
        if self._queue or not self._turn.acquire(False):
            return None
        try:
            self._check_open()
            batch = [Request(plan.writes, plan.rebase, plan.until) for plan in plans]
            return batch if carry_out(batch) else None
        finally:
            self._turn.release()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """The turn, for work that is no commit."""
        if not self._turn.acquire(timeout=max(0.0, deadline() - time.monotonic())):
            raise expired()
        try:
            yield
        finally:
            self._turn.release()

    def _hand_on(self) -> None:
        """Give the turn back, and then answer, so that whoever is answered finds it free."""
        self._turn.release()
        self._answer()

    def _answer(self) -> None:
        while self._done:
            try:
                self._done.popleft().answer()
            except IndexError:
                return  # another thread was faster

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
            batch.append(self._queue.popleft())
        if batch and self._ended:
            for request in batch:
                request.finish(error=closed())
        elif batch:
            self._together(batch)

    def submit(self, plans: Sequence[Planned]) -> Future[list[BaseException | None]]:
        """Queue requests for the committing thread."""
        submitted = Submitted(plans, self._done)
        if not plans:
            submitted.answer()
        self._queue.extend(submitted.requests)
        if self._thread is None:
            self._start()
        self._wake.release()
        if self._closed:
            self._refuse()
        return submitted.future

    def _start(self) -> None:
        with self._turn:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="holdfast-commit", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while True:
            self._wake.acquire()
            while self._queue:
                self._turn.acquire()
                try:
                    self._lead()
                finally:
                    self._hand_on()
            if self._closed:
                return

    def close(self, close: Callable[[], None]) -> None:
        """Carry out what is queued, stop, and close the store once nobody commits any more."""
        self._closed = True
        self._wake.release()
        if self._thread is not None:
            self._thread.join()
        with self.alone():
            self._ended = True
            close()
        self._refuse()

    def _check_open(self) -> None:
        if self._ended:
            raise closed()

    def _refuse(self) -> None:
        """Answer those who came when the committing thread had gone."""
        while self._queue:
            self._turn.acquire()
            try:
                self._lead()
            finally:
                self._hand_on()
