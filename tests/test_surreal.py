"""The SurrealDB backend keeps every promise of the kit, on the engine inside its wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.backends.surreal import SurrealStore
from holdfast.contracts import RecordStore
from holdfast.testing import every_kit


class Surreal:
    """A store in a folder of the test's own, all namespaces in one."""

    path: str
    ways = ("sync",)

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "agents")

    def open(self, namespace: str) -> RecordStore:
        return SurrealStore(self.path, namespace=namespace)


globals().update(every_kit(Surreal))
