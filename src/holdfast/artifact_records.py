"""What is stored of an artifact: everything but its bytes, under its owner, its name and its version."""

from __future__ import annotations

from holdfast import codec, history
from holdfast.contracts import Put, Query, Reader, Record, Write
from holdfast.filters import Filter
from holdfast.ids import moment
from holdfast.kinds import ARTIFACTS
from holdfast.model import Artifact, Json, Value
from holdfast.parts import Kept, id_of

NOBODY = "-"  # the owner of what belongs to no session; a session's uid is a UUID


class StoredArtifact(Value, frozen=True, kw_only=True):
    """What an artifact's record says; `owner` is the uid of its session, `newest` says that no version is newer."""

    owner: str
    name: str
    version: int
    id: str
    session_id: str | None = None
    content_type: str | None = None
    size: int
    blob: bytes
    metadata: dict[str, Json] | None = None
    created_at: int
    newest: bool = True


def artifact_record(stored: StoredArtifact) -> Record:
    """The record of an artifact."""
    body = codec.encode(stored, "artifact")
    fields = (stored.id, stored.blob, int(stored.newest), stored.created_at)
    return Record(ARTIFACTS, (stored.owner, stored.name, stored.version), body, codec.digest(body), fields)


def read_artifact(record: Record) -> StoredArtifact:
    """What an artifact's record says."""
    return codec.decode(record.body, StoredArtifact, f"artifact {record.key}")


def view(stored: StoredArtifact) -> Artifact:
    """An artifact as its reader sees it."""
    return Artifact(
        id=stored.id,
        session_id=stored.session_id,
        name=stored.name,
        version=stored.version,
        content_type=stored.content_type,
        size=stored.size,
        digest=stored.blob.hex(),
        metadata=stored.metadata,
        created_at=moment(stored.created_at),
    )


def part_view(kept: Kept) -> Artifact:
    """A part of a message as an artifact: it has no session of its own, and one version."""
    return Artifact(
        id=id_of(kept.digest),
        name=kept.name or "",
        version=1,
        content_type=kept.mime_type,
        size=kept.size,
        digest=kept.digest.hex(),
        created_at=kept.created_at,
    )


def owner_of(reader: Reader, session_id: str | None) -> str | None:
    """Whose artifacts those of this session are; None if there is no such session."""
    if session_id is None:
        return NOBODY
    seen = history.look_up(reader, session_id)
    return None if seen is None else seen.pointer.uid


def find(reader: Reader, artifact_id: str) -> Record | None:
    """The record with this id, or None."""
    return next(iter(reader.scan(Query(kind=ARTIFACTS, where=(Filter("id", "=", artifact_id),)))), None)


def newest(reader: Reader, owner: str, name: str) -> Record | None:
    """The record of the newest version, or None."""
    return next(iter(reader.scan(Query(kind=ARTIFACTS, prefix=(owner, name), reverse=True, limit=1))), None)


def mark(record: Record | None, is_newest: bool) -> list[Write]:
    """The write that lets a version be the newest, or no longer; none if there is no such record."""
    if record is None:
        return []
    envelope = codec.decode_envelope(record.body, f"artifact {record.key}")
    body = codec.encode({**envelope, "newest": is_newest}, "artifact")
    id, blob, _, created_at = record.fields
    fields = (id, blob, int(is_newest), created_at)
    return [Put(Record(ARTIFACTS, record.key, body, codec.digest(body), fields), record.digest)]
