"""A store whose tables are hash-partitioned by the statements that docs/postgresql.md shows keeps the same promises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from servers import shared
from servers.postgres import start

from holdfast import Message
from holdfast.backends.postgres import PostgresStore
from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.ids import new_id
from holdfast.testing.everything import fill, held
from holdfast.testing.record_commits import CommitTests
from holdfast.testing.record_rebases import RebaseTests
from holdfast.testing.record_scans import ScanTests

PAGE = Path(__file__).parent.parent / "docs" / "postgresql.md"


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A database of this module's own, partitioned with one store in it already."""
    url, name = shared("postgres", start), f"kit_{new_id().replace('-', '_')}"
    with psycopg.connect(url, autocommit=True) as con:
        con.execute(f"CREATE DATABASE {name}".encode())
        address = make_conninfo(url, dbname=name)
        with Holdfast(PostgresStore(address, namespace="early")) as hf:
            fill(hf)
            before = held(hf._store)
        partition(address)
        with Holdfast(PostgresStore(address, namespace="early")) as hf:
            assert (held(hf._store), hf.verify().ok) == (before, True)
        yield address
        con.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def partition(address: str) -> None:
    (statements,) = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    with psycopg.connect(address) as con:
        con.execute(statements.encode())


class Partitioned:
    @pytest.fixture(autouse=True)
    def _database(self, database: str) -> None:
        self.database = database

    def open(self, namespace: str) -> RecordStore:
        return PostgresStore(self.database, namespace=namespace)


class TestRecords(Partitioned, CommitTests, RebaseTests, ScanTests):
    pass


def test_messages_are_spread_searched_and_forgotten(database: str) -> None:
    with Holdfast(PostgresStore(database, namespace="spread")) as hf:
        for number in range(20):
            hf.sessions.create(id=f"s{number}")
            hf.sessions.append(f"s{number}", Message.user(f"hello {number}"))
        assert len(hf.search("hello", limit=50)) == 20
        hf.sessions.delete("s7")
        assert len(hf.search("hello", limit=50)) == 19
        counts = hf._store.read("SELECT count(DISTINCT tableoid), count(*) FROM holdfast.texts")  # type: ignore[attr-defined]
    assert counts[0][0] > 4
    assert counts[0][1] == 19
