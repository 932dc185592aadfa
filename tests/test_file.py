"""The file backend keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from holdfast.backends.file import FileStore
from holdfast.contracts import RecordStore
from holdfast.testing import every_kit
from holdfast.testing.domain_branches import BranchTests
from holdfast.testing.domain_checkpoints import CheckpointKit
from holdfast.testing.domain_messages import MessageTests
from holdfast.testing.domain_sessions import SessionTests
from holdfast.testing.domain_transcripts import TranscriptTests
from holdfast.testing.driving import Way


class Files:
    """A store in a folder of the test's own, all namespaces in one."""

    path: str
    ways: ClassVar[tuple[Way, ...]] = ("sync",)

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "agents")

    def open(self, namespace: str) -> RecordStore:
        return FileStore(self.path, namespace=namespace)


globals().update(every_kit(Files))


class TestAwaited(Files, SessionTests, MessageTests, TranscriptTests, BranchTests, CheckpointKit):
    """What is awaited goes another way in appends and checkpoints of sessions, which is what these are about."""

    ways = ("async",)
