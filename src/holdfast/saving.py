"""Saving a conversation whole: the leading messages that are there already stay, the rest becomes a branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import codec, history
from holdfast.appends import ROOT, Said, settle
from holdfast.contracts import MAX_BYTES, MAX_WRITES, Query, Reader, Record, Write
from holdfast.errors import Conflict, InvalidInput
from holdfast.history import Pointer, Seen
from holdfast.ids import check_id, new_id
from holdfast.kinds import MESSAGES
from holdfast.model import Json, Message, Moment, Session

_ROOM = 50  # writes of a commit besides its messages: head, branch, mark, title
_ROOM_BYTES = 1_000  # of a commit's bytes, what goes with a message: its usage, and a part of the head
FIELDS = (
    "agent_id",
    "user_id",
    "title",
    "model",
    "metadata",
    "tags",
    "status",
    "archived",
    "max_context_tokens",
)
_FROM_STORE = ("head", "updated_at", "last_message_at", "detached_by")


class Draft(Struct, frozen=True, gc=False):
    """A message to be saved, and whether the caller said when it was written."""

    said: Said
    timed: bool


def drafts(said: Sequence[Said], given: Sequence[Message | dict[str, Any]]) -> list[Draft]:
    """What was said, with what the caller left open; InvalidInput for a message that no commit takes."""
    for one in said:
        if len(one.body) + _ROOM_BYTES > MAX_BYTES:
            raise InvalidInput(
                f"message {one.message.id!r} has {len(one.body)} bytes, and a commit takes {MAX_BYTES}; "
                "store large parts as artifacts"
            )
    return [
        Draft(one, not isinstance(source, dict) or "created_at" in source)
        for one, source in zip(said, given, strict=True)
    ]


def fields_of(session: Session | Mapping[str, Json]) -> dict[str, Any]:
    """The fields that a caller gives to a session, by name; those the store fills in are left out."""
    given = (
        {name: getattr(session, name) for name in session.__struct_fields__}
        if isinstance(session, Session)
        else session
    )
    if not isinstance(given, Mapping):
        raise InvalidInput(f"a session is a Session or a dict of its fields, not {type(session).__name__}")
    unknown = [name for name in given if name not in Session.__struct_fields__]
    if unknown:
        raise InvalidInput(f"a session has no field {unknown[0]!r}; correct its name, or put it into metadata")
    fields = {name: value for name, value in given.items() if name not in _FROM_STORE}
    if isinstance(fields.get("created_at"), str):
        fields["created_at"] = _moment(fields["created_at"])
    return fields


def _moment(text: str) -> datetime:
    try:
        return msgspec.convert(text, Moment)
    except msgspec.ValidationError as cause:
        raise InvalidInput(f"created_at {text!r} is no time with a zone, such as 2026-01-31T12:00:00Z") from cause


class Saved(Struct, frozen=True):
    """The writes that bring a session to some messages, how many of these are then there, and whether it turns off."""

    writes: list[Write]
    count: int
    turns: bool


def place(reader: Reader, seen: Seen, given: Sequence[Draft], at: int) -> Saved:
    """Bring a session to these messages, as far as one commit goes."""
    pointer = seen.pointer
    if pointer.detached_by is not None:
        raise Conflict(f"session {pointer.session_id!r} is detached; bring it back with sessions.attach")
    common, last = _common(reader, pointer, given)
    if common == len(given):
        stands = _stand(pointer, last)
        moved = [] if stands is pointer else history.move(seen, replace(stands, updated_at=at))[1]
        return Saved(moved, common, turns=bool(moved))
    rest = _one_commit(_renamed(reader, pointer, given[common:]))
    parent = _parent(pointer, last)
    writes = settle(reader, seen, rest, parent, True, at).writes
    return Saved(writes, common + len(rest), turns=parent not in (None, pointer.message_id))


def changes_of(fields: Mapping[str, Any], present: Session) -> dict[str, Any]:
    """The given fields that the present session has otherwise; InvalidInput for what cannot be stored.

    They are compared by what would be stored: 42 is not 42.0.
    """
    given = {name: fields[name] for name in FIELDS if name in fields}
    changes = {name: value for name, value in given.items() if not codec.same(value, getattr(present, name))}
    for name in ("agent_id", "user_id"):
        if changes.get(name) is not None:
            check_id(changes[name], name)
    codec.check_json(changes.get("metadata"), "session metadata")
    codec.encode_value(replace(present, **changes), Session, "session")
    return changes


def _parent(pointer: Pointer, last: Record | None) -> str | None:
    """Behind which message the rest goes, as `settle` wants it: None where that is the head."""
    if last is None:
        return None if pointer.seq == 0 else ROOT
    return str(last.fields[0])


def _stand(pointer: Pointer, last: Record | None) -> Pointer:
    """The session pointing at its last common message; it goes on from there on a branch of its own."""
    if last is None:
        link = history.first_link(pointer.history)
        moved = replace(pointer, branch=history.ROOT_BRANCH, seq=0, link=link, message_id=None)
    else:
        _, branch, seq = last.key
        link, message_id = history.message_link(last), str(last.fields[0])
        moved = replace(pointer, branch=int(branch), seq=int(seq), link=link, message_id=message_id)
    return pointer if (moved.branch, moved.seq) == (pointer.branch, pointer.seq) else replace(moved, open=False)


def _common(reader: Reader, pointer: Pointer, given: Sequence[Draft]) -> tuple[int, Record | None]:
    """How many of the messages are there already, in this order from the first on, and the last of them."""
    count, last = 0, None
    for record in _path(reader, pointer):
        if count == len(given) or not _same(record, given[count]):
            break
        count, last = count + 1, record
    while count < len(given):
        found = history.find(reader, pointer.history, given[count].said.message.id)
        if found is None or not _follows(reader, pointer, found, last) or not _same(found, given[count]):
            break
        count, last = count + 1, found
    return count, last


def _path(reader: Reader, pointer: Pointer) -> Iterator[Record]:
    for run in history.segments(reader, pointer.history, pointer.branch, pointer.seq):
        yield from reader.scan(Query(kind=MESSAGES, prefix=(pointer.history, run.branch), low=run.low, high=run.high))


def _follows(reader: Reader, pointer: Pointer, record: Record, last: Record | None) -> bool:
    """Whether a message stands right behind another, where this session reaches it."""
    behind = None if last is None else last.fields[0]
    return history.before(reader, record.key) == behind and history.reaches(reader, pointer, record.key)


def _same(record: Record, draft: Draft) -> bool:
    """Whether a message is the stored one: in all but its id, and its time where the caller gave none."""
    if record.digest == draft.said.digest:
        return True
    before = codec.redacted_digest(record.body)
    if before is not None:
        return before == draft.said.digest or record.fields[0] == draft.said.message.id
    stored = codec.decode_message(record.body, f"message {record.fields[0]!r}")
    at = draft.said.message.created_at if draft.timed else stored.created_at
    return codec.same(replace(draft.said.message, id=stored.id, created_at=at), stored)


def _renamed(reader: Reader, pointer: Pointer, rest: Sequence[Draft]) -> list[Said]:
    """The messages, with new ids for those whose id another message of the history has."""
    ids = [draft.said.message.id for draft in rest]
    names = {id: new_id() for id in history.find_all(reader, pointer, ids)}
    return [_rename(draft.said, names) for draft in rest] if names else [draft.said for draft in rest]


def _rename(said: Said, names: Mapping[str, str]) -> Said:
    message = said.message
    named = replace(message, id=names.get(message.id, message.id))
    if message.compaction is not None:
        compaction = message.compaction
        tail, previous = compaction.tail_start_id, compaction.previous_id
        renamed = replace(
            compaction,
            tail_start_id=names.get(tail, tail),
            previous_id=None if previous is None else names.get(previous, previous),
        )
        named = replace(named, compaction=renamed)
    if named == message:
        return said
    body, plain = codec.encode_message(named)
    return Said(body, codec.digest(body), plain, said.usage, said.kept)


def _one_commit(said: Sequence[Said]) -> list[Said]:
    """As many of the leading messages as one commit takes; at least one, for the store to refuse if it must."""
    writes, size = _ROOM, 0
    for count, one in enumerate(said):
        writes += 1 + len(one.kept) + (one.usage is not None)
        size += len(one.body) + _ROOM_BYTES
        if count and (writes > MAX_WRITES or size > MAX_BYTES):
            return list(said[:count])
    return list(said)
