"""What a commit changes: kept whole in the namespace's journal, and applied to records any number of times.

Each document carries the version of the commit that wrote it. A change applies only over older versions, and a
deleted record leaves a tombstone with its version, so that whoever applies a batch late, or a second time, changes
nothing. Tombstones go after a day.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from bson import Int64
from pymongo import UpdateMany, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from holdfast.backends._mongo.answers import answering
from holdfast.backends._mongo.documents import Document, condition, document, place_of, together, where
from holdfast.contracts import Delete, Key, Query, Record
from holdfast.errors import BackendError, InvalidInput, MigrationError
from holdfast.filters import Filter
from holdfast.kinds import KINDS, Kind

MOST_BYTES = 15 * 1024 * 1024  # a document holds 16 MiB, and the journal is in one
DUPLICATE = 11000
CONTENT = ("key", "space", "kind", "fields", "digest", "body", "size", "claim")

Change: TypeAlias = Record | Delete


class _Stored(msgspec.Struct, array_like=True):
    """A change in the journal; without a digest it is a deletion."""

    kind: str
    key: tuple[str | int, ...]
    fields: tuple[Any, ...] = ()
    digest: bytes | None = None
    body: bytes = b""
    where: tuple[tuple[str, Any, Any], ...] = ()


_KINDS = {kind.name: kind for kind in KINDS}
_decoder = msgspec.msgpack.Decoder(list[_Stored])


def encode(changes: Sequence[Change]) -> bytes:
    """The changes as the journal keeps them; InvalidInput if they do not fit into a document."""
    content = msgspec.msgpack.encode([_stored(change) for change in changes])
    if len(content) > MOST_BYTES:
        raise InvalidInput(f"{len(content)} bytes in one commit, keys included; MongoDB takes {MOST_BYTES}. Write less")
    return content


def _stored(change: Change) -> _Stored:
    if isinstance(change, Record):
        return _Stored(change.kind.name, change.key, change.fields, change.digest, change.body)
    filters = tuple((one.field, one.compare, one.value) for one in change.where)
    return _Stored(change.kind.name, change.key, where=filters)


def decode(content: bytes) -> list[Change]:
    """The changes that a journal keeps; MigrationError if a later version wrote it."""
    return [_change(one) for one in _decoder.decode(content)]


def _change(one: _Stored) -> Change:
    kind = _KINDS.get(one.kind)
    if kind is None:
        raise MigrationError(f"an unfinished commit holds {one.kind}, which a later version keeps; finish it with that")
    if one.digest is not None:
        return Record(kind, one.key, one.body, one.digest, one.fields)
    return Delete(kind, one.key, tuple(Filter(*parts) for parts in one.where))


def apply(records: Collection[Document], namespace: str, version: int, changes: Sequence[Change]) -> None:
    """Carry out what a commit of this version changes, or the part that is not carried out yet."""
    gone_at = datetime.now(UTC)
    operations = [_operation(namespace, version, change, gone_at) for change in changes]
    try:
        with answering():
            records.bulk_write(operations, ordered=False)
    except BackendError as failure:
        _ignore_applied(failure)


def _ignore_applied(failure: BackendError) -> None:
    """A newer version in its place makes an upsert an insert of what exists, which is refused: it is done already."""
    cause = failure.__cause__
    if not isinstance(cause, BulkWriteError):
        raise failure
    errors = cause.details["writeErrors"]
    if cause.details.get("writeConcernErrors") or any(one["code"] != DUPLICATE for one in errors):
        raise failure


def _operation(namespace: str, version: int, change: Change, gone_at: datetime) -> UpdateOne | UpdateMany:
    older = {"version": {"$lt": Int64(version)}}
    if isinstance(change, Record):
        content = document(namespace, change, version)
        absent = {name: 1 for name in ("gone_at", "claim") if name not in content}
        place = {"_id": content.pop("_id")}
        return UpdateOne({**place, **older}, {"$set": content, "$unset": absent}, upsert=True)
    doomed = _doomed(namespace, change.kind, change.key, change.where)
    tombstone = {"version": Int64(version), "gone_at": gone_at}
    return UpdateMany({**doomed, **older}, {"$set": tombstone, "$unset": dict.fromkeys(CONTENT, 1)})


def _doomed(namespace: str, kind: Kind, key: Key, filters: tuple[Filter, ...]) -> Document:
    if len(key) == len(kind.key):
        return together([{"_id": place_of(namespace, kind, key)}, {"key": {"$exists": True}}, *where(filters)])
    return condition(namespace, Query(kind=kind, prefix=key, where=filters))
