"""One way to call a store for adapters that are awaited, whichever of the two clients they were given."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary, ref

from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")

_twins: WeakKeyDictionary[Holdfast, ref[AsyncHoldfast]] = WeakKeyDictionary()


class Awaited:
    """A store for an event loop: `aio` to await it, and the same as `hf`, whose calls go to a thread by `call`."""

    def __init__(self, hf: Holdfast | AsyncHoldfast) -> None:
        if not isinstance(hf, Holdfast | AsyncHoldfast):
            raise InvalidInput(f"hf is an open store (holdfast.open or holdfast.aopen), not {type(hf).__name__}")
        self.aio = hf if isinstance(hf, AsyncHoldfast) else _twin_of(hf)
        self.hf = self.aio._noun

    async def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function that blocks, within the store's own timeout."""
        return await self.aio._bridge.call(self._within, function, *args, **kwargs)

    def _within(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.hf._within(None):
            return function(*args, **kwargs)


def _twin_of(hf: Holdfast) -> AsyncHoldfast:
    """The client that all adapters of this one await, so that what they say at once shares a commit."""
    known = _twins.get(hf)
    twin = None if known is None else known()
    if twin is None:
        twin = AsyncHoldfast(hf)
        _twins[hf] = ref(twin)
    return twin
