"""From awaiting callers to the one synchronous source: a bounded pool, or a store that answers later by itself."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from types import coroutine
from typing import Any, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from holdfast.commits import Plan
from holdfast.contracts import CommitsAtOnce, Moved, Planned, RecordStore, Submits, Taken
from holdfast.deadlines import until, within
from holdfast.errors import BackendError, Busy
from holdfast.following import POLL_S, Following
from holdfast.model import Event
from holdfast.nouns import check_timeout

P = ParamSpec("P")
R = TypeVar("R")

_WAITED = "earlier commits took until the timeout; nothing was written. Repeat, or raise timeout="

WORKERS = 64
CHUNK = 200
ALONE_S = 0.002  # as long as one task may commit without giving the loop back


def _back_on(loop: asyncio.AbstractEventLoop, function: Callable[..., Any]) -> Callable[..., Any]:
    """An async function as a plain one for a pool's thread, which waits while the loop runs it."""
    return lambda *given: asyncio.run_coroutine_threadsafe(function(*given), loop).result()


def _calling(function: Callable[[], None]) -> Callable[[], None]:
    """A function of this loop's for any thread to call; nothing happens once the loop is closed."""
    loop = asyncio.get_running_loop()

    def call() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(function)

    return call


@coroutine
def _next_turn() -> Generator[None, None, None]:
    """Wait until the loop has run what is ready now; what was handed to it before comes first."""
    yield


class _Asked(Planned, frozen=False, gc=True):  # type: ignore[misc]  # which Structs may
    """A plan as a task has asked for it, and what came of it."""

    task: asyncio.Task[Any] | None
    cancels: int  # that the task had got when it asked
    done: bool = False
    refusal: BaseException | None = None
    answer: asyncio.Future[None] | None = None  # of a task that waits for longer than a turn of the loop
    expiring: asyncio.TimerHandle | None = None

    def tell(self, refusal: BaseException | None) -> None:
        """Let the task go on."""
        if self.done:
            return
        self.done, self.refusal = True, refusal
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(None)


def _begin(one: _Asked) -> bool:
    """Take up what was asked for; False if nobody waits for it.

    It expires no more by itself: from now on the store says how it came out, at its limit at the latest.
    """
    if one.expiring is not None:
        one.expiring.cancel()
    if one.task is not None and one.task.cancelling() > one.cancels:
        one.tell(asyncio.CancelledError())
    return not one.done


class _Turn(Struct):
    """What the tasks of one loop have asked for since it was last committed, and what a thread is busy with."""

    asked: list[_Asked] = []
    busy: int = 0
    done: deque[tuple[_Asked, Future[Any]]] = field(default_factory=deque)
    told: bool = False  # whether the loop knows that some are done
    asker: int = 0  # the id of the task that asked last
    since: float | None = None  # when a task began to commit without giving the loop back; None once that has gone on

    def is_left_to(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None) -> bool:
        """Whether a task that asks would wait for nobody: it asked last, too, and the loop went on moments ago."""
        before, self.asker = self.asker, id(task)
        if before != self.asker or self.asked or self.busy:
            return False
        present = time.monotonic()
        if self.since is None:
            self.since = present
            loop.call_soon(self._go_on)
        return present - self.since < ALONE_S

    def _go_on(self) -> None:
        self.since = None


class Bridge:
    """Runs a store's calls for an event loop."""

    def __init__(self, store: RecordStore, timeout: float) -> None:
        self._store = store
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(WORKERS, "holdfast")
        self._closed = False
        self._pid = os.getpid()
        self._entering = threading.Lock()
        self._later = store if isinstance(store, Submits) else None
        self._at_once = store if isinstance(store, CommitsAtOnce) else None
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turn] = WeakKeyDictionary()
        self._last: tuple[asyncio.AbstractEventLoop | None, _Turn] = (None, _Turn())  # the loop that asked last

    async def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function on the pool; an async function among its arguments runs on this loop."""
        if self._closed:
            raise BackendError("the store is closed; open it again")
        if os.getpid() != self._pid:  # where the threads of its pool are not
            raise BackendError("the store was opened before a fork; open it again in the child process")
        loop = asyncio.get_running_loop()
        given = cast(tuple[object, ...], args)
        if any(map(inspect.iscoroutinefunction, given)):
            back = [_back_on(loop, one) if inspect.iscoroutinefunction(one) else one for one in given]
            return await loop.run_in_executor(self._pool, partial(cast(Callable[..., R], function), *back, **kwargs))
        return await loop.run_in_executor(self._pool, partial(function, *args, **kwargs))

    async def submit(
        self, make: Callable[P, Plan[R]], timeout: float | None, /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Carry out a plan, holding no thread where the store can answer later."""
        if self._later is None:
            return await self.call(self._carry_out, partial(make, *args, **kwargs), timeout)
        seconds = self._timeout if timeout is None else check_timeout(timeout)
        plan = make(*args, **kwargs)
        if plan.blocks:
            return await self.call(self._carry_out, lambda: plan, timeout)
        loop, limit = asyncio.get_running_loop(), until(seconds)
        task = asyncio.current_task(loop)
        turn = self._turn_of(loop)
        refusals = None
        if self._at_once is not None and turn.is_left_to(loop, task):
            refusals = self._at_once.commit_at_once([Planned(plan.writes, plan.rebase, limit)])
        refusal = await self._gathered(loop, turn, plan, limit, task) if refusals is None else refusals[0]
        if refusal is None:
            return plan.finish()
        if isinstance(refusal, Moved | Taken):
            return await self.call(self._carry_out, lambda: plan, timeout)
        raise refusal

    async def _gathered(
        self,
        loop: asyncio.AbstractEventLoop,
        turn: _Turn,
        plan: Plan[Any],
        limit: float,
        task: asyncio.Task[Any] | None,
    ) -> BaseException | None:
        """Have a plan committed with all others that tasks ask for in the same turn of the loop; what came of it."""
        asked = _Asked(plan.writes, plan.rebase, limit, task, 0 if task is None else task.cancelling())
        self._ask(loop, turn, asked)
        try:
            if asked.expiring is None:
                await _next_turn()  # in which the commit comes first
            if not asked.done:
                asked.answer = loop.create_future()
                await asked.answer
        finally:
            asked.done = True  # also if the task waits no more, so that what is not begun is left
            if asked.expiring is not None:
                asked.expiring.cancel()
        return asked.refusal

    def _ask(self, loop: asyncio.AbstractEventLoop, turn: _Turn, asked: _Asked) -> None:
        turn.asked.append(asked)
        if turn.busy and self._at_once is not None:
            asked.expiring = loop.call_later(asked.until - time.monotonic(), asked.tell, Busy(_WAITED))
        elif len(turn.asked) == 1:
            loop.call_soon(self._commit, loop, turn)

    def _turn_of(self, loop: asyncio.AbstractEventLoop) -> _Turn:
        last, turn = self._last
        return turn if last is loop else self._enter(loop)

    def _enter(self, loop: asyncio.AbstractEventLoop) -> _Turn:
        with self._entering:  # by loops of several threads
            turn = self._turns.get(loop)
            if turn is None:
                for ended in [one for one in self._turns if one.is_closed()]:
                    del self._turns[ended]
                turn = self._turns[loop] = _Turn()
            self._last = loop, turn
        return turn

    def _commit(self, loop: asyncio.AbstractEventLoop, turn: _Turn) -> None:
        """Commit what was asked for: here, if that takes moments, else on the store's own threads."""
        asked, turn.asked = [one for one in turn.asked if _begin(one)], []
        if not asked:
            return
        try:
            refusals = None if self._at_once is None else self._at_once.commit_at_once(asked)
            if refusals is None:
                assert self._later is not None
                for one, committing in zip(asked, self._later.submit(asked), strict=True):
                    turn.busy += 1
                    committing.add_done_callback(partial(self._done, loop, turn, one))
                return
        except Exception as cause:  # noqa: BLE001 — whoever waits gets it
            refusals = [cause] * len(asked)
        for one, refusal in zip(asked, refusals, strict=True):
            one.tell(refusal)

    def _done(self, loop: asyncio.AbstractEventLoop, turn: _Turn, one: _Asked, committing: Future[Any]) -> None:
        """Have the loop told by any thread, once for all that are done until it listens."""
        turn.done.append((one, committing))
        if not turn.told:
            turn.told = True
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._answer, loop, turn)

    def _answer(self, loop: asyncio.AbstractEventLoop, turn: _Turn) -> None:
        """Tell what came of commits, and commit what was asked for meanwhile."""
        turn.told = False
        while turn.done:
            one, committing = turn.done.popleft()
            turn.busy -= 1
            one.tell(committing.exception())
        if not turn.busy:
            self._commit(loop, turn)

    def _carry_out(self, make: Callable[[], Plan[R]], timeout: float | None) -> R:
        with within(self._timeout if timeout is None else check_timeout(timeout)):
            return make().carry_out(self._store)

    async def iterate(
        self, function: Callable[P, Iterator[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[R]:
        """What a lazy function yields, fetched a chunk at a time."""
        source = await self.call(function, *args, **kwargs)
        while chunk := await self.call(lambda: list(islice(source, CHUNK))):
            for item in chunk:
                yield item

    async def stream(
        self, function: Callable[P, Iterator[bytes]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[bytes]:
        """The pieces that a function yields, fetched one at a time since each may be large."""
        source = await self.call(function, *args, **kwargs)
        while (piece := await self.call(next, source, None)) is not None:
            yield piece

    async def poll(self, make: Callable[P, Following], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Event]:
        """What a follower finds, holding no thread between its looks."""
        following = await self.call(make, *args, **kwargs)
        woken = asyncio.Event()
        with following.waking(_calling(woken.set)):
            while (found := await self.call(following.look)) is not None:
                for event in found:
                    yield event
                if not found:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(woken.wait(), POLL_S)
                    woken.clear()

    async def close(self, close: Callable[[], None]) -> None:
        """Close what the pool works for, then the pool; closing twice is fine."""
        if not self._closed:
            await self.call(close)
            self._closed = True
            self._pool.shutdown(wait=False)
