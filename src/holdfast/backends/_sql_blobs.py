"""Blobs at a server: chunks of a megabyte, staged under a name of their own and published under their digest.

Every statement may be repeated, so that a broken connection is no more than a pause. Times are the server's.
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from msgspec import Struct

from holdfast.backends._chunks import chunks_of, in_chunks
from holdfast.backends._sql_reading import Rows
from holdfast.contracts import Blob
from holdfast.errors import BackendError, HoldfastError, NotFound

BATCH = 16  # pieces that one transaction removes
PAGE = 1_000


class BlobStatements(Struct, frozen=True, kw_only=True):
    """What a server is told; parameters have names."""

    stage: str  # a piece n of a blob without a digest
    publish: str  # its digest, unless the same bytes have it: whether it has got it, and since when the bytes are put
    find: str  # the blob with a digest, and its size
    read: str  # a piece
    hide: str  # take its digest from a blob last put before a moment: which blob
    left: str  # blobs without a digest
    discard: str  # some pieces of a blob without a digest: how many
    forget: str  # a blob without a digest
    page: str  # digests behind one, with size and time


class Runs(Protocol):
    """What carries statements out."""

    def read(self, statement: str, values: Mapping[str, Any]) -> Rows: ...

    def change(self, statement: str, values: Mapping[str, Any]) -> Rows: ...


class SqlBlobs:
    """A blob store in the database of a record store; a blob without a digest is one whose put never finished."""

    def __init__(self, store: Runs, space: int, statements: BlobStatements) -> None:
        self._store = store
        self._space = space
        self._say = statements

    def put(self, chunks: Iterable[bytes]) -> Blob:
        digest, size, staged, published = hashlib.sha256(), 0, uuid.uuid4(), False
        try:
            for n, piece in enumerate(in_chunks(chunks)):
                digest.update(piece)
                size += len(piece)
                self._change(self._say.stage, blob=staged, n=n, piece=piece)
            found = digest.digest()
            published, put_at = self._publish(found, size, staged)
        finally:
            if not published:
                self._let_go(staged)
        return Blob(digest=found, size=size, put_at=put_at)

    def _publish(self, digest: bytes, size: int, staged: uuid.UUID) -> tuple[bool, int]:
        """Give the staged pieces their digest, unless the same bytes have it; whether they got it, and since when."""
        rows = self._change(self._say.publish, blob=staged, digest=digest, size=size)
        if not rows:
            raise BackendError("what was put has been removed as unfinished; put it again, or raise grace_s of gc")
        return bool(rows[0][0]), int(rows[0][1])

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        rows = self._read(self._say.find, digest=digest)
        if not rows:
            raise NotFound(f"no blob {digest.hex()}")
        blob, size = rows[0]
        return self._pieces(blob, start, size if stop is None else min(stop, size))

    def _pieces(self, blob: object, start: int, stop: int) -> Iterator[bytes]:
        for n, wanted in chunks_of(start, stop):
            rows = self._read(self._say.read, blob=blob, n=n)
            if not rows:
                raise NotFound("the blob was deleted while it was read")
            yield bytes(rows[0][0])[wanted]

    def delete(self, digest: bytes, before: int | None = None) -> bool:
        hidden = self._change(self._say.hide, digest=digest, before=before)
        for (blob,) in hidden:
            self._let_go(blob)
        return bool(hidden)

    def tidy(self, before: int) -> None:
        """Remove what unfinished puts, and deletions that broke off, have left."""
        for (blob,) in self._read(self._say.left, before=before):
            self._let_go(blob)

    def _let_go(self, blob: object) -> None:
        """Remove a blob without a digest, some pieces at a time; what cannot go now goes with `tidy`."""
        with contextlib.suppress(HoldfastError):
            while self._change(self._say.discard, blob=blob, limit=BATCH) == [(BATCH,)]:
                pass
            self._change(self._say.forget, blob=blob)

    def list(self) -> Iterator[Blob]:
        last, size = b"", PAGE
        while size == PAGE:
            rows = self._read(self._say.page, last=last, limit=PAGE)
            for digest, length, put_at in rows:
                yield Blob(digest=digest, size=length, put_at=put_at)
                last = digest
            size = len(rows)

    def _read(self, statement: str, **values: object) -> Rows:
        return self._store.read(statement, {"space": self._space, **values})

    def _change(self, statement: str, **values: object) -> Rows:
        return self._store.change(statement, {"space": self._space, **values})
