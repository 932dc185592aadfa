"""A wire that breaks: it stands between a client and a server on this machine, and loses connections when told to."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

_AT_ONCE = struct.pack("ii", 1, 0)


class Wire:
    """Passes bytes on to a loopback port; `cut` breaks every connection, `lose` breaks one on its next answer."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._answers = 0
        self._lose_at: dict[int, Callable[[], object]] = {}
        self._every = 0
        self.lost = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection, as a cable does that is pulled out."""
        with self._lock:
            broken, self._open = self._open, []
        for one in broken:
            _break(one)

    def lose(self, then: Callable[[], object] = lambda: None) -> None:
        """Let the next answer never arrive: the server has done what it was told, and the connection breaks."""
        with self._lock:
            self._lose_at[self._answers + 1] = then

    def lose_every(self, answers: int) -> None:
        """Lose each answer whose number this divides; 0 loses none."""
        self._every = answers

    def close(self) -> None:
        """Stop listening and break what is left."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else the one who waits in accept() takes another
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._join(client)

    def _join(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            _break(client)
            return
        with self._lock:
            self._open += [client, server]
        threading.Thread(target=self._pass_on, args=(client, server, False), daemon=True).start()
        threading.Thread(target=self._pass_on, args=(server, client, True), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while said := source.recv(65536):
                if answers and self._is_lost():
                    break
                target.sendall(said)
        _break(source)
        _break(target)

    def _is_lost(self) -> bool:
        with self._lock:
            self._answers += 1
            number = self._answers
            then = self._lose_at.pop(number, None)
            lost = then is not None or (self._every > 0 and number % self._every == 0)
            self.lost += lost
        if then is not None:
            then()
        return lost


def _break(one: socket.socket) -> None:
    with suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        one.shutdown(socket.SHUT_RDWR)
    one.close()
