"""Committing against writers one cannot see: try, and on a refusal read again and re-plan."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from holdfast.contracts import Moved, Reader, Rebase, Record, RecordStore, Write
from holdfast.deadlines import deadline
from holdfast.errors import AlreadyExists, Busy
from holdfast.kinds import Kind

R = TypeVar("R")

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.1


class Plan(Generic[R]):
    """A write that is decided but not yet done.

    `writes` are the hopeful ones, made of what was last seen; None means that nothing was. `rebase` makes
    them anew of what is there. `finish` turns the applied plan into the caller's answer.
    """

    __slots__ = ("finish", "rebase", "writes")

    def __init__(self, writes: Sequence[Write] | None, rebase: Rebase, finish: Callable[[], R]) -> None:
        self.writes = writes
        self.rebase = rebase
        self.finish = finish

    def carry_out(self, store: RecordStore) -> R:
        """Commit, and answer; re-plan on each refusal until the deadline, then Busy with nothing written."""
        try:
            store.commit(self.writes, self.rebase)
            return self.finish()
        except (Moved, AlreadyExists):
            return self._go_on(store)

    def _go_on(self, store: RecordStore) -> R:
        until, pause = deadline(), _FIRST_PAUSE_S
        writes = self.rebase(store)
        while True:
            try:
                store.commit(writes, self.rebase)
                return self.finish()
            except (Moved, AlreadyExists) as refusal:
                if time.monotonic() >= until:
                    raise Busy("other writers were faster until the timeout; nothing was written") from refusal
            time.sleep(random.uniform(0, pause))
            pause = min(pause * 2, _LONGEST_PAUSE_S)
            writes = self.rebase(store)


def get(reader: Reader, kind: Kind, *key: str | int) -> Record | None:
    """The one record with this key, or None."""
    return reader.get(kind, (key,))[0]
