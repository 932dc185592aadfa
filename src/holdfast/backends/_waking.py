"""Who waits for the events of a run, and the one thread of a store that hears of them while anybody does.

It only shortens waits: whoever waits looks again at intervals, so what is not heard costs a moment and nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Heard: TypeAlias = Callable[[str], None]
Ended: TypeAlias = Callable[[], bool]

EVERYBODY = "*"
LINGER_S = 5.0  # for which it goes on to listen when nobody waits
AGAIN_S = 30.0  # after which it is tried again where it could not listen
LOOK_S = 0.2  # how often one who listens looks whether it is to end
CLOSE_S = 2.0


class Waking:
    """The waiting of one store; `listen` says each owner it hears of, until it is told to end or cannot go on."""

    def __init__(self, listen: Callable[[Heard, Ended], None]) -> None:
        self._listen = listen
        self._lock = threading.Lock()
        self._waiting: list[tuple[str, Callable[[], None]]] = []
        self._thread: threading.Thread | None = None
        self._closed = False
        self._since = 0.0
        self._not_before = 0.0

    @contextmanager
    def waiting(self, owner: str, woken: Callable[[], None]) -> Iterator[None]:
        """Call `woken` whenever something is heard of this owner, until the block ends."""
        one = (owner, woken)
        with self._lock:
            self._waiting.append(one)
            self._begin()
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(one)
                self._since = time.monotonic()

    def _begin(self) -> None:
        if self._thread is None and not self._closed and time.monotonic() >= self._not_before:
            self._thread = threading.Thread(target=self._run, name="holdfast-waking", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._listen(self._hear, self._is_over)
        finally:
            with self._lock:
                self._thread = None
                if self._waiting:  # it has not ended because nobody waits
                    self._not_before = time.monotonic() + AGAIN_S

    def _hear(self, owner: str) -> None:
        with self._lock:
            concerned = [woken for waits_for, woken in self._waiting if owner in (waits_for, EVERYBODY)]
        for woken in concerned:
            woken()

    def _is_over(self) -> bool:
        with self._lock:
            return self._closed or (not self._waiting and time.monotonic() > self._since + LINGER_S)

    def close(self) -> None:
        """End it, and wait until it has."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_S)
