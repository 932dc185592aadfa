"""The conformance kit: the promises of Holdfast as tests that any backend can run.

Subclass a kit as `TestMyStore`, say how to `open` the store, and run pytest. docs/writing-a-backend.md
shows how.
"""

import pytest

pytest.register_assert_rewrite(
    *(
        f"holdfast.testing.{name}"
        for name in (
            "blob_store",
            "domain",
            "domain_agents",
            "domain_branches",
            "domain_deletes",
            "domain_lists",
            "domain_messages",
            "domain_sessions",
            "domain_transcripts",
            "driving",
            "inputs",
            "planting",
            "record_commits",
            "record_rebases",
            "record_scans",
            "record_store",
            "sharing",
            "stateful",
        )
    )
)

from holdfast.testing.blob_store import BlobStoreKit  # noqa: E402 — asserts are rewritten before the import
from holdfast.testing.domain import DomainKit  # noqa: E402
from holdfast.testing.inputs import InputKit  # noqa: E402
from holdfast.testing.record_store import RecordStoreKit  # noqa: E402
from holdfast.testing.stateful import StatefulKit  # noqa: E402

__all__ = ["BlobStoreKit", "DomainKit", "InputKit", "RecordStoreKit", "StatefulKit"]
