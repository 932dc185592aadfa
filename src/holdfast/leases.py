"""Keeping what is held: one thread renews the leases of a client's runs, as long as it has any."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Lease(Protocol):
    """Something that is held for a while."""

    renew_at: float

    @property
    def is_wanted(self) -> bool:
        """Whether there is still somebody who could use it."""
        ...

    def renew(self) -> bool:
        """Hold it for longer; False if it is held no more."""
        ...

    def let_go(self) -> None:
        """Give it back at once."""
        ...


class Leases:
    """The leases of one client. One that nobody wants any more is not renewed, and lapses."""

    def __init__(self) -> None:
        self._held: set[Lease] = set()
        self._lapsing: list[Lease] = []
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, lease: Lease) -> None:
        """Renew this one from now on."""
        with self._lock:
            self._held.add(lease)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._keep, name="holdfast-leases", daemon=True)
                self._thread.start()
        self._changed.set()

    def remove(self, lease: Lease) -> None:
        """Renew it no more."""
        with self._lock:
            self._held.discard(lease)
        self._changed.set()

    def close(self) -> None:
        """Let everything go."""
        for lease in [*self._listed(), *self._lapsing]:
            self.remove(lease)
            lease.let_go()

    def _listed(self) -> list[Lease]:
        with self._lock:
            return list(self._held)

    def _keep(self) -> None:
        while (pause := self._pause()) is not None:
            self._changed.wait(pause)
            self._changed.clear()
            self._renew_due()

    def _pause(self) -> float | None:
        """Seconds until the next renewal; None, and no thread any more, when nothing is held."""
        with self._lock:
            due = min((lease.renew_at for lease in self._held), default=None)
            if due is None:
                self._thread = None
                return None
        return max(0.0, due - time.monotonic())

    def _renew_due(self) -> None:
        for lease in self._listed():
            if not lease.is_wanted:
                self._lapsing.append(lease)
                self.remove(lease)
            elif lease.renew_at <= time.monotonic() and not lease.renew():
                self.remove(lease)
