"""The Redis backend keeps every promise of the kit, on Valkey; its records kit on Redis as well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from servers import redis, shared, valkey

import holdfast
from holdfast.backends.redis import RedisStore
from holdfast.contracts import RecordStore
from holdfast.errors import Unsupported
from holdfast.ids import new_id
from holdfast.testing import RecordStoreKit, every_kit


class Redis:
    """A namespace of the test's own on the run's Valkey."""

    url: str
    ways = ("sync",)

    @pytest.fixture(autouse=True)
    def _server(self) -> None:
        self.url = shared("valkey", valkey.start)

    def open(self, namespace: str) -> RecordStore:
        return RedisStore(self.url, namespace=namespace)


globals().update(every_kit(Redis))


class TestOnRedis(RecordStoreKit):
    """The same on the Redis of the system."""

    url: str

    @pytest.fixture(autouse=True)
    def _server(self) -> None:
        self.url = shared("redis", redis.start)

    def open(self, namespace: str) -> RecordStore:
        return RedisStore(self.url, namespace=namespace)


def test_the_snippets_of_the_page_run() -> None:
    page = Path(__file__).parent.parent / "docs" / "redis.md"
    snippets = re.findall(r"^```py\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert snippets
    for snippet in snippets:
        here = snippet.replace("redis://localhost:6379/0", shared("valkey", valkey.start)).replace("acme", new_id())
        exec(compile(here, str(page), "exec"), {})


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
def test_an_address_opens_it(scheme: str) -> None:
    url = shared("valkey", valkey.start).replace("redis:", f"{scheme}:", 1)
    with holdfast.open(url, namespace=new_id()) as hf:
        assert hf.health().backend == "redis"


def test_a_reader_writes_nothing() -> None:
    with holdfast.open(shared("valkey", valkey.start), namespace=new_id(), read_only=True) as hf:
        with pytest.raises(Unsupported):
            hf.sessions.create(id="s")
        assert list(hf.sessions.list()) == []
