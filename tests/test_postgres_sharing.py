"""Commits of one process that wait for each other share a trip to PostgreSQL; each is refused or done by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest
from faults import once
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from servers import a_folder
from servers.fixtures import store_of, url_of
from servers.postgres import halt, start
from servers.proxy import Proxy

from holdfast.backends.postgres import PostgresStore, open_url
from holdfast.contracts import Insert, Moved, Planned, Put, Reader, Rebase, Record, Taken, Write
from holdfast.deadlines import deadline, within
from holdfast.errors import BackendError, Busy, ConnectionFailed
from holdfast.ids import new_id
from holdfast.testing.opening import new_namespace
from holdfast.testing.records import agent, dump, head, message, only, session

OLD, LONG_S = b"head", 60.0
AGENTS = "abcdefgh"

url = url_of("postgres", start)
store = store_of(open_url)


def begin(store: PostgresStore) -> None:
    store.commit([Insert(head(id, body=OLD)) for id in AGENTS])


def moving(id: str, seq: int = 1, over: Record | None = None) -> list[Write]:
    """What an append writes: the head over the one that was seen, and a message."""
    seen = head(id, body=OLD) if over is None else over
    return [Put(head(id, body=b"%d" % seq), over=seen.digest), Insert(message(id, 1, seq, f"{id}{seq}"))]


def submit(store: PostgresStore, writes: list[Write], rebase: Rebase | None = None) -> Future[Sequence[Write]]:
    (answer,) = store.submit([Planned(writes, rebase, deadline(LONG_S))])
    return answer


def at_once(store: PostgresStore, commits: Sequence[list[Write]]) -> list[Future[Sequence[Write]]]:
    """Submit commits while another has the turn, so that they go together."""
    with store._first_tries._group.alone():
        return [submit(store, writes) for writes in commits]


def transactions(store: PostgresStore) -> int:
    """How many have written the messages that are there."""
    ((found,),) = store.read(f"SELECT count(DISTINCT xmin::text) FROM holdfast.messages WHERE space = {store.space}")
    return int(found)


def test_commits_that_wait_for_each_other_are_one_transaction(store: PostgresStore) -> None:
    begin(store)
    for answer in at_once(store, [moving(id) for id in AGENTS]):
        answer.result()
    assert transactions(store) == 1
    assert dump(store) == [*(head(id, body=b"1") for id in AGENTS), *(message(id, 1, 1, f"{id}1") for id in AGENTS)]


def test_threads_that_wait_for_each_other_share_one_too(store: PostgresStore) -> None:
    begin(store)
    with ThreadPoolExecutor(len(AGENTS)) as pool:
        with store._first_tries._group.alone():
            waiting = [pool.submit(store.commit, moving(id)) for id in AGENTS]
            for _ in range(1_000):
                if len(store._first_tries._group._queue) == len(AGENTS):
                    break
                time.sleep(0.01)
        for one in waiting:
            one.result()
    assert transactions(store) == 1


def test_one_that_does_not_fit_is_refused_alone(store: PostgresStore) -> None:
    begin(store)
    stale = moving("b", over=head("b", body=b"long gone"))
    first, refused, last = at_once(store, [moving("a"), stale, moving("c")])
    with pytest.raises(Moved):
        refused.result()
    assert [len(first.result()), len(last.result()), transactions(store)] == [2, 2, 1]
    assert only(store, head("b")) == head("b", body=OLD)


def test_one_whose_id_is_taken_is_refused_alone(store: PostgresStore) -> None:
    begin(store)
    store.commit([Insert(message("b", 1, 9, "b1"))])
    first, refused, last = at_once(store, [moving("a"), moving("b"), moving("c")])
    with pytest.raises(Taken):
        refused.result()
    assert [len(first.result()), len(last.result())] == [2, 2]
    assert only(store, head("b")) == head("b", body=OLD)


def test_one_that_cannot_be_stored_is_refused_alone(store: PostgresStore) -> None:
    begin(store)
    bad: list[Write] = [*moving("b"), Insert(session("no text in a column has \x00"))]
    first, refused, last = at_once(store, [moving("a"), bad, moving("c")])
    with pytest.raises(Exception, match="cannot store the value"):
        refused.result()
    assert [len(first.result()), len(last.result())] == [2, 2]


def test_one_that_cannot_even_be_sent_is_refused_alone(store: PostgresStore) -> None:
    begin(store)
    bad: list[Write] = [*moving("b"), Insert(session("half a character: \ud800"))]
    first, refused, last = at_once(store, [moving("a"), bad, moving("c")])
    with pytest.raises(UnicodeEncodeError):
        refused.result(LONG_S)
    assert [len(first.result(LONG_S)), len(last.result(LONG_S))] == [2, 2]
    assert len(submit(store, moving("b")).result(LONG_S)) == 2


REFUSE_AT_THE_END = """
CREATE FUNCTION {0}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
CREATE CONSTRAINT TRIGGER refused AFTER INSERT ON {0}.messages DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.id = 'b1') EXECUTE FUNCTION {0}.refuse()
"""


def test_nobody_is_told_that_a_trip_was_done_which_failed_at_its_end(url: str) -> None:
    schema = f"kit_{new_id().replace('-', '_')}"
    store = open_url(f"{url}?schema={schema}")
    begin(store)
    with psycopg.connect(url, autocommit=True) as con:
        con.execute(REFUSE_AT_THE_END.format(schema).encode())
        first, refused, last = at_once(store, [moving("a"), moving("b"), moving("c")])
        with pytest.raises(BackendError, match="not this one"):
            refused.result()
        assert [len(first.result()), len(last.result())] == [2, 2]
        assert [only(store, head(id)) for id in "abc"] == [head("a", body=b"1"), head("b"), head("c", body=b"1")]
        store.close()
        con.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def test_two_of_one_session_come_one_behind_the_other(store: PostgresStore) -> None:
    begin(store)

    def again(reader: Reader) -> list[Write]:
        return moving("a", 2, over=only(reader, head("a")))

    with store._first_tries._group.alone():
        both = [submit(store, moving("a"), again), submit(store, moving("a", 3), again)]
    assert [len(one.result()) for one in both] == [2, 2]
    assert only(store, head("a")) == head("a", body=b"2")


def test_a_row_that_another_holds_keeps_nobody_else_waiting(url: str, store: PostgresStore) -> None:
    begin(store)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM holdfast.heads WHERE space = %s AND session_id = 'b' FOR UPDATE", (store.space,))
        first, held, last = at_once(store, [moving("a"), moving("b"), moving("c")])
        assert [len(first.result(LONG_S)), len(last.result(LONG_S)), transactions(store)] == [2, 2, 1]
        assert not held.done()
    assert len(held.result(LONG_S)) == 2


def test_a_key_that_another_is_inserting_keeps_others_waiting_for_a_moment_only(url: str, store: PostgresStore) -> None:
    begin(store)
    with psycopg.connect(url) as holder:
        holder.execute(
            "INSERT INTO holdfast.sessions (space, id, digest, body) VALUES (%s, 's', '', '')", (store.space,)
        )
        first, held, last = at_once(store, [moving("a"), [*moving("b"), Insert(session("s"))], moving("c")])
        assert [len(first.result(LONG_S)), len(last.result(LONG_S))] == [2, 2]
        assert not held.done()
        holder.rollback()
        assert len(held.result(LONG_S)) == 3


def test_one_that_reaches_its_limit_fails_alone(url: str, store: PostgresStore) -> None:
    begin(store)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM holdfast.heads WHERE space = %s AND session_id = 'b' FOR UPDATE", (store.space,))
        with store._first_tries._group.alone():
            first = submit(store, moving("a"))
            with within(0.5):
                held = submit(store, moving("b"))
        assert len(first.result(LONG_S)) == 2
        with pytest.raises(Busy):
            held.result(LONG_S)
    assert only(store, head("b")) == head("b", body=OLD)


def test_one_whose_limit_ends_the_trip_of_all_fails_alone(url: str, store: PostgresStore) -> None:
    begin(store)
    with psycopg.connect(url) as holder:
        holder.execute(
            "INSERT INTO holdfast.sessions (space, id, digest, body) VALUES (%s, 's', '', '')", (store.space,)
        )
        with store._first_tries._group.alone():
            first = submit(store, moving("a"))
            with within(0.1):  # which is less than a trip waits for a key
                held = submit(store, [*moving("b"), Insert(session("s"))])
        assert len(first.result(LONG_S)) == 2
        with pytest.raises(Busy):
            held.result(LONG_S)
    assert only(store, head("b")) == head("b", body=OLD)


@pytest.mark.parametrize("way", ["request", "answer"])
def test_what_goes_together_and_is_lost_on_the_way_is_done_once(url: str, way: str) -> None:
    with Proxy(int(str(conninfo_to_dict(url)["port"]))) as proxy:
        store = PostgresStore(make_conninfo(url, port=proxy.port), namespace=new_namespace())
        begin(store)
        setattr(proxy, f"cuts_{way}", once())
        for answer in at_once(store, [moving(id) for id in AGENTS]):
            answer.result()
        assert proxy.cuts == 1
        assert dump(store) == [*(head(id, body=b"1") for id in AGENTS), *(message(id, 1, 1, f"{id}1") for id in AGENTS)]
        store.close()


def test_what_was_submitted_is_carried_out_by_the_time_the_store_is_closed(url: str) -> None:
    namespace = new_namespace()
    store = open_url(url, namespace=namespace)
    begin(store)
    answers = [submit(store, moving(id)) for id in AGENTS]
    store.close()
    assert all(len(answer.result(0)) == 2 for answer in answers)


def test_a_plan_may_commit_while_it_is_made(url: str) -> None:
    store = open_url(f"{url}?pool_size=1", namespace=new_namespace())
    begin(store)

    def plan(_: Reader) -> list[Write]:
        store.commit(moving("a"))
        return [Put(agent("x"))]

    store.commit(None, plan)
    assert only(store, head("a")) == head("a", body=b"1")
    store.close()


def test_a_connection_that_goes_silent_holds_nobody_else_up(url: str) -> None:
    silent, over = threading.Event(), threading.Event()

    def swallow(piece: bytes) -> bool:
        if b"silence" in piece:
            silent.set()
            over.wait(LONG_S)
        return False

    with Proxy(int(str(conninfo_to_dict(url)["port"]))) as proxy, ThreadPoolExecutor(1) as pool:
        store = PostgresStore(make_conninfo(url, port=proxy.port), namespace=new_namespace())
        begin(store)
        proxy.cuts_request = swallow
        stuck = pool.submit(store.commit, [*moving("a"), Insert(session("silence"))])
        assert silent.wait(LONG_S)
        assert len(submit(store, moving("b")).result(LONG_S)) == 2
        store.commit(moving("c"))
        assert not stuck.done()
        over.set()
        proxy.cut_all()
        stuck.result(LONG_S)
        store.close()


def test_a_commit_whose_standby_has_not_confirmed_is_not_done() -> None:
    with a_folder() as folder:
        server = start(folder)
        try:
            store = open_url(server.url)
            begin(store)
            _wants_standby(server.url, "'nobody'")
            with store._first_tries._group.alone():
                both = store.submit([Planned(moving(id), None, deadline(limit)) for id, limit in (("a", 60), ("b", 1))])
            for answer in both:
                with pytest.raises(ConnectionFailed) as failure:
                    answer.result(LONG_S)
                assert failure.value.outcome == "unknown"
            _wants_standby(server.url, "''")
            store.close()
        finally:
            halt(folder)


def _wants_standby(url: str, names: str) -> None:
    """Have commits wait for standbys of these names from now on."""
    with psycopg.connect(url, autocommit=True) as con:
        con.execute("SET synchronous_commit = local")
        con.execute(f"ALTER SYSTEM SET synchronous_standby_names = {names}")
        con.execute("SELECT pg_reload_conf()")
        while con.execute("SHOW synchronous_standby_names").fetchone() != (names.strip("'"),):
            time.sleep(0.01)
