"""Blobs in tables: chunks of a megabyte, staged under a name of their own and published under their digest."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from surrealdb import RecordID

from holdfast.backends._chunks import chunks_of, in_chunks
from holdfast.backends._surreal.ranges import whole
from holdfast.backends._surreal.turns import Turn
from holdfast.contracts import Blob
from holdfast.errors import NotFound
from holdfast.ids import new_id

if TYPE_CHECKING:
    from holdfast.backends.surreal import SurrealStore

Rows = list[Any]
BATCH = 16  # chunks that one transaction removes
PAGE = 500


class SurrealBlobs:
    """A blob store beside the records; what is in `staging` belongs to no blob, or not yet."""

    def __init__(self, store: SurrealStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def put(self, chunks: Iterable[bytes]) -> Blob:
        digest, size, staged = hashlib.sha256(), 0, new_id()
        try:
            for n, piece in enumerate(in_chunks(chunks)):
                digest.update(piece)
                size += len(piece)
                self._stage(staged, n, piece)
            return self._publish(digest.digest(), size, staged)
        except BaseException:
            self._discard(staged)
            raise

    def _stage(self, staged: str, n: int, piece: bytes) -> None:
        self._write(
            "UPSERT $staging CONTENT {staged: $staged, written_at: $now} RETURN NONE;"
            " CREATE $chunk CONTENT {bytes: $piece} RETURN NONE",
            staging=self._id("staging", staged),
            staged=staged,
            now=_now(),
            chunk=self._id("chunks", staged, n),
            piece=piece,
        )

    def _publish(self, digest: bytes, size: int, staged: str) -> Blob:
        """Give the staged chunks their digest; if the same bytes have it, those are renewed instead."""

        def publish(turn: Turn) -> tuple[Blob, bool]:
            known = self._row(digest)
            blob = Blob(digest=digest, size=size, put_at=_now())
            place = {"blob": self._id("blobs", digest.hex()), "staging": self._id("staging", staged)}
            row = {"digest": digest.hex(), "size": size, "put_at": blob.put_at, "staged": known[0] if known else staged}
            taken = "" if known else "; DELETE $staging RETURN NONE"
            turn.transact(f"UPSERT $blob CONTENT $row RETURN NONE{taken}", {**place, "row": row})
            return blob, known is not None

        blob, was_known = self._store.in_turn(publish)
        if was_known:
            self._discard(staged)
        return blob

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        found = self._row(digest)
        if found is None:
            raise NotFound(f"no blob {digest.hex()}")
        staged, size = found[0], found[1]
        return self._read(staged, start, size if stop is None else min(stop, size))

    def _read(self, staged: str, start: int, stop: int) -> Iterator[bytes]:
        for n, wanted in chunks_of(start, stop):
            rows = self._rows("SELECT VALUE bytes FROM $chunk", chunk=self._id("chunks", staged, n))
            if not rows:
                raise NotFound("the blob was deleted while it was read")
            yield bytes(rows[0])[wanted]

    def delete(self, digest: bytes, before: int | None = None) -> bool:
        def hide(turn: Turn) -> str | None:
            found = self._row(digest)
            if found is None or (before is not None and found[2] >= before):
                return None
            place = {"blob": self._id("blobs", digest.hex()), "staging": self._id("staging", found[0])}
            left = "UPSERT $staging CONTENT {staged: $staged, written_at: 0} RETURN NONE"
            turn.transact(f"DELETE $blob RETURN NONE; {left}", {**place, "staged": found[0]})
            return str(found[0])

        hidden = self._store.in_turn(hide)
        if hidden is not None:
            self._discard(hidden)
        return hidden is not None

    def tidy(self, before: int) -> None:
        """Remove what unfinished puts, and deletions that broke off, have left."""
        span = whole("staging", (self._namespace,), 2)
        text = f"SELECT VALUE staged FROM {span.text()} WHERE written_at < $before"
        for staged in self._rows(text, before=before, **span.variables()):
            self._discard(staged)

    def _discard(self, staged: str) -> None:
        """Remove staged chunks, some at a time, and then the note of them."""
        span = whole("chunks", (self._namespace, staged), 3)
        text = f"SELECT VALUE id FROM {span.text()} LIMIT $limit"
        while found := self._rows(text, limit=BATCH, **span.variables()):
            self._write("DELETE $found RETURN NONE", found=found)
        self._write("DELETE $staging RETURN NONE", staging=self._id("staging", staged))

    def list(self) -> Iterator[Blob]:
        span = whole("blobs", (self._namespace,), 2)
        while True:
            text = f"SELECT VALUE [digest, size, put_at] FROM {span.text()} LIMIT $limit"
            rows = self._rows(text, limit=PAGE, **span.variables())
            for digest, size, put_at in rows:
                yield Blob(digest=bytes.fromhex(digest), size=size, put_at=put_at)
            if len(rows) < PAGE:
                return
            span = replace(span, low=(self._namespace, rows[-1][0]), above=True)

    def _row(self, digest: bytes) -> Rows | None:
        """Where the chunks of a blob are, its size, and when it was put; None if there is none."""
        rows = self._rows("SELECT VALUE [staged, size, put_at] FROM $blob", blob=self._id("blobs", digest.hex()))
        return rows[0] if rows else None

    def _id(self, table: str, *parts: str | int) -> RecordID:
        return RecordID(table, [self._namespace, *parts])

    def _rows(self, text: str, **variables: Any) -> Rows:
        return self._store.reading().rows(text, variables)

    def _write(self, text: str, **variables: Any) -> None:
        """Write what nobody else writes: it depends on nothing that was read."""
        self._store.in_turn(lambda _: Turn(self._store.reading()).transact(text, variables))


def _now() -> int:
    return time.time_ns() // 1000
