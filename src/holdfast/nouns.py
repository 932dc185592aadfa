"""What every noun of the client stands on: the store, the clock, the sweeps, and a limit to each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from holdfast import appends
from holdfast.appends import Said
from holdfast.automatic import Automatic
from holdfast.commits import Plan
from holdfast.contracts import BlobStore, RecordStore
from holdfast.deadlines import DEFAULT_TIMEOUT_S, within
from holdfast.errors import InvalidInput
from holdfast.history import Seen
from holdfast.ids import Stamps
from holdfast.model import Message
from holdfast.parts import INLINE_LIMIT
from holdfast.sweeps import Sweeps

P = ParamSpec("P")
R = TypeVar("R")

_REMEMBERED = 4096
LONGEST_S = 1_000_000  # which locks, sockets and SQLite can be told


class Ground(Struct, frozen=True):
    """One open store as the nouns share it; `heads` are those last seen, and may be out of date."""

    store: RecordStore
    stamps: Stamps
    sweeps: Sweeps
    timeout: float
    heads: dict[str, Seen]
    timers: dict[str, Automatic]
    blobs: BlobStore | None = None
    inline_limit: int = INLINE_LIMIT

    def remember(self, seen: Seen) -> None:
        """Keep a head for the next append, which finds out by itself if it has moved."""
        if seen.pointer.pending is not None:
            return  # a restore may be published any time, without a change of the head
        if len(self.heads) >= _REMEMBERED:
            self.heads.clear()
        self.heads[seen.pointer.session_id] = seen

    def say(self, messages: Sequence[Message | dict[str, Any]]) -> list[Said]:
        """Encode and check what is to be appended, and put its large parts as blobs."""
        said = appends.say(messages)
        return self.lighten(said) if self.has_blobs(said) else said

    def has_blobs(self, said: Sequence[Said]) -> bool:
        """Whether there may be something to lighten."""
        return self.blobs is not None and appends.has_blobs(said, self.inline_limit)

    def lighten(self, said: Sequence[Said]) -> list[Said]:
        """Put large parts as blobs."""
        assert self.blobs is not None
        return appends.lighten(said, self.store, self.blobs, self.inline_limit)


class Noun:
    """A part of the client that concerns one kind of thing."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._store = ground.store
        self._stamps = ground.stamps

    def _submit(self, make: Callable[P, Plan[R]], timeout: float | None, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Make a plan and carry it out, within the limit of the call.

        A store that was opened with the usual limit keeps to that by itself in a single commit.
        """
        if timeout is not None or self._ground.timeout != DEFAULT_TIMEOUT_S:
            with self._within(timeout):
                return make(*args, **kwargs).carry_out(self._store)
        plan = make(*args, **kwargs)
        if not plan.blocks:
            return plan.carry_out(self._store)
        with self._within(None):
            return plan.carry_out(self._store)

    def _within(self, timeout: float | None) -> within:
        """The limit of one call: its own, or the store's."""
        if timeout is None:
            return within(self._ground.timeout)
        return within(check_timeout(timeout))


def check_timeout(timeout: float) -> float:
    """The timeout, or InvalidInput if it is no number of seconds that one can wait for."""
    if check_seconds(timeout, "timeout") > LONGEST_S:
        raise InvalidInput(f"timeout is a number of seconds up to {LONGEST_S:,}, not {repr(timeout)[:40]}")
    return timeout


def check_seconds(value: float, what: str) -> float:
    """The number itself, or InvalidInput if it is no number of seconds."""
    if not isinstance(value, int | float) or not value >= 0:
        raise InvalidInput(f"{what} is a number of seconds from 0, not {value!r}")
    return value
