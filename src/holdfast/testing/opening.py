"""What every kit asks of a backend: how it is opened, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.contracts import RecordStore
from holdfast.ids import new_id


def new_namespace() -> str:
    """A namespace that no other test has."""
    return f"kit-{new_id()}"


class Promises:
    """A class of kit tests, of which none may be overridden: a promise that is hidden is not kept."""

    def __init_subclass__(cls) -> None:
        promised = [name for ancestor in cls.__mro__ for name in vars(ancestor) if name.startswith("test_")]
        for name in promised:
            if promised.count(name) > 1:
                raise TypeError(f"{cls.__name__} has {name} twice; kit tests are never overridden")


class StoreKit(Promises):
    """The hooks of a backend and the store that a test works on."""

    def open(self, namespace: str) -> RecordStore:
        """Open the store; opening a namespace again finds what was written to it."""
        raise NotImplementedError("say how the backend is opened: def open(self, namespace): …")

    def reopen(self, store: RecordStore, namespace: str) -> RecordStore:
        """The same records as whoever comes later finds them."""
        store.close()
        return self.open(namespace)

    @pytest.fixture
    def namespace(self) -> str:
        return new_namespace()

    @pytest.fixture
    def store(self, namespace: str) -> Iterator[RecordStore]:
        store = self.open(namespace)
        yield store
        store.close()
