"""Large parts of messages, kept as blobs: the message refers to them by digest, so that it says the same each time.

A row beside the message says which blobs it has. It comes and goes with the message, on whatever branch or fork,
and while there is one the blob stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast import codec
from holdfast.blobs import pieces
from holdfast.contracts import BlobStore, Key, Query, Reader, Record
from holdfast.errors import NotFound
from holdfast.filters import Filter
from holdfast.kinds import PARTS
from holdfast.model import Attachment, Audio, File, Image, Message, Moment, Value, Video

INLINE_LIMIT = 256 * 1024
MARK = b'"artifact_id":"sha256:'  # in the bytes of every message that refers to a blob, and of few others
_ID = re.compile(r"sha256:([0-9a-f]{64})")
_MOVABLE = (Image, Audio, Video, File, Attachment)


class Kept(Value, frozen=True, kw_only=True):
    """A blob that a message has."""

    digest: bytes
    size: int
    name: str | None = None
    mime_type: str | None = None
    created_at: Moment


class StoredPart(Value, frozen=True, kw_only=True):
    """What is stored of it beside the message: the blob, and the place of the message."""

    history: str
    branch: int
    seq: int
    part: int
    kept: Kept


def id_of(digest: bytes) -> str:
    """The artifact id by which a message refers to a blob."""
    return f"sha256:{digest.hex()}"


def digest_of(artifact_id: str | None) -> bytes | None:
    """The digest that an artifact id stands for; None if it is the id of an artifact with a name."""
    found = None if artifact_id is None else _ID.fullmatch(artifact_id)
    return None if found is None else bytes.fromhex(found[1])


# from messages to blobs


def lighten(message: Message, blobs: BlobStore, limit: int) -> tuple[Message, dict[bytes, int]]:
    """The message with every part above the limit put as a blob and referred to, and the sizes of those blobs."""
    put: dict[bytes, int] = {}

    def light(part: Any) -> Any:
        content = _above(part, limit)
        if content is None:
            return part
        blob = blobs.put(pieces(content))
        put[blob.digest] = blob.size
        kept: dict[str, object] = {"data": None, "artifact_id": id_of(blob.digest)}
        if isinstance(part, Attachment):
            kept |= {"content": None, "size": blob.size if part.size is None else part.size}
        return replace(part, **kept)

    content, attachments = [light(part) for part in message.content], [light(one) for one in message.attachments]
    return (replace(message, content=content, attachments=attachments) if put else message), put


def _above(part: Any, limit: int) -> bytes | None:
    """What a part has inside it, if that is above the limit and the part does not refer to an artifact already."""
    if not isinstance(part, _MOVABLE) or part.artifact_id is not None:
        return None
    content = part.data
    if content is None and isinstance(part, Attachment) and part.content is not None:
        content = part.content.encode()
    return content if content is not None and len(content) > limit else None


def kept_by(message: Message, reader: Reader, blobs: BlobStore, put: dict[bytes, int]) -> Iterator[Kept]:
    """The blobs a message refers to, of which these have just been put; NotFound if one is not there."""
    for part in (*message.content, *message.attachments):
        digest = digest_of(getattr(part, "artifact_id", None))
        if digest is not None:
            size = put.get(digest)
            yield Kept(
                digest=digest,
                size=_size(digest, reader, blobs) if size is None else size,
                name=getattr(part, "name", None),
                mime_type=getattr(part, "mime_type", None),
                created_at=message.created_at,
            )


def _size(digest: bytes, reader: Reader, blobs: BlobStore) -> int:
    known = next(with_blob(reader, digest), None)
    if known is not None:
        return known.kept.size
    try:
        # Put again, so that gc knows that somebody is about to refer to it.
        return blobs.put(blobs.get(digest)).size
    except NotFound as cause:
        raise NotFound(f"there are no bytes {id_of(digest)!r} here; append the part with its data") from cause


# the row beside the message


def part_record(message: Key, part: int, kept: Kept) -> Record:
    """The record of a blob that the message at this place has."""
    history, branch, seq = str(message[0]), int(message[1]), int(message[2])
    stored = StoredPart(history=history, branch=branch, seq=seq, part=part, kept=kept)
    body = codec.encode(stored, "message part")
    return Record(PARTS, (history, branch, seq, part), body, codec.digest(body), (kept.digest,))


def read_part(record: Record) -> StoredPart:
    """What a record says of a message's part."""
    return codec.decode(record.body, StoredPart, f"part {record.key}")


def parts_at(reader: Reader, message: Key) -> list[StoredPart]:
    """The blobs that the message at this place has."""
    return [read_part(row) for row in reader.scan(Query(kind=PARTS, prefix=message))]


def with_blob(reader: Reader, digest: bytes) -> Iterator[StoredPart]:
    """The parts that have these bytes, of whatever messages."""
    for row in reader.scan(Query(kind=PARTS, where=(Filter("blob", "=", digest),))):
        yield read_part(row)
