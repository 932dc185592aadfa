"""Blobs on the server: pieces of a megabyte in a hash, staged under a name and published under their digest."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast.backends._chunks import chunks_of, in_chunks
from holdfast.contracts import Blob
from holdfast.errors import BackendError, HoldfastError, NotFound
from holdfast.ids import new_id

if TYPE_CHECKING:
    from holdfast.backends.redis import RedisStore

PAGE = 500


class RedisBlobs:
    """A blob store beside the records of a namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._blobs = store.key("blobs")
        self._order = store.key("blobs:order")
        self._staging = store.key("blobs:staging")

    def put(self, chunks: Iterable[bytes]) -> Blob:
        digest, size, count, name = hashlib.sha256(), 0, 0, new_id()
        try:
            for piece in in_chunks(chunks):
                digest.update(piece)
                self._stage(name, count, piece)
                size += len(piece)
                count += 1
            return self._publish(name, digest.digest(), size, count)
        except BaseException:
            with contextlib.suppress(HoldfastError):  # what cannot go now goes with `tidy`
                self._discard(name)
            raise

    def _stage(self, name: str, number: int, piece: bytes) -> None:
        scripts, line = self._store.scripts, self._store.to_write()
        line.run(scripts.blob_stage, [self._staging, self._staged(name)], [name, number, piece], writes=True)

    def _publish(self, name: str, digest: bytes, size: int, count: int) -> Blob:
        keys = [self._blobs, self._order, self._staging, self._staged(name), self._published(digest)]
        scripts, line = self._store.scripts, self._store.to_write()
        put_at = line.run(scripts.blob_put, keys, [digest, size, count, name], durably=True)
        if not put_at:
            raise BackendError("the pieces of an artifact were removed while it was put; put it again")
        return Blob(digest=digest, size=size, put_at=int(put_at))

    def _discard(self, name: str) -> None:
        self._store.to_write().ask(("UNLINK", self._staged(name)), ("ZREM", self._staging, name), writes=True)

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        known = self._store.to_read().say("HGET", self._blobs, digest)
        if known is None:
            raise NotFound(f"no blob {digest.hex()}")
        size = _blob(digest, known).size
        return self._read(digest, start, size if stop is None else min(stop, size))

    def _read(self, digest: bytes, start: int, stop: int) -> Iterator[bytes]:
        for number, wanted in chunks_of(start, stop):
            piece = self._store.to_read().say("HGET", self._published(digest), number)
            if piece is None:
                raise NotFound("the blob was deleted while it was read")
            yield piece[wanted]

    def delete(self, digest: bytes, before: int | None = None) -> bool:
        keys = [self._blobs, self._order, self._published(digest)]
        args = [digest, "" if before is None else before]
        scripts, line = self._store.scripts, self._store.to_write()
        return bool(line.run(scripts.blob_delete, keys, args, durably=True))

    def list(self) -> Iterator[Blob]:
        low = b"-"
        while True:
            digests = self._store.to_read().say("ZRANGEBYLEX", self._order, low, "+", "LIMIT", 0, PAGE)
            if not digests:
                return
            known = self._store.to_read().say("HMGET", self._blobs, *digests)
            yield from (_blob(digest, one) for digest, one in zip(digests, known, strict=True) if one is not None)
            low = b"(" + digests[-1]

    def tidy(self, before: int) -> None:
        """Remove what puts that never finished have left."""
        names = self._store.to_write().say("ZRANGEBYSCORE", self._staging, "-inf", f"({before}")
        for name in names:
            self._discard(name.decode())

    def _staged(self, name: str) -> bytes:
        return self._store.key(f"blob:staged:{name}")

    def _published(self, digest: bytes) -> bytes:
        return self._store.key(f"blob:{digest.hex()}")


def _blob(digest: bytes, known: bytes) -> Blob:
    size, put_at = known.split()
    return Blob(digest=digest, size=int(size), put_at=int(put_at))
