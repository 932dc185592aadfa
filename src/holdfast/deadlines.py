"""How long the present call may take.

A public method opens `within(timeout)`; whatever waits below it asks `remaining()`. Calls made inside
another call share the outer limit.
"""

from __future__ import annotations

import time
from contextvars import ContextVar, Token
from types import TracebackType

_limit: ContextVar[float | None] = ContextVar("holdfast_deadline", default=None)


def until(seconds: float) -> float:
    """The moment, on the monotonic clock, that is so far away; the present call's own limit if that is sooner."""
    mine = time.monotonic() + seconds
    outer = _limit.get()
    return mine if outer is None or mine < outer else outer


class within:
    """Bound the calls made inside to so many seconds."""

    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._token: Token[float | None] | None = None

    def __enter__(self) -> None:
        self._token = _limit.set(until(self._seconds))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _limit.reset(self._token)


DEFAULT_TIMEOUT_S = 30.0


def deadline(default_s: float = DEFAULT_TIMEOUT_S) -> float:
    """The moment, on the monotonic clock, at which the present call must have answered."""
    limit = _limit.get()
    return time.monotonic() + default_s if limit is None else limit


def remaining() -> float:
    """Seconds left to the present call; never negative."""
    return max(0.0, deadline() - time.monotonic())
