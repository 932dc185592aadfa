"""Word of run events: a commit adds their keys to a stream of the namespace, from which whoever follows a run is woken.

The stream keeps the last few alone. One whose connection broke goes on behind the entry that it saw last; what is no
longer there, and what a lost stream had, is found by looking.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from holdfast.backends._redis.rows import decode_key
from holdfast.backends._waking import EVERYBODY, LOOK_S, Ended, Heard
from holdfast.kinds import EVENTS

STREAM = "events:stream"
KEPT = 1_000  # entries, give or take a node of the server's
BLOCK_S = 5.0  # for which the server is asked to wait at a time
GRACE_S = 2.0  # for an answer that is due
PAUSE_S = 0.5  # before a new connection, after one broke
_MOST = 100  # entries that are taken at a time
_BEGINNING = b"0-0"


class Stream:
    """The stream of one namespace as one store follows it, on a connection of its own."""

    def __init__(self, pool: Any, key: bytes) -> None:
        self._pool = pool
        self._key = key
        self._seen: bytes | None = None

    def listen(self, heard: Heard, is_over: Ended) -> None:
        """Say every owner whose events are added, until it is over or the server refuses to tell."""
        self._seen = None  # from now on: whoever begins to wait has looked
        while not is_over():
            try:
                with self._connected() as connection:
                    self._follow(connection, heard, is_over)
            except redis.AuthenticationError:  # which the driver counts among broken connections
                return
            except (redis.ConnectionError, redis.TimeoutError, OSError):
                _pause(is_over)
            except redis.RedisError:  # such as the lack of a right; they look all the same
                return

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        connection = self._pool.get_connection()
        try:
            yield connection
        finally:
            connection.disconnect()  # the server may still be waiting to answer on it
            self._pool.release(connection)

    def _follow(self, connection: Any, heard: Heard, is_over: Ended) -> None:
        if self._seen is None:
            connection.send_command("XREVRANGE", self._key, "+", "-", "COUNT", 1)
            newest = connection.read_response(timeout=GRACE_S)
            self._seen = newest[0][0] if newest else _BEGINNING
        while not is_over():
            asked = ("COUNT", _MOST, "BLOCK", int(BLOCK_S * 1000), "STREAMS", self._key, self._seen)
            connection.send_command("XREAD", *asked)
            if not _has_answered(connection, is_over):
                return
            for _, entries in connection.read_response(timeout=GRACE_S) or ():
                for id, fields in entries:
                    self._seen = id
                    heard(_owner(fields))


def _has_answered(connection: Any, is_over: Ended) -> bool:
    """Wait for an answer; False if it is over before there is one, TimeoutError if it stays out."""
    until = time.monotonic() + BLOCK_S + GRACE_S
    while not connection.can_read(timeout=LOOK_S):
        if is_over():
            return False
        if time.monotonic() > until:
            raise redis.TimeoutError("the server has stopped answering")
    return True


def _pause(is_over: Ended) -> None:
    until = time.monotonic() + PAUSE_S
    while time.monotonic() < until and not is_over():
        time.sleep(LOOK_S / 4)


def _owner(fields: list[bytes]) -> str:
    """Whose events an entry tells of; an entry that is none of ours may be about anybody."""
    try:
        return str(decode_key(EVENTS, fields[1])[0])
    except (ValueError, struct.error):
        return EVERYBODY
