"""What a list of sessions may be asked for."""

from __future__ import annotations

from typing import get_args

from holdfast import codec
from holdfast.errors import InvalidInput
from holdfast.model import Json, SessionStatus


def check_filters(
    tag: str | None, status: str | None, archived: bool | None, order: str, metadata: dict[str, Json] | None
) -> None:
    """InvalidInput for a filter that nothing can pass."""
    if tag is not None and not isinstance(tag, str):
        raise InvalidInput(f"tag is a string, not {type(tag).__name__}")
    if status is not None and status not in get_args(SessionStatus):
        raise InvalidInput(f"status is one of {', '.join(get_args(SessionStatus))}, not {status!r}")
    if archived is not None and not isinstance(archived, bool):
        raise InvalidInput(f"archived is True or False, not {archived!r}")
    if order not in ("updated", "created"):
        raise InvalidInput(f"order is 'updated' or 'created', not {order!r}")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidInput(f"metadata is a dict, not {type(metadata).__name__}")
    codec.check_json(metadata, "the metadata filter")
