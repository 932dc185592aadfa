"""How a SurrealDB over ws:// is had: the engine of the wheel, behind a WebSocket of the tests' own."""

from __future__ import annotations

import sys
from pathlib import Path

from servers import Server, free_port, listens, spawn, wait_until

SOCKET = Path(__file__).with_name("surreal_socket.py")


def start(folder: Path, *, port: int | None = None) -> Server:
    """Start it with its files in this folder; the same folder and port bring one back."""
    port = port or free_port()
    pid = spawn([sys.executable, str(SOCKET), str(port), f"surrealkv://{folder}/engine"], folder)
    wait_until(lambda: listens(port), folder)
    return Server(url=f"ws://127.0.0.1:{port}", pid=pid, folder=str(folder))
