"""What is stored of a session: its own record, which changes seldom, beside the head that every append moves."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import codec
from holdfast.contracts import Record
from holdfast.history import Pointer
from holdfast.ids import moment
from holdfast.kinds import SESSIONS
from holdfast.model import Head, Json, Session, Value, Whole


class Stored(Value, frozen=True, kw_only=True):
    """What a session's own record says; the rest of a Session is its head's.

    `forked_at` is the session, by its uid, branch and position it was forked at, sharing storage or not; `users` are
    others whose words it may hold, since it was theirs or was forked from one of theirs.
    """

    id: str
    uid: str
    history: str
    created_at: int
    agent_id: str | None = None
    title: str | None = None
    model: str | None = None
    metadata: dict[str, Json] | None = None
    tags: list[str] = []
    max_context_tokens: Whole | None = None
    origin: tuple[int, int] | None = None
    forked_at: tuple[str, int, int] | None = None
    users: list[str] = []


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


def check_readable(stored: Stored, pointer: Pointer) -> None:
    """InvalidInput where a value would not read back as it was given."""
    codec.encode_value(stored, Stored, "session")
    codec.encode_value(pointer, Pointer, "session")


def check_changes(changes: dict[str, Any]) -> None:
    """InvalidInput where a changed value would not read back as it was given."""
    codec.check_json(changes.get("metadata"), "session metadata")
    codec.encode_value(Stored(id="", uid="", history="", created_at=0, **changes), Stored, "session")


def same_session(given: tuple[Stored, Pointer], present: tuple[Stored, Pointer]) -> bool:
    """Whether the session that is there is the one given; a title that was not given may have been made since."""
    stored, pointer = given
    if stored.title is not None and stored.title != present[0].title:
        return False
    in_record = ("agent_id", "model", "metadata", "tags", "max_context_tokens", "forked_at")
    in_head = ("user_id", "status", "archived")
    return all(codec.same(getattr(stored, name), getattr(present[0], name)) for name in in_record) and all(
        getattr(pointer, name) == getattr(present[1], name) for name in in_head
    )


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
