"""The memory backend keeps every promise of the kit."""

from __future__ import annotations

from holdfast.backends.memory import MemoryBlobs, MemoryStore
from holdfast.contracts import BlobStore, RecordStore
from holdfast.testing import BlobStoreKit, DomainKit, InputKit, RecordStoreKit, StatefulKit


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


class TestBlobs(BlobStoreKit):
    def open(self, namespace: str) -> BlobStore:
        blobs: dict[str, BlobStore] = self.__dict__.setdefault("blobs", {})
        return blobs.setdefault(namespace, MemoryBlobs())
