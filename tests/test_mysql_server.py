"""What the MySQL backend makes of its server: tables, versions, trips, timeouts."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pymysql
import pytest
from faults import plan_beside_an_insert
from servers.fixtures import store_of, url_of
from servers.mariadb import address_of, ask, port_of, start
from servers.proxy import Proxy

from holdfast.backends import _mysql_schema as schemas
from holdfast.backends._mysql_connection import Connection, connect, rest
from holdfast.backends._mysql_writes import BEGIN
from holdfast.backends._sql import MYSQL, where
from holdfast.backends.mysql import MysqlStore, open_url
from holdfast.client import Holdfast
from holdfast.client import open as open_store
from holdfast.contracts import Delete, Insert, Put, Query, Require, Taken, Write
from holdfast.deadlines import within
from holdfast.errors import Busy, MigrationError, NotFound
from holdfast.filters import Filter
from holdfast.ids import new_id
from holdfast.kinds import HEADS, KINDS, MESSAGES, SESSIONS
from holdfast.model import Message
from holdfast.testing.opening import new_namespace
from holdfast.testing.records import agent, dump, head, message, session

url = url_of("mariadb", start)
store = store_of(open_url)


@pytest.fixture
def fresh(url: str) -> Iterator[str]:
    """The address of a database of the test's own."""
    name = f"kit_{new_id().replace('-', '_')}"
    ask(url, f"CREATE DATABASE {name}")
    yield urlsplit(url)._replace(path=f"/{name}").geturl()
    ask(url, f"DROP DATABASE {name}")


def database(url: str) -> str:
    return urlsplit(url).path[1:]


# tables and versions


def test_every_kind_is_a_table_that_says_what_it_is(fresh: str) -> None:
    open_url(fresh).close()
    about = f"SELECT table_name, table_comment FROM information_schema.tables WHERE table_schema = '{database(fresh)}'"
    assert {(f"holdfast_{kind.name}", kind.about) for kind in KINDS} <= set(ask(fresh, about))


def test_a_table_of_a_new_kind_is_added_to_an_old_store(fresh: str) -> None:
    open_url(fresh).close()
    ask(fresh, f"DROP TABLE {database(fresh)}.holdfast_heads")
    with pytest.raises(MigrationError):
        open_url(fresh, read_only=True)
    store = open_url(fresh)
    store.commit([Insert(head("s"))])
    assert dump(store) == [head("s")]
    store.close()


def test_a_newer_store_is_refused(fresh: str) -> None:
    open_url(fresh).close()
    ask(fresh, f"UPDATE {database(fresh)}.holdfast_version SET version = {schemas.VERSION + 1}")
    for read_only in (False, True):
        with pytest.raises(MigrationError, match="upgrade"):
            open_url(fresh, read_only=read_only)


def test_of_many_that_migrate_at_once_one_does_it(fresh: str) -> None:
    open_url(fresh).close()
    newer = schemas.VERSION + 1
    steps = {newer: ["CREATE TABLE later (n INT)", "INSERT INTO later VALUES (1)"]}

    def migrate(_: int) -> None:
        con = connect(address_of(fresh), 30)
        schemas.prepare(con, "", limit_s=30, version=newer, migrations=steps)
        con.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(migrate, range(6)))
    found = ask(fresh, f"USE {database(fresh)}", "SELECT n, version FROM later, holdfast_version")
    assert found == [(1, newer)]


def test_many_may_open_a_fresh_database_at_once(fresh: str) -> None:
    def open_one(number: int) -> MysqlStore:
        return open_url(fresh, namespace=str(number))

    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(open_one, range(8)))
    assert len({store.space for store in stores}) == 8
    for store in stores:
        store.close()


def test_reading_where_no_store_is_finds_none(fresh: str) -> None:
    with pytest.raises(NotFound, match="read_only"):
        open_url(fresh, read_only=True)


def test_names_that_look_alike_are_apart(store: MysqlStore) -> None:
    names = ["a", "A", "ä", "a ", "á", "𝄞"]
    store.commit([Insert(session(name, name.encode())) for name in names])
    assert dump(store) == [session(name, name.encode()) for name in sorted(names)]


def test_two_names_of_the_greatest_length_are_one_key(store: MysqlStore) -> None:
    hf = Holdfast(store)
    longest = "𝄞" * 255
    hf.sessions.create(id=longest)
    hf.artifacts.put(b"x", name=longest, session_id=longest)
    assert [artifact.name for artifact in hf.artifacts.list(session_id=longest)] == [longest]


def test_the_tables_are_checked(store: MysqlStore) -> None:
    assert store.inspect(check=True).problems == ()


# trips


def test_an_append_that_nobody_contests_is_one_round_trip(url: str) -> None:
    requests: list[bytes] = []

    def counts(piece: bytes) -> bool:
        requests.append(piece)
        return False

    with Proxy(port_of(url)) as proxy:
        with open_store(url.replace(f":{port_of(url)}/", f":{proxy.port}/"), namespace=new_namespace()) as hf:
            hf.sessions.create(id="s")
            hf.sessions.append("s", Message.user("first"))
            proxy.cuts_request = counts
            for number in range(20):
                hf.sessions.append("s", Message.user(str(number)))
            assert len(requests) == 20


def test_a_page_far_behind_is_found_by_the_key(store: MysqlStore) -> None:
    store.commit([Insert(message("h", 1, seq, f"m{seq}")) for seq in range(1, 501)])
    parts, values = where(Query(kind=MESSAGES, prefix=("h",), after=("h", 1, 490)), MYSQL)
    with store.connection() as con:
        text = f"EXPLAIN SELECT body FROM holdfast_messages WHERE space = {store.space} AND {' AND '.join(parts)}"
        (plan,) = con.carry_out([("ANALYZE TABLE holdfast_messages", []), (text, values)])[-1:]
    assert (plan[3], plan[5]) == ("range", "PRIMARY")
    assert int(plan[8]) < 50


# commits


def test_what_a_plan_found_absent_stays_absent_until_it_is_done(store: MysqlStore) -> None:
    plan_beside_an_insert(store)


@pytest.mark.parametrize("count", [1, 3])
def test_a_commit_of_every_sort_of_write_is_one_commit(store: MysqlStore, count: int) -> None:
    def some(name: str) -> list[str]:
        return [f"{name}{n}" for n in range(count)]

    store.commit([Insert(head(id, agent_id="x")) for name in "abcd" for id in some(name)])
    at = head("a0", agent_id="x").digest
    store.commit(
        [
            *(Put(head(id, 2, b"new"), over=at) for id in some("a")),
            *(Delete(HEADS, (id,), over=at) for id in some("b")),
            *(Require(HEADS, (id,), at) for id in some("c")),
            *(Require(HEADS, (id,), None) for id in some("none")),
            *(Delete(HEADS, (id,), (Filter("agent_id", "=", "x"),)) for id in some("d")),
            Delete(SESSIONS, ("none",)),
            *(Insert(message("h", 1, seq, f"m{seq}")) for seq in range(count)),
            *(Put(session(id)) for id in some("s")),
        ]
    )
    heads = [*(head(id, 2, b"new") for id in some("a")), *(head(id, agent_id="x") for id in some("c"))]
    messages = [message("h", 1, seq, f"m{seq}") for seq in range(count)]
    assert dump(store) == [*(session(id) for id in some("s")), *heads, *messages]


@pytest.mark.parametrize("sort", ["put", "delete", "require"])
def test_of_many_conditions_one_that_fails_stops_the_commit(store: MysqlStore, sort: str) -> None:
    there = [agent(id) for id in "abc"]
    store.commit([Insert(one) for one in there])
    over = [there[0].digest, b"other" * 6, there[2].digest]
    writes: dict[str, list[Write]] = {
        "put": [Put(agent(str(one.key[0]), b"new"), over=at) for one, at in zip(there, over, strict=True)],
        "delete": [Delete(one.kind, one.key, over=at) for one, at in zip(there, over, strict=True)],
        "require": [Require(one.kind, one.key, at) for one, at in zip(there, over, strict=True)],
    }
    with pytest.raises(Exception, match="changed meanwhile"):
        store.commit([*writes[sort], Insert(session("s"))])
    assert dump(store) == there


def test_a_repeated_insert_among_new_ones_succeeds(store: MysqlStore) -> None:
    store.commit([Insert(session("old"))])
    store.commit([Insert(session("old")), Insert(session("new"))])
    with pytest.raises(Taken):
        store.commit([Insert(session("old", b"other")), Insert(session("third"))])
    assert dump(store) == [session("new"), session("old")]


def test_bytes_that_would_have_to_be_escaped_fit_into_a_packet(store: MysqlStore) -> None:
    body = b"\0'\"\\\n\r\x1a%" * (1024 * 1024)
    store.commit([Insert(session("s", body))])
    assert dump(store) == [session("s", body)]


# timeouts


def test_a_commit_that_waits_for_a_lock_is_busy_at_its_limit(store: MysqlStore) -> None:
    store.commit([Insert(agent("a"))])
    with store.connection() as holder:
        holder.carry_out([BEGIN, (f"SELECT 1 FROM holdfast_agents WHERE space = {store.space} FOR UPDATE", [])])
        with ThreadPoolExecutor(1) as pool, pytest.raises(Busy):
            pool.submit(replace_within, store, 0.3).result()
    assert dump(store) == [agent("a")]
    replace_within(store, 30)


def replace_within(store: MysqlStore, seconds: float) -> None:
    with within(seconds):
        store.commit([Put(agent("a", b"new"), over=agent("a").digest)])


def test_a_connection_takes_no_longer_than_the_call(url: str) -> None:
    con: Connection = connect(address_of(url), 30)
    with pytest.raises(pymysql.OperationalError, match="interrupted"), within(0.2):
        con.carry_out([("SELECT SLEEP(20)", [])])
    assert not rest(con)
    con.close()
