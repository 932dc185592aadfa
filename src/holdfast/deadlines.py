"""How long the present call may take.

A public method opens `within(timeout)`, unless it is a single commit with the usual limit, to which stores keep by
themselves; whatever waits below it asks `remaining()`. Calls made inside another call share the outer limit. An
interrupt may come in before a call has taken its limit back; so what is remembered is the call and not the limit, and
is forgotten with the call.
"""

from __future__ import annotations

import time
from contextvars import ContextVar, Token
from types import TracebackType
from weakref import ref

_call: ContextVar[ref[within] | None] = ContextVar("holdfast_call", default=None)


def _limit() -> float | None:
    """The present call's own limit; None without one."""
    held = _call.get()
    call = None if held is None else held()
    return None if call is None else call.until


def until(seconds: float) -> float:
    """The moment, on the monotonic clock, that is so far away; the present call's own limit if that is sooner."""
    mine = time.monotonic() + seconds
    if _call.get() is None:
        return mine
    outer = _limit()
    return mine if outer is None or mine < outer else outer


class within:
    """Bound the calls made inside to so many seconds."""

    __slots__ = ("__weakref__", "_seconds", "_token", "until")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._token: Token[ref[within] | None] | None = None

    def __enter__(self) -> None:
        self.until = until(self._seconds)
        self._token = _call.set(ref(self))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _call.reset(self._token)


DEFAULT_TIMEOUT_S = 30.0


def deadline(default_s: float = DEFAULT_TIMEOUT_S) -> float:
    """The moment, on the monotonic clock, at which the present call must have answered."""
    limit = _limit()
    return time.monotonic() + default_s if limit is None else limit


def remaining() -> float:
    """Seconds left to the present call; never negative."""
    return max(0.0, deadline() - time.monotonic())
