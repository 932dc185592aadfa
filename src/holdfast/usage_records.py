"""What was used, and for whom it counts: beside a message that is stored at its place, or numbered in its session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast import codec, history
from holdfast.commits import get, next_number
from holdfast.contracts import Insert, Key, Query, Reader, Record, Write
from holdfast.errors import AlreadyExists, Conflict
from holdfast.filters import Filter
from holdfast.heads import scan_heads
from holdfast.history import Branch, Pointer
from holdfast.kinds import EXTRA_USAGES, HEADS, MESSAGES, SESSIONS, USAGES
from holdfast.model import Usage

_CHUNK = 200


class StoredUsage(Usage, frozen=True, kw_only=True):
    """A use of no message: `session` is its session's uid, `n` its number there, `after` the messages before it."""

    session: str
    n: int
    after: int


class _Sharer(Struct, frozen=True, gc=False):
    """A living session of a history, and how far it reaches."""

    pointer: Pointer
    reached: dict[int, int | None]


def read_extra(record: Record) -> StoredUsage:
    """What the record of a use that belongs to no message says."""
    return codec.decode(record.body, StoredUsage, f"usage {record.fields[0]!r}")


def view(stored: StoredUsage) -> Usage:
    """Such a use as its reader sees it."""
    return Usage(**{name: getattr(stored, name) for name in Usage.__struct_fields__})


def add(reader: Reader, pointer: Pointer, usage: Usage) -> tuple[list[Write], Usage]:
    """The writes that record a use, none where it is on record already; and the use as it then stands."""
    usage = replace(usage, session_id=pointer.session_id)
    same = (Filter("id", "=", usage.id),)
    present = next(iter(reader.scan(Query(kind=EXTRA_USAGES, prefix=(pointer.uid,), where=same))), None)
    if present is not None:
        if codec.encode(view(read_extra(present)), "usage") != codec.encode(usage, "usage"):
            raise AlreadyExists(f"usage {usage.id!r} exists with other content; give the new one its own id", present)
        return [], usage
    if pointer.detached_by is not None:
        raise Conflict(f"session {pointer.session_id!r} is detached; bring it back with sessions.attach")
    said = {name: getattr(usage, name) for name in Usage.__struct_fields__}
    n = next_number(reader, EXTRA_USAGES, pointer.uid)
    body = codec.encode(StoredUsage(**said, session=pointer.uid, n=n, after=pointer.n), "usage")
    return [Insert(Record(EXTRA_USAGES, (pointer.uid, n), body, codec.digest(body), (usage.id,)))], usage


def tokens_of(usage: Usage) -> int:
    """All the tokens of a use: its total, or where it names none its input and output."""
    return usage.total or usage.input + usage.output


# what one session used


def used_in(reader: Reader, pointer: Pointer) -> Iterator[tuple[Key, Usage]]:
    """What the messages a session reaches have used, with their places."""
    session = get(reader, SESSIONS, pointer.session_id)
    reached = {} if session is None else history.reach_of(reader, session, pointer.history)
    for branch, end in sorted(reached.items()):
        rows = reader.scan(Query(kind=USAGES, prefix=(pointer.history, branch), high=end))
        yield from ((row.key, _read(row)) for row in rows)


def extras_of(reader: Reader, session: str) -> Iterator[StoredUsage]:
    """What a session used beside its messages, in the order it was recorded."""
    return map(read_extra, reader.scan(Query(kind=EXTRA_USAGES, prefix=(session,))))


def spent_in(reader: Reader, pointer: Pointer) -> Iterator[Usage]:
    """Everything a session used, what it shares with others included."""
    yield from (usage for _, usage in used_in(reader, pointer))
    yield from extras_of(reader, pointer.uid)


def listed(reader: Reader, pointer: Pointer) -> list[Usage]:
    """Everything a session used, in the order in which messages and uses were written."""
    used = list(used_in(reader, pointer))
    ordered: list[tuple[tuple[int, int], Usage]] = []
    for start in range(0, len(used), _CHUNK):
        chunk = used[start : start + _CHUNK]
        for row, (_, usage) in zip(reader.get(MESSAGES, [key for key, _ in chunk]), chunk, strict=True):
            if row is not None:
                message_id, n = str(row.fields[0]), int(row.fields[1] or 0)
                ordered.append(((n, 0), replace(usage, session_id=pointer.session_id, message_id=message_id)))
    ordered += [((extra.after, extra.n), view(extra)) for extra in extras_of(reader, pointer.uid)]
    return [usage for _, usage in sorted(ordered, key=lambda pair: pair[0])]


def _read(row: Record) -> Usage:
    return codec.decode(row.body, Usage, f"usage of message {row.key[2]}")


# what everybody used


def spent(reader: Reader, where: tuple[Filter, ...]) -> Iterator[tuple[Pointer, Usage]]:
    """Every use once, with the session it counts for, of the attached sessions whose heads pass the filters.

    It counts for the session that wrote it; after that one's end, for the oldest that still shares it.
    """
    attached = (*where, Filter("detached_by", "=", None))
    heads = scan_heads(reader, Query(kind=HEADS, where=attached))
    pointers = {seen.pointer.uid: seen.pointer for seen in heads}
    for past in dict.fromkeys(pointer.history for pointer in pointers.values()):
        for uid, usage in _owned(reader, past):
            if uid in pointers:
                yield pointers[uid], usage
    for uid, pointer in pointers.items():
        yield from ((pointer, extra) for extra in extras_of(reader, uid))


def _owned(reader: Reader, past: str) -> Iterator[tuple[str, Usage]]:
    """What the messages of a history have used, each with the uid of the session it counts for."""
    sessions = list(reader.scan(Query(kind=SESSIONS, where=(Filter("history", "=", past),))))
    branches = history.branches_of(reader, past) if len(sessions) > 1 else {}
    sharers = _sharers(reader, sessions, branches)
    for row in reader.scan(Query(kind=USAGES, prefix=(past,))):
        owner = _owner(sharers, branches, int(row.key[1]), int(row.key[2]))
        if owner is not None:
            yield owner, _read(row)


def _sharers(reader: Reader, sessions: Sequence[Record], branches: dict[int, Branch]) -> list[_Sharer]:
    """Those of a history's sessions that are attached, oldest first."""
    found = []
    for session, head in zip(sessions, reader.get(HEADS, [session.key for session in sessions]), strict=True):
        pointer = None if head is None else history.see(reader, head).pointer
        if pointer is not None and pointer.detached_by is None:
            found.append(_Sharer(pointer, history.reach_from(session, branches)))
    return sorted(found, key=lambda one: (one.pointer.created_at, one.pointer.uid))


def _owner(sharers: Sequence[_Sharer], branches: dict[int, Branch], branch: int, seq: int) -> str | None:
    """Whose a place is; with no branches to look at, the only session's."""
    if not branches:
        return sharers[0].pointer.uid if sharers else None
    opener = branches[branch].opened_by if branch in branches else None
    reaching = [one.pointer.uid for one in sharers if history.within_reach(one.reached, branch, seq)]
    return opener if opener in reaching else next(iter(reaching), None)
