"""Addresses of servers, read without repeating a password that is in them."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from holdfast.errors import InvalidInput


def parts_of(url: str) -> SplitResult:
    """The parts of an address; InvalidInput, with nothing of it, where they cannot be told apart."""
    try:
        parts = urlsplit(url)
        _ = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:  # which repeats what it takes for a port, and may be half of a password
        raise InvalidInput(
            f"the address {url.partition(':')[0]}://… cannot be read: its host or port is none. In names and passwords,"
            " write %2F for /, %3A for :, %23 for #, %3F for ?, %40 for @ and %25 for %"
        ) from None
    return parts
