"""Awaiting a store of either kind: what the adapters of frameworks that only await have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")


class Awaiting:
    """A store whose calls are made on a thread: one hop for a whole function, however often that asks the store."""

    def __init__(self, hf: Holdfast | AsyncHoldfast) -> None:
        if not isinstance(hf, Holdfast | AsyncHoldfast):
            raise InvalidInput(f"give an open store, as of holdfast.open or holdfast.aopen, not {hf!r}")
        self.hf = hf if isinstance(hf, Holdfast) else hf._noun
        self._bridge = None if isinstance(hf, Holdfast) else hf._bridge

    async def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function that uses the store; a cancelled call is done or not done, never half."""
        if self._bridge is None:
            return await asyncio.to_thread(function, *args, **kwargs)
        return await self._bridge.call(function, *args, **kwargs)
