"""How the MySQL backend is opened, and what it makes of a server's settings."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from socket import create_server, socket
from urllib.parse import urlsplit

import pytest
from servers import Server, a_folder, freeze, required
from servers.fixtures import url_of
from servers.mariadb import ask, certificate, port_of, start

from holdfast.backends.mysql import open_url
from holdfast.client import open as open_store
from holdfast.contracts import Insert
from holdfast.deadlines import within
from holdfast.errors import Busy, ConnectionFailed, InvalidInput, NotFound, Unsupported
from holdfast.model import Message
from holdfast.testing.opening import new_namespace
from holdfast.testing.records import agent, dump, session

url = url_of("mariadb", start)


# a server of its own


@pytest.fixture
def folder() -> Iterator[Path]:
    with a_folder() as folder:
        yield folder


@contextmanager
def a_server_of_its_own(folder: Path, *settings: str) -> Iterator[Server]:
    with required("mariadb"):
        server = start(folder, settings=settings)
    try:
        yield server
    finally:
        os.kill(server.pid, signal.SIGKILL)


def test_a_server_that_stops_answering_leaves_the_outcome_unknown(folder: Path) -> None:
    with a_server_of_its_own(folder) as server:
        store = open_url(server.url)
        freeze(server)
        try:
            with pytest.raises(ConnectionFailed) as failure, within(0.3):
                store.commit([Insert(agent("a"))])
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert failure.value.outcome == "unknown"
        store.commit([Insert(agent("a"))])
        assert dump(store) == [agent("a")]
        store.close()


def test_with_an_authority_the_server_must_prove_its_name(folder: Path) -> None:
    (folder / "other").mkdir()
    (mine, key), (other, _) = certificate(folder), certificate(folder / "other")
    with a_server_of_its_own(folder, f"--ssl-cert={mine}", f"--ssl-key={key}") as server:
        store = open_url(f"{server.url}?ssl_ca={mine}")
        store.commit([Insert(session("s", bytes(3_000_000)))])
        assert dump(store) == [session("s", bytes(3_000_000))]
        ((_, version),) = store.read("SHOW STATUS LIKE 'Ssl_version'")
        assert str(version).startswith("TLS")
        with pytest.raises(Busy), within(0.3):
            store.read("SELECT SLEEP(20)")
        store.close()
        with pytest.raises(ConnectionFailed, match="certificate"):
            open_url(f"{server.url}?ssl_ca={other}")


def test_a_server_that_takes_too_little_at_once_is_refused(folder: Path) -> None:
    with a_server_of_its_own(folder, "--max-allowed-packet=4M") as server:
        with pytest.raises(Unsupported, match="max_allowed_packet"):
            open_url(server.url)


def test_how_durable_a_server_is_can_be_asked(folder: Path) -> None:
    with a_server_of_its_own(folder, "--innodb-flush-log-at-trx-commit=2", "--log-bin=log") as server:
        store = open_url(server.url)
        assert store.inspect().durability == "innodb_flush_log_at_trx_commit=2, sync_binlog=0"
        store.close()


# the address


@pytest.mark.parametrize("options", ["pool_size=0", "pool_size=many", "colour=red"])
def test_an_option_that_is_not_one_is_refused(url: str, options: str) -> None:
    with pytest.raises(InvalidInput):
        open_url(f"{url}?{options}")


@pytest.mark.parametrize("place", ["127.0.0.1", "127.0.0.1:many/holdfast", "[::1/holdfast", "../holdfast", "1#/x@h/d"])
def test_an_address_that_names_no_database_is_refused(place: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        open_url(f"mysql://root:secret@{place}")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_an_address_opens_it(url: str, scheme: str) -> None:
    with open_store(url.replace("mysql:", f"{scheme}:", 1), namespace=new_namespace()) as hf:
        assert hf.health().backend == "mysql"
        assert hf.health().durability == "innodb_flush_log_at_trx_commit=1"


def test_a_user_and_a_password_of_any_characters_open_it(url: str) -> None:
    ask(url, "CREATE USER 'a@b'@'127.0.0.1' IDENTIFIED BY 'p:/@?'", "GRANT ALL ON *.* TO 'a@b'@'127.0.0.1'")
    open_url(urlsplit(url)._replace(netloc=f"a%40b:p%3A%2F%40%3F@127.0.0.1:{port_of(url)}").geturl()).close()
    ask(url, "DROP USER 'a@b'@'127.0.0.1'")


def test_a_password_that_cannot_be_proved_here_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymysql._auth._have_cryptography", False)
    with closing(create_server(("127.0.0.1", 0))) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(ask_for_a_proof, server)
        with pytest.raises(Unsupported, match="TLS"):
            open_url(f"mysql://ann:secret@127.0.0.1:{server.getsockname()[1]}/holdfast")


def ask_for_a_proof(server: socket) -> None:
    """What MySQL 8 says without TLS: its greeting, that it wants the password, and the key to send it under."""
    greeting = b"\x0a8.0.36\0\5\0\0\0seedseed\0\x09\xa2\xff\2\0\x0b\0\x15" + bytes(10) + b"seedseedseed\0"
    line, _ = server.accept()
    with line:
        for number, said in enumerate((greeting + b"caching_sha2_password\0", b"\1\4", b"\1key")):
            line.sendall(len(said).to_bytes(3, "little") + bytes([2 * number]) + said)
            line.recv(4096)


def test_a_database_that_is_not_there_is_said_to_be_so(url: str) -> None:
    with pytest.raises(NotFound, match="create it"):
        open_url(urlsplit(url)._replace(path="/nowhere").geturl())


def test_a_server_that_is_not_there_is_said_to_be_so_at_once() -> None:
    with pytest.raises(ConnectionFailed, match="cannot be reached"):
        open_store("mysql://nobody@127.0.0.1:1/none")


def test_a_reader_writes_nothing(url: str) -> None:
    open_url(url).close()
    with open_store(url, namespace=new_namespace(), read_only=True) as hf:
        with pytest.raises(Unsupported):
            hf.sessions.create(id="s")
        assert list(hf.sessions.list()) == []


def test_a_server_that_indexes_only_long_words_is_searched_by_reading(folder: Path) -> None:
    with a_server_of_its_own(folder, "--innodb-ft-min-token-size=12") as server, open_store(server.url) as hf:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.user("hello"))
        assert [len(hf.search("hello")) for _ in range(2)] == [1, 1]
        assert ask(server.url, "SELECT * FROM holdfast.holdfast_texts") == []
