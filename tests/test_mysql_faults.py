"""Servers that die and connections that break: what was acknowledged is there once, and the client recovers."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from faults import append_all, append_and_disturb, count_once, once
from servers import a_folder, required
from servers.fixtures import url_of
from servers.mariadb import port_of, revive, start
from servers.proxy import Proxy

from holdfast.backends._mysql_writes import BEGIN
from holdfast.backends.mysql import MysqlStore, open_url
from holdfast.client import Holdfast
from holdfast.contracts import Insert, Put
from holdfast.deadlines import within
from holdfast.errors import ConnectionFailed
from holdfast.model import Message
from holdfast.testing.opening import new_namespace
from holdfast.testing.records import agent, dump, session

url = url_of("mariadb", start)


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with Proxy(port_of(url)) as proxy:
        yield proxy


@pytest.fixture
def namespace() -> str:
    return new_namespace()


@pytest.fixture
def store(proxy: Proxy, url: str, namespace: str) -> Iterator[MysqlStore]:
    """A store that knows the server by the proxy's address only."""
    store = open_url(url.replace(f":{port_of(url)}/", f":{proxy.port}/"), namespace=namespace)
    yield store
    store.close()


# connections that break


@pytest.mark.parametrize("way", ["request", "answer"])
def test_appends_survive_connections_cut_at_random(proxy: Proxy, store: MysqlStore, way: str) -> None:
    chance = random.Random(7)
    setattr(proxy, f"cuts_{way}", lambda _: chance.random() < 0.02)
    append_all(store)
    assert proxy.cuts > 5


@pytest.mark.parametrize("way", ["request", "answer"])
def test_a_replacement_whose_answer_was_lost_is_done_once(proxy: Proxy, store: MysqlStore, way: str) -> None:
    store.commit([Insert(agent("a", b"old"))])
    setattr(proxy, f"cuts_{way}", once())
    store.commit([Put(agent("a", b"new"), over=agent("a", b"old").digest)])
    assert (proxy.cuts, dump(store)) == (1, [agent("a", b"new")])


@pytest.mark.parametrize("way", ["request", "answer"])
def test_a_plan_whose_commit_was_lost_is_not_carried_out_twice(proxy: Proxy, store: MysqlStore, way: str) -> None:
    count_once(proxy, store, way)


def test_a_commit_cut_between_two_packets_is_carried_out_once(proxy: Proxy, store: MysqlStore) -> None:
    large = [session(f"s{n}", bytes([n]) * 2_500_000) for n in range(3)]
    answers = iter([False, True])
    proxy.cuts_answer = lambda _: next(answers, False)
    store.commit([Insert(one) for one in large])
    assert (proxy.cuts, dump(store)) == (1, large)


@pytest.fixture
def other(url: str, namespace: str) -> Iterator[MysqlStore]:
    """The same store, by the server's own address."""
    other = open_url(url, namespace=namespace)
    yield other
    other.close()


def test_an_outcome_that_nobody_can_tell_is_said_to_be_unknown(
    proxy: Proxy, store: MysqlStore, other: MysqlStore
) -> None:
    store.commit([Insert(agent("a", b"old"))])
    proxy.cuts_answer = once(then=lambda: other.commit([Put(agent("a", b"theirs"))]))
    with pytest.raises(ConnectionFailed) as failure:
        store.commit([Put(agent("a", b"mine"), over=agent("a", b"old").digest)])
    assert failure.value.outcome == "unknown"


def test_nobody_is_told_that_nothing_was_written_while_that_is_in_doubt(
    proxy: Proxy, store: MysqlStore, other: MysqlStore
) -> None:
    store.commit([Insert(agent("a", b"old"))])
    with ExitStack() as until_the_end:

        def hold() -> None:
            con = until_the_end.enter_context(other.connection())
            con.carry_out([BEGIN, (f"SELECT 1 FROM holdfast_agents WHERE space = {other.space} FOR UPDATE", [])])

        proxy.cuts_answer = once(then=hold)
        with pytest.raises(ConnectionFailed) as failure, within(1.0):
            store.commit([Put(agent("a", b"new"), over=agent("a", b"old").digest)])
    assert failure.value.outcome == "unknown"
    assert dump(store) == [agent("a", b"new")]


def test_reads_go_on_after_every_connection_was_cut(proxy: Proxy, store: MysqlStore) -> None:
    store.commit([Insert(session("s"))])
    proxy.cut_all()
    assert dump(store) == [session("s")]


# servers that die


class Mortal:
    """A server of a test's own."""

    def __init__(self, folder: Path) -> None:
        self.server = start(folder)

    def kill(self) -> None:
        """End it at once, as a loss of power does to a process."""
        os.kill(self.server.pid, signal.SIGKILL)

    def kill_and_revive(self) -> None:
        """The same, and start it again where it was."""
        self.kill()
        self.server = revive(self.server)


@pytest.fixture
def mortal() -> Iterator[Mortal]:
    with a_folder() as folder:
        with required("mariadb"):
            mortal = Mortal(folder)
        yield mortal
        with suppress(ProcessLookupError):  # a test may have killed it
            mortal.kill()


def test_appends_survive_a_server_that_is_killed(mortal: Mortal) -> None:
    append_and_disturb(open_url(mortal.server.url), mortal.kill_and_revive)


def test_what_was_indexed_is_found_after_the_server_was_killed(mortal: Mortal) -> None:
    with Holdfast(open_url(mortal.server.url)) as hf:
        hf.sessions.create(id="s")
        hf.sessions.append("s", *(Message.user(f"hello {n}") for n in range(30)))
        assert len(hf.search("hello", limit=100)) == 30
        mortal.kill_and_revive()
        hf.sessions.append("s", Message.user("hello 30"))
        assert len(hf.search("hello", limit=100)) == 31


def test_a_server_that_is_gone_is_said_to_be_so_at_the_limit(mortal: Mortal) -> None:
    store = open_url(mortal.server.url)
    store.commit([Insert(session("s"))])
    mortal.kill()
    with pytest.raises(ConnectionFailed), within(1.0):
        dump(store)
    store.close()
