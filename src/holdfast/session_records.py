"""What is stored of a session: its own record, which changes seldom, beside the head that every append moves."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import codec
from holdfast.contracts import Record
from holdfast.errors import InvalidInput
from holdfast.history import Pointer
from holdfast.ids import moment
from holdfast.kinds import SESSIONS
from holdfast.model import Head, Json, Session, Value


class Stored(Value, frozen=True, kw_only=True):
    """What a session's own record says; the rest of a Session is its head's."""

    id: str
    uid: str
    history: str
    created_at: int
    agent_id: str | None = None
    title: str | None = None
    model: str | None = None
    metadata: dict[str, Json] | None = None
    tags: list[str] = []
    max_context_tokens: int | None = None
    origin: tuple[int, int] | None = None


def session_record(envelope: dict[str, Any]) -> Record:
    """The record of a session from its whole envelope."""
    codec.check_json(envelope.get("metadata"), "session metadata")
    body = codec.encode(envelope, "session")
    fields = (envelope.get("agent_id"), envelope["history"])
    return Record(SESSIONS, (envelope["id"],), body, codec.digest(body), fields)


def stored_record(stored: Stored) -> Record:
    """The record of a session."""
    return session_record(msgspec.to_builtins(stored))


def read_stored(record: Record) -> Stored:
    """What a session's record says."""
    return codec.decode(record.body, Stored, f"session {record.key[0]!r}")


def check_readable(session: Record, head: Record) -> None:
    """InvalidInput where a value would not read back."""
    try:
        msgspec.json.decode(session.body, type=Stored)
        msgspec.json.decode(head.body, type=Pointer)
    except msgspec.ValidationError as cause:
        raise InvalidInput(f"the session cannot be stored: {cause}") from cause


def head_view(pointer: Pointer) -> Head:
    """Where a session stands, for its reader."""
    return Head(branch=pointer.branch, seq=pointer.seq, message_id=pointer.message_id)


def view(stored: Stored, pointer: Pointer) -> Session:
    """A session as its reader sees it."""
    return Session(
        id=stored.id,
        agent_id=pointer.agent_id,
        user_id=pointer.user_id,
        title=stored.title,
        model=stored.model,
        metadata=stored.metadata,
        tags=stored.tags,
        archived=pointer.archived,
        status=pointer.status,
        max_context_tokens=stored.max_context_tokens,
        detached_by=pointer.detached_by,
        created_at=moment(stored.created_at),
        updated_at=moment(pointer.updated_at),
        last_message_at=pointer.last_message_at,
        head=head_view(pointer),
    )
