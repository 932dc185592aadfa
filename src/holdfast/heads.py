"""Heads: where each session stands, in the one small record that an append rewrites.

A restore of more sessions than one commit can move writes the new place beside the old one into each head, where
nobody goes by it, and then publishes: one commit says in the agent's `Restore` record that the new places count.
So whoever reads a head goes by the old places or by the new ones, and only a head with a place `pending` asks which.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import codec
from holdfast.commits import get
from holdfast.contracts import Insert, Put, Query, Reader, Record, Write
from holdfast.errors import NotFound
from holdfast.filters import Filter, matches
from holdfast.kinds import HEADS, MARKS, RESTORES
from holdfast.model import Moment, SessionStatus, Value

_LOOKS = 5


class Pending(Value, frozen=True, kw_only=True):
    """Where a session will stand once the restore `by` is published."""

    by: str
    branch: int
    seq: int
    link: bytes
    open: bool
    updated_at: int
    message_id: str | None = None
    detached_by: str | None = None


class Pointer(Value, frozen=True, kw_only=True):
    """Where a session stands. The one record an append rewrites, so it is small.

    `uid` tells sessions of the same id apart. `open` says that the next append continues this branch: it ends
    here and is this session's own. `n` is the number of messages the session has written or inherited.
    `marked` says that its agent's next checkpoint will look at it. Its checkpoints are numbered, `checkpoints` is the
    last number and `checkpoint_at` its place in time. `checkpoint_step` is the greatest step that one of them
    has had, -1 without any, so that who makes a later one need not look for another of the same; None is not known,
    since the session is older than this field.
    Stamps are microseconds.
    """

    session_id: str
    uid: str
    history: str
    branch: int
    seq: int
    link: bytes
    n: int
    created_at: int
    updated_at: int
    open: bool = True
    message_id: str | None = None
    last_message_at: Moment | None = None
    agent_id: str | None = None
    user_id: str | None = None
    status: SessionStatus = "active"
    archived: bool = False
    detached_by: str | None = None
    titled: bool = False
    marked: bool = False
    checkpoints: int = 0
    checkpoint_at: int = 0
    checkpoint_id: str | None = None
    checkpoint_step: int | None = None
    pending: Pending | None = None


class Position(Value, frozen=True, kw_only=True):
    """A place in a history that a session can point at."""

    history: str
    branch: int
    seq: int
    link: bytes
    n: int
    message_id: str | None = None


class Seen(Struct, frozen=True, gc=False):
    """A pointer as it was last seen in the store, with fields that only a later version knows."""

    pointer: Pointer
    digest: bytes
    later: dict[str, Any]


class Restore(Value, frozen=True, kw_only=True):
    """A restore under way of an agent's many sessions: `by` is its recovery checkpoint, `at` when it began (µs)."""

    agent_id: str
    by: str
    at: int
    published: bool = False


def pointer_record(pointer: Pointer, later: dict[str, Any]) -> Record:
    """The record that stores a pointer."""
    content = {**msgspec.to_builtins(pointer), **later} if later else pointer
    body = codec.encode(content, "session head")
    fields = (
        pointer.agent_id,
        pointer.user_id,
        pointer.status,
        pointer.detached_by,
        1 if pointer.archived else 0,
        pointer.created_at,
        pointer.updated_at,
    )
    return Record(HEADS, (pointer.session_id,), body, hashlib.sha256(body).digest(), fields)


class Mark(Value, frozen=True, kw_only=True):
    """A session whose head has moved, or which has come or gone, since its agent's last checkpoint."""

    agent_id: str
    session: str
    session_id: str


def mark(pointer: Pointer, agent_id: str) -> Put:
    """The write that tells an agent's next checkpoint to look at this session."""
    body = codec.encode(Mark(agent_id=agent_id, session=pointer.uid, session_id=pointer.session_id), "mark")
    return Put(Record(MARKS, (agent_id, pointer.uid), body, codec.digest(body)))


def position_of(pointer: Pointer) -> Position:
    """The place a session points at."""
    return Position(
        history=pointer.history,
        branch=pointer.branch,
        seq=pointer.seq,
        link=pointer.link,
        n=pointer.n,
        message_id=pointer.message_id,
    )


def checkpointed(pointer: Pointer, checkpoint_id: str, now: int, step: int | None = None) -> Pointer:
    """The pointer once this checkpoint is made; its number and its place in time are then the pointer's."""
    greatest = pointer.checkpoint_step
    if step is not None and greatest is not None and step > greatest:
        greatest = step
    return replace(
        pointer,
        checkpoints=pointer.checkpoints + 1,
        checkpoint_at=next_stamp(now, pointer.checkpoint_at),
        checkpoint_id=checkpoint_id,
        checkpoint_step=greatest,
    )


def next_stamp(now: int, last: int) -> int:
    """The present time, or where another's clock was ahead of it, a moment after the last."""
    return now if now > last else last + 1


def new_head(pointer: Pointer) -> tuple[Seen, list[Write]]:
    """The head of a session that begins, and the writes that put it there."""
    marks: list[Write] = [] if pointer.agent_id is None else [mark(pointer, pointer.agent_id)]
    none: dict[str, Any] = {"checkpoints": 0, "checkpoint_at": 0, "checkpoint_id": None, "checkpoint_step": -1}
    pointer = replace(pointer, marked=bool(marks), pending=None, **none)
    record = pointer_record(pointer, {})
    return Seen(pointer, record.digest, {}), [Insert(record), *marks]


def move(seen: Seen, pointer: Pointer) -> tuple[Seen, list[Write]]:
    """The head in its new place, and the writes that put it there; a place that was pending is so no more."""
    writes: list[Write] = []
    if pointer.pending is not None:
        pointer = replace(pointer, pending=None)
    if pointer.agent_id is not None and not pointer.marked:
        writes.append(mark(pointer, pointer.agent_id))
        pointer = replace(pointer, marked=True)
    record = pointer_record(pointer, seen.later)
    return Seen(pointer, record.digest, seen.later), [Put(record, seen.digest), *writes]


def uid_of(record: Record) -> str:
    """What tells a session or agent, by its head or its own record, from others that have had its id."""
    return codec.decode_uid(record.body, record.kind.name, record.key[0])


def see(reader: Reader | None, record: Record) -> Seen:
    """What a stored head says, as it counts; without a reader, as it is stored."""
    pointer, later = codec.decode_with_later(record.body, Pointer, "head of session", record.key[0])
    if pointer.pending is not None and reader is not None:
        pointer = resolved(pointer, restore_of(reader, pointer.agent_id))
    return Seen(pointer, record.digest, later)


def settled(reader: Reader, record: Record) -> Record:
    """A stored head as it counts, with nothing pending: what it will be when a restore under way is settled."""
    pointer = codec.decode(record.body, Pointer, f"head of session {record.key[0]!r}")
    if pointer.pending is None:
        return record
    seen = see(reader, record)
    moved = is_published(pointer.pending, restore_of(reader, pointer.agent_id))
    marked = seen.pointer.marked or (moved and pointer.agent_id is not None)
    return pointer_record(replace(seen.pointer, pending=None, marked=marked), seen.later)


def look_up(reader: Reader, session_id: str) -> Seen | None:
    """The session's head, or None if there is no such session."""
    record = get(reader, HEADS, session_id)
    return None if record is None else see(reader, record)


def must_see(reader: Reader, session_id: str) -> Seen:
    """The session's head; NotFound if there is no such session."""
    seen = look_up(reader, session_id)
    if seen is None:
        raise NotFound(f"there is no session {session_id!r}; create it with sessions.create(id=…)")
    return seen


# restores under way


def restore_record(restore: Restore) -> Record:
    """The record of a restore under way."""
    body = codec.encode(restore, "restore")
    return Record(RESTORES, (restore.agent_id,), body, codec.digest(body))


def read_restore(record: Record) -> Restore:
    """What the record of a restore says."""
    return codec.decode(record.body, Restore, f"restore of agent {record.key[0]!r}")


def restore_of(reader: Reader, agent_id: str | None) -> Restore | None:
    """The restore under way of an agent's sessions, published or not."""
    record = None if agent_id is None else get(reader, RESTORES, agent_id)
    return None if record is None else read_restore(record)


def is_published(pending: Pending, restore: Restore | None) -> bool:
    """Whether a pending place counts."""
    return restore is not None and restore.published and restore.by == pending.by


def resolved(pointer: Pointer, restore: Restore | None) -> Pointer:
    """The head as it counts: at its pending place if that is published; it keeps it until it is moved or settled."""
    pending = pointer.pending
    if pending is None or not is_published(pending, restore):
        return pointer
    return replace(
        pointer,
        branch=pending.branch,
        seq=pending.seq,
        link=pending.link,
        open=pending.open,
        message_id=pending.message_id,
        detached_by=pending.detached_by,
        marked=False,
        updated_at=max(pointer.updated_at, pending.updated_at),
    )


def scan_heads(reader: Reader, query: Query) -> Iterator[Seen]:
    """The heads that match, in order, as they count."""
    restores = _published(reader, query.where)
    if restores:
        return iter(_resolve_all(reader, query, restores))
    return (seen for record in reader.scan(query) if _counts(seen := see(reader, record), record, query.where))


def count_heads(reader: Reader, where: tuple[Filter, ...]) -> int:
    """How many heads match, as they count."""
    for _ in range(_LOOKS):
        restores = _published(reader, where)
        query = Query(kind=HEADS, where=where)
        count = len(_resolve_all(reader, query, restores)) if restores else reader.count(query)
        if _published(reader, where) == restores:
            break
    return count


def _published(reader: Reader, where: tuple[Filter, ...]) -> dict[str, Restore]:
    """The restores, by agent, that count and whose heads are not all settled yet; nearly always none."""
    agents = [str(one.value) for one in where if one.field == "agent_id" and one.compare == "=" and one.value]
    rows = reader.get(RESTORES, [(agents[0],)]) if agents else reader.scan(Query(kind=RESTORES))
    found = (read_restore(row) for row in rows if row is not None)
    return {restore.agent_id: restore for restore in found if restore.published}


def _counts(seen: Seen, record: Record, where: tuple[Filter, ...]) -> bool:
    """Whether a head still matches if a restore was published while it was looked for."""
    return seen.pointer.pending is None or matches({**record.values(), **_values(seen.pointer)}, where)


def _values(pointer: Pointer) -> dict[str, Any]:
    return {"detached_by": pointer.detached_by, "updated_at": pointer.updated_at}


def _resolve_all(reader: Reader, query: Query, restores: Mapping[str, Restore]) -> list[Seen]:
    """The heads that match while restores are published and not settled: their fields are not to be trusted."""
    found: list[tuple[tuple[Any, ...], Seen]] = []
    for record in reader.scan(Query(kind=HEADS)):
        seen = see(None, record)
        pointer = resolved(seen.pointer, restores.get(seen.pointer.agent_id or ""))
        values = {**record.values(), **_values(pointer)}
        order = record.key if query.order is None else (values[query.order], *record.key)
        behind = query.after is None or (order < query.after if query.reverse else order > query.after)
        if behind and matches(values, query.where):
            found.append((order, Seen(pointer, seen.digest, seen.later)))
    found.sort(key=lambda pair: pair[0], reverse=query.reverse)
    return [seen for _, seen in found[: query.limit]]
