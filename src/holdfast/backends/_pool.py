"""The connections of one store: as many as its threads need at once, up to a limit, each used by one at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
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
        self._free: SimpleQueue[None] = SimpleQueue()  # an entry for each that may be lent; a Semaphore is slower
        for _ in range(size):
            self._free.put(None)
        self._idle: deque[C] = deque()
        self._mine = threading.local()
        self._closed = False

    def take(self, until: float) -> C:
        """A connection, to be given back by this thread; Busy if none is free by then.

        A thread that has one already gets another at once: it may wait for nobody while others wait for it.
        """
        mine = self._mine
        depth: int = getattr(mine, "depth", 0)
        if depth == 0:
            try:
                self._free.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                raise Busy(
                    f"all {self._size} connections are in use; repeat, raise timeout=, or raise pool_size in the URL"
                ) from None
        mine.depth = depth + 1
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            return self._connect()
        except BaseException:
            self._count_back()
            raise

    def give_back(self, con: C) -> None:
        """Let others have it."""
        try:
            if not self._rest(con):
                self._close(con)
                self.clear()  # what broke one has mostly broken the others
            elif self._closed:
                self._close(con)
            else:
                self._idle.append(con)
        finally:
            self._count_back()

    def _count_back(self) -> None:
        self._mine.depth -= 1
        if self._mine.depth == 0:
            self._free.put(None)

    def lends_to_me(self) -> bool:
        """Whether the present thread has one."""
        return getattr(self._mine, "depth", 0) > 0

    def clear(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._close(self._idle.pop())

    def close(self) -> None:
        """Close what is idle, and the rest when it comes back."""
        self._closed = True
        self.clear()
