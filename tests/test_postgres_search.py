"""The text index of PostgreSQL keeps its promises, and is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from servers import shared
from servers.postgres import start
from sql_search import SearchAtServer, filled

from holdfast.backends.postgres import PostgresStore, open_url
from holdfast.client import Holdfast


class TestSearch(SearchAtServer):
    url: str

    @pytest.fixture(autouse=True)
    def _server(self) -> None:
        self.url = shared("postgres", start)

    def open(self, namespace: str, *, read_only: bool = False) -> PostgresStore:
        return open_url(self.url, namespace=namespace, read_only=read_only)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as con:
            cursor = con.execute(statement.encode())
            return [] if cursor.description is None else cursor.fetchall()

    @contextmanager
    def holding(self, statement: str) -> Iterator[None]:
        with psycopg.connect(self.url) as con:
            con.execute(statement.encode())
            yield

    def test_a_store_made_before_there_was_an_index_gets_one(self) -> None:
        address = f"{self.url}?schema=before_search"
        with Holdfast(open_url(address)) as hf:
            filled(hf, "s", "hello")
        old = ("searches", "searched", "texts")
        self.ask("; ".join(f"DROP TABLE before_search.{name}" for name in old))
        self.ask("DROP FUNCTION before_search.forget_texts CASCADE")
        with Holdfast(open_url(address)) as hf:
            assert len(hf.search("hello")) == 1
            hf.sessions.delete("s")
        assert self.ask("SELECT * FROM before_search.texts") == []
        self.ask("DROP SCHEMA before_search CASCADE")
