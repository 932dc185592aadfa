"""The connections of one store: as many as its threads need at once, up to a limit, each used by one at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from holdfast.errors import Busy

C = TypeVar("C")


class Pool(Generic[C]):
    """Connections that are made when needed and kept; one that `rest` finds unfit for another use is closed."""

    def __init__(
        self, connect: Callable[[], C], *, rest: Callable[[C], bool], close: Callable[[C], None], size: int
    ) -> None:
        self._connect = connect
        self._rest = rest
        self._close = close
        self._size = size
        self._free = threading.Semaphore(size)
        self._idle: deque[C] = deque()
        self._mine = threading.local()
        self._closed = False

    @contextmanager
    def connection(self, until: float) -> Iterator[C]:
        """A connection for as long as the block lasts; Busy if none is free by then.

        A thread that has one already gets another at once: it may wait for nobody while others wait for it.
        """
        depth = getattr(self._mine, "depth", 0)
        if depth == 0 and not self._free.acquire(timeout=max(0.0, until - time.monotonic())):
            raise Busy(
                f"all {self._size} connections are in use; repeat, raise timeout=, or raise pool_size in the URL"
            )
        self._mine.depth = depth + 1
        try:
            yield from self._lend()
        finally:
            self._mine.depth = depth
            if depth == 0:
                self._free.release()

    def lends_to_me(self) -> bool:
        """Whether the present thread has one."""
        return getattr(self._mine, "depth", 0) > 0

    def _lend(self) -> Iterator[C]:
        try:
            con = self._idle.pop()
        except IndexError:
            con = self._connect()
        try:
            yield con
        finally:
            if not self._rest(con):
                self._close(con)
                self.clear()  # what broke one has mostly broken the others
            elif self._closed:
                self._close(con)
            else:
                self._idle.append(con)

    def clear(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._close(self._idle.pop())

    def close(self) -> None:
        """Close what is idle, and the rest when it comes back."""
        self._closed = True
        self.clear()
