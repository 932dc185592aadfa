"""What every noun of the client stands on: the store, the clock, the sweeps, and a limit to each call."""

from __future__ import annotations

from msgspec import Struct

from holdfast.automatic import Automatic
from holdfast.contracts import RecordStore
from holdfast.deadlines import within
from holdfast.errors import InvalidInput
from holdfast.history import Seen
from holdfast.ids import Stamps
from holdfast.sweeps import Sweeps

_REMEMBERED = 4096


class Ground(Struct, frozen=True):
    """One open store as the nouns share it; `heads` are those last seen, and may be out of date."""

    store: RecordStore
    stamps: Stamps
    sweeps: Sweeps
    timeout: float
    heads: dict[str, Seen]
    timers: dict[str, Automatic]

    def remember(self, seen: Seen) -> None:
        """Keep a head for the next append, which finds out by itself if it has moved."""
        if len(self.heads) >= _REMEMBERED:
            self.heads.clear()
        self.heads[seen.pointer.session_id] = seen


class Noun:
    """A part of the client that concerns one kind of thing."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._store = ground.store
        self._stamps = ground.stamps

    def _within(self, timeout: float | None) -> within:
        """The limit of one call: its own, or the store's."""
        if timeout is None:
            return within(self._ground.timeout)
        return within(check_timeout(timeout))


def check_timeout(timeout: float) -> float:
    """The timeout, or InvalidInput if it is no number of seconds."""
    if not isinstance(timeout, int | float) or not timeout >= 0:
        raise InvalidInput(f"timeout is a number of seconds from 0, not {timeout!r}")
    return timeout
