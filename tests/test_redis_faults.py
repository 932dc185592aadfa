"""Servers that die, connections that break, full memory: nothing acknowledged is lost, and nothing is there twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from traceback import format_exception

import pytest
import redis
from faults import Crowd, every, never, once
from servers import free_port
from servers.fixtures import own_of
from servers.proxy import Proxy
from servers.valkey import Own

import holdfast
from holdfast import Message
from holdfast.backends._redis.rows import encode_key
from holdfast.backends.redis import RedisStore
from holdfast.contracts import Insert, Put, Query
from holdfast.deadlines import within
from holdfast.errors import BackendError, Busy, ConnectionFailed, MigrationError
from holdfast.kinds import AGENTS
from holdfast.testing import kills
from holdfast.testing.records import agent, dump, insert, message, only

APPENDS, KILLS = 60, 4

own = own_of(Own)


@pytest.fixture
def proxy(own: Own) -> Iterator[Proxy]:
    with Proxy(own.port) as proxy:
        yield proxy


@contextmanager
def opened(url: str) -> Iterator[RedisStore]:
    """A store for as long as the block lasts."""
    with closing(RedisStore(url)) as store:
        yield store


def through(proxy: Proxy) -> RedisStore:
    """A store at the other end of a proxy."""
    return RedisStore(f"redis://127.0.0.1:{proxy.port}/0")


# servers that die


def test_a_killed_server_loses_and_doubles_nothing(own: Own) -> None:
    crowd = Crowd(own.url, APPENDS)
    with crowd.at_work():
        for _ in range(KILLS):
            crowd.wait_for(crowd.total // (KILLS + 1))
            own.kill()
    crowd.check(own.url)


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(ConnectionFailed) as failure:
        RedisStore(f"redis://127.0.0.1:{free_port()}/0")
    assert failure.value.outcome == "none"


def test_a_server_that_went_away_is_told_at_the_limit(own: Own) -> None:
    with opened(own.url) as store:
        own.end()
        with within(0.3), pytest.raises(ConnectionFailed):
            store.commit([Insert(agent("a"))])
        own.bring_back()
        assert dump(store) == []


def test_a_killed_client_leaves_nothing_half_done(own: Own) -> None:
    tally = kills.run(own.url, KILLS)
    assert (tally.problems, tally.crashes) == ([], KILLS)


# connections that break


def test_connections_that_break_in_commits_lose_and_double_nothing(own: Own, proxy: Proxy) -> None:
    crowd = Crowd(f"redis://127.0.0.1:{proxy.port}/0", APPENDS)
    with crowd.at_work():
        proxy.cuts_answer = every(7)
        for _ in range(crowd.total // 10):
            crowd.wait_for(10)
            proxy.cut_all()
    proxy.cuts_answer = never
    assert proxy.cuts > crowd.total // 7
    crowd.check(own.url)


def test_a_commit_whose_answer_is_lost_is_made_once(proxy: Proxy) -> None:
    old, new = agent("a", b"old"), agent("a", b"new")
    store = through(proxy)
    store.commit([Insert(old)])
    proxy.cuts_answer = once()
    store.commit([Put(new, over=old.digest)])
    assert proxy.cuts == 1
    assert only(store, new) == new
    store.close()


def test_a_commit_whose_answer_is_lost_stands_even_if_others_have_gone_on(own: Own, proxy: Proxy) -> None:
    old, new, newer = (agent("a", body) for body in (b"old", b"new", b"newer"))
    store, other = through(proxy), RedisStore(own.url)
    store.commit([Insert(old)])
    proxy.cuts_answer = once(then=lambda: other.commit([Put(newer, over=new.digest)]))
    store.commit([Put(new, over=old.digest)])
    assert only(store, newer) == newer
    store.close()
    other.close()


def test_at_the_limit_the_outcome_of_a_commit_that_was_sent_is_unknown(own: Own, proxy: Proxy) -> None:
    store = through(proxy)
    proxy.cuts_answer = once(then=proxy.close)
    with within(0.3), pytest.raises(ConnectionFailed) as failure:
        store.commit([Insert(agent("a"))])
    assert failure.value.outcome == "unknown"
    with opened(own.url) as other:
        other.commit([Insert(agent("a"))])
        assert dump(other) == [agent("a")]
    store.close()


# turns


def hold_turn(own: Own, ms: int) -> None:
    """Have the turn at the head of session "s", as a writer would that says nothing more."""
    with redis.Redis.from_url(own.url) as client:
        client.set(b"hf:{%}:turn:heads:" + encode_key(("s",)), b"somebody", px=ms)


def test_a_writer_does_not_come_before_one_whose_turn_it_is(own: Own) -> None:
    with holdfast.open(own.url) as hf:
        hf.sessions.create(id="s")
        hold_turn(own, 60_000)
        with pytest.raises(Busy):
            hf.sessions.append("s", Message.user("too early"), timeout=0.3)
        assert list(hf.sessions.messages("s")) == []


def test_the_turn_of_a_writer_that_died_lapses(own: Own) -> None:
    with holdfast.open(own.url) as hf:
        hf.sessions.create(id="s")
        hold_turn(own, 700)
        hf.sessions.append("s", Message.user("at last"))
        assert [one.text for one in hf.sessions.messages("s")] == ["at last"]


def test_those_who_wait_for_a_turn_all_get_it(own: Own) -> None:
    def write(number: int) -> None:
        with holdfast.open(own.url) as hf:
            hf.sessions.append("s", Message.user(str(number)))

    with holdfast.open(own.url) as hf, ThreadPoolExecutor(4) as pool:
        hf.sessions.create(id="s")
        hold_turn(own, 700)
        list(pool.map(write, range(4)))
        assert sorted(one.text for one in hf.sessions.messages("s")) == ["0", "1", "2", "3"]


# what the server is set to


@pytest.mark.parametrize("maxmemory", [10**9, 0])
def test_a_server_that_evicts_is_not_healthy(own: Own, maxmemory: int) -> None:
    with holdfast.open(own.url) as hf:
        own.set(maxmemory=maxmemory, maxmemory_policy="allkeys-lru")
        with pytest.raises(BackendError, match="noeviction"):
            hf.health()
        own.set(maxmemory_policy="noeviction")
        assert hf.health().version.startswith("valkey 9")


def test_a_full_server_refuses_a_commit_whole(own: Own) -> None:
    with opened(own.url) as store:
        insert(store, [agent("a"), message("h", 1, 1, "m")])
        before = dump(store)
        own.set(maxmemory=1)
        with pytest.raises(BackendError, match="maxmemory"):
            store.commit([Put(agent("a", b"new")), Insert(agent("b"))])
        assert dump(store) == before
        own.set(maxmemory=0)


@pytest.mark.parametrize(
    ("appendonly", "appendfsync", "durability", "said"),
    [
        ("yes", "always", "full", "appendfsync=always: acknowledged once it is synced"),
        ("yes", "everysec", "full", "acknowledged once it is synced (WAITAOF)"),
        ("yes", "everysec", "normal", "may lose the last second"),
        ("yes", "no", "full", "synced when the system likes"),
        ("no", "always", "full", "never synced"),
    ],
)
def test_the_store_says_what_an_acknowledged_write_survives(
    own: Own, appendonly: str, appendfsync: str, durability: str, said: str
) -> None:
    own.set(appendonly=appendonly, appendfsync=appendfsync)
    store = RedisStore(own.url, durability="full" if durability == "full" else "normal")
    store.commit([Insert(agent("a"))])
    assert said in store.inspect().durability
    store.close()


def test_a_commit_waits_for_a_sync_that_it_asked_for(own: Own) -> None:
    own.set(appendfsync="everysec")
    with opened(own.url) as store, redis.Redis.from_url(own.url, protocol=2) as client:
        store.commit([Insert(agent("a"))])
        client.config_resetstat()
        store.commit([Insert(agent("b"))])
        assert client.info("commandstats")["cmdstat_waitaof"]["calls"] == 1


def test_scripts_that_the_server_forgot_are_sent_again(own: Own) -> None:
    with opened(own.url) as store, redis.Redis.from_url(own.url) as client:
        store.commit([Insert(agent("a"))])
        client.script_flush()
        store.commit([Insert(agent("b"))])
        client.script_flush()
        assert [one.key for one in store.scan(Query(kind=AGENTS))] == [("a",), ("b",)]


def test_a_long_commit_without_time_is_busy_and_has_written_nothing(own: Own) -> None:
    with opened(own.url) as store:
        with within(0), pytest.raises(Busy):
            store.commit([Insert(agent("a"))])
        assert dump(store) == []


# what is on the server


@pytest.mark.parametrize("namespace", ["", "acme", "a}b", "{a}", "%", "ä:b"])
def test_a_namespace_is_one_slot_and_no_key_expires(own: Own, namespace: str) -> None:
    with holdfast.open(own.url, namespace=namespace) as hf, redis.Redis.from_url(own.url) as client:
        hf.sessions.create(id="s", agent_id="a")
        hf.sessions.append("s", Message.user("hello"))
        hf.artifacts.put(b"map", name="map.png", session_id="s")
        hf.runs.start("s").complete()
        keys = list(client.scan_iter())
        assert len({client.execute_command("CLUSTER KEYSLOT", key) for key in keys}) == 1
        assert {client.ttl(key) for key in keys} == {-1}


def test_a_newer_format_is_refused(own: Own) -> None:
    with redis.Redis.from_url(own.url) as client:
        client.set("hf:{acme}:format", 2)
    with pytest.raises(MigrationError):
        RedisStore(own.url, namespace="acme")


def test_closing_leaves_no_trace_of_the_client(own: Own) -> None:
    with opened(own.url) as store:
        store.commit([Insert(agent("a"))])
    with redis.Redis.from_url(own.url) as client:
        assert client.exists("hf:{%}:commits") == 0


@pytest.mark.parametrize(
    "address",
    [
        "ann:secret@127.0.0.1:port/0",
        "ann:secret#1@127.0.0.1:1/0",
        "ann:secret/1@127.0.0.1:1/0",
        "127.0.0.1:1/0?password=secret&socket_timeout=soon",
    ],
)
def test_a_password_is_in_no_error(address: str) -> None:
    with pytest.raises(holdfast.InvalidInput) as refusal:
        RedisStore(f"redis://{address}")
    assert "secret" not in "".join(format_exception(refusal.value))


def test_a_database_that_the_server_has_not_is_refused(own: Own) -> None:
    with pytest.raises(holdfast.InvalidInput, match="numbers"):
        holdfast.open(own.url.removesuffix("/0") + "/agents")
    with pytest.raises(BackendError, match="DB index"):
        holdfast.open(own.url.removesuffix("/0") + "/99")
