"""What is stored of checkpoints: the record itself, and for an agent's a row per session that had changed.

An owner's checkpoints are numbered. A session's head at an agent's checkpoint n is its row with the greatest number not
above n, so a checkpoint depends on no other and any of them can go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import get_args

from msgspec.structs import force_setattr

from holdfast import codec
from holdfast.contracts import Query, Reader, Record
from holdfast.errors import IntegrityError
from holdfast.filters import Filter
from holdfast.history import Pointer, Position
from holdfast.ids import moment
from holdfast.kinds import CAPTURES, CHECKPOINTS
from holdfast.model import (
    CHECKPOINT_KINDS,
    Checkpoint,
    CheckpointKind,
    CheckpointStatus,
    Head,
    Json,
    Moment,
    ToolCall,
    Value,
)


class KeptHead(Value, frozen=True, kw_only=True):
    """Where a session stood, as its checkpoint keeps it: a Head, and what vouches for it.

    `history` is told where it is not the session's own, as it is of one that was forked.
    """

    branch: int
    seq: int
    link: bytes
    n: int
    message_id: str | None = None
    history: str | None = None


class Standing(Value, frozen=True, kw_only=True):
    """What a checkpoint says of its place and of what it points at.

    Its owner is a session or an agent; `uid` is told unless the session has it for a name. `number` counts an owner's
    checkpoints in the order of writing, and `at` grows with it: the time, or where a clock was ahead of it a moment
    after the last. `texts` are those that `extra` leaves out since messages have them: branch, position, part and bytes
    of each, or the text itself where the message is not there.
    """

    id: str
    number: int = 0
    at: int = 0
    created_at: Moment
    uid: str | None = None
    session_id: str | None = None
    step: int | None = None
    texts: list[tuple[int, int, int, int] | str] = []
    head: KeptHead | None = None
    revision: int | None = None
    revision_link: bytes | None = None

    @property
    def owner(self) -> str:
        """The uid of the session or agent it belongs to."""
        return self.uid or self.session_id or ""

    @property
    def position(self) -> Position | None:
        """Where its session stood."""
        head = self.head
        if head is None:
            return None
        return Position(
            history=self.owner if head.history is None else head.history,
            branch=head.branch,
            seq=head.seq,
            link=head.link,
            n=head.n,
            message_id=head.message_id,
        )


class StoredCheckpoint(Standing, frozen=True, kw_only=True):
    """A checkpoint as it is kept. Its bytes can be read as a Checkpoint, too.

    A draft has no owner and no place yet, and no time of its own unless it expires.
    """

    expires_at: Moment | None = None
    kind: CheckpointKind = "manual"
    status: CheckpointStatus = "completed"
    agent_id: str | None = None
    run_id: str | None = None
    reason: str | None = None
    name: str | None = None
    protected: bool = False
    description: str | None = None
    metadata: dict[str, Json] | None = None
    partial_results: list[Json] = []
    tool_calls: list[ToolCall] = []
    extra: Json = None
    parent_id: str | None = None


def made_at(draft: StoredCheckpoint, now: datetime) -> datetime:
    """When a draft is made: the time to its end runs since it was drafted."""
    return now if draft.expires_at is None else draft.created_at


def told_uid(pointer: Pointer) -> str | None:
    """The uid that a session's checkpoints tell."""
    return None if pointer.uid == pointer.session_id else pointer.uid


def kept_head(pointer: Pointer) -> KeptHead:
    """Where a session stands, to be kept."""
    return KeptHead(
        branch=pointer.branch,
        seq=pointer.seq,
        link=pointer.link,
        n=pointer.n,
        message_id=pointer.message_id,
        history=None if pointer.history == pointer.uid else pointer.history,
    )


class Capture(Value, frozen=True, kw_only=True):
    """Where a session of an agent stood at one of its checkpoints; without a position it was gone."""

    session_id: str
    position: Position | None = None


class StoredCapture(Capture, frozen=True, kw_only=True):
    """A capture as it is kept: it repeats its key, so that no other can stand in its place."""

    agent: str
    session: str
    number: int


def checkpoint_record(stored: StoredCheckpoint, *, plain: bool | None = None) -> Record:
    """The record of a checkpoint; `plain` says whether it is that, where it is known."""
    if is_plain(stored) if plain is None else plain:
        body = codec.encode(stored, "checkpoint")
    else:
        body = codec.encode_value(stored, StoredCheckpoint, "checkpoint")
    fields = (stored.id, stored.step, stored.at)
    return Record(CHECKPOINTS, (stored.owner, stored.number), body, codec.digest(body), fields)


_LATEST = 253_402_300_799_999_999  # the last microsecond of the calendar
_read_view = codec.reader_of(Checkpoint)
_STATUSES = get_args(CheckpointStatus)


def is_plain(stored: StoredCheckpoint) -> bool:
    """Whether nothing of the caller's is in it but texts and a step, so that it surely reads back as it is."""
    return (
        stored.metadata is None
        and stored.extra is None
        and not stored.partial_results
        and not stored.tool_calls
        and not stored.texts
        and stored.kind in CHECKPOINT_KINDS
        and stored.status in _STATUSES
        and (stored.step is None or type(stored.step) is int)
        and type(stored.protected) is bool
        and (stored.reason is None or type(stored.reason) is str)
        and (stored.name is None or type(stored.name) is str)
        and (stored.description is None or type(stored.description) is str)
        and (stored.run_id is None or type(stored.run_id) is str)
        and (stored.parent_id is None or type(stored.parent_id) is str)
    )


def capture_record(agent: str, session: str, number: int, capture: Capture) -> Record:
    """The record of where a session stood."""
    position = capture.position
    stored = StoredCapture(
        agent=agent, session=session, number=number, session_id=capture.session_id, position=position
    )
    body = codec.encode(stored, "capture")
    return Record(CAPTURES, (agent, session, number), body, codec.digest(body))


def read_stored(record: Record) -> StoredCheckpoint:
    """What a checkpoint's record says; IntegrityError if its bytes are not what was written."""
    if codec.digest(record.body) != record.digest:
        raise IntegrityError(f"checkpoint {record.fields[0]!r} does not match its checksum")
    return codec.decode(record.body, StoredCheckpoint, f"checkpoint {record.fields[0]!r}")


def find(reader: Reader, checkpoint_id: str) -> Record | None:
    """A checkpoint's record by its id."""
    same = (Filter("id", "=", checkpoint_id),)
    return next(iter(reader.scan(Query(kind=CHECKPOINTS, where=same))), None)


def captured(reader: Reader, stored: StoredCheckpoint) -> dict[str, Capture]:
    """Where each session stood at this checkpoint, by uid, in the order of ids; those that were gone are left out."""
    if stored.head is not None and stored.session_id is not None:
        return {stored.owner: Capture(session_id=stored.session_id, position=stored.position)}
    newest: dict[str, Record] = {}
    for record in reader.scan(Query(kind=CAPTURES, prefix=(stored.owner,))):
        if int(record.key[2]) <= stored.number:
            newest[str(record.key[1])] = record
    found = {session: read_capture(record) for session, record in newest.items()}
    there = [(session, capture) for session, capture in found.items() if capture.position is not None]
    return dict(sorted(there, key=lambda one: one[1].session_id))  # uids of one millisecond have no order of their own


def read_capture(record: Record) -> Capture:
    """Where a session stood; IntegrityError if the bytes are not what was written."""
    if codec.digest(record.body) != record.digest:
        raise IntegrityError(f"where session {record.key[1]} stood at checkpoint {record.key[2]} is damaged")
    return codec.decode(record.body, Capture, f"capture {record.key}")


def was_captured(reader: Reader, agent: str, session: str) -> bool:
    """Whether any checkpoint of this agent knows of this session."""
    return next(iter(reader.scan(Query(kind=CAPTURES, prefix=(agent, session), limit=1))), None) is not None


def view(record: Record) -> Checkpoint:
    """A checkpoint as its reader sees it; a damaged one says so and little else."""
    if codec.digest(record.body) != record.digest:
        return _damaged(record, "does not match its checksum")
    try:
        return _vouched([record])[0]
    except codec.UNREADABLE as cause:
        return _damaged(record, f"cannot be read: {cause}")


def views(found: Sequence[Record]) -> list[Checkpoint] | None:
    """The same of many in one go, for which their fields are not needed; None if one of them is damaged."""
    if [sha256(record.body).digest() for record in found] == [record.digest for record in found]:
        with suppress(*codec.UNREADABLE):
            return _vouched(found)
    return None


def _vouched(found: Sequence[Record]) -> list[Checkpoint]:
    """Checkpoints with what vouches for them."""
    read = [*map(_read_view, [record.body for record in found])]
    for seen, record in zip(read, found, strict=True):
        force_setattr(seen, "size_bytes", len(record.body))
        force_setattr(seen, "checksum", record.digest.hex())
    return read


def shown(stored: StoredCheckpoint, record: Record) -> Checkpoint:
    """A usual checkpoint that was just made, as its reader will see it."""
    at = stored.head
    # Each by name, since a list of names takes more than twice as long; and few, since each takes its time.
    return Checkpoint(
        id=stored.id,
        agent_id=stored.agent_id,
        session_id=stored.session_id,
        kind=stored.kind,
        step=stored.step,
        parent_id=stored.parent_id,
        created_at=stored.created_at,
        head=None if at is None else Head(branch=at.branch, seq=at.seq, message_id=at.message_id),
        size_bytes=len(record.body),
        checksum=record.digest.hex(),
    )


def _damaged(record: Record, what: str) -> Checkpoint:
    checkpoint_id, step, at = record.fields
    return Checkpoint(
        id=str(checkpoint_id),
        step=step if isinstance(step, int) else None,
        created_at=moment(max(0, min(at, _LATEST)) if isinstance(at, int) else 0),
        size_bytes=len(record.body),
        checksum=record.digest.hex() if isinstance(record.digest, bytes) else "",
        damaged=f"checkpoint {checkpoint_id!r} {what}",
    )


def newest_first(reader: Reader, owner: str) -> Iterator[Record]:
    """An owner's checkpoints, the last written first."""
    return reader.scan(Query(kind=CHECKPOINTS, prefix=(owner,), reverse=True))


def at_position(pointer: Pointer, position: Position) -> bool:
    """Whether a session stands there."""
    place = (position.history, position.branch, position.seq)
    return (pointer.history, pointer.branch, pointer.seq) == place
