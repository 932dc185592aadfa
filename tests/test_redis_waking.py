"""Whoever may not publish or subscribe on a Redis server drives and follows runs all the same."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import redis
from servers import shared
from servers.valkey import start

import holdfast
from holdfast import Message
from holdfast.ids import new_id
from holdfast.testing.opening import new_namespace


def test_a_user_without_channels_drives_and_follows_a_run() -> None:
    url, user = shared("valkey", start), f"kit-{new_id()}"
    client: Any = redis.Redis.from_url(url)
    client.execute_command("ACL", "SETUSER", user, "on", "nopass", "~*", "+@all", "resetchannels")
    address = urlsplit(url)._replace(netloc=f"{user}:any@{urlsplit(url).netloc}").geturl()
    with holdfast.open(address, namespace=new_namespace()) as hf:
        hf.sessions.create(id="s")
        with hf.runs.start("s") as run:
            following = hf.runs.follow(run.id)
            assert next(following).kind == "started"
            run.append(Message.user("hello"))
            seen = next(following)
        assert [seen.kind, *(event.kind for event in following)][-1] == "ended"
    client.execute_command("ACL", "DELUSER", user)
    client.close()
