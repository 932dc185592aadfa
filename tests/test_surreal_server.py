"""SurrealDB over ws://: what processes that share a server rely on, and the whole kit if an address is given."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from servers import shared
from servers.surreal import start

import holdfast
from holdfast import Message
from holdfast.backends.surreal import SurrealStore
from holdfast.contracts import RecordStore
from holdfast.errors import ConnectionFailed, InvalidInput
from holdfast.testing import RecordStoreKit, every_kit
from holdfast.testing.sharing import SharingTests

# The driver connects in a way that its own library has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")


class SurrealServer:
    """A namespace of the test's own on the run's server."""

    url: str

    @pytest.fixture(autouse=True)
    def _server(self) -> None:
        self.url = shared("surreal", start)

    def open(self, namespace: str) -> RecordStore:
        return SurrealStore(self.url, namespace=namespace)


kits = every_kit(SurrealServer)
if os.environ.get("HOLDFAST_TEST_SURREAL_URL"):
    globals().update(kits)
else:
    TestBlobs = kits["TestBlobs"]

    class TestRecords(SurrealServer, RecordStoreKit): ...

    class TestSharing(SurrealServer, SharingTests): ...


def test_a_store_goes_on_when_its_server_was_killed_and_is_back(tmp_path: Path) -> None:
    first = start(tmp_path)
    with holdfast.open(first.url) as hf:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.user("before"))
        os.kill(first.pid, signal.SIGKILL)
        second = start(tmp_path, port=urlsplit(first.url).port)
        try:
            hf.sessions.append("s", Message.user("after"))
            assert [message.text for message in hf.sessions.messages("s")] == ["before", "after"]
            assert hf.verify().problems == []
        finally:
            os.kill(second.pid, signal.SIGTERM)


def test_a_server_that_stops_answering_is_a_failed_connection_at_the_limit(tmp_path: Path) -> None:
    server = start(tmp_path)
    with holdfast.open(server.url) as hf:
        hf.sessions.create(id="s")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            with pytest.raises(ConnectionFailed):
                hf.sessions.append("s", Message.user("lost"), timeout=0.5)
            with pytest.raises(ConnectionFailed):
                hf.sessions.get("s", timeout=0.5)
            assert time.monotonic() - began < 5
        finally:
            os.kill(server.pid, signal.SIGCONT)
        hf.sessions.append("s", Message.user("heard"))
        assert [message.text for message in hf.sessions.messages("s")] == ["heard"]
    os.kill(server.pid, signal.SIGTERM)


def test_a_server_that_is_not_there_is_a_failed_connection() -> None:
    with pytest.raises(ConnectionFailed, match="cannot be reached"):
        holdfast.open("ws://127.0.0.1:1/holdfast/holdfast")


def test_an_address_without_a_server_is_refused() -> None:
    with pytest.raises(InvalidInput, match="names no server"):
        holdfast.open("ws:///agents")
    for address in ("ws://ann:secret#1@host/a/b", "ws://ann:secret@host:many", "ws://[::1/a"):
        with pytest.raises(InvalidInput) as refusal:
            holdfast.open(address)
        assert "secret" not in str(refusal.value)
