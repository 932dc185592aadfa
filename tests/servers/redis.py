"""Redis, where the system has it installed."""

from __future__ import annotations

from pathlib import Path

from servers import Server, system_program
from servers.valkey import STRICT, start_binary


def start(folder: Path) -> Server:
    """Start a server that syncs each commit."""
    return start_binary(system_program("redis-server", "redis-server"), folder, port=None, settings=STRICT)
