"""Checkpoints on a timer: promptly at first, then as long as something changes."""

from __future__ import annotations

import threading
from typing import Protocol

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model import Checkpoint


class Target(Protocol):
    """What a timer acts on."""

    def take(self, agent_id: str) -> Checkpoint | None:
        """Checkpoint an agent if it has changed since its last checkpoint, else None."""
        ...

    def trim(self, agent_id: str, keep: int) -> None:
        """Keep the last so many automatic checkpoints."""
        ...


class Automatic:
    """A timer for one agent, running from `start()` to `stop()`; it is also a context manager.

    What goes wrong ends the timer and is raised by `stop()`; `error` has it at once.
    """

    def __init__(self, target: Target, agent_id: str, every_s: float, keep: int, enabled: bool) -> None:
        if not isinstance(every_s, int | float) or not every_s > 0:
            raise InvalidInput(f"every_s is a number of seconds above 0, not {every_s!r}")
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
            raise InvalidInput(f"keep is a whole number from 1, not {keep!r}")
        self.enabled = enabled
        self.error: HoldfastError | None = None
        self.taken = 0
        self._target = target
        self._agent_id = agent_id
        self._every_s = every_s
        self._keep = keep
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether it has been started and not stopped."""
        return self._thread is not None

    def start(self) -> Automatic:
        """Begin, with a first checkpoint promptly; starting again changes nothing."""
        with self._lock:
            if self.enabled and self._thread is None:
                self._stopping.clear()
                self._thread = threading.Thread(target=self._run, name="holdfast-automatic", daemon=True)
                self._thread.start()
        return self

    def stop(self) -> None:
        """End; no checkpoint is made after this returns. Raises what went wrong, once."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopping.set()
        if thread is not None:
            thread.join()
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if self._target.take(self._agent_id) is not None:
                    self.taken += 1
                    self._target.trim(self._agent_id, self._keep)
                self._stopping.wait(self._every_s)
        except HoldfastError as cause:
            self.error = cause

    def __enter__(self) -> Automatic:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
