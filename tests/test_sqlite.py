"""The SQLite backend keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.backends.sqlite import SqliteStore
from holdfast.contracts import RecordStore
from holdfast.testing import every_kit


class Sqlite:
    """A store in a file of the test's own, all namespaces in one."""

    path: str

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "agents.db")

    def open(self, namespace: str) -> RecordStore:
        store = SqliteStore(self.path, namespace=namespace)
        store._log._doubts = 0  # as on a disk: tests may have their files in memory, where syncs take no time
        return store


globals().update(every_kit(Sqlite))
