"""The MySQL backend keeps every promise of the kit, on MariaDB."""

from __future__ import annotations

import pytest
from servers import shared
from servers.mariadb import start

from holdfast.backends.mysql import open_url
from holdfast.contracts import RecordStore
from holdfast.testing import every_kit


class Mysql:
    """All namespaces in one database of the run's own server."""

    url: str
    ways = ("sync",)

    @pytest.fixture(autouse=True)
    def _server(self) -> None:
        self.url = shared("mariadb", start)

    def open(self, namespace: str) -> RecordStore:
        return open_url(self.url, namespace=namespace)


globals().update(every_kit(Mysql))
