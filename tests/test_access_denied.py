"""Refused credentials are one kind of error on every server: typed, with the fix, without the password, at once."""

from __future__ import annotations

import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import BaseRequestHandler, StreamRequestHandler, ThreadingTCPServer
from typing import Any
from urllib.parse import quote, urlsplit

import bson
import psycopg
import pytest
import redis
from faults import once
from servers import Server, a_folder, azure, mariadb, postgres, s3, shared, surreal, valkey
from servers.fixtures import own_of
from servers.proxy import Proxy

import holdfast
from holdfast.backends import objects, qdrant
from holdfast.backends.postgres import PostgresStore
from holdfast.backends.redis import RedisStore
from holdfast.contracts import Insert
from holdfast.deadlines import within
from holdfast.errors import AccessDenied, ConnectionFailed
from holdfast.ids import new_id
from holdfast.testing.opening import new_namespace
from holdfast.testing.records import agent

FAR_S = 120.0  # the deadline, until which nothing is tried again
SECRET = "xyzzy"


def address(url: str, user: str, password: str = SECRET) -> str:
    """The same address for somebody else."""
    return urlsplit(url)._replace(netloc=f"{user}:{password}@{urlsplit(url).netloc.rpartition('@')[2]}").geturl()


@contextmanager
def denied(fix: str) -> Iterator[None]:
    """What is done inside is refused, and the error says what to do and no password."""
    began = time.monotonic()
    with pytest.raises(AccessDenied, match=fix) as refusal, within(FAR_S):
        yield
    assert time.monotonic() - began < FAR_S / 2
    assert SECRET not in str(refusal.value)
    assert not refusal.value.retry


@pytest.fixture(scope="module")
def asking() -> Iterator[Server]:
    """A server that asks everybody but its owner for a password."""
    with a_folder() as folder:
        server = postgres.start(folder)
        rules = folder / "data" / "pg_hba.conf"
        rules.write_text("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        with psycopg.connect(server.url, autocommit=True) as con:
            con.execute("SELECT pg_reload_conf()")
            con.execute("CREATE ROLE ann LOGIN SUPERUSER")
        yield server
        postgres.kill(server)


@pytest.fixture
def postgresql(asking: Server) -> Server:
    """The same, and ann's password is the secret."""
    with psycopg.connect(asking.url, autocommit=True) as con:
        con.execute(f"ALTER ROLE ann PASSWORD '{SECRET}'".encode())
    return asking


@pytest.mark.parametrize("user", [f"ann:{SECRET}2", "ann", f"nobody:{SECRET}"])
def test_postgresql_refuses_a_user_or_a_password(postgresql: Server, user: str) -> None:
    with denied("check the user and the password"):
        holdfast.open(postgresql.url.replace("postgres@", f"{user}@"), timeout=FAR_S)


def test_postgresql_refuses_a_password_that_was_changed_while_the_store_was_open(postgresql: Server) -> None:
    with holdfast.open(address(postgresql.url, "ann"), timeout=FAR_S) as hf:
        hf.sessions.create(id="s")
        with psycopg.connect(postgresql.url, autocommit=True) as con:
            con.execute("ALTER ROLE ann PASSWORD 'another'")
            con.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ann'")
        with denied("check the user and the password"):
            hf.sessions.get("s")
        with denied("check the user and the password"):
            hf.sessions.create(id="t")


def test_a_commit_in_doubt_stays_so_when_postgresql_lets_nobody_in_to_look(postgresql: Server) -> None:
    with closing(PostgresStore(address(postgresql.url, "ann"), timeout=FAR_S)) as store:
        store.commit([Insert(agent("a"))])
        with psycopg.connect(postgresql.url, autocommit=True) as con:
            con.execute("ALTER ROLE ann PASSWORD 'another'")
            con.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ann'")
        with pytest.raises(ConnectionFailed, match="check the user and the password") as failure:
            store.commit([Insert(agent("b"))])
    assert failure.value.outcome == "unknown"


def test_mariadb_refuses_a_password() -> None:
    url, user = shared("mariadb", mariadb.start), f"kit{new_id()[-12:]}"
    mariadb.ask(url, f"CREATE USER '{user}'@'127.0.0.1' IDENTIFIED BY 'another'")
    for who in (user, "nobody"):
        with denied("check the user and the password"):
            holdfast.open(address(url, who), timeout=FAR_S)
    mariadb.ask(url, f"DROP USER '{user}'@'127.0.0.1'")


def test_mariadb_refuses_what_a_user_has_no_right_to() -> None:
    url, user = shared("mariadb", mariadb.start), f"kit{new_id()[-12:]}"
    mariadb.ask(url, f"CREATE USER '{user}'@'127.0.0.1' IDENTIFIED BY '{SECRET}'")
    with denied("rights"):
        holdfast.open(address(url, user), timeout=FAR_S)
    mariadb.ask(url, f"DROP USER '{user}'@'127.0.0.1'")


@pytest.fixture
def user() -> Iterator[Callable[..., str]]:
    """Makes users of the run's Valkey with these rules, and says their addresses."""
    url, made = shared("valkey", valkey.start), list[str]()
    with redis.Redis.from_url(url) as client:
        ask: Any = client.execute_command

        def make(*rules: str) -> str:
            made.append(f"kit-{new_id()}")
            ask("ACL", "SETUSER", made[-1], "reset", "on", f">{SECRET}", *rules)
            return address(url, made[-1])

        yield make
        for name in made:
            ask("ACL", "DELUSER", name)


def test_valkey_refuses_a_user_or_a_password(user: Callable[..., str]) -> None:
    for url in (user("~*", "+@all").replace(SECRET, f"{SECRET}2"), address(user(), "nobody")):
        with denied("check the user and the password"):
            holdfast.open(url, timeout=FAR_S)


@pytest.mark.parametrize("command", ["hset", "hdel", "zadd", "zrem", "time"])
def test_valkey_opens_no_store_to_write_whose_commits_would_break_off(user: Callable[..., str], command: str) -> None:
    """A script that is refused a command stops there, and keeps what it has written before."""
    url, namespace = user("~*", "&*", "+@all", f"-{command}"), new_id()
    with denied(command.upper()):
        holdfast.open(url, namespace=namespace, timeout=FAR_S)
    with holdfast.open(url, namespace=namespace, timeout=FAR_S, read_only=True) as hf:
        assert hf.verify().problems == []


own = own_of(valkey.Own)


def test_valkey_that_wants_a_password_refuses_one_who_gives_none(own: valkey.Own) -> None:
    own.set(requirepass=SECRET)
    with denied("check the user and the password"):
        holdfast.open(own.url, timeout=FAR_S)


def test_a_commit_in_doubt_stays_so_when_valkey_lets_nobody_in_to_look(own: valkey.Own) -> None:
    with Proxy(own.port) as proxy:
        with closing(RedisStore(f"redis://127.0.0.1:{proxy.port}/0", timeout=FAR_S)) as store:
            proxy.cuts_answer = once(then=lambda: own.set(requirepass=SECRET))
            with pytest.raises(ConnectionFailed, match="check the user and the password") as failure:
                store.commit([Insert(agent("a"))])
    assert failure.value.outcome == "unknown"


@pytest.mark.parametrize("rule", ["-set", "-hset", "-evalsha", "-info"])
def test_valkey_refuses_what_a_user_has_no_right_to(user: Callable[..., str], rule: str) -> None:
    with denied("grant"), holdfast.open(user("~*", "+@all", rule), namespace=new_namespace(), timeout=FAR_S) as hf:
        hf.sessions.create(id="s")


def test_valkey_refuses_keys_that_are_not_a_users(user: Callable[..., str]) -> None:
    with denied("grant it"):
        holdfast.open(user("~other:*", "+@all"), timeout=FAR_S)


def test_surrealdb_refuses_a_user(tmp_path: Path) -> None:
    server = surreal.start(tmp_path)
    try:
        with denied("check the user and the password"):
            holdfast.open(address(server.url, "ann"), timeout=FAR_S)
    finally:
        os.kill(server.pid, signal.SIGTERM)


class Mongod(StreamRequestHandler):
    """Says what a mongod says to a user whose password is wrong: who it is, and that they are not who they say."""

    def handle(self) -> None:
        while head := self.rfile.read(16):
            length, number, _, kind = struct.unpack("<4i", head)
            is_query, asked = kind == 2004, self.rfile.read(length - 16)
            said: dict[str, Any] = {"ok": 1, "ismaster": True, "helloOk": True, "maxWireVersion": 21}
            if b"saslStart" in asked[:40]:
                said = {"ok": 0, "code": 18, "codeName": "AuthenticationFailed", "errmsg": "Authentication failed."}
            answer = (struct.pack("<iqii", 8, 0, 0, 1) if is_query else bytes(5)) + bson.encode(said)
            self.wfile.write(struct.pack("<4i", 16 + len(answer), 1, number, 1 if is_query else kind) + answer)


@contextmanager
def served(handler: type[BaseRequestHandler]) -> Iterator[int]:
    """The port of a server that answers in this way."""
    with ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_mongodb_refuses_a_password() -> None:
    with served(Mongod) as port, denied("check user, password and authSource"):
        holdfast.open(f"mongodb://ann:{SECRET}@127.0.0.1:{port}", timeout=FAR_S)


def refuse_objects(url: str) -> None:
    """Every way to use an object store is refused."""
    with closing(objects.open_blobs(url, namespace=new_namespace(), timeout=FAR_S)) as blobs:
        uses: list[Callable[[], object]] = [
            lambda: blobs.put([b"x"]),
            lambda: list(blobs.list()),
            lambda: blobs.delete(bytes(32)),
            lambda: list(blobs.get(bytes(32))),
        ]
        for use in uses:
            with denied("check its credentials"):
                use()


@pytest.mark.parametrize("setting", ["secret_access_key", "access_key_id"])
def test_s3_refuses_a_key(setting: str) -> None:
    refuse_objects(shared("s3", s3.start).replace(f"{setting}=", f"{setting}={SECRET}"))


def test_azure_refuses_a_key() -> None:
    url = shared("azure", azure.start)
    key = url.rpartition("account_key=")[2]
    refuse_objects(url.replace(key, quote("d3Jvbmc=")))


class Refusing(BaseHTTPRequestHandler):
    """Says what Qdrant says to one without a key, or with one that may not do this."""

    status = 401

    def answer(self) -> None:
        said = b"Must provide an API key or an Authorization bearer token"
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_PUT = do_POST = answer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.mark.parametrize("status", [401, 403])
def test_qdrant_refuses_a_key(status: int) -> None:
    with served(type("Handler", (Refusing,), {"status": status})) as port:
        with closing(qdrant.open_vectors(f"qdrant://127.0.0.1:{port}", timeout=FAR_S)) as vectors, denied("api_key"):
            vectors.index("space", 3).seen()
