"""The file backend keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.backends._file.blobs import FileBlobs
from holdfast.backends.file import FileStore
from holdfast.contracts import BlobStore, RecordStore
from holdfast.testing import BlobStoreKit, DomainKit, InputKit, RecordStoreKit, StatefulKit


class Files:
    """A store in a folder of the test's own, all namespaces in one."""

    path: str

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "agents")

    def open(self, namespace: str) -> RecordStore:
        return FileStore(self.path, namespace=namespace)


class TestRecords(Files, RecordStoreKit):
    pass


class TestDomain(Files, DomainKit):
    pass


class TestInputs(Files, InputKit):
    pass


class TestStates(Files, StatefulKit):
    pass


class TestBlobs(BlobStoreKit):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "agents")

    def open(self, namespace: str) -> BlobStore:
        return FileBlobs(self.path, namespace=namespace)
