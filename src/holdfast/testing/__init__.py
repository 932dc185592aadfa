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
            "domain_artifacts",
            "domain_branches",
            "domain_compaction",
            "domain_deletes",
            "domain_embedding_searches",
            "domain_embeddings",
            "domain_executions",
            "domain_lists",
            "domain_messages",
            "domain_parts",
            "domain_run_events",
            "domain_run_holds",
            "domain_run_keys",
            "domain_run_loops",
            "domain_run_replays",
            "domain_search",
            "domain_search_reach",
            "domain_sessions",
            "domain_transcripts",
            "domain_usage",
            "driving",
            "inputs",
            "planting",
            "record_commits",
            "record_rebases",
            "record_scans",
            "record_store",
            "run_programs",
            "sharing",
            "stateful",
            "vector_index",
        )
    )
)

from holdfast.testing.blob_store import BlobStoreKit  # noqa: E402 — asserts are rewritten before the import
from holdfast.testing.domain import DomainKit  # noqa: E402
from holdfast.testing.inputs import InputKit  # noqa: E402
from holdfast.testing.record_store import RecordStoreKit  # noqa: E402
from holdfast.testing.stateful import StatefulKit  # noqa: E402
from holdfast.testing.vector_index import VectorIndexKit  # noqa: E402

__all__ = ["BlobStoreKit", "DomainKit", "InputKit", "RecordStoreKit", "StatefulKit", "VectorIndexKit"]
