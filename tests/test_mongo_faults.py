"""Servers that die and connections that break: nothing acknowledged is lost, and nothing is there twice.

The server is an emulator that keeps its databases in files, so that it can be killed and started again on them. What
a killed mongod keeps is not shown by this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pymongo
import pytest
from bson import Binary, Int64
from faults import Crowd, every, never
from servers import free_port, mongo
from servers.fixtures import own_of
from servers.own import Own
from servers.proxy import Proxy

from holdfast.backends._mongo import batches
from holdfast.backends.mongo import MongoStore
from holdfast.contracts import Delete, Insert, Put, Query
from holdfast.deadlines import within
from holdfast.errors import Busy, ConnectionFailed
from holdfast.kinds import AGENTS
from holdfast.testing.records import agent, dump, insert, only

APPENDS, KILLS = 15, 3

own = own_of(partial(Own, mongo.start))


@pytest.fixture
def proxy(own: Own) -> Iterator[Proxy]:
    with Proxy(own.port) as proxy:
        yield proxy


def through(proxy: Proxy) -> str:
    """The address of a server at the other end of a proxy."""
    return f"mongodb://127.0.0.1:{proxy.port}"


def change_space(own: Own, change: dict[str, object]) -> None:
    """Change the document on which commits agree, as a writer does."""
    client: pymongo.MongoClient[dict[str, object]]
    with pymongo.MongoClient(own.url) as client:
        client["holdfast"]["spaces"].update_one({"_id": "space "}, change)


# servers that die


def test_a_killed_server_loses_and_doubles_nothing(own: Own) -> None:
    crowd = Crowd(own.url, APPENDS)
    with crowd.at_work():
        for _ in range(KILLS):
            crowd.wait_for(crowd.total // (KILLS + 1))
            own.kill()
    crowd.check(own.url)


def test_a_server_that_is_not_there_is_told_at_the_limit() -> None:
    with pytest.raises(ConnectionFailed) as failure:
        MongoStore(f"mongodb://127.0.0.1:{free_port()}", timeout=0.3)
    assert failure.value.outcome == "none"


def test_a_server_that_went_away_is_told_at_the_limit(own: Own) -> None:
    with closing(MongoStore(own.url)) as store:
        own.end()
        with within(0.3), pytest.raises(ConnectionFailed):
            store.commit([Insert(agent("a"))])
        own.bring_back()
        assert dump(store) == []


# connections that break


def test_connections_that_break_in_commits_lose_and_double_nothing(own: Own, proxy: Proxy) -> None:
    crowd = Crowd(through(proxy), APPENDS)
    with crowd.at_work():
        proxy.cuts_answer = every(23)  # the driver looks for its server anew after each, which takes half a second
        for _ in range(crowd.total // 15):
            crowd.wait_for(15)
            proxy.cut_all()
    proxy.cuts_answer = never
    assert proxy.cuts > crowd.total // 7  # so that commits are among them
    crowd.check(own.url)


@pytest.mark.parametrize("nth", [6, 7, 8, 9, 11, 13])
def test_whichever_answer_is_lost_a_commit_is_made_once(proxy: Proxy, nth: int) -> None:
    with closing(MongoStore(through(proxy))) as store:
        store.commit([Insert(agent("counter", b"0"))])
        proxy.cuts_answer = every(nth)
        for number in range(4):
            old, new = agent("counter", b"%d" % number), agent("counter", b"%d" % (number + 1))
            store.commit([Put(new, over=old.digest)])
        proxy.cuts_answer = never
        assert only(store, new) == new
    assert proxy.cuts > 0


def test_at_the_limit_the_outcome_of_a_commit_that_was_sent_is_unknown(own: Own, proxy: Proxy) -> None:
    with closing(MongoStore(through(proxy))) as store, closing(MongoStore(own.url)) as other:
        _lose_a_commit(store, proxy)
        other.commit([Insert(agent("a"))])
        assert dump(other) == [agent("a")]


def _lose_a_commit(store: MongoStore, proxy: Proxy) -> None:
    for answer in range(2, 20):
        proxy.cuts_answer = every(answer)
        try:
            with within(0.3):
                store.commit([Put(agent("a"))])
        except ConnectionFailed as failure:
            if failure.outcome == "unknown":
                proxy.cuts_answer = never
                return
    raise AssertionError("no commit lost its answer")


# writers that die


def leave_behind(own: Own, body: bytes) -> None:
    """What a writer leaves that dies when it has committed and applied nothing."""
    batch = Binary(batches.encode([agent("a", body), agent("b", body)]))
    change_space(own, {"$inc": {"version": Int64(1)}, "$set": {"applied": False, "batch": batch}})


def test_a_reader_applies_what_a_dead_writer_had_committed(own: Own) -> None:
    with closing(MongoStore(own.url)) as store:
        insert(store, [agent("a"), agent("b")])
        leave_behind(own, b"new")
        assert dump(store) == [agent("a", b"new"), agent("b", b"new")]


def test_a_writer_goes_on_behind_what_a_dead_one_had_committed(own: Own) -> None:
    with closing(MongoStore(own.url)) as store:
        insert(store, [agent("a"), agent("b")])
        leave_behind(own, b"new")
        store.commit([Put(agent("a", b"newer"), over=agent("a", b"new").digest)])
        assert dump(store) == [agent("a", b"newer"), agent("b", b"new")]


def test_who_applies_a_commit_too_late_changes_nothing(own: Own) -> None:
    with closing(MongoStore(own.url)) as store:
        insert(store, [agent("a"), agent("b")])
        store.commit([Put(agent("a", b"newer"))])
        store.commit([Delete(AGENTS, ("b",))])
        batches.apply(store._records, "", 1, [agent("a"), agent("b")])
        assert dump(store) == [agent("a", b"newer")]
        store.commit([Insert(agent("b", b"again"))])
        assert only(store, agent("b")) == agent("b", b"again")


def test_who_waits_in_line_and_dies_is_passed_over(own: Own) -> None:
    with closing(MongoStore(own.url)) as store:
        change_space(own, {"$inc": {"tickets": Int64(1)}})
        with within(0.5), pytest.raises(Busy):
            store.commit([Insert(agent("a"))])
        store.commit([Insert(agent("a"))])
        assert [one.key for one in store.scan(Query(kind=AGENTS))] == [("a",)]
