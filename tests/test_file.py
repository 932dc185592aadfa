"""The file backend keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.backends.file import FileStore
from holdfast.contracts import RecordStore
from holdfast.testing import every_kit


class Files:
    """A store in a folder of the test's own, all namespaces in one."""

    path: str

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "agents")

    def open(self, namespace: str) -> RecordStore:
        return FileStore(self.path, namespace=namespace)


globals().update(every_kit(Files))
