"""From awaiting callers to the one synchronous source: a bounded pool, or a store that answers later by itself."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, ParamSpec, TypeVar, cast

from holdfast.commits import Plan
from holdfast.contracts import Moved, RecordStore, Submits, Taken
from holdfast.deadlines import within
from holdfast.errors import BackendError
from holdfast.following import POLL_S, Following
from holdfast.model import Event
from holdfast.nouns import check_timeout

P = ParamSpec("P")
R = TypeVar("R")

WORKERS = 64
CHUNK = 200


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


class Bridge:
    """Runs a store's calls for an event loop."""

    def __init__(self, store: RecordStore, timeout: float) -> None:
        self._store = store
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(WORKERS, "holdfast")
        self._closed = False

    async def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function on the pool; an async function among its arguments runs on this loop."""
        if self._closed:
            raise BackendError("the store is closed; open it again")
        loop = asyncio.get_running_loop()
        given = cast(tuple[object, ...], args)
        if any(map(inspect.iscoroutinefunction, given)):
            back = [_back_on(loop, one) if inspect.iscoroutinefunction(one) else one for one in given]
            return await loop.run_in_executor(self._pool, partial(cast(Callable[..., R], function), *back, **kwargs))
        return await loop.run_in_executor(self._pool, partial(function, *args, **kwargs))

    async def submit(self, make: Callable[[], Plan[R]], timeout: float | None) -> R:
        """Carry out a plan, holding no thread where the store can answer later."""
        if not isinstance(self._store, Submits):
            return await self.call(self._carry_out, make, timeout)
        with within(self._timeout if timeout is None else check_timeout(timeout)):
            plan = make()
            if plan.blocks:
                return await self.call(self._carry_out, lambda: plan, timeout)
            answer = self._store.submit(plan.writes, plan.rebase)
        try:
            await asyncio.wrap_future(answer)
        except (Moved, Taken):
            return await self.call(self._carry_out, lambda: plan, timeout)
        return plan.finish()

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
