"""Redis, where the system has it installed."""

from __future__ import annotations

import shutil
from pathlib import Path

from servers import Missing, Server
from servers.valkey import STRICT, start_binary


def start(folder: Path) -> Server:
    """Start a server that syncs each commit."""
    binary = shutil.which("redis-server")
    if binary is None:
        raise Missing("there is no redis-server; install one, or give HOLDFAST_TEST_REDIS_URL")
    return start_binary(binary, folder, port=None, settings=STRICT)
