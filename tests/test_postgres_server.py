"""What the PostgreSQL backend makes of its server: tables, versions, trips, timeouts, options of the address."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from os import kill
from traceback import format_exception

import psycopg
import pytest
from faults import plan_beside_an_insert
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from servers.fixtures import store_of, url_of
from servers.postgres import start
from servers.proxy import Proxy

from holdfast.backends import _postgres_schema as schemas
from holdfast.backends._postgres_connection import Connection, connect
from holdfast.backends.postgres import Durability, PostgresStore, open_url
from holdfast.client import Holdfast
from holdfast.client import open as open_store
from holdfast.contracts import Delete, Insert, Put, Require, Taken
from holdfast.deadlines import within
from holdfast.errors import Busy, ConnectionFailed, InvalidInput, MigrationError, NotFound, Unsupported
from holdfast.filters import Filter
from holdfast.ids import new_id
from holdfast.kinds import HEADS, KINDS, SESSIONS
from holdfast.model import Message
from holdfast.testing.opening import new_namespace
from holdfast.testing.records import agent, dump, head, message, session

url = url_of("postgres", start)
store = store_of(open_url)


@pytest.fixture
def schema(url: str) -> Iterator[str]:
    """A schema of the test's own."""
    name = f"kit_{new_id().replace('-', '_')}"
    yield name
    with psycopg.connect(url, autocommit=True) as con:
        con.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


def ask(url: str, statement: str) -> list[tuple[object, ...]]:
    """The rows of a statement, from a connection of its own."""
    with psycopg.connect(url, autocommit=True) as con:
        return con.execute(statement.encode()).fetchall()


# tables and versions


def test_every_kind_is_a_table_that_says_what_it_is(url: str, schema: str) -> None:
    open_url(f"{url}?schema={schema}").close()
    tables = f"FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'r'"
    about = ask(url, f"SELECT relname, obj_description(oid) {tables}")
    assert {(kind.name, kind.about) for kind in KINDS} <= set(about)
    assert all(said for _, said in about)


def test_a_table_of_a_new_kind_is_added_to_an_old_store(url: str, schema: str) -> None:
    address = f"{url}?schema={schema}"
    open_url(address).close()
    with psycopg.connect(url, autocommit=True) as con:
        con.execute(f"DROP TABLE {schema}.heads".encode())
    with pytest.raises(MigrationError):
        open_url(address, read_only=True)
    store = open_url(address)
    store.commit([Insert(head("s"))])
    assert dump(store) == [head("s")]
    store.close()


def test_a_newer_store_is_refused(url: str, schema: str) -> None:
    open_url(f"{url}?schema={schema}").close()
    with psycopg.connect(url, autocommit=True) as con:
        con.execute(f"UPDATE {schema}.version SET version = {schemas.VERSION + 1}".encode())
    for read_only in (False, True):
        with pytest.raises(MigrationError, match="upgrade"):
            open_url(f"{url}?schema={schema}", read_only=read_only)


def test_of_many_that_migrate_a_store_one_does(url: str, schema: str) -> None:
    open_url(f"{url}?schema={schema}").close()
    newer = schemas.VERSION + 1
    steps = {newer: ["CREATE TABLE {0}.later (n integer)", "INSERT INTO {0}.later VALUES (1)"]}

    def migrate(_: int) -> None:
        with connect(url, limit_s=30, prepare=True) as con:
            schemas.prepare(con, schema, "", version=newer, migrations=steps)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(migrate, range(6)))
    assert ask(url, f"SELECT n, version FROM {schema}.later, {schema}.version") == [(1, newer)]


def test_many_may_open_a_fresh_database_at_once(url: str, schema: str) -> None:
    def open_one(number: int) -> PostgresStore:
        return open_url(f"{url}?schema={schema}", namespace=str(number))

    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(open_one, range(8)))
    assert len({store.space for store in stores}) == 8
    for store in stores:
        store.close()


def test_reading_where_no_store_is_finds_none(url: str, schema: str) -> None:
    with pytest.raises(NotFound, match="read_only"):
        open_url(f"{url}?schema={schema}", read_only=True)


# trips


def test_an_append_that_nobody_contests_is_one_round_trip(url: str) -> None:
    with Proxy(int(str(conninfo_to_dict(url)["port"]))) as proxy:
        hf = Holdfast(PostgresStore(make_conninfo(url, port=proxy.port), namespace=new_namespace()))
        hf.sessions.create(id="s")
        for number in range(10):
            hf.sessions.append("s", Message.user(str(number)))
        before = proxy.pieces
        for number in range(20):
            hf.sessions.append("s", Message.user(str(number)))
        assert proxy.pieces - before == 40
        hf.close()


def test_nothing_of_a_session_is_left_where_statements_are_not_prepared(url: str) -> None:
    store = open_url(f"{url}?prepare=off", namespace=new_namespace())
    for number in range(20):
        store.commit([Put(agent("a", b"%d" % number))])
    assert store.read("SELECT name FROM pg_prepared_statements") == []
    store.close()


def test_a_server_that_has_forgotten_what_was_prepared_is_told_again(store: PostgresStore) -> None:
    for number in range(3):
        store.commit([Put(agent("a", b"%d" % number))])
        with store.connection() as con:
            con.pgconn.exec_(b"DEALLOCATE ALL")
    assert dump(store) == [agent("a", b"2")]


# commits


def test_what_a_plan_found_absent_stays_absent_until_it_is_done(store: PostgresStore) -> None:
    plan_beside_an_insert(store)


def test_a_commit_of_every_sort_of_write_is_one_commit(store: PostgresStore) -> None:
    store.commit([Insert(head(id, agent_id="x")) for id in "abcd"])
    at = head("a", agent_id="x").digest
    store.commit(
        [
            Put(head("a", 2, b"new"), over=at),
            Delete(HEADS, ("b",), over=at),
            Require(HEADS, ("c",), at),
            Require(HEADS, ("none",), None),
            Delete(HEADS, ("d",), (Filter("agent_id", "=", "x"),)),
            Delete(SESSIONS, ("none",)),
            Insert(message("h", 1, 1, "m")),
            Put(session("s")),
        ]
    )
    kept = [head("a", 2, b"new"), head("c", agent_id="x")]
    assert dump(store) == [session("s"), *kept, message("h", 1, 1, "m")]


def test_a_repeated_insert_among_new_ones_succeeds(store: PostgresStore) -> None:
    store.commit([Insert(session("old"))])
    store.commit([Insert(session("old")), Insert(session("new"))])
    with pytest.raises(Taken):
        store.commit([Insert(session("old", b"other")), Insert(session("third"))])
    assert dump(store) == [session("new"), session("old")]


# timeouts


def test_a_commit_that_waits_for_a_lock_is_busy_at_its_limit(url: str, store: PostgresStore) -> None:
    store.commit([Insert(agent("a"))])
    with psycopg.connect(url) as holder:
        holder.execute("SELECT 1 FROM holdfast.agents WHERE space = %s FOR UPDATE", (store.space,))
        with pytest.raises(Busy), within(0.3):
            store.commit([Put(agent("a", b"new"), over=agent("a").digest)])
    assert dump(store) == [agent("a")]
    store.commit([Put(agent("a", b"new"), over=agent("a").digest)])


def test_a_server_that_stops_answering_leaves_the_outcome_unknown(url: str) -> None:
    store = open_url(url, namespace=new_namespace(), timeout=5)
    ((pid,),) = store.read("SELECT pg_backend_pid()")
    kill(int(pid), signal.SIGSTOP)
    try:
        with pytest.raises(ConnectionFailed) as failure, within(0.3):
            store.commit([Insert(agent("a"))])
    finally:
        kill(int(pid), signal.SIGCONT)
    assert failure.value.outcome == "unknown"
    store.commit([Insert(agent("a"))])
    assert dump(store) == [agent("a")]
    store.close()


# the address


@pytest.mark.parametrize(
    "options", ["schema=A-b", "schema=", "pool_size=0", "pool_size=many", "prepare=maybe", "pgvector=1"]
)
def test_an_option_that_is_not_one_is_refused(url: str, options: str) -> None:
    with pytest.raises(InvalidInput):
        open_url(f"{url}?{options}")


def test_parameters_of_libpq_arrive_as_they_were_written(url: str) -> None:
    address = f"{url}?application_name=one%20%2B%20two&schema=holdfast&options=-c%20lock_timeout%3D7s"
    store = open_url(address, namespace=new_namespace())
    said = "SELECT current_setting('application_name'), current_setting('lock_timeout')"
    assert store.read(said) == [("one + two", "7s")]
    store.close()


@pytest.mark.parametrize("address", ["ann:secret%zz@h/d", "ann:secret@[::1/d", "ann:x?secret@h/d", "ann:secret@h..h/d"])
def test_a_password_is_in_no_error(address: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        open_store(f"postgresql://{address}")
    assert "secret" not in "".join(format_exception(refusal.value))


def test_an_unknown_parameter_of_the_address_is_named(url: str) -> None:
    with pytest.raises(InvalidInput, match='"bogus"'):
        open_store(f"{url}?bogus=1")


def test_bytes_arrive_whatever_the_server_takes_for_a_literal(url: str) -> None:
    settings = "options=-c%20standard_conforming_strings%3Doff%20-c%20bytea_output%3Descape"
    with open_store(f"{url}?{settings}", namespace=new_namespace()) as hf:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.user("one \\ 'two'"), Message.user("three \\x00"))
        hf.embeddings.upsert("e", [1.0, 0.5])
        assert [one.text for one in hf.sessions.messages("s")] == ["one \\ 'two'", "three \\x00"]
        assert [near.embedding.id for near in hf.embeddings.search([1.0, 0.5])] == ["e"]
        assert hf.verify().ok


def test_the_encoding_of_the_environment_does_not_matter(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with open_store(url, namespace=new_namespace()) as hf:
        assert hf.sessions.create(id="京都😀").id == "京都😀"


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_text_is_refused(url: str, encoding: str) -> None:
    database = f"kit_{new_id().replace('-', '_')}"
    with psycopg.connect(url, autocommit=True) as con:
        con.execute(f"CREATE DATABASE {database} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0".encode())
        try:
            with Holdfast(PostgresStore(make_conninfo(url, dbname=database))) as hf:
                hf.sessions.create(id="京都😀")
                assert [one.id for one in hf.sessions.list()] == ["京都😀"]
        except Unsupported:
            assert encoding == "LATIN1"
        con.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())


def test_a_word_that_is_no_text_ends_the_listening_without_a_sound(url: str) -> None:
    database = f"kit_{new_id().replace('-', '_')}"
    with psycopg.connect(url, autocommit=True) as con:
        con.execute(f"CREATE DATABASE {database} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0".encode())
        store, place = PostgresStore(make_conninfo(url, dbname=database)), make_conninfo(url, dbname=database)
        with store.wake("s", lambda: None), psycopg.connect(place, autocommit=True) as other:
            listening = store._waking._thread
            assert listening is not None
            for _ in range(100):  # one who begins to listen may miss the first
                other.execute(b"SELECT pg_notify('holdfast', E'\\xff')")
                listening.join(0.1)
                if not listening.is_alive():
                    break
            assert store._waking._thread is None
        store.close()
        con.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())


def test_a_server_that_is_not_there_is_said_to_be_so_at_once() -> None:
    with pytest.raises(ConnectionFailed, match="cannot be reached"):
        open_store("postgresql://nobody@127.0.0.1:1/none")


def test_of_several_hosts_the_one_that_writes_is_found(url: str) -> None:
    two = url.replace("@", "@127.0.0.1:1,")
    with open_store(f"{two}?target_session_attrs=read-write", namespace=new_namespace()) as hf:
        assert hf.health().backend == "postgresql"


def test_a_commit_says_itself_how_durable_it_is(url: str) -> None:
    database = f"kit_{new_id().replace('-', '_')}"
    with psycopg.connect(url, autocommit=True) as con:
        con.execute(f"CREATE DATABASE {database}".encode())
        con.execute(f"ALTER DATABASE {database} SET synchronous_commit = off".encode())
    chosen: tuple[tuple[Durability, str], ...] = (("full", "on"), ("normal", "off"))
    for durability, expected in chosen:
        store = PostgresStore(make_conninfo(url, dbname=database), durability=durability)
        assert said(store) == expected
        assert f"synchronous_commit={expected}" in store.inspect().durability
        store.close()
    with psycopg.connect(url, autocommit=True) as con:
        con.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())


def said(store: PostgresStore) -> str:
    """What holds at the end of a commit's own transaction."""
    text, values = store._writer.statements([Put(agent("a"))])[-1]
    with store.connection() as con, con.transaction():
        con.execute(text.encode(), values)
        found = con.execute("SHOW synchronous_commit").fetchone()
    assert found is not None
    return str(found[0])


def test_a_connection_takes_no_longer_than_the_call(url: str) -> None:
    con: Connection = connect(url, limit_s=30, prepare=True)
    with pytest.raises(psycopg.errors.QueryCanceled), within(0.2):
        con.execute("SELECT pg_sleep(20)")
    assert con.execute("SELECT 1").fetchone() == (1,)
    con.close()
