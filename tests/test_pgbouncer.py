"""Behind PgBouncer in transaction mode, where no statement can rely on the connection of the one before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest
from servers import shared
from servers.pgbouncer import POOL, start

import holdfast
from holdfast import Message
from holdfast.backends.postgres import PostgresStore, open_url
from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.model import Event
from holdfast.testing.domain_embeddings import E1, found, three
from holdfast.testing.opening import new_namespace
from holdfast.testing.record_commits import CommitTests
from holdfast.testing.record_rebases import RebaseTests

WRITERS = 2 * POOL


def address() -> str:
    return f"{shared('pgbouncer', start, always=False)}?prepare=off"


class Pooled:
    def open(self, namespace: str) -> RecordStore:
        return open_url(address(), namespace=namespace)


class TestCommits(Pooled, CommitTests):
    pass


class TestRebases(Pooled, RebaseTests):
    pass


@pytest.fixture
def namespace() -> str:
    return new_namespace()


@pytest.fixture
def hf(namespace: str) -> Iterator[Holdfast]:
    with holdfast.open(address(), namespace=namespace) as hf:
        yield hf


def test_more_writers_than_connections_append_to_one_session(hf: Holdfast) -> None:
    hf.sessions.create(id="s")

    def append(writer: int) -> None:
        for number in range(25):
            hf.sessions.append("s", Message.user(f"{writer} {number}"))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(append, range(WRITERS)))
    assert [one.seq for one in hf.sessions.messages("s")] == list(range(1, 25 * WRITERS + 1))
    assert hf.verify().ok


def test_a_run_is_driven_and_followed(hf: Holdfast, namespace: str) -> None:
    hf.sessions.create(id="s")
    seen: list[Event] = []
    with holdfast.open(address(), namespace=namespace) as other, hf.runs.start("s", key="k") as run:
        follower = threading.Thread(target=lambda: seen.extend(other.runs.follow(run.id)))
        follower.start()
        run.append(Message.user("book"))
        assert run.tool("book", lambda room: {"room": room}, room=7) == {"room": 7}
        run.complete()
        follower.join(60)
    assert seen == list(hf.runs.events(run.id))
    assert [event.kind for event in seen][-1] == "ended"
    assert listening() == []


def listening() -> list[object]:
    """What the connections of the pool listen to, all of them held at once."""
    with ExitStack() as held:
        cons = [held.enter_context(psycopg.connect(address().partition("?")[0])) for _ in range(POOL)]
        return [row for con in cons for row in con.execute("SELECT pg_listening_channels()").fetchall()]


def test_texts_and_vectors_are_found(hf: Holdfast) -> None:
    hf.sessions.create(id="s")
    hf.sessions.append("s", Message.user("one ryokan"), Message.user("another"))
    assert [len(hf.search(query)) for query in ("ryokan", "another ryokan")] == [1, 0]
    three(hf)
    assert found(hf.embeddings.search(E1)) == ["e1", "e2", "e3"]


def test_behind_a_pooler_nothing_is_prepared_even_if_nobody_says_so(namespace: str) -> None:
    with holdfast.open(shared("pgbouncer", start, always=False), namespace=namespace) as hf:
        store = hf._store
        assert isinstance(store, PostgresStore)
        hf.sessions.create(id="s", title="t")
        for number in range(20):
            hf.sessions.append("s", Message.user(str(number)))
            assert hf.sessions.get("s") is not None
        with store.connection() as con:
            assert con.prepare_threshold is None
            assert con.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
