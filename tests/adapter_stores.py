"""The stores that adapters are tested on: SQLite, and PostgreSQL on the run's own server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import shared
from servers.postgres import start

import holdfast
from holdfast import Holdfast
from holdfast.ids import new_id


@pytest.fixture(params=["sqlite", "postgres"])
def hf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    """An empty store, verified when the test is done with it."""
    url = f"sqlite:///{tmp_path}/agents.db" if request.param == "sqlite" else shared("postgres", start)
    with holdfast.open(url, namespace=new_id()) as opened:
        yield opened
        assert opened.verify().problems == []
