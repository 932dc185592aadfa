"""Bringing records into a store so that nobody sees half of them.

Everything is written before what points at it, and the pointers come last. What has arrived is compared with its
source until nothing is left to write; so a second attempt finishes what a first one began, and a third does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from holdfast import codec, history
from holdfast.agent_records import read_present
from holdfast.artifact_records import NOBODY
from holdfast.contracts import MAX_BYTES, Delete, Insert, Put, Query, Record, RecordStore, Write
from holdfast.cuts import BLOB_FIELDS, POINTERS, UNSEEN, Cut
from holdfast.deadlines import remaining, within
from holdfast.embedding_records import read_space
from holdfast.errors import AlreadyExists, Busy, IntegrityError
from holdfast.heads import uid_of
from holdfast.kinds import (
    AGENTS,
    ARTIFACTS,
    BRANCHES,
    EMBEDDING_SPACES,
    EMBEDDINGS,
    HEADS,
    ITEMS,
    MARKS,
    MESSAGES,
    PARTS,
    PRUNED,
    REVISIONS,
    SESSIONS,
    USAGES,
    Kind,
)
from holdfast.shipments import Shipments
from holdfast.spools import in_batches
from holdfast.sweeps import Sweeps

Owner: TypeAlias = tuple[str, str]

BATCH = 500


class Arrival:
    """A store that records of another are brought into."""

    def __init__(self, store: RecordStore, sweeps: Sweeps, shipments: Shipments, timeout: float) -> None:
        self._store = store
        self._sweeps = sweeps
        self._shipments = shipments
        self._timeout = timeout
        self._arriving: set[Owner] = set()
        self._is_resumed = False

    # before anything is written

    def begin(self, cut: Cut) -> None:
        """Refuse what is there with other content, and find what an earlier attempt has left."""
        for kind in (HEADS, AGENTS):
            for record, present in self._compared(kind, cut.records(kind)):
                if present is None:
                    self._expect(record)
                elif present.digest != record.digest:
                    raise _other(record)
        for record, present in self._compared(EMBEDDING_SPACES, cut.reader.scan(Query(kind=EMBEDDING_SPACES))):
            if present is None:
                self._arriving.add(("model", str(record.key[0])))
            elif read_space(present).uid != read_space(record).uid:
                raise _other(record)
        # Artifacts of no session are seen as soon as they are written.
        of_nobody = (record for record in cut.records(ARTIFACTS) if record.key[0] == NOBODY)
        for record, present in self._compared(ARTIFACTS, of_nobody):
            if present is not None and present.digest != record.digest:
                raise _other(record)
        for record, present in self._compared(ITEMS, cut.records(ITEMS)):
            if present is None:
                self._arriving.add(_owner(record))
            elif present.digest != record.digest:
                raise _other(record)
        self._find_remains(cut)

    def _compared(self, kind: Kind, records: Iterable[Record]) -> Iterator[tuple[Record, Record | None]]:
        """Each record beside what is there under its key."""
        for batch in in_batches(records):
            yield from zip(batch, self._store.get(kind, [one.key for one in batch]), strict=True)

    def _expect(self, record: Record) -> None:
        """Note whom a pointer that is to come will make visible."""
        if record.kind is AGENTS:
            uid = read_present(record).uid
            self._arriving.add(("uid", uid))
            self._is_resumed |= any(True for _ in self._store.scan(Query(kind=REVISIONS, prefix=(uid,), limit=1)))
        else:
            pointer = history.see(None, record).pointer
            self._arriving |= {("uid", pointer.uid), ("session", pointer.session_id)}
            if not history.is_alive(self._store, pointer.history):  # a fork of it may be there already
                self._arriving.add(("history", pointer.history))

    def _find_remains(self, cut: Cut) -> None:
        """Sessions without a head are of an earlier attempt, or being deleted; the source says which."""
        for batch in in_batches(self._store.scan(Query(kind=SESSIONS))):
            heads = self._store.get(HEADS, [one.key for one in batch])
            headless = [one for one, head in zip(batch, heads, strict=True) if head is None]
            self._is_resumed |= bool(headless)
            for record, source in zip(headless, cut.find(SESSIONS, [one.key for one in headless]), strict=True):
                if source is None or uid_of(source) != uid_of(record):
                    self._sweeps.finish_session(str(record.key[0]))

    # what nobody sees yet

    def bring(self, cut: Cut) -> int:
        """Write what is missing or differs, and remove what an earlier attempt has left; returns how many writes."""
        written = 0
        if self._is_resumed:
            written += sum(self._clear(cut, kind) for kind in UNSEEN)
        for kind in UNSEEN:
            for batch in within_limits(cut.records(kind)):
                written += self._settle(cut, kind, batch)
        self._is_resumed = True
        return written

    def _clear(self, cut: Cut, kind: Kind) -> int:
        """Remove what is no longer in the source from what nobody sees."""
        gone = 0
        for batch in in_batches(self._store.scan(Query(kind=kind))):
            mine = [record for record in batch if _owner(record) in self._arriving]
            found = cut.find(kind, [record.key for record in mine])
            stale = [record for record, source in zip(mine, found, strict=True) if source is None]
            gone += self._commit([Delete(kind, one.key, over=one.digest) for one in stale])
        return gone

    def _settle(self, cut: Cut, kind: Kind, batch: list[Record]) -> int:
        """Bring one batch, its bytes first; returns how many records were written."""
        if kind.name in BLOB_FIELDS:
            batch = [record for record in batch if self._has_bytes(cut, record)]
        written = self._commit(self._missing(kind, batch))
        self._shipments.arrived(kind, batch)
        return written

    def _has_bytes(self, cut: Cut, record: Record) -> bool:
        """Let the bytes of a record arrive; False if the record has been deleted from the source meanwhile."""
        digest = record.fields[BLOB_FIELDS[record.kind.name]]
        assert isinstance(digest, bytes)
        if self._shipments.ship(self._store, digest):
            return True
        if cut.find(record.kind, [record.key]) == [None]:
            return False
        raise IntegrityError(
            f"the bytes of {record.kind.name} {record.key} are missing in the source; run verify on it"
        )

    def _missing(self, kind: Kind, batch: list[Record]) -> list[Write]:
        """The writes that make these records be there."""
        writes: list[Write] = []
        for record, present in self._compared(kind, batch):
            if codec.digest(record.body) != record.digest:
                raise IntegrityError(f"{kind.name} {record.key} of the source does not match its checksum; run verify")
            if present is None:
                writes.append(Insert(record))
            elif not _same(present, record):
                if _owner(record) not in self._arriving:
                    raise _other(record)
                writes.append(Put(record, present.digest))
        return writes

    def _commit(self, writes: list[Write]) -> int:
        if remaining() == 0:
            raise Busy("not finished at the timeout, and nothing of it is visible yet; repeat to go on")
        if writes:
            with within(self._timeout):
                self._store.commit(writes)
        return len(writes)

    # what makes it visible

    def publish(self, cut: Cut) -> int:
        """Write the pointers, in one commit if that is large enough, and read them back."""
        written = 0
        for batch in within_limits(record for kind in POINTERS for record in cut.records(kind)):
            by_kind = [(kind, [one for one in batch if one.kind is kind]) for kind in POINTERS]
            written += self._commit([write for kind, some in by_kind for write in self._missing(kind, some)])
            for kind, some in by_kind:
                if self._missing(kind, some):
                    raise IntegrityError(f"some of the {kind.name} did not arrive as they were sent; run verify")
                self._shipments.arrived(kind, some)
        return written


def _owner(record: Record) -> Owner:
    """Whose pointer makes a record visible."""
    kind, key = record.kind, record.key
    if kind in (BRANCHES, MESSAGES, USAGES, PRUNED, PARTS):
        return ("history", str(key[0]))
    if kind is SESSIONS:
        return ("session", str(key[0]))
    if kind is ITEMS:
        return (f"item of {key[0]}", str(key[1]))
    if kind is EMBEDDINGS:
        return ("model", str(record.fields[1]))
    return ("uid", str(key[1] if kind is MARKS else key[0]))


def _same(present: Record, record: Record) -> bool:
    return (present.digest, present.body, present.fields) == (record.digest, record.body, record.fields)


def _other(record: Record) -> AlreadyExists:
    what = f"{record.kind.name} {record.key}"
    return AlreadyExists(f"{what} is in the destination with other content; delete it there, or use another namespace")


def within_limits(records: Iterable[Record]) -> Iterator[list[Record]]:
    """The records in batches that one commit can take."""
    batch: list[Record] = []
    size = 0
    for record in records:
        if batch and (len(batch) == BATCH or size + len(record.body) > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record.body)
    if batch:
        yield batch
