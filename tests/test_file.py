"""The file backend keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.backends._file.blobs import FileBlobs
from holdfast.backends.file import FileStore
from holdfast.contracts import BlobStore, RecordStore
from holdfast.testing import BlobStoreKit, DomainKit, InputKit, RecordStoreKit, StatefulKit
from holdfast.testing.domain_artifacts import ArtifactKit
from holdfast.testing.domain_compaction import CompactionKit
from holdfast.testing.domain_embedding_searches import EmbeddingSearchKit
from holdfast.testing.domain_embeddings import EmbeddingKit
from holdfast.testing.domain_executions import ExecutionKit
from holdfast.testing.domain_parts import PartKit
from holdfast.testing.domain_runs import RunKit
from holdfast.testing.domain_search import SearchKit
from holdfast.testing.domain_search_reach import SearchReachKit
from holdfast.testing.domain_usage import UsageKit


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


class TestArtifacts(Files, ArtifactKit):
    pass


class TestParts(Files, PartKit):
    pass


class TestRuns(Files, RunKit):
    pass


class TestExecutions(Files, ExecutionKit):
    pass


class TestUsage(Files, UsageKit):
    pass


class TestCompaction(Files, CompactionKit):
    pass


class TestBlobs(BlobStoreKit):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "agents")

    def open(self, namespace: str) -> BlobStore:
        return FileBlobs(self.path, namespace=namespace)


class TestEmbeddings(Files, EmbeddingKit):
    pass


class TestEmbeddingSearches(Files, EmbeddingSearchKit):
    pass


class TestSearch(Files, SearchKit):
    pass


class TestSearchReach(Files, SearchReachKit):
    pass
