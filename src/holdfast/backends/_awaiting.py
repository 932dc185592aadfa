"""Requests of an async driver, made from a thread: whoever asks waits until its deadline and no longer."""

from __future__ import annotations

import asyncio
import contextvars
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from holdfast.deadlines import deadline

R = TypeVar("R")


def wait_for(ask: Callable[[], Awaitable[R]]) -> R:
    """What the driver answers; TimeoutError at the deadline of the present call, with the request given up.

    It is carried out on a loop of its own in this thread, so that what the driver calls back runs where its caller
    does. A thread that is inside of a loop can have no other: then it waits for one that can.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _carry_out(ask)
    with ThreadPoolExecutor(1) as other:
        return other.submit(contextvars.copy_context().run, _carry_out, ask).result()


def _carry_out(ask: Callable[[], Awaitable[R]]) -> R:
    answers: list[R] = []  # not the task's own result: `Runner` has that described at length, all megabytes of it
    # With a factory the loop does not become the thread's present one, which may be somebody's.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(_bounded(ask, answers))
    return answers.pop()


async def _bounded(ask: Callable[[], Awaitable[R]], answers: list[R]) -> None:
    left = deadline(math.inf) - time.monotonic()  # endless outside of any call: then the driver's own limits hold
    async with asyncio.timeout(None if math.isinf(left) else left):
        answers.append(await ask())
