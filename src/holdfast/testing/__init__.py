"""The conformance kit: the promises of Holdfast as tests that any backend can run.

Subclass a kit as `TestMyStore`, say how to `open` the store, and run pytest. docs/writing-a-backend.md
shows how.
"""

from pathlib import Path

try:
    import hypothesis as hypothesis
    import pytest
except ModuleNotFoundError as cause:
    said = "holdfast.testing needs pytest and hypothesis; pip install 'holdfast[testing]'"
    raise ModuleNotFoundError(said, name=cause.name, path=cause.path) from cause

_MODULES = (module.stem for module in Path(__file__).parent.glob("*.py") if module.stem != "__init__")
pytest.register_assert_rewrite(*(f"holdfast.testing.{name}" for name in _MODULES))

from holdfast.testing.blob_store import BlobStoreKit  # noqa: E402 — asserts are rewritten before the import
from holdfast.testing.domain import DomainKit  # noqa: E402
from holdfast.testing.inputs import InputKit  # noqa: E402
from holdfast.testing.kits import every_kit  # noqa: E402
from holdfast.testing.record_store import RecordStoreKit  # noqa: E402
from holdfast.testing.stateful import StatefulKit  # noqa: E402
from holdfast.testing.vector_index import VectorIndexKit  # noqa: E402

__all__ = ["BlobStoreKit", "DomainKit", "InputKit", "RecordStoreKit", "StatefulKit", "VectorIndexKit", "every_kit"]
