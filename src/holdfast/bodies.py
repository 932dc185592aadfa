"""What the bodies of records say of their own keys and fields, for `verify` to compare with what is beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from holdfast import codec, embedding_records
from holdfast.artifact_records import read_artifact
from holdfast.contracts import Record
from holdfast.execution_records import read as read_execution
from holdfast.filters import Scalar
from holdfast.heads import Mark, read_restore
from holdfast.item_records import read_item, root_of
from holdfast.kinds import (
    ARTIFACTS,
    EMBEDDING_SPACES,
    EMBEDDINGS,
    EXECUTIONS,
    EXTRA_USAGES,
    HOLDS,
    ITEMS,
    MARKS,
    PARTS,
    PENDING,
    RESTORES,
    SWEEPS,
    Kind,
)
from holdfast.parts import read_part
from holdfast.pending_records import read_pending
from holdfast.run_records import read_hold
from holdfast.usage_records import read_extra

Columns: TypeAlias = tuple[Scalar, ...]


def _hold(record: Record) -> Columns:
    return (read_hold(record).session,)


def _artifact(record: Record) -> Columns:
    stored = read_artifact(record)
    return (stored.owner, stored.name, stored.version, stored.id, stored.blob, int(stored.newest), stored.created_at)


def _part(record: Record) -> Columns:
    stored = read_part(record)
    return (stored.history, stored.branch, stored.seq, stored.part, stored.kept.digest)


def _item(record: Record) -> Columns:
    stored = read_item(record)
    return (stored.space, stored.key, root_of(stored.space))


def _pending(record: Record) -> Columns:
    stored = read_pending(record)
    return (stored.owner, stored.checkpoint, stored.task)


def _mark(record: Record) -> Columns:
    mark = codec.decode(record.body, Mark, "mark")
    return (mark.agent_id, mark.session)


def _restore(record: Record) -> Columns:
    return (read_restore(record).agent_id,)


def _sweep(record: Record) -> Columns:
    envelope = codec.decode_envelope(record.body, "sweep")
    return (f"{envelope['kind']} {envelope['name']}",)


def _execution(record: Record) -> Columns:
    one = read_execution(record)
    return (one.session, one.n, one.id, one.message_id)


def _extra_usage(record: Record) -> Columns:
    one = read_extra(record)
    return (one.session, one.n, one.id)


def _embedding(record: Record) -> Columns:
    one = embedding_records.read_stored(record)
    embedding_records.from_bytes(one.vector)
    return (one.id, one.owner, one.model, one.at)


def _embedding_space(record: Record) -> Columns:
    return (embedding_records.read_space(record).model,)


# Of these kinds a body is compared with its own key and fields, and with nothing else.
PLAIN: Mapping[Kind, Callable[[Record], Columns]] = {
    MARKS: _mark,
    RESTORES: _restore,
    SWEEPS: _sweep,
    ARTIFACTS: _artifact,
    PARTS: _part,
    PENDING: _pending,
    ITEMS: _item,
    HOLDS: _hold,
    EXECUTIONS: _execution,
    EXTRA_USAGES: _extra_usage,
    EMBEDDINGS: _embedding,
    EMBEDDING_SPACES: _embedding_space,
}
