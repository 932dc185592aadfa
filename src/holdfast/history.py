"""A history is a tree of branches; a session points into it.

A branch is (id, parent, fork position); a message sits at (history, branch, seq). So the path to a head is
a few range reads, never a walk from message to message.

Each message is chained: link = sha256(previous link ‖ digest of the body ‖ n), where n counts the writes of
its session across branches. The chain of a branch begins with its number. So the chain vouches for place and order;
the body says only what was said.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator, Sequence
from itertools import chain, tee
from typing import Any

from msgspec.structs import replace

from holdfast import codec
from holdfast.commits import get
from holdfast.contracts import Key, Query, Reader, Record
from holdfast.errors import Conflict, CorruptData, NotFound
from holdfast.filters import Filter
from holdfast.heads import (
    Mark,
    Pointer,
    Position,
    Seen,
    checkpointed,
    look_up,
    mark,
    move,
    must_see,
    new_head,
    pointer_record,
    position_of,
    see,
    settled,
)
from holdfast.kinds import BRANCHES, HEADS, MESSAGES, PRUNED, SESSIONS, USAGES, Kind
from holdfast.model import Message, Usage, Value

__all__ = [
    "ROOT_BRANCH",
    "Branch",
    "Mark",
    "Pointer",
    "Position",
    "Seen",
    "Segment",
    "checkpointed",
    "look_up",
    "mark",
    "move",
    "must_see",
    "new_head",
    "pointer_record",
    "position_of",
    "see",
    "settled",
]

FEW = 8  # messages that are looked for one by one, wherever they may be
PER_QUESTION = 2  # messages that are read as soon as one is looked for
ROOT_BRANCH = 1
_sha256 = hashlib.sha256


class Branch(Value, frozen=True, kw_only=True):
    """A branch: it leaves `parent` behind position `fork_seq`.

    `opened_by` is the uid of its session. The chain of a `numbered` one begins with its number; those of older stores
    are not. Of a `gone` one nothing is left but its number, which stays taken.
    """

    history: str
    branch: int
    opened_by: str
    parent: int | None = None
    fork_seq: int = 0
    fork_link: bytes
    fork_id: str | None = None
    numbered: bool = False
    gone: bool = False


class Segment(Value, frozen=True, kw_only=True):
    """A run of one branch on a path; `before_id` is the message in front of it."""

    branch: int
    low: int
    high: int
    before_id: str | None


def first_link(history: str) -> bytes:
    """What the first message of a history is chained to."""
    return _sha256(b"holdfast history " + history.encode(errors="surrogateescape")).digest()  # also of a damaged name


def next_link(link: bytes, digest: bytes, n: int) -> bytes:
    """The link of the n-th message written, with this body digest, behind this link."""
    return _sha256(link + digest + n.to_bytes(8)).digest()


def branch_link(branch: Branch) -> bytes:
    """What the first message of a branch is chained to; with its number, so that no sibling can stand there."""
    return _sha256(branch.fork_link + branch.branch.to_bytes(8)).digest() if branch.numbered else branch.fork_link


def branch_record(branch: Branch) -> Record:
    """The record that stores a branch."""
    body = codec.encode(branch, "branch")
    return Record(BRANCHES, (branch.history, branch.branch), body, codec.digest(body))


def usage_record(key: Key, usage: Usage) -> Record:
    """The record of what the message at this place used."""
    said = codec.decode_envelope(codec.encode_value(usage, Usage, "usage"), "usage")
    return beside_record(USAGES, key, said)


def beside_record(kind: Kind, message: Key, said: dict[str, Any]) -> Record:
    """A record beside the message at this place; it says which, so that no other can stand there."""
    body = codec.encode({**said, "place": message}, kind.name)
    return Record(kind, message, body, codec.digest(body))


def check_attached(pointer: Pointer) -> None:
    """Conflict if a restore has detached the session."""
    if pointer.detached_by is not None:
        raise Conflict(f"session {pointer.session_id!r} is detached; bring it back with sessions.attach")


def is_alive(reader: Reader, history: str) -> bool:
    """Whether a session that is there has this history."""
    same = Query(kind=SESSIONS, where=(Filter("history", "=", history),))
    return any(get(reader, HEADS, *session.key) is not None for session in reader.scan(same))


def branch_at(reader: Reader, history: str, branch: int) -> Branch:
    """A branch that must exist."""
    record = get(reader, BRANCHES, history, branch)
    if record is None:
        raise NotFound(f"there is no branch {branch} in history {history}")
    return codec.decode(record.body, Branch, f"branch {branch} of history {history}")


def branches_of(reader: Reader, history: str) -> dict[int, Branch]:
    """The branches of a history that are not gone, oldest first."""
    found = reader.scan(Query(kind=BRANCHES, prefix=(history,)))
    branches = (codec.decode(record.body, Branch, f"a branch of history {history}") for record in found)
    return {branch.branch: branch for branch in branches if not branch.gone}


def next_branch(reader: Reader, history: str) -> int:
    """A branch number that this history has never had."""
    newest = reader.scan(Query(kind=BRANCHES, prefix=(history,), reverse=True, limit=1))
    return max(int(record.key[1]) for record in newest) + 1


def segments(reader: Reader, history: str, branch: int, seq: int) -> list[Segment]:
    """The path to this position, as runs of branches, oldest first."""
    runs: list[Segment] = []
    at: int | None = branch
    while at is not None:
        parent, fork_seq, fork_id = _origin(reader, history, at)
        if seq > fork_seq:
            runs.append(Segment(branch=at, low=fork_seq + 1, high=seq, before_id=fork_id))
        at, seq = parent, min(seq, fork_seq)
        if len(runs) > 1 and runs[-1].high >= runs[-2].low:
            raise CorruptData(f"branch {branch} of history {history} overlaps its parent")
    runs.reverse()
    return runs


def _origin(reader: Reader, history: str, branch: int) -> tuple[int | None, int, str | None]:
    """The parent of a branch, and the position and message behind which it leaves it; the first leaves none."""
    if branch == ROOT_BRANCH:  # which most conversations are on, and need not be read
        return None, 0, None
    here = branch_at(reader, history, branch)
    return here.parent, here.fork_seq, here.fork_id


def reach(uid: str, start: tuple[int, int], branches: dict[int, Branch]) -> dict[int, int | None]:
    """How far into each branch a session reaches: a position, or None for all of it.

    It reaches the branches it opened, and from each, as from where it started, the way back to the root.
    """
    reached: dict[int, int | None] = {}
    starts: list[tuple[int, int | None]] = [
        (branch.branch, None) for branch in branches.values() if branch.opened_by == uid
    ]
    for at, end in [*starts, start]:
        while at in branches:
            known = reached.get(at, 0)
            reached[at] = None if end is None or known is None else max(known, end)
            here = branches[at]
            if here.parent is None:
                break
            at, end = here.parent, here.fork_seq
    return reached


def within_reach(reached: dict[int, int | None], branch: int, seq: int) -> bool:
    """Whether a position is one of those reached."""
    if branch not in reached:
        return False
    end = reached[branch]
    return end is None or seq <= end


def reach_from(session: Record, branches: dict[int, Branch]) -> dict[int, int | None]:
    """How far a stored session reaches into these branches of its history."""
    envelope = codec.decode_envelope(session.body, f"session {session.key[0]!r}")
    branch, seq = envelope.get("origin") or (ROOT_BRANCH, 0)
    uid = codec.uid_in(envelope, f"session {session.key[0]!r}")
    return reach(uid, (int(branch), int(seq)), branches)


def reach_of(reader: Reader, session: Record, history: str) -> dict[int, int | None]:
    """How far a stored session reaches into its history."""
    return reach_from(session, branches_of(reader, history))


def find(reader: Reader, history: str, message_id: str) -> Record | None:
    """A message of this history by its id."""
    by_id = (Filter("id", "=", message_id),)
    return next(iter(reader.scan(Query(kind=MESSAGES, prefix=(history,), where=by_id))), None)


def find_all(reader: Reader, pointer: Pointer, ids: Sequence[str]) -> dict[str, Record]:
    """The messages of a session's history that have one of these ids, by id.

    Many are not asked for one by one where the history is short beside them: a new one has none.
    """
    most = PER_QUESTION * len(ids)
    if len(ids) > FEW and pointer.n <= most:
        # Forks may have made it longer than this session is.
        rows = [*reader.scan(Query(kind=MESSAGES, prefix=(pointer.history,), limit=most + 1))]
        if len(rows) <= most:
            wanted = set(ids)
            return {id: record for record in rows if (id := str(record.fields[0])) in wanted}
    return {id: record for id in ids if (record := find(reader, pointer.history, id)) is not None}


def find_reached(reader: Reader, pointer: Pointer, message_id: str) -> Record:
    """A message that this session reaches; NotFound otherwise."""
    record = find(reader, pointer.history, message_id)
    if record is None or not reaches(reader, pointer, record.key):
        raise NotFound(f"there is no message {message_id!r} in session {pointer.session_id!r}")
    return record


def reaches(reader: Reader, pointer: Pointer, place: Key) -> bool:
    """Whether a session reaches this place of its history."""
    session = get(reader, SESSIONS, pointer.session_id)
    if session is None:
        return False
    return within_reach(reach_of(reader, session, pointer.history), int(place[1]), int(place[2]))


def before(reader: Reader, place: Key) -> str | None:
    """The id of the message in front of this place; None at the beginning."""
    history, branch, seq = str(place[0]), int(place[1]), int(place[2])
    here = branch_at(reader, history, branch)
    if seq == here.fork_seq + 1:
        return here.fork_id
    record = get(reader, MESSAGES, history, branch, seq - 1)
    return None if record is None else str(record.fields[0])


def tip(reader: Reader, history: str, branch: int) -> Record | None:
    """The last message of a branch, or None if it has none of its own."""
    query = Query(kind=MESSAGES, prefix=(history, branch), reverse=True, limit=1)
    return next(iter(reader.scan(query)), None)


def end_of(reader: Reader, branch: Branch) -> int:
    """The last position on a branch."""
    last = tip(reader, branch.history, branch.branch)
    return branch.fork_seq if last is None else int(last.key[2])


def message_link(record: Record) -> bytes:
    """The link stored with a message."""
    link = record.fields[2]
    assert isinstance(link, bytes)
    return link


_FEW = 200  # messages that are surely wanted all, when asked for by their places


def read(reader: Reader, session_id: str, history: str, segment: Segment) -> Iterator[Message]:
    """The messages of a segment, with their places, usage and marks."""
    rows, before = _rows(reader, history, segment, bodies_only=True)
    return _placed(reader, rows, before, session_id, history, segment)


def read_as_written(reader: Reader, session_id: str, history: str, runs: list[Segment]) -> Iterator[Message]:
    """The messages of several segments of one session, in the order they were written."""
    numbered = [_numbered(reader, session_id, history, run) for run in runs]
    return (message for _, message in heapq.merge(*numbered, key=lambda row: row[0]))


def _numbered(reader: Reader, session_id: str, history: str, segment: Segment) -> Iterator[tuple[int, Message]]:
    """Messages with the numbers of their writes."""
    rows, before = _rows(reader, history, segment)
    rows, again = tee(rows)
    numbers = (int(row.fields[1] or 0) for row in again)
    return zip(numbers, _placed(reader, rows, before, session_id, history, segment), strict=True)


def _rows(
    reader: Reader, history: str, segment: Segment, *, bodies_only: bool = False
) -> tuple[Iterator[Record], str | None]:
    """The rows of a segment, and the id of the message in front of them."""
    low, before = segment.low, segment.before_id
    first = low if before is not None or low == 1 else low - 1
    query = Query(
        kind=MESSAGES,
        prefix=(history, segment.branch),
        low=first,
        high=segment.high,
        limit=_few(segment, first),
        bodies_only=bodies_only,
    )
    found = iter(reader.scan(query))
    if first < low:
        for row in found:
            if int(row.key[2]) >= low:  # the one before it is gone
                return chain([row], found), None
            before = _id_of(reader, row)
            break
    return found, before


def _id_of(reader: Reader, row: Record) -> str | None:
    """The id of a message, which a damaged one tells by its field."""
    try:
        return codec.decode_message(row.body, "").id
    except CorruptData:
        record = get(reader, MESSAGES, *row.key)
        return None if record is None else str(record.fields[0])


def _few(segment: Segment, first: int) -> int | None:
    """As many as a segment has, where they are few and surely wanted all."""
    count = segment.high - first + 1
    return count if 0 < count <= _FEW else None


def _placed(
    reader: Reader, rows: Iterator[Record], before: str | None, session_id: str, history: str, segment: Segment
) -> Iterator[Message]:
    """The messages that rows say, one behind the other."""
    branch, usages, pruned = segment.branch, _usages(reader, history, segment), None
    for row in rows:
        seq: int = row.key[2]  # type: ignore[assignment]
        message = codec.decode_placed(row.body, session_id, branch, seq, before)
        if message.role == "tool":  # whose outputs alone are ever left out
            if pruned is None:
                pruned = _pruned(reader, history, segment)
            codec.note(message, usages.get(seq), seq in pruned)
        elif usages:
            codec.note(message, usages.get(seq), pruned=False)
        before = message.id
        yield message


def _usages(reader: Reader, history: str, segment: Segment) -> dict[int, Usage]:
    rows = reader.scan(_beside(USAGES, history, segment))
    return {int(row.key[2]): codec.decode(row.body, Usage, "usage") for row in rows}


def _pruned(reader: Reader, history: str, segment: Segment) -> set[int]:
    return {int(row.key[2]) for row in reader.scan(_beside(PRUNED, history, segment))}


def _beside(kind: Kind, history: str, segment: Segment) -> Query:
    """What is kept beside the messages of a segment."""
    low, high = segment.low, segment.high
    return Query(kind=kind, prefix=(history, segment.branch), low=low, high=high, limit=_few(segment, low))


def last_of(runs: list[Segment], count: int) -> list[Segment]:
    """The end of a path: its last so many positions."""
    kept: list[Segment] = []
    for run in reversed(runs):
        if count <= 0:
            break
        low = max(run.low, run.high - count + 1)
        kept.append(cut(run, low, run.high))
        count -= run.high - low + 1
    return kept[::-1]


def cut(run: Segment, low: int, high: int) -> Segment:
    """A piece of a segment; what stands before it is then only known by reading."""
    return replace(run, low=low, high=high, before_id=run.before_id if low == run.low else None)


def between(runs: list[Segment], start: int | None, stop: int | None) -> list[Segment]:
    """The part of a path from position start to position stop."""
    kept = []
    for run in runs:
        low = run.low if start is None else max(run.low, start)
        high = run.high if stop is None else min(run.high, stop)
        if low <= high:
            kept.append(cut(run, low, high))
    return kept
