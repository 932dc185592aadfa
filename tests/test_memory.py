"""The memory backend keeps every promise of the kit."""

from __future__ import annotations

from holdfast.backends.memory import MemoryBlobs, MemoryStore
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


class Memory:
    """A store that lives as long as the test, one for each namespace."""

    def open(self, namespace: str) -> RecordStore:
        stores: dict[str, RecordStore] = self.__dict__.setdefault("stores", {})
        return stores.setdefault(namespace, MemoryStore())


class TestRecords(Memory, RecordStoreKit):
    pass


class TestDomain(Memory, DomainKit):
    pass


class TestInputs(Memory, InputKit):
    pass


class TestStates(Memory, StatefulKit):
    pass


class TestArtifacts(Memory, ArtifactKit):
    pass


class TestParts(Memory, PartKit):
    pass


class TestRuns(Memory, RunKit):
    pass


class TestBlobs(BlobStoreKit):
    def open(self, namespace: str) -> BlobStore:
        blobs: dict[str, BlobStore] = self.__dict__.setdefault("blobs", {})
        return blobs.setdefault(namespace, MemoryBlobs())


class TestExecutions(Memory, ExecutionKit):
    pass


class TestUsage(Memory, UsageKit):
    pass


class TestCompaction(Memory, CompactionKit):
    pass


class TestCheckpoints(Memory, CheckpointKit):
    pass


class TestLookups(Memory, LookupKit):
    pass


class TestRestores(Memory, RestoreKit):
    pass


class TestTravels(Memory, TravelKit):
    pass


class TestRetention(Memory, RetentionKit):
    pass


class TestTimers(Memory, AutomaticKit):
    pass


class TestEmbeddings(Memory, EmbeddingKit):
    pass


class TestEmbeddingSearches(Memory, EmbeddingSearchKit):
    pass


class TestSearch(Memory, SearchKit):
    pass


class TestSearchReach(Memory, SearchReachKit):
    pass
