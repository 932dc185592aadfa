"""Whoever follows a run on a Redis server is woken by a stream, and loses nothing where there is none to be had."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from servers import shared, wait_until
from servers.fixtures import own_of, store_of, url_of
from servers.proxy import Proxy
from servers.valkey import Own, start

import holdfast
from holdfast import Message
from holdfast.backends._redis.waking import KEPT
from holdfast.backends.redis import RedisStore
from holdfast.contracts import Insert
from holdfast.ids import new_id
from holdfast.kinds import EVENTS
from holdfast.testing.opening import new_namespace
from holdfast.testing.records import record

LONG_S = 60
NODE = 100  # entries that a server keeps together, and trims together

own = own_of(Own)
url = url_of("valkey", start)
store = store_of(RedisStore)


def happen(store: RedisStore, *owners: str) -> None:
    """Write an event of each of these, in one commit."""
    store.commit([Insert(record(EVENTS, (owner, uuid.uuid4().int >> 66, 1), b"event")) for owner in owners])


def wake(woken: threading.Event, happens: Callable[[], object]) -> None:
    """Let it happen until somebody is woken by it: one who begins to listen may miss the first."""
    woken.clear()
    for _ in range(LONG_S * 10):
        happens()
        if woken.wait(0.1):
            return
    raise AssertionError("nobody was woken")


def followed(url: str, meanwhile: Callable[[Any], object]) -> None:
    """A run of two messages, between which something happens, is followed from its first event to its last."""
    with holdfast.open(url, namespace=new_namespace()) as hf:
        hf.sessions.create(id="s")
        with hf.runs.start("s") as run:
            following = hf.runs.follow(run.id)
            seen = [next(following)]
            run.append(Message.user("one"))
            seen.append(next(following))
            meanwhile(hf)
            run.append(Message.user("two"))
        seen += following
        assert seen == list(hf.runs.events(run.id))
        assert [event.kind for event in seen] == ["started", "append", "append", "ended"]
        assert hf.verify().problems == []


def test_a_user_without_streams_drives_and_follows_a_run() -> None:
    url, user = shared("valkey", start), f"kit-{new_id()}"
    client: Any = redis.Redis.from_url(url)
    client.execute_command("ACL", "SETUSER", user, "on", "nopass", "~*", "+@all", "-@stream", "resetchannels")
    address = urlsplit(url)._replace(netloc=f"{user}:any@{urlsplit(url).netloc}").geturl()
    followed(address, lambda _: None)
    client.execute_command("ACL", "DELUSER", user)
    client.close()


def test_a_stream_that_is_lost_or_in_the_way_loses_no_event() -> None:
    with redis.Redis.from_url(shared("valkey", start)) as client:
        followed(shared("valkey", start), lambda hf: client.delete(hf._store.key("events:stream")))
        followed(shared("valkey", start), lambda hf: client.set(hf._store.key("events:stream"), "not a stream"))


def test_a_server_killed_in_a_run_loses_no_event(own: Own) -> None:
    followed(own.url, lambda _: own.kill())


def test_whoever_waits_is_woken_again_after_the_server_was_killed(own: Own) -> None:
    woken = threading.Event()
    with closing(RedisStore(own.url)) as store, store.wake("u", woken.set):
        wake(woken, lambda: happen(store, new_id(), "u"))
        own.kill()
        wake(woken, lambda: happen(store, new_id(), "u"))


def test_what_happened_while_the_connection_was_broken_is_heard_of(own: Own) -> None:
    woken = threading.Event()
    with closing(RedisStore(own.url)) as other, Proxy(own.port) as proxy:
        with closing(RedisStore(f"redis://127.0.0.1:{proxy.port}/0")) as store, store.wake("u", woken.set):
            wake(woken, lambda: happen(other, "u"))
            proxy.cuts_request = proxy.cuts_answer = lambda _: True
            proxy.cut_all()
            woken.clear()
            happen(other, "u")
            proxy.cuts_request = proxy.cuts_answer = lambda _: False
            assert woken.wait(LONG_S)


def test_only_those_are_woken_whom_it_concerns(store: RedisStore) -> None:
    mine, theirs = threading.Event(), threading.Event()
    with store.wake("u", mine.set), store.wake("v", theirs.set):
        wake(mine, lambda: happen(store, "u"))
        assert not theirs.is_set()
        wake(theirs, lambda: happen(store, "w", "v"))


def test_an_entry_that_is_none_of_ours_wakes_followers_and_ends_nothing(store: RedisStore) -> None:
    woken = threading.Event()
    with redis.Redis.from_url(shared("valkey", start)) as client, store.wake("u", woken.set):
        for word in (b"garbage", b"", b"\xff\0\1", b"garbage"):
            wake(woken, lambda word=word: client.xadd(store.key("events:stream"), {b"x": word}))  # type: ignore[misc]


def test_the_stream_keeps_the_last_events_alone(store: RedisStore) -> None:
    for _ in range(30):
        happen(store, *(new_id() for _ in range(200)))
    with redis.Redis.from_url(shared("valkey", start)) as client:
        assert KEPT <= client.xlen(store.key("events:stream")) <= KEPT + NODE


def test_a_closed_store_listens_no_more(store: RedisStore) -> None:
    woken = threading.Event()
    with store.wake("u", woken.set):
        wake(woken, lambda: happen(store, "u"))
        listening = store._waking._thread
        assert listening is not None
        store.close()
        assert not listening.is_alive()


def test_a_deleted_session_leaves_no_name_in_the_stream() -> None:
    url, namespace = shared("valkey", start), new_namespace()
    with holdfast.open(url, namespace=namespace) as hf, redis.Redis.from_url(url) as client:
        hf.sessions.create(id="ann@example.com", user_id="ann@example.com")
        hf.runs.start("ann@example.com").complete()
        hf.sessions.delete("ann@example.com")
        hf.gc()
        left = client.dump(b"hf:{%s}:events:stream" % namespace.encode())
        assert isinstance(left, bytes)
        assert b"ann@" not in left


def test_a_server_of_a_cluster_takes_commits_with_events(tmp_path: Path) -> None:
    server = start(tmp_path, settings=("--cluster-enabled", "yes", "--save", ""))
    client: Any = redis.Redis.from_url(server.url)
    client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    try:
        wait_until(lambda: b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO"), tmp_path)
        followed(server.url, lambda _: None)
    finally:
        client.close()
        os.kill(server.pid, signal.SIGKILL)
