"""What an adapter says where its framework is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Import a framework within; where it is missing, ModuleNotFoundError says which extra brings it."""
    try:
        yield
    except ModuleNotFoundError as cause:
        said = f"holdfast.adapters.{extra.replace('-', '_')} needs its framework; pip install 'holdfast[{extra}]'"
        raise ModuleNotFoundError(said, name=cause.name, path=cause.path) from cause
