"""Appending: from what was said to the writes that add it at the head or on a new branch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast import codec, parts
from holdfast.commits import get
from holdfast.contracts import BlobStore, Insert, Put, Reader, Record, Write
from holdfast.errors import AlreadyExists, InvalidInput
from holdfast.history import (
    ROOT_BRANCH,
    Branch,
    Pointer,
    Seen,
    Segment,
    before,
    branch_link,
    branch_record,
    check_attached,
    find_all,
    find_reached,
    first_link,
    message_link,
    move,
    next_branch,
    next_link,
    reaches,
    read,
    usage_record,
)
from holdfast.kinds import MESSAGES, SESSIONS
from holdfast.model import Message, Text, Usage, title_from
from holdfast.parts import MARK, Kept, part_record
from holdfast.providers import message_from

ROOT = ""  # as a parent: in front of the first message; no message can have this id


class Said(Struct, frozen=True, gc=False):
    """A message ready to be placed: its bytes, their digest, and the value they read back as.

    One that is not `dated` got its time here, so that the same said again has another.
    """

    body: bytes
    digest: bytes
    message: Message
    usage: Usage | None
    kept: tuple[Kept, ...] = ()
    dated: bool = True


class Appended(Struct, frozen=True, gc=False):
    """A placed append: the writes, the head they leave, and the messages in place."""

    writes: list[Write]
    seen: Seen
    messages: list[Message]


def say(messages: Sequence[Message | dict[str, Any]]) -> list[Said]:
    """Encode and check what is to be appended."""
    said = []
    for message in messages:
        dated = True
        if type(message) is not Message:
            dated = not isinstance(message, dict) or "created_at" in message
            message = message_from(message)
        body, plain = codec.encode_message(message)
        usage = message.usage
        if usage is not None and not isinstance(usage, Usage):
            raise InvalidInput(f"usage is a Usage, not {type(usage).__name__}")
        said.append(Said(body, codec.digest(body), plain, usage, dated=dated))
    if len(said) > 1 and len({one.message.id for one in said}) < len(said):
        raise InvalidInput("two of the messages have the same id")
    return said


def has_blobs(said: Sequence[Said], limit: int) -> bool:
    """Whether a message may have a part above the limit, or refers to a blob: what `lighten` is for."""
    for one in said:  # every append asks, so a plain text is not searched
        said_plainly = len(one.message.content) == 1 and type(one.message.content[0]) is Text
        if len(one.body) > limit or ((not said_plainly or one.message.attachments) and MARK in one.body):
            return True
    return False


def lighten(said: Sequence[Said], reader: Reader, blobs: BlobStore, limit: int) -> list[Said]:
    """The same with large parts put as blobs, and with the blobs that each message has."""
    return [_lighten(one, reader, blobs, limit) if has_blobs((one,), limit) else one for one in said]


def _lighten(one: Said, reader: Reader, blobs: BlobStore, limit: int) -> Said:
    message, put = parts.lighten(one.message, blobs, limit)
    kept = tuple(parts.kept_by(message, reader, blobs, put))
    if not put:
        return replace(one, kept=kept)
    body, plain = codec.encode_message(message)
    return replace(one, body=body, digest=codec.digest(body), message=plain, kept=kept)


def wants_title(pointer: Pointer, said: Sequence[Said]) -> str | None:
    """The title this append would give to a session that has none."""
    if pointer.titled:
        return None
    first = next((one.message for one in said if one.message.role == "user"), None)
    return None if first is None else title_from(first.text)


def goes_on(pointer: Pointer, said: Sequence[Said]) -> bool:
    """Whether these can be placed behind the head as it was seen, without a look at anything else."""
    named = pointer.titled or wants_title(pointer, said) is None
    return named and pointer.open and pointer.detached_by is None


def extend(seen: Seen, said: Sequence[Said], at: int) -> Appended:
    """Place messages behind the head, on its own branch."""
    pointer = seen.pointer
    history, branch = pointer.history, pointer.branch
    seq, n, link, parent = pointer.seq, pointer.n, pointer.link, pointer.message_id
    inserts: list[Write] = []
    placed: list[Message] = []
    for one in said:
        seq += 1
        n += 1
        link = next_link(link, one.digest, n)
        message = one.message
        record = Record(MESSAGES, (history, branch, seq), one.body, one.digest, (message.id, n, link))
        inserts.append(Insert(record))
        if one.usage is not None:
            inserts.append(Insert(usage_record(record.key, one.usage)))
        if one.kept:
            inserts += [Insert(part_record(record.key, part, kept)) for part, kept in enumerate(one.kept, 1)]
        placed.append(
            replace(message, session_id=pointer.session_id, branch=branch, seq=seq, parent_id=parent, usage=one.usage)
        )
        parent = message.id
    moved = replace(
        pointer, seq=seq, n=n, link=link, message_id=parent, updated_at=at, last_message_at=message.created_at
    )
    now_seen, writes = move(seen, moved)
    return Appended(writes + inserts, now_seen, placed)


def settle(reader: Reader, seen: Seen, said: Sequence[Said], parent: str | None, activate: bool, at: int) -> Appended:
    """Place messages as the store now is: found ones stay, new ones go behind their parent."""
    pointer = seen.pointer
    check_attached(pointer)
    present = find_all(reader, pointer, [one.message.id for one in said])
    known = {one.message.id: _known(reader, pointer, one, present.get(one.message.id)) for one in said}
    _check_parent(reader, known, said, parent)
    fresh = [one for one in said if known[one.message.id] is None]
    if not fresh:
        return Appended([], seen, [_found(reader, known, one, pointer) for one in said])
    pointer, naming = _title(reader, pointer, fresh)
    lead = [one.message.id for one in takewhile(lambda one: known[one.message.id] is not None, said)]
    base, opening = _stand(reader, pointer, lead[-1] if lead and parent is not None else parent)
    appended = extend(replace(seen, pointer=base), fresh, at)
    if opening and not activate:
        appended = _leave_head(appended, pointer, seen)
    placed = {message.id: message for message in appended.messages}
    messages = [placed.get(one.message.id) or _found(reader, known, one, pointer) for one in said]
    return replace(appended, writes=[*opening, *naming, *appended.writes], messages=messages)


def _known(reader: Reader, pointer: Pointer, one: Said, present: Record | None) -> Record | None:
    """What is there of this id, if that is the same message; AlreadyExists if it is another."""
    if present is None:
        return None
    digest = codec.redacted_digest(present.body) or present.digest
    if digest != (one.digest if one.dated else _digest_as_of(present, one)):
        raise AlreadyExists(
            f"message {one.message.id!r} exists with other content; give the new one its own id", present
        )
    if not reaches(reader, pointer, present.key):
        raise AlreadyExists(
            f"message {one.message.id!r} stands in another session of this history; give the new one its own id",
            present,
        )
    return present


def _digest_as_of(present: Record, one: Said) -> bytes:
    """What the message would hash to, had it been said when the one that is there was."""
    at = codec.decode_message(present.body, f"message {one.message.id!r}").created_at
    return codec.digest(codec.encode_message(replace(one.message, created_at=at))[0])


def _check_parent(reader: Reader, known: dict[str, Record | None], said: Sequence[Said], parent: str | None) -> None:
    """A message found again behind another parent is no repetition, but a second use of its id."""
    first = known[said[0].message.id] if said and parent is not None else None
    if first is not None and (before(reader, first.key) or ROOT) != parent:
        raise AlreadyExists(f"message {said[0].message.id!r} stands behind another parent; give the new one its own id")


def _found(reader: Reader, known: dict[str, Record | None], one: Said, pointer: Pointer) -> Message:
    record = known[one.message.id]
    assert record is not None
    _, branch, seq = record.key
    here = Segment(branch=int(branch), low=int(seq), high=int(seq), before_id=before(reader, record.key))
    return next(read(reader, pointer.session_id, pointer.history, here))


def _stand(reader: Reader, pointer: Pointer, parent: str | None) -> tuple[Pointer, list[Write]]:
    """The pointer to extend, and the branch to open first where the append does not go on at the head."""
    here = pointer.message_id or ROOT
    if parent in (None, here) and pointer.open:
        return pointer, []
    origin = pointer
    if parent is not None and parent != here:
        origin = _at_parent(reader, pointer, parent)
    number = next_branch(reader, pointer.history)
    branch = Branch(
        history=pointer.history,
        branch=number,
        opened_by=pointer.uid,
        parent=origin.branch,
        fork_seq=origin.seq,
        fork_link=origin.link,
        fork_id=origin.message_id,
        numbered=True,
    )
    return replace(origin, branch=number, open=True, link=branch_link(branch)), [Insert(branch_record(branch))]


def _at_parent(reader: Reader, pointer: Pointer, parent: str) -> Pointer:
    if parent == ROOT:
        link = first_link(pointer.history)
        return replace(pointer, branch=ROOT_BRANCH, seq=0, link=link, message_id=None)
    record = find_reached(reader, pointer, parent)
    _, branch, seq = record.key
    return replace(pointer, branch=int(branch), seq=int(seq), link=message_link(record), message_id=parent)


def _leave_head(appended: Appended, pointer: Pointer, seen: Seen) -> Appended:
    """The same append with the head left where it was; only the counters move."""
    moved = appended.seen.pointer
    stays = replace(pointer, n=moved.n, updated_at=moved.updated_at, last_message_at=moved.last_message_at)
    now_seen, writes = move(seen, stays)
    inserts = [write for write in appended.writes if isinstance(write, Insert)]
    return replace(appended, writes=writes + inserts, seen=now_seen)


def _title(reader: Reader, pointer: Pointer, fresh: Sequence[Said]) -> tuple[Pointer, list[Write]]:
    """Name a session that has no name after its first user message."""
    title = wants_title(pointer, fresh)
    session = get(reader, SESSIONS, pointer.session_id) if title is not None else None
    if session is None:
        return pointer, []
    envelope = codec.decode_envelope(session.body, f"session {pointer.session_id!r}")
    body = codec.encode({**envelope, "title": title}, "session")
    named = Record(SESSIONS, session.key, body, codec.digest(body), session.fields)
    return replace(pointer, titled=True), [Put(named, session.digest)]
