"""The text index of MySQL keeps its promises, on MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest
from servers import shared
from servers.mariadb import address_of, start
from sql_search import SearchAtServer

from holdfast.backends.mysql import MysqlStore, open_url


class TestSearch(SearchAtServer):
    url: str
    tables = "holdfast_"

    @pytest.fixture(autouse=True)
    def _server(self) -> None:
        self.url = shared("mariadb", start)

    def open(self, namespace: str, *, read_only: bool = False) -> MysqlStore:
        return open_url(self.url, namespace=namespace, read_only=read_only)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with pymysql.connect(**address_of(self.url), autocommit=True) as con, con.cursor() as cursor:
            cursor.execute(statement)
            return [*cursor.fetchall()]

    @contextmanager
    def holding(self, statement: str) -> Iterator[None]:
        with pymysql.connect(**address_of(self.url)) as con, con.cursor() as cursor:
            cursor.execute(statement)
            yield
