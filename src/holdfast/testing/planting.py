"""Records as other versions and other programs would leave them, written through the store contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast import codec, history
from holdfast.commits import get
from holdfast.contracts import (
    Blob,
    BlobStore,
    Insert,
    Inspection,
    Key,
    Put,
    Query,
    Rebase,
    Record,
    RecordStore,
    Sharing,
    Write,
)
from holdfast.errors import ConnectionFailed, NotFound
from holdfast.kinds import MESSAGES, Kind


def stored(store: RecordStore, kind: Kind, *key: str | int) -> Record:
    """A record that must be there."""
    record = get(store, kind, *key)
    assert record is not None
    return record


def envelope(record: Record) -> dict[str, Any]:
    """All that a record's body says."""
    return codec.decode_envelope(record.body, record.kind.name)


def add_fields(store: RecordStore, kind: Kind, *key: str | int, **fields: object) -> None:
    """Let a record say more than this version knows, as a later version would."""
    present = stored(store, kind, *key)
    body = codec.encode({**envelope(present), **fields}, kind.name)
    store.commit([Put(Record(kind, present.key, body, codec.digest(body), present.fields), present.digest)])


def plant_message(store: RecordStore, session_id: str, **said: object) -> Record:
    """Append a message that says exactly this, chained as it should be."""
    seen = history.must_see(store, session_id)
    pointer = seen.pointer
    body = codec.encode({"created_at": "2026-01-01T12:00:00Z", **said}, "message")
    digest, n, seq = codec.digest(body), pointer.n + 1, pointer.seq + 1
    link = history.next_link(pointer.link, digest, n)
    message_id = str(said["id"])
    planted = Record(MESSAGES, (pointer.history, pointer.branch, seq), body, digest, (message_id, n, link))
    moved = replace(pointer, seq=seq, n=n, link=link, message_id=message_id)
    store.commit([Insert(planted), Put(history.pointer_record(moved, seen.later), seen.digest)])
    return planted


def detach(store: RecordStore, session_id: str) -> None:
    """Leave a session as a restore would that goes back to before it was created."""
    seen = history.must_see(store, session_id)
    gone = replace(seen.pointer, detached_by="a restore")
    store.commit([Put(history.pointer_record(gone, seen.later), seen.digest)])


class BreaksOff:
    """A store whose connection is lost for good after so many commits."""

    def __init__(self, store: RecordStore, commits: int) -> None:
        self._store = store
        self._left = commits
        self.sharing: Sharing = store.sharing

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        """Commit while the connection lasts."""
        if self._left == 0:
            raise ConnectionFailed("the connection is lost")
        self._left -= 1
        return self._store.commit(writes, rebase)

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        """As the store does."""
        return self._store.get(kind, keys)

    def scan(self, query: Query) -> Any:
        """As the store does."""
        return self._store.scan(query)

    def count(self, query: Query) -> int:
        """As the store does."""
        return self._store.count(query)

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:
        """As the store does."""
        return self._store.inspect(measure, check)

    def close(self) -> None:
        """As the store does."""
        self._store.close()


class DamagedBlobs:
    """Blobs of which one has suffered on its disk."""

    def __init__(self, blobs: BlobStore, digest: str, damage: Callable[[bytes], bytes | None]) -> None:
        self._blobs = blobs
        self._digest = bytes.fromhex(digest)
        self._damage = damage

    def put(self, chunks: Iterable[bytes]) -> Blob:
        """As the blobs do."""
        return self._blobs.put(chunks)

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """As the blobs do, but for the damaged one."""
        whole = b"".join(self._blobs.get(digest))
        left = self._damage(whole) if digest == self._digest else whole
        if left is None:
            raise NotFound("the bytes are gone")
        return iter([left[start:stop]])

    def delete(self, digest: bytes, before: int | None = None) -> bool:
        """As the blobs do."""
        return self._blobs.delete(digest, before)

    def list(self) -> Iterator[Blob]:
        """As the blobs do."""
        return self._blobs.list()
