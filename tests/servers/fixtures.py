"""Fixtures that several files have, each a line there: `store = store_of(open_url)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.contracts import RecordStore
from holdfast.testing.opening import new_namespace
from servers import Server, shared
from servers.own import Own


def url_of(name: str, start: Callable[[Path], Server]) -> object:
    """The address of the run's own server of this name."""

    def url() -> str:
        return shared(name, start)

    return pytest.fixture(url)


def store_of(open_url: Callable[..., RecordStore]) -> object:
    """A store at the address that the fixture `url` gives, in a namespace of its own."""

    def store(url: str) -> Iterator[RecordStore]:
        with closing(open_url(url, namespace=new_namespace())) as opened:
            yield opened

    return pytest.fixture(store)


def own_of(make: Callable[[Path], Own]) -> object:
    """A server of the test's own, which ends with it."""

    def own(tmp_path: Path) -> Iterator[Own]:
        made = make(tmp_path)
        yield made
        made.end()

    return pytest.fixture(own)
