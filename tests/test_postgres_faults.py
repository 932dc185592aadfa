"""Servers that die and connections that break: what was acknowledged is there once, and the client recovers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from faults import LONG_S, append_all, append_and_disturb, count_once, once
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from servers import Server, a_folder, required, shared
from servers.postgres import follow, halt, kill, promote, revive, start
from servers.proxy import Proxy

import holdfast
from holdfast.aio import AsyncHoldfast
from holdfast.backends.postgres import PostgresStore, open_url
from holdfast.contracts import Insert, Put
from holdfast.deadlines import within
from holdfast.errors import ConnectionFailed
from holdfast.model import Message
from holdfast.testing.opening import new_namespace
from holdfast.testing.records import agent, dump, session


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(int(str(conninfo_to_dict(shared("postgres", start))["port"]))) as proxy:
        yield proxy


def open_through(proxy: Proxy, namespace: str) -> PostgresStore:
    """A store that knows the server by the proxy's address only."""
    address = make_conninfo(shared("postgres", start), host="127.0.0.1", port=proxy.port)
    return PostgresStore(address, namespace=namespace)


def through(proxy: Proxy) -> str:
    """That address as a URL."""
    known = conninfo_to_dict(shared("postgres", start))
    return f"postgresql://{known['user']}@127.0.0.1:{proxy.port}/{known['dbname']}"


# connections that break


@pytest.mark.parametrize("way", ["request", "answer"])
def test_appends_survive_connections_cut_at_random(proxy: Proxy, way: str) -> None:
    store = open_through(proxy, new_namespace())
    chance = random.Random(7)
    setattr(proxy, f"cuts_{way}", lambda _: chance.random() < 0.02)
    append_all(store)
    assert proxy.cuts > 5
    store.close()


@pytest.mark.parametrize("way", ["request", "answer"])
def test_agents_that_share_trips_survive_connections_cut_at_random(proxy: Proxy, way: str) -> None:
    namespace, chance = new_namespace(), random.Random(7)
    agents = [f"agent {number}" for number in range(8)]
    said = [f"message {number}" for number in range(25)]

    async def talk(hf: AsyncHoldfast, id: str) -> None:
        await hf.sessions.create(id=id)
        for text in said:
            await hf.sessions.append(id, Message.user(text))

    async def talk_all() -> None:
        async with await holdfast.aopen(through(proxy), namespace=namespace, timeout=LONG_S) as hf:
            setattr(proxy, f"cuts_{way}", lambda _: chance.random() < 0.05)
            await asyncio.gather(*(talk(hf, id) for id in agents))

    asyncio.run(talk_all())
    assert proxy.cuts > 5
    with holdfast.open(shared("postgres", start), namespace=namespace) as hf:
        assert all([one.text for one in hf.sessions.messages(id)] == said for id in agents)
        assert hf.verify().problems == []


@pytest.mark.parametrize("way", ["request", "answer"])
def test_a_replacement_whose_answer_was_lost_is_done_once(proxy: Proxy, way: str) -> None:
    store = open_through(proxy, new_namespace())
    store.commit([Insert(agent("a", b"old"))])
    setattr(proxy, f"cuts_{way}", once())
    store.commit([Put(agent("a", b"new"), over=agent("a", b"old").digest)])
    assert (proxy.cuts, dump(store)) == (1, [agent("a", b"new")])
    store.close()


@pytest.mark.parametrize("way", ["request", "answer"])
def test_a_plan_whose_commit_was_lost_is_not_carried_out_twice(proxy: Proxy, way: str) -> None:
    store = open_through(proxy, new_namespace())
    count_once(proxy, store, way)
    store.close()


def test_an_outcome_that_nobody_can_tell_is_said_to_be_unknown(proxy: Proxy) -> None:
    namespace = new_namespace()
    store, other = open_through(proxy, namespace), open_url(shared("postgres", start), namespace=namespace)
    store.commit([Insert(agent("a", b"old"))])
    proxy.cuts_answer = once(then=lambda: other.commit([Put(agent("a", b"theirs"))]))
    with pytest.raises(ConnectionFailed) as failure:
        store.commit([Put(agent("a", b"mine"), over=agent("a", b"old").digest)])
    assert failure.value.outcome == "unknown"
    store.close()
    other.close()


def test_nobody_is_told_that_nothing_was_written_while_that_is_in_doubt(proxy: Proxy) -> None:
    store = open_through(proxy, new_namespace())
    store.commit([Insert(agent("a", b"old"))])
    with psycopg.connect(shared("postgres", start)) as holder:

        def hold() -> None:
            holder.execute("SELECT FROM holdfast.agents WHERE space = %s FOR UPDATE", (store.space,))

        proxy.cuts_answer = once(then=hold)
        with pytest.raises(ConnectionFailed) as failure, within(1.0):
            store.commit([Put(agent("a", b"new"), over=agent("a", b"old").digest)])
    assert failure.value.outcome == "unknown"
    assert dump(store) == [agent("a", b"new")]
    store.close()


def test_reads_go_on_after_every_connection_was_cut(proxy: Proxy) -> None:
    store = open_through(proxy, new_namespace())
    store.commit([Insert(session("s"))])
    proxy.cut_all()
    assert dump(store) == [session("s")]
    store.close()


# servers that die


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a test keeps servers of its own; they end with it."""
    with a_folder() as folder:
        yield folder
        for one in folder.iterdir():
            halt(one)


@pytest.fixture
def server(folder: Path) -> Server:
    (folder / "first").mkdir()
    with required("postgres"):
        return start(folder / "first")


def test_appends_survive_a_server_that_is_killed(server: Server) -> None:
    def fail() -> None:
        kill(server)
        revive(server)

    append_and_disturb(open_url(server.url), fail)


def test_appends_go_on_at_the_standby_that_takes_over(server: Server, folder: Path) -> None:
    (folder / "second").mkdir()
    standby = follow(server, folder / "second")

    def fail_over() -> None:
        kill(server)
        promote(standby)

    hosts = ",".join(f"127.0.0.1:{conninfo_to_dict(one.url)['port']}" for one in (server, standby))
    store = open_url(f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write")
    append_and_disturb(store, fail_over)


def test_a_server_that_is_gone_is_said_to_be_so_at_the_limit(server: Server) -> None:
    store = open_url(server.url)
    store.commit([Insert(session("s"))])
    kill(server)
    with pytest.raises(ConnectionFailed), within(1.0):
        dump(store)
    store.close()
