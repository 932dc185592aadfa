"""The SQLite backend keeps every promise of the kit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.backends._sqlite_blobs import SqliteBlobs
from holdfast.backends.sqlite import SqliteStore
from holdfast.contracts import BlobStore, RecordStore
from holdfast.testing import BlobStoreKit, DomainKit, InputKit, RecordStoreKit, StatefulKit
from holdfast.testing.domain_artifacts import ArtifactKit
from holdfast.testing.domain_automatic import AutomaticKit
from holdfast.testing.domain_checkpoints import CheckpointKit
from holdfast.testing.domain_compaction import CompactionKit
from holdfast.testing.domain_embedding_searches import EmbeddingSearchKit
from holdfast.testing.domain_embeddings import EmbeddingKit
from holdfast.testing.domain_executions import ExecutionKit
from holdfast.testing.domain_lookups import LookupKit
from holdfast.testing.domain_parts import PartKit
from holdfast.testing.domain_restores import RestoreKit
from holdfast.testing.domain_retention import RetentionKit
from holdfast.testing.domain_runs import RunKit
from holdfast.testing.domain_search import SearchKit
from holdfast.testing.domain_search_reach import SearchReachKit
from holdfast.testing.domain_travel import TravelKit
from holdfast.testing.domain_usage import UsageKit


class Sqlite:
    """A store in a file of the test's own, all namespaces in one."""

    path: str

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "agents.db")

    def open(self, namespace: str) -> RecordStore:
        return SqliteStore(self.path, namespace=namespace)


class TestRecords(Sqlite, RecordStoreKit):
    pass


class TestDomain(Sqlite, DomainKit):
    pass


class TestInputs(Sqlite, InputKit):
    pass


class TestStates(Sqlite, StatefulKit):
    pass


class TestArtifacts(Sqlite, ArtifactKit):
    pass


class TestParts(Sqlite, PartKit):
    pass


class TestRuns(Sqlite, RunKit):
    pass


class TestBlobs(BlobStoreKit):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> Iterator[None]:
        self.path = str(tmp_path / "agents.db")
        self.opened = list[SqliteStore]()
        yield
        for store in self.opened:
            store.close()

    def open(self, namespace: str) -> BlobStore:
        store = SqliteStore(self.path, namespace=namespace)
        self.opened.append(store)
        return SqliteBlobs(store)


class TestExecutions(Sqlite, ExecutionKit):
    pass


class TestUsage(Sqlite, UsageKit):
    pass


class TestCompaction(Sqlite, CompactionKit):
    pass


class TestCheckpoints(Sqlite, CheckpointKit):
    pass


class TestLookups(Sqlite, LookupKit):
    pass


class TestRestores(Sqlite, RestoreKit):
    pass


class TestTravels(Sqlite, TravelKit):
    pass


class TestRetention(Sqlite, RetentionKit):
    pass


class TestTimers(Sqlite, AutomaticKit):
    pass


class TestEmbeddings(Sqlite, EmbeddingKit):
    pass


class TestEmbeddingSearches(Sqlite, EmbeddingSearchKit):
    pass


class TestSearch(Sqlite, SearchKit):
    pass


class TestSearchReach(Sqlite, SearchReachKit):
    pass
