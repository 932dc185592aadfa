"""A server that takes connections and never says a word."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silence() -> Iterator[int]:
    """Its port, for as long as the block lasts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]
