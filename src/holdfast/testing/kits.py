"""All kits that a store of everything must pass, in one call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.contracts import BlobStore, KeepsBlobs, RecordStore
from holdfast.testing.blob_store import BlobStoreKit
from holdfast.testing.domain import DomainKit
from holdfast.testing.domain_artifacts import ArtifactKit
from holdfast.testing.domain_automatic import AutomaticKit
from holdfast.testing.domain_checkpoints import CheckpointKit
from holdfast.testing.domain_compaction import CompactionKit
from holdfast.testing.domain_embedding_searches import EmbeddingSearchKit
from holdfast.testing.domain_embeddings import EmbeddingKit
from holdfast.testing.domain_executions import ExecutionKit
from holdfast.testing.domain_lookups import LookupKit
from holdfast.testing.domain_parts import PartKit
from holdfast.testing.domain_repeats import RepeatKit
from holdfast.testing.domain_restores import RestoreKit
from holdfast.testing.domain_retention import RetentionKit
from holdfast.testing.domain_runs import RunKit
from holdfast.testing.domain_search import SearchKit
from holdfast.testing.domain_search_reach import SearchReachKit
from holdfast.testing.domain_staged_restores import StagedRestoreKit
from holdfast.testing.domain_swaps import SwapKit
from holdfast.testing.domain_transfer import TransferKit
from holdfast.testing.domain_travel import TravelKit
from holdfast.testing.domain_usage import UsageKit
from holdfast.testing.inputs import InputKit
from holdfast.testing.record_store import RecordStoreKit
from holdfast.testing.stateful import StatefulKit

STORE_KITS = {
    "TestRecords": RecordStoreKit,
    "TestInputs": InputKit,
    "TestStates": StatefulKit,
    "TestDomain": DomainKit,
    "TestRepeats": RepeatKit,
    "TestCheckpoints": CheckpointKit,
    "TestLookups": LookupKit,
    "TestRestores": RestoreKit,
    "TestStagedRestores": StagedRestoreKit,
    "TestSwaps": SwapKit,
    "TestTravels": TravelKit,
    "TestRetention": RetentionKit,
    "TestTimers": AutomaticKit,
    "TestRuns": RunKit,
    "TestExecutions": ExecutionKit,
    "TestUsage": UsageKit,
    "TestCompaction": CompactionKit,
    "TestSearch": SearchKit,
    "TestSearchReach": SearchReachKit,
    "TestArtifacts": ArtifactKit,
    "TestParts": PartKit,
    "TestEmbeddings": EmbeddingKit,
    "TestEmbeddingSearches": EmbeddingSearchKit,
    "TestTransfers": TransferKit,
}


def every_kit(opener: type) -> dict[str, type]:
    """A test class for each kit, by name: `globals().update(every_kit(MyStore))` runs a backend through all of them.

    The opener has `open(namespace)`, which returns a store that keeps blobs, too.
    """
    made = {name: _under(opener, name, kit) for name, kit in STORE_KITS.items()}
    return {**made, "TestBlobs": _under(opener, "TestBlobs", _StoresBlobs, open=_open_blobs, source=opener)}


def _under(opener: type, name: str, kit: type, **more: Any) -> type:
    # Writers in processes of their own look their class up in the test's module by its name.
    return type(name, (opener, kit), {"__module__": opener.__module__, "__qualname__": name, **more})


class _StoresBlobs(BlobStoreKit):
    """The blobs that record stores keep; the stores are closed when the test is over."""

    @pytest.fixture(autouse=True)
    def _stores(self) -> Iterator[None]:
        self.opened: list[RecordStore] = []
        yield
        for store in self.opened:
            store.close()


def _open_blobs(self: Any, namespace: str) -> BlobStore:
    store = self.source.open(self, namespace)
    self.opened.append(store)
    assert isinstance(store, KeepsBlobs)
    return store.blobs()
