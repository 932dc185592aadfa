"""Group commit: whoever waits shares one transaction and one sync.

A thread that finds nobody ahead commits by itself at once. One that has to wait leaves its request in the queue. It is
woken when that is done, or when it is the first and the turn is free: then it carries out everything that is queued.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TypeVar

from holdfast.backends._turn import Turn
from holdfast.contracts import Planned, Rebase, Write
from holdfast.deadlines import deadline
from holdfast.errors import BackendError, Busy

MAX_BATCH = 256
JUST_DONE_S = 0.0005  # as long as it takes to give the turn back after an answer

Commit = Callable[[Sequence[Write] | None, Rebase | None], Sequence[Write]]
P = TypeVar("P")
R = TypeVar("R")


def _signal(lock: threading.Lock) -> None:
    """Let whoever waits for this lock go on, or whoever will; several signals may be one."""
    with suppress(RuntimeError):  # it has been given already
        lock.release()


def _to_be_signalled() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class Request:
    """One commit that somebody waits for."""

    __slots__ = ("deadline", "done", "elsewhere", "error", "future", "rebase", "result", "tell_by", "woken", "writes")

    def __init__(self, writes: Sequence[Write] | None, rebase: Rebase | None, until: float) -> None:
        self.writes = writes
        self.rebase = rebase
        self.deadline = until
        self.done = False
        self.elsewhere = False  # whether a thread has it that will finish it, whatever becomes of the one that leads
        self.result: Sequence[Write] = ()
        self.error: BaseException | None = None
        self.woken: threading.Lock | None = None  # signalled when it is done, or may be led
        self.future: Future[Sequence[Write]] | None = None
        self.tell_by: Callable[[Request], None] | None = None  # what completes the future

    def finish(self, result: Sequence[Write] = (), error: BaseException | None = None) -> None:
        """Answer whoever waits."""
        self.result, self.error, self.done = result, error, True
        self.tell()

    def tell(self) -> None:
        """Let whoever waits know that it is done; fine if that was told before."""
        if self.woken is not None:
            _signal(self.woken)
        if self.tell_by is not None:
            self.tell_by(self)

    def complete(self) -> None:
        """Give the future its answer. An interrupt in that would leave some who wait for it without one."""
        if self.future is not None:
            with suppress(InvalidStateError):  # it has been told before
                if self.error is None:
                    self.future.set_result(self.result)
                else:
                    self.future.set_exception(self.error)


def expired() -> Busy:
    """The error at the deadline."""
    return Busy("another writer holds the store; nothing was written. Repeat, or raise timeout=")


def closed() -> BackendError:
    """The error of one who comes too late."""
    return BackendError("the store is closed; open it again")


def _broken_off() -> BackendError:
    """The error of those whose commit another thread had begun."""
    return BackendError(
        "the thread that was committing for this one was interrupted; look whether it is written before you repeat it"
    )


class GroupCommit:
    """The queue in front of a store's commits.

    `alone` carries out one commit; `together` carries out several and finishes every request it is given, or raises.
    Where commits can go side by side, whoever has waited for the turn for `patience` seconds goes without it.
    """

    def __init__(
        self,
        alone: Commit,
        together: Callable[[list[Request]], None],
        timeout: float,
        patience: float = math.inf,
    ) -> None:
        self._alone = alone
        self._together = together
        self._timeout = timeout
        self._patience = patience
        self._queue: deque[Request] = deque()
        self._turn = Turn()
        # Chosen once, since every commit asks.
        self._take = self._turn.take if patience == math.inf else self._take_or_go_on
        self._submitted = _to_be_signalled()
        self._told: deque[Request] = deque()  # those whose futures the committing thread is to complete
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False  # to those who come
        self._ended = False  # and to those who have the turn

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None) -> Sequence[Write]:
        """Have the request carried out, by this thread or by another, and return what was applied."""
        if not self._queue and self._take(0.0):
            try:
                with self._turn.in_use:
                    if self._ended:
                        raise closed()
                    return self._alone(writes, rebase)
            finally:
                self._pass_on()
        request = Request(writes, rebase, deadline(self._timeout))
        woken = request.woken = _to_be_signalled()
        try:
            self._queue.append(request)
            while not request.done:
                if not self._lead_in_turn(0.0):
                    self._wait(request, woken)
        except BaseException:
            self._leave(request)
            raise
        if request.error is not None:
            raise request.error
        return request.result

    def at_once(self, carry_out: Callable[[P], R | None], plans: P) -> R | None:
        """What this gives, on this thread and in its turn; None if others wait for the turn, or if it gives that."""
        if self._queue or not self._take(JUST_DONE_S):
            return None
        try:
            with self._turn.in_use:
                if self._ended:
                    raise closed()
                return carry_out(plans)
        finally:
            self._pass_on()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """The turn, for work that is no commit."""
        if not self._take(max(0.0, deadline(self._timeout) - time.monotonic())):
            raise expired()
        try:
            with self._turn.in_use:
                if self._ended:
                    raise closed()
                yield
        finally:
            self._pass_on()

    def _take_or_go_on(self, timeout: float) -> bool:
        """Take the turn, or say False; also within a commit of this thread, which then goes without it."""
        try:
            return self._turn.take(timeout)
        except BackendError:
            return False

    def _pass_on(self) -> None:
        """Give the turn back, and tell the next who waits for it."""
        self._turn.give_back()
        if self._queue:
            self._call_next()

    def _call_next(self) -> None:
        with suppress(IndexError):  # somebody has been faster, and tells the next himself
            following = self._queue[0]
            _signal(self._submitted if following.woken is None else following.woken)

    def _wait(self, request: Request, woken: threading.Lock) -> None:
        """Until the request is done or may be led; at its deadline, take it back."""
        left = max(0.0, request.deadline - time.monotonic())
        if woken.acquire(timeout=min(left, self._patience)):
            return
        if self._patience < left:
            self._lead()
            return
        if not self._leave(request):
            # Somebody is carrying it out: its outcome is moments away and must not be guessed.
            woken.acquire()
            return
        raise expired()

    def _leave(self, request: Request) -> bool:
        """Take a request back, and let the next know in its place; False if it is being carried out."""
        try:
            self._queue.remove(request)
        except ValueError:
            return False
        self._call_next()
        return True

    def _lead_in_turn(self, timeout: float) -> bool:
        """Carry out what is queued once the turn is free, or say False."""
        if not self._take(timeout):
            return False
        try:
            with self._turn.in_use:
                self._lead()
        finally:
            self._pass_on()
        return True

    def _lead(self) -> None:
        batch: list[Request] = []
        try:
            with suppress(IndexError):  # in one go, so that an interrupt finds each request here or in the queue
                batch.extend(islice(iter(self._queue.popleft, None), MAX_BATCH))
            if batch and self._ended:
                raise closed()
            if batch:
                self._together(batch)
        except BaseException as cause:
            error = cause if isinstance(cause, Exception) else _broken_off()
            for request in batch:
                if request.done:
                    request.tell()
                elif not request.elsewhere:
                    request.finish(error=error)
            if not isinstance(cause, Exception):
                raise

    def submit(self, plans: Sequence[Planned]) -> list[Future[Sequence[Write]]]:
        """Leave requests to the committing thread."""
        requests = [Request(plan.writes, plan.rebase, plan.until) for plan in plans]
        futures = []
        for request in requests:
            request.future, request.tell_by = Future(), self._tell
            request.future.set_running_or_notify_cancel()  # so that nobody can take it back
            futures.append(request.future)
        self._queue.extend(requests)
        if self._thread is None:
            self._start()
        _signal(self._submitted)
        if self._closed:
            self._serve_all()
        return futures

    def _tell(self, request: Request) -> None:
        if threading.current_thread() is not threading.main_thread() or self._closed:
            request.complete()
        else:  # where signals come in
            self._told.append(request)
            _signal(self._submitted)

    def _start(self) -> None:
        with self._starting:  # not the turn, which may be long: who submits waits for nobody
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="holdfast-commit", daemon=True)
                thread.start()
                self._thread = thread

    def _serve(self) -> None:
        while True:
            self._submitted.acquire()
            with suppress(BaseException):  # whoever waited has been told of it, and others come
                self._serve_all()
            if self._closed:
                return

    def _serve_all(self) -> None:
        while self._queue or self._told:
            with suppress(IndexError):
                self._told.popleft().complete()
                continue
            if not self._lead_in_turn(min(self._patience, threading.TIMEOUT_MAX)):
                self._lead()

    def check_outside(self) -> None:
        """BackendError within a commit of this thread, which would wait for itself."""
        self._turn.check_outside()

    def close(self, close: Callable[[], None]) -> None:
        """Carry out what is queued, stop, and close the store once nobody commits any more."""
        self._closed = True
        self._turn.heal()  # since all others would wait for it
        self._call_next()
        _signal(self._submitted)
        if self._thread is not None:
            self._thread.join()
        with self.alone():
            self._ended = True
            close()
        self._serve_all()  # to tell those who came when the committing thread had gone
