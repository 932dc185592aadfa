"""Bytes by their digest, as the domain uses them: taken from a caller, read and checked, let go when unused.

Blobs are put before the record that refers to them, so a crash leaves bytes without a record, never a record
without bytes. What nothing refers to goes with gc, once nobody can still be about to refer to it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from holdfast.contracts import BlobStore, Query, Reader, Tidies
from holdfast.errors import IntegrityError, InvalidInput, NotFound
from holdfast.filters import Filter
from holdfast.kinds import ARTIFACTS, PARTS

GRACE_S = 24 * 3600.0
SETTLED_S = 600.0  # after which no put is still on its way to its record
PIECE = 1024 * 1024
_FOREVER_S = 1e12


@runtime_checkable
class Source(Protocol):
    """A binary file, or whatever else is read like one."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most so many; none at the end."""
        ...


Content: TypeAlias = bytes | Path | Source | Iterable[bytes]


# what a caller gives


def pieces(content: Content) -> Iterator[bytes]:
    """The bytes of whatever a caller has given, a megabyte at a time at most."""
    if isinstance(content, bytes | bytearray | memoryview):
        yield from _cut(content)
    elif isinstance(content, Path):
        yield from _from_path(content)
    else:
        for piece in _given(content):
            if not isinstance(piece, bytes | bytearray | memoryview):
                raise InvalidInput(f"content gave {type(piece).__name__} instead of bytes; open files with 'rb'")
            yield from _cut(piece)


def _given(content: Source | Iterable[bytes]) -> Iterable[bytes]:
    """The pieces as the caller's file or iterable gives them."""
    if isinstance(content, Source):
        return _from_file(content)
    if isinstance(content, Iterable) and not isinstance(content, str | dict):
        return content
    raise InvalidInput(
        f"content is bytes, a binary file, a pathlib.Path or an iterable of bytes, not {type(content).__name__}"
    )


def _cut(content: bytes | bytearray | memoryview) -> Iterator[bytes]:
    view = memoryview(content).cast("B")
    for start in range(0, len(view), PIECE):
        yield bytes(view[start : start + PIECE])


def _from_path(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                yield piece
    except OSError as cause:
        raise InvalidInput(f"{path} cannot be read: {cause}") from cause


def _from_file(file: Source) -> Iterator[bytes]:
    piece: bytes | None = None
    while piece is None or piece:
        piece = file.read(PIECE)
        yield piece  # the last one too, which is no bytes at the end of a text file


# what is read


def checked(blobs: BlobStore, digest: bytes, size: int, start: int, stop: int | None, what: str) -> Iterator[bytes]:
    """The bytes from start up to stop; IntegrityError at the end if they are fewer, or not those of the digest."""
    end = size if stop is None else min(stop, size)
    sought, found = hashlib.sha256() if (start, end) == (0, size) else None, 0
    try:
        for piece in blobs.get(digest, start, end):
            found += len(piece)
            if sought is not None:
                sought.update(piece)
            yield piece
    except NotFound as cause:
        raise IntegrityError(f"the bytes of {what} are missing") from cause
    if found != max(0, end - start) or (sought is not None and sought.digest() != digest):
        raise IntegrityError(f"the bytes of {what} do not match their digest")


# what is kept and what goes


def is_referenced(reader: Reader, digest: bytes) -> bool:
    """Whether an artifact or a message has these bytes."""
    same = (Filter("blob", "=", digest),)
    return any(True for kind in (ARTIFACTS, PARTS) for _ in reader.scan(Query(kind=kind, where=same, limit=1)))


def collect(reader: Reader, blobs: BlobStore, grace_s: float) -> int:
    """Remove what nothing refers to and nobody has put for so long; returns how many blobs went."""
    before = _ago(grace_s)
    gone = _remove(reader, blobs, [blob.digest for blob in blobs.list() if blob.put_at < before], before)
    if isinstance(blobs, Tidies):
        blobs.tidy(before)
    return gone


def let_go(reader: Reader, blobs: BlobStore | None, digests: Iterable[bytes]) -> None:
    """Remove those of these that nothing refers to any more; one put just now stays until the next gc."""
    if blobs is not None:
        _remove(reader, blobs, digests, _ago(SETTLED_S))


def _ago(seconds: float) -> int:
    return time.time_ns() // 1000 - int(min(seconds, _FOREVER_S) * 1_000_000)


def _remove(reader: Reader, blobs: BlobStore, digests: Iterable[bytes], before: int) -> int:
    return sum(1 for digest in digests if not is_referenced(reader, digest) and blobs.delete(digest, before))


def size_of(blobs: BlobStore | None) -> int:
    """How many bytes are stored."""
    return 0 if blobs is None else sum(blob.size for blob in blobs.list())
