"""Cursors: opaque strings that continue a listing, and cannot be bent to say something else."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

import msgspec

from holdfast.errors import IntegrityError, InvalidInput
from holdfast.ids import check_count
from holdfast.model import Json

_CHECK = 8
_encode = msgspec.json.Encoder(order="sorted").encode


def make(listing: Json, position: Json) -> str:
    """A cursor for this listing (its name and filters) at this position."""
    try:
        content = _encode(position)
    except UnicodeEncodeError as cause:
        raise IntegrityError(f"the last of the page is damaged, and nothing can be found behind it: {cause}") from cause
    return base64.urlsafe_b64encode(_check(listing, content) + content).decode().rstrip("=")


def read(listing: Json, cursor: str) -> Any:
    """The position a cursor stands for; InvalidInput if it is not one of this listing's."""
    if not isinstance(cursor, str):
        raise InvalidInput(f"a cursor is a string, not {type(cursor).__name__}")
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        check, content = raw[:_CHECK], raw[_CHECK:]
        if check == _check(listing, content):
            return msgspec.json.decode(content)
    except (binascii.Error, ValueError, TypeError) as cause:
        raise InvalidInput(_MESSAGE) from cause
    raise InvalidInput(_MESSAGE)


_MESSAGE = "the cursor is not one of this listing's; use page.cursor unchanged, with the same filters"


def _check(listing: Json, content: bytes) -> bytes:
    listed = _encode(listing)
    return hashlib.sha256(listed + b"\0" + content).digest()[:_CHECK]


def check_range(limit: int, offset: int) -> None:
    """InvalidInput for a page nobody can turn to."""
    check_count(limit, "limit")
    check_count(offset, "offset")
