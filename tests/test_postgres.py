"""The PostgreSQL backend keeps every promise of the kit."""

from __future__ import annotations

from typing import ClassVar

import pytest
from servers import shared
from servers.postgres import start

from holdfast.backends.postgres import open_url
from holdfast.contracts import RecordStore
from holdfast.testing import every_kit
from holdfast.testing.domain_branches import BranchTests
from holdfast.testing.domain_checkpoints import CheckpointKit
from holdfast.testing.domain_messages import MessageTests
from holdfast.testing.domain_sessions import SessionTests
from holdfast.testing.domain_transcripts import TranscriptTests
from holdfast.testing.driving import Way


class Postgres:
    """All namespaces in one database of the run's own server."""

    url: str
    ways: ClassVar[tuple[Way, ...]] = ("sync",)

    @pytest.fixture(autouse=True)
    def _server(self) -> None:
        self.url = shared("postgres", start)

    def open(self, namespace: str) -> RecordStore:
        return open_url(self.url, namespace=namespace)


globals().update(every_kit(Postgres))


class TestAwaited(Postgres, SessionTests, MessageTests, TranscriptTests, BranchTests, CheckpointKit):
    """What is awaited goes another way in appends and checkpoints of sessions, which is what these are about."""

    ways = ("async",)
