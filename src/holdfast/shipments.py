"""What is under way from one store to another: the bytes of records, each once, and how far everything has come."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

from holdfast.blobs import is_referenced
from holdfast.contracts import BlobStore, Reader, Record
from holdfast.errors import IntegrityError, NotFound, Unsupported
from holdfast.kinds import Kind
from holdfast.model import Progress

Report: TypeAlias = Callable[[Progress], None]


class Shipments:
    """Carries bytes from blobs to blobs, and tells a caller what has arrived."""

    def __init__(self, source: BlobStore | None, target: BlobStore | None, progress: Report | None) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._totals: dict[str, int] = {}
        self._done: dict[str, int] = {}
        self._there: set[bytes] = set()
        self._record_bytes = 0
        self._blob_bytes = 0
        self.blobs = 0

    @property
    def records(self) -> int:
        """How many records are there, newly or as before."""
        return sum(self._done.values())

    @property
    def size(self) -> int:
        """How large these records and the bytes that were put are."""
        return self._record_bytes + self._blob_bytes

    def expect(self, totals: dict[str, int]) -> None:
        """Begin to count: so many records of each kind are to come."""
        self._totals = totals
        self._done.clear()
        self._record_bytes = 0

    def arrived(self, kind: Kind, records: list[Record]) -> None:
        """Tell that these records are there."""
        done = self._done[kind.name] = self._done.get(kind.name, 0) + len(records)
        self._record_bytes += sum(len(one.body) for one in records)
        self._tell(kind.name, done, max(done, self._totals.get(kind.name, 0)))

    def _tell(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(Progress(what=what, done=done, total=total, bytes=self.size))

    def ship(self, reader: Reader, digest: bytes) -> bool:
        """Let bytes be there, checked by their digest; False if the source has none."""
        if digest in self._there:
            return True
        if self._source is None or self._target is None:
            raise Unsupported("a store without a place for blobs cannot take or give artifacts; open it with blobs=")
        if not (is_referenced(reader, digest) and _is_sound(self._target, digest)):
            try:
                size = self._put(digest)
            except NotFound:
                return False
            self.blobs += 1
            self._blob_bytes += size
            self._tell("blobs", self.blobs, self.blobs)
        self._there.add(digest)
        return True

    def _put(self, digest: bytes) -> int:
        """Put the bytes, also where they are already: so gc knows that somebody is about to refer to them."""
        assert self._source is not None
        assert self._target is not None
        put = self._target.put(_checked(self._source.get(digest), digest))
        if put.digest != digest:
            raise IntegrityError(f"blob {digest.hex()} did not arrive as it was sent; repeat")
        return put.size


def _checked(pieces: Iterator[bytes], digest: bytes) -> Iterator[bytes]:
    """The pieces; IntegrityError instead of an end if they are not the bytes of the digest, so that nothing is put."""
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
        yield piece
    if found.digest() != digest:
        raise IntegrityError(f"blob {digest.hex()} of the source does not match its digest; run verify on it")


def _is_sound(blobs: BlobStore, digest: bytes) -> bool:
    found = hashlib.sha256()
    try:
        for piece in blobs.get(digest):
            found.update(piece)
    except NotFound:
        return False
    return found.digest() == digest
