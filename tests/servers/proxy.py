"""A small TCP proxy in front of a server, which cuts connections when it is told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

PIECE = 65_536
Cuts = Callable[[bytes], bool]


class Proxy:
    """Passes bytes on to a server; `cuts_request` and `cuts_answer` say of each piece whether to cut there.

    A request that is cut never arrives; an answer that is cut belongs to a request that did.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts_request: Cuts = lambda _: False
        self.cuts_answer: Cuts = lambda _: False
        self.cuts = 0
        self.pieces = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take no more connections, and cut those there are."""
        self._end(self._listener)
        self.cut_all()

    def cut_all(self) -> None:
        """Cut every connection at once."""
        with self._lock:
            ends = list(self._open)
        for end in ends:
            self._end(end)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            for source, target, way in ((client, server, "request"), (server, client, "answer")):
                threading.Thread(target=self._pass_on, args=(source, target, way), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, way: str) -> None:
        with suppress(OSError):  # the other direction may have ended it
            while piece := source.recv(PIECE):
                self.pieces += 1
                if (self.cuts_request if way == "request" else self.cuts_answer)(piece):
                    self.cuts += 1
                    break
                target.sendall(piece)
        for end in (source, target):
            self._end(end)

    def _end(self, end: socket.socket) -> None:
        with self._lock:
            self._open.discard(end)
        with suppress(OSError):  # it may have ended already
            end.shutdown(socket.SHUT_RDWR)
        end.close()
