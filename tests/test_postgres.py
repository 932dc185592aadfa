"""The PostgreSQL backend keeps every promise of the kit."""

from __future__ import annotations

import pytest
from servers import shared
from servers.postgres import start

from holdfast.backends.postgres import open_url
from holdfast.contracts import RecordStore
from holdfast.testing import every_kit


class Postgres:
    """All namespaces in one database of the run's own server."""

    url: str

    @pytest.fixture(autouse=True)
    def _server(self) -> None:
        self.url = shared("postgres", start)

    def open(self, namespace: str) -> RecordStore:
        return open_url(self.url, namespace=namespace)


globals().update(every_kit(Postgres))
