"""A server of a test's own, which it may kill and start again on what it kept."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from servers import Server, listens, wait_until


class Start(Protocol):
    """How a server is started; the same folder and port bring one back."""

    def __call__(self, folder: Path, *, port: int | None = None) -> Server: ...


class Own:
    """The server, and the address that it has for as long as the test lasts."""

    def __init__(self, start: Start, folder: Path) -> None:
        self._start = start
        self._folder = folder
        self._server = start(folder)
        self.url = self._server.url
        self.port = urlsplit(self.url).port or 0

    def end(self) -> None:
        """End it without a word."""
        os.kill(self._server.pid, signal.SIGKILL)
        wait_until(lambda: not listens(self.port), self._folder)

    def bring_back(self) -> None:
        """Start it again on what it kept."""
        self._server = self._start(self._folder, port=self.port)

    def kill(self) -> None:
        """End it, and start it again."""
        self.end()
        self.bring_back()
