"""Calls that are awaited while a thread carries them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def to_thread(call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """What the call returns or raises; the caller's loop goes on meanwhile."""
    import asyncio  # noqa: PLC0415 — it is slow to load, and whoever awaits has it already

    return await asyncio.to_thread(call, *args, **kwargs)
