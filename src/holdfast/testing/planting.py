"""Records as other versions and other programs would leave them, written through the store contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import agent_restores, capturing, codec, history, settling
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
from holdfast.history import ROOT_BRANCH, Branch, Pointer
from holdfast.ids import new_id
from holdfast.kinds import MESSAGES, Kind
from holdfast.session_records import Stored, stored_record


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


def small_commits(patch: pytest.MonkeyPatch) -> None:
    """Let restores and captures take 25 times fewer sessions into a commit, so that a few are already too many."""
    for module, name in (
        (agent_restores, "MAX_WRITES"),
        (agent_restores, "BATCH"),
        (settling, "BATCH"),
        (capturing, "CAPACITY"),
    ):
        patch.setattr(module, name, getattr(module, name) // 25)


def crowd(store: RecordStore, count: int, prefix: str = "s") -> list[str]:
    """Many empty sessions of the agent "scout", written a hundred at a time."""
    names = [f"{prefix}{number:04}" for number in range(count)]
    for start in range(0, count, 100):
        store.commit([write for name in names[start : start + 100] for write in _new_session(name)])
    return names


def _new_session(name: str) -> list[Write]:
    own = new_id()
    link = history.first_link(own)
    stored = Stored(id=name, uid=own, history=own, created_at=1, agent_id="scout")
    place = {"history": own, "branch": ROOT_BRANCH, "seq": 0, "link": link, "n": 0}
    pointer = Pointer(session_id=name, uid=own, created_at=1, updated_at=1, agent_id="scout", **place)  # type: ignore[arg-type]
    root = Branch(history=own, branch=ROOT_BRANCH, opened_by=own, fork_link=link)
    _, head = history.new_head(pointer)
    return [Insert(stored_record(stored)), *head, Insert(history.branch_record(root))]


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


class Meanwhile(BreaksOff):
    """A store to whose records somebody else does something, once, just before they are next scanned for a kind."""

    def __init__(self, store: RecordStore, kind: Kind, act: Callable[[], object]) -> None:
        super().__init__(store, -1)
        self._kind = kind
        self._acts = [act]

    def scan(self, query: Query) -> Any:
        """As the store does, once the other is done."""
        if query.kind is self._kind and self._acts:
            self._acts.pop()()
        return super().scan(query)


class Meddles(BreaksOff):
    """A store to which somebody else does something after so many commits, once."""

    def __init__(self, store: RecordStore, commits: int, deed: Callable[[], object]) -> None:
        super().__init__(store, commits)
        self._deed = deed

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        """Commit, or first let the deed be done."""
        if self._left == 0:
            self._deed()
        self._left -= 1
        return self._store.commit(writes, rebase)


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
