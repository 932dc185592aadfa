"""The memory backend keeps every promise of the kit."""

from __future__ import annotations

from holdfast.backends.memory import Contents, MemoryStore
from holdfast.contracts import RecordStore
from holdfast.testing import every_kit


class Memory:
    """Contents that live as long as the test, for each namespace its own."""

    pairs = 25

    def open(self, namespace: str) -> RecordStore:
        kept: dict[str, Contents] = self.__dict__.setdefault("kept", {})
        return MemoryStore(kept.setdefault(namespace, Contents()))


globals().update(every_kit(Memory))
