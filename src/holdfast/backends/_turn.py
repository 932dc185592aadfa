"""A turn that one thread has at a time, and that no interrupt can keep from the others."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.errors import BackendError


class Turn:
    """Taken, used with `with turn.in_use:`, and given back in any case.

    An interrupt in the moment of taking it leaves it with its thread, which can take it again and then gives it back
    as often as it has it. What a `with` takes, no interrupt can leave taken: so only a turn in use is a real one.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_here: Callable[[], bool] = self._lock._is_owned  # type: ignore[attr-defined]
        self.in_use = threading.Lock()

    def take(self, timeout: float) -> bool:
        """Take it within so many seconds, or say False; BackendError in a thread that uses it already."""
        if not self._lock.acquire(True, timeout):
            return False
        if self.in_use.locked():
            self._lock.release()
            raise _within_another()
        return True

    def is_used_here(self) -> bool:
        """Whether it is this thread that uses it."""
        return self.in_use.locked() and self._is_here()

    def check_outside(self) -> None:
        """BackendError in a thread that uses it."""
        if self.is_used_here():
            raise _within_another()

    def heal(self) -> None:
        """Give it back where an interrupted call has left it with this thread, and others may wait for it."""
        if not self.in_use.locked():
            self.give_back()

    def give_back(self) -> None:
        """Let other threads have it, however often this one has taken it."""
        try:
            self._lock.release()
            while self._is_here():
                self._lock.release()
        except RuntimeError:
            pass  # a signal's handler that used the store in between has given it back


def _within_another() -> BackendError:
    return BackendError("the store was asked for within another call of this thread, which has to end first")
