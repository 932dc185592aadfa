"""Following a run: what is on record behind a position, and then each new event, in short looks at the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice

from holdfast import run_records as records
from holdfast.commits import get
from holdfast.contracts import Record, Wakes
from holdfast.errors import Busy
from holdfast.holds import store_now
from holdfast.kinds import RUNS
from holdfast.model import Event
from holdfast.nouns import Ground

POLL_S = 0.05
CHUNK = 500


class Following:
    """One follower; whoever looks waits `POLL_S` seconds where there was nothing new, or until it is woken."""

    def __init__(self, ground: Ground, run: Record, after: int, until: float) -> None:
        self._store = ground.store
        self._key = run.key
        self._after = after
        self._until = until

    def look(self) -> list[Event] | None:
        """What has happened since the last look; None at the end, Busy when the time is over."""
        record = get(self._store, RUNS, *self._key)
        if record is None:
            return None
        # The run is read before its events: one that has ended has no more than are found now.
        run = records.read_run(record)
        found = [records.event_view(one) for one in islice(records.events_of(self._store, run, self._after), CHUNK)]
        if found:
            self._after = found[-1].seq
        elif run.status != "running" or not self._is_driven(run.owner):
            return None
        elif time.monotonic() >= self._until:
            raise Busy(f"run {run.id!r} goes on; follow it further with after={self._after}")
        return found

    def _is_driven(self, session: str) -> bool:
        """Whether a lease still runs; that of a dead process, too, since another may take the run up."""
        hold = records.hold_of(self._store, session)
        return hold is not None and hold.until > store_now(self._store)

    def waking(self, woken: Callable[[], None]) -> AbstractContextManager[None]:
        """While the block lasts, `woken` is called when there may be more, where the store has word of it."""
        store = self._store
        return store.wake(str(self._key[0]), woken) if isinstance(store, Wakes) else nullcontext()

    def __iter__(self) -> Iterator[Event]:
        woken = threading.Event()
        with self.waking(woken.set):
            while (found := self.look()) is not None:
                yield from found
                if not found:
                    woken.wait(POLL_S)
                    woken.clear()
