"""One way to call a store for adapters that are awaited, whichever of the two clients they were given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")


class Awaited:
    """A store whose calls leave the event loop free: on the pool of an AsyncHoldfast, or on the loop's threads.

    By `aio` the loop itself does what takes moments only.
    """

    def __init__(self, hf: Holdfast | AsyncHoldfast) -> None:
        if not isinstance(hf, Holdfast | AsyncHoldfast):
            raise InvalidInput(f"hf is an open store (holdfast.open or holdfast.aopen), not {type(hf).__name__}")
        self.hf = hf._noun if isinstance(hf, AsyncHoldfast) else hf
        self.aio = hf if isinstance(hf, AsyncHoldfast) else _twin_of(hf)
        self._run = hf._bridge.call if isinstance(hf, AsyncHoldfast) else asyncio.to_thread

    async def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function that blocks, within the store's own timeout."""
        return await self._run(self._within, function, *args, **kwargs)

    def _within(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.hf._within(None):
            return function(*args, **kwargs)


def _twin_of(hf: Holdfast) -> AsyncHoldfast:
    """The client that all adapters of this one await, so that what they say at once shares a commit."""
    if hf._twin is None:
        hf._twin = AsyncHoldfast(hf)
    return cast(AsyncHoldfast, hf._twin)
