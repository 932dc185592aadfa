"""The MongoDB backend keeps every promise of the kit, on an emulator unless a server's address is given."""

from __future__ import annotations

from contextlib import closing
from urllib.parse import urlsplit, urlunsplit

import pytest
from servers import shared
from servers.mongo import start

from holdfast.backends.mongo import MongoStore
from holdfast.contracts import Delete, Insert, Put, Query, RecordStore, Taken
from holdfast.errors import InvalidInput
from holdfast.filters import Filter
from holdfast.ids import new_id
from holdfast.kinds import CHECKPOINTS
from holdfast.testing import every_kit
from holdfast.testing.records import checkpoint


def database_at(url: str, name: str) -> str:
    """The address of a database on the server of another address."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


class Mongo:
    """A store in a database of the test's own."""

    url: str
    ways = ("sync",)
    histories = 10  # the emulator takes milliseconds for each call

    @pytest.fixture(autouse=True)
    def _database(self) -> None:
        self.url = database_at(shared("mongo", start, each_worker=True), f"kit_{new_id()}")

    def open(self, namespace: str) -> RecordStore:
        return MongoStore(self.url, namespace=namespace)


globals().update(every_kit(Mongo))


class TestMongo(Mongo):
    """What the kit leaves open."""

    def test_an_id_may_change_hands_in_one_commit(self) -> None:
        with closing(self.open("")) as store:
            store.commit([Insert(checkpoint("s", 1, "c")), Insert(checkpoint("s", 2, "d"))])
            store.commit([Delete(CHECKPOINTS, ("s", 1)), Insert(checkpoint("t", 1, "c"))])
            found = store.scan(Query(kind=CHECKPOINTS, where=(Filter("id", "=", "c"),)))
            assert [record.key for record in found] == [("t", 1)]
            with pytest.raises(Taken):
                store.commit([Put(checkpoint("s", 2, "e")), Put(checkpoint("u", 1, "e"))])

    def test_an_address_that_is_none_is_invalid_input(self) -> None:
        with pytest.raises(InvalidInput, match="MongoDB knows"):
            MongoStore("mongodb://")
