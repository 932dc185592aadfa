"""Turns at a record that many want to change at once, in the order in which they came.

A turn makes nothing safe: a commit's own conditions do that. It keeps one fast writer from starving the others. A turn
that is not given back, because its holder died, lapses.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast.backends._redis.line import Line
from holdfast.backends._redis.scripts import Scripts
from holdfast.deadlines import remaining
from holdfast.errors import Busy, HoldfastError

TURN_MS = 1_000


@contextmanager
def turn(line: Line, scripts: Scripts, key: bytes) -> Iterator[bytes]:
    """Have the turn of this key for as long as the block lasts; Busy if it does not come in time."""
    keys, name = [key, key + b":baton", key + b":waiting"], os.urandom(12)
    token = _wait(line, scripts, keys, name)
    try:
        yield token
    finally:
        with suppress(HoldfastError):  # it lapses
            line.run(scripts.turn_leave, keys, [token, name, TURN_MS], writes=True)


def _wait(line: Line, scripts: Scripts, keys: list[bytes], name: bytes) -> bytes:
    until = time.monotonic() + remaining()
    while time.monotonic() < until:
        if line.run(scripts.turn_enter, keys, [name, TURN_MS], writes=True):
            return name
        patience_s = max(0.01, min(TURN_MS / 1000, until - time.monotonic()))
        passed = line.say("BLPOP", keys[1], f"{patience_s:.3f}")
        if passed is not None:
            return bytes(passed[1])
    raise Busy("many others write to the same record; nothing was written. Repeat, or raise timeout=")
