"""Word of run events: a commit publishes their keys on a channel of the namespace, which is called like their rows."""

from __future__ import annotations

import struct
from contextlib import closing, suppress
from typing import Any

import redis

from holdfast.backends._redis.rows import decode_key
from holdfast.backends._waking import EVERYBODY, LOOK_S, Ended, Heard
from holdfast.kinds import EVENTS


def listen(pool: Any, channel: bytes, heard: Heard, is_over: Ended) -> None:
    """Say every owner whose events are published, until it is over or the connection breaks."""
    client: Any = redis.Redis(connection_pool=pool)  # of which the driver does not type all
    listening = client.pubsub(ignore_subscribe_messages=True)
    with suppress(redis.RedisError, OSError), closing(listening):
        listening.subscribe(channel)
        while not is_over():
            word = listening.get_message(timeout=LOOK_S)
            if word is not None:
                heard(_owner(word["data"]))


def _owner(word: bytes) -> str:
    """Whose events a word tells of; a word that is none of ours may be about anybody."""
    try:
        return str(decode_key(EVENTS, word)[0])
    except (ValueError, struct.error):
        return EVERYBODY
