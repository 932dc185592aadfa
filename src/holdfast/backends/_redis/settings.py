"""What the server says of itself, and what that means for an acknowledged write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import redis

from holdfast.backends._redis.line import Line
from holdfast.errors import AccessDenied, BackendError

NEVER = "never synced: what was written since the last snapshot goes with the server"
LAST_SECOND = "a crash of the server's machine may lose the last second"


class Settings:
    """A server's own figures, and the settings that it lets us see."""

    def __init__(self, line: Line) -> None:
        info, config, waits = line.ask(("INFO",), ("CONFIG", "GET", "append*"), ("COMMAND", "INFO", "WAITAOF"))
        if isinstance(info, redis.ResponseError):
            raise AccessDenied(
                f"the server does not say what it is; grant INFO to the user of the address: {info}"
            ) from info
        self._info = dict(_pairs(info))
        self._fsync = _setting(config, b"appendfsync")
        self._can_wait = isinstance(waits, list) and bool(waits[0])

    @property
    def version(self) -> str:
        """Which server it is, and its version."""
        name = self._info.get("server_name", "redis")
        return f"{name} {self._info.get(f'{name}_version', self._info.get('redis_version', 'unknown'))}"

    @property
    def waits_for_disk(self) -> bool:
        """Whether a commit is durable only once WAITAOF says so."""
        return self._can_wait and self._keeps_log and self._fsync == "everysec"

    @property
    def _keeps_log(self) -> bool:
        return self._info.get("aof_enabled") == "1"

    def durability(self, waits: bool) -> str:
        """What an acknowledged write survives."""
        if not self._keeps_log:
            return f"appendonly=no: {NEVER}"
        if self._fsync == "always":
            return "appendfsync=always: acknowledged once it is synced"
        if self._fsync == "everysec":
            return f"appendfsync=everysec: {'acknowledged once it is synced (WAITAOF)' if waits else LAST_SECOND}"
        return (
            "appendfsync=no: synced when the system likes" if self._fsync else "appendfsync unknown: CONFIG is refused"
        )

    def check_eviction(self) -> None:
        """BackendError if the server would delete records to make room."""
        policy = self._info.get("maxmemory_policy", "noeviction")
        # Also without a maxmemory: whoever sets one later loses records in that moment.
        if policy != "noeviction":
            raise BackendError(
                f"the server deletes records when it is full; set maxmemory-policy noeviction, not {policy}"
            )

    def problems(self) -> Iterator[str]:
        """What the server knows to be wrong with its own files."""
        for name in ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"):
            if self._info.get(name, "ok") != "ok":
                yield f"the server reports {name} {self._info[name]}; see its log"


def _pairs(info: bytes) -> Iterator[tuple[str, str]]:
    for line in info.decode(errors="replace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name, value


def _setting(config: Any, name: bytes) -> str:
    found: Mapping[bytes, bytes] = {} if isinstance(config, redis.ResponseError) else _mapping(config)
    return found.get(name, b"").decode()


def _mapping(flat: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
