"""The SurrealDB backend keeps every promise of the kit, on the engine inside its wheel."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.backends.surreal import SurrealStore
from holdfast.contracts import RecordStore
from holdfast.testing import every_kit


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all tables and nothing in them: the engine takes longer to make them than a test to run."""
    folder = tmp_path_factory.mktemp("made") / "agents"
    SurrealStore(str(folder)).close()
    return folder


class Surreal:
    """A store in a folder of the test's own, all namespaces in one."""

    path: str
    ways = ("sync",)
    histories = 12  # the engine takes milliseconds for each call

    @pytest.fixture(autouse=True)
    def _folder(self, request: pytest.FixtureRequest, tmp_path: Path, made: Path) -> None:
        self.path = str(tmp_path / "agents")
        if "store" in request.fixturenames:  # who opens it itself may want one that is not there yet
            shutil.copytree(made, self.path)

    def open(self, namespace: str) -> RecordStore:
        return SurrealStore(self.path, namespace=namespace)


globals().update(every_kit(Surreal))
