"""What is stored of a step under way: what its tasks have written before the checkpoint behind it is there."""

from __future__ import annotations

from holdfast import codec
from holdfast.contracts import Record
from holdfast.kinds import PENDING
from holdfast.model import Json, Value


class StoredPending(Value, frozen=True, kw_only=True):
    """What tasks of one number have written at a checkpoint; `owner` is the uid of the session, `said` the writer's."""

    owner: str
    checkpoint: str
    task: int
    said: Json = None


def pending_record(stored: StoredPending) -> Record:
    """The record of what tasks have written."""
    body = codec.encode_value(stored, StoredPending, "pending write")
    return Record(PENDING, (stored.owner, stored.checkpoint, stored.task), body, codec.digest(body))


def read_pending(record: Record) -> StoredPending:
    """What the record of tasks' writes says."""
    return codec.decode(record.body, StoredPending, f"pending {record.key}")
