"""What tasks write: pending until the step is whole, then part of the checkpoint that the step began at."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast import checkpoint_records as records
from holdfast.commits import commit
from holdfast.contracts import Insert, Put, Reader, Record, Write
from holdfast.kinds import PENDING
from holdfast.nouns import Ground
from holdfast.pending_records import StoredPending, pending_record, read_pending

from ._langgraph_payloads import SHORTEST, Packed, Payload, Writes, cut, from_text, mentions, to_text
from ._langgraph_payloads import Write as Written
from ._langgraph_threads import MARK, entry_at
from ._langgraph_transcripts import Memory, Place


def lighten(
    payload: Payload, places: Sequence[Place | str], texts: Sequence[tuple[bytes, Place]]
) -> tuple[Payload, list[Place | str]]:
    """The payload without these texts, and where all those stand that it leaves out."""
    kept = list(places)
    packed = [*payload.values.values(), *(one.value for one in payload.writes)]
    for text, place in texts:
        some = [n for n, one in enumerate(packed) if len(text) >= SHORTEST and mentions(one, text)]
        for n in some:
            packed[n] = Packed(packed[n].type, cut(packed[n].pieces, [(text, len(kept))]))
        kept += [place] if some else []
    values = dict(zip(payload.values, packed, strict=False))
    rest = packed[len(values) :]
    writes = [replace(one, value=value) for one, value in zip(payload.writes, rest, strict=True)]
    return replace(payload, values=values, writes=writes), kept


def make_whole(
    reader: Reader, owner: str, number: int, new: Sequence[Written], texts: Sequence[tuple[bytes, Place]]
) -> list[Write]:
    """The write that adds what tasks have written to a checkpoint, and leaves out texts that messages have."""
    entry = entry_at(reader, owner, number)
    if entry is None:
        return []
    payload = replace(entry.payload, writes=merged(entry.payload.writes, new))
    payload, places = lighten(payload, entry.stored.texts, texts)
    if payload == entry.payload:
        return []
    stored = replace(entry.stored, extra={MARK: to_text(payload)}, texts=places)
    return [Put(records.checkpoint_record(stored), entry.record.digest)]


def written(pending: Sequence[Record]) -> list[Written]:
    """What is pending at a checkpoint."""
    return [one for record in pending for one in from_text(read_pending(record).said, Writes, "pending").writes]


def merged(there: Sequence[Written], new: Sequence[Written]) -> list[Written]:
    """All writes of a step in order; of two in one place the first stays, but special ones are replaced."""
    found = {(one.task, one.n): one for one in there}
    for one in new:
        if one.n < 0 or (one.task, one.n) not in found:
            found[one.task, one.n] = one
    return sorted(found.values(), key=Written.order)


def put_writes(ground: Ground, memory: Memory, owner: str, checkpoint_id: str, new: Sequence[Written]) -> None:
    """Commit what a task has written; if the next checkpoint was faster, where it would have moved it."""
    if not new:
        return
    followed = memory.followed(owner, checkpoint_id)
    if followed is not None:
        at, texts = followed
        commit(ground.store, lambda reader: make_whole(reader, owner, at, new, texts))
        return
    # A number, since a key has room for two texts; tasks that should ever share one stay apart by their ids.
    task = int.from_bytes(hashlib.sha256(new[0].task.encode()).digest()[:8]) >> 1

    def place(reader: Reader) -> list[Write]:
        (present,) = reader.get(PENDING, [(owner, checkpoint_id, task)])
        there = [] if present is None else written([present])
        said = to_text(Writes(merged(there, new)))
        record = pending_record(StoredPending(owner=owner, checkpoint=checkpoint_id, task=task, said=said))
        if present is None:
            return [Insert(record)]
        return [] if present.digest == record.digest else [Put(record, present.digest)]

    commit(ground.store, place)
