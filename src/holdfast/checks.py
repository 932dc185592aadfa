"""What is checked before something old becomes live again: the messages up to a place, the revisions up to one."""

from __future__ import annotations

from holdfast import codec, history
from holdfast.commits import get
from holdfast.contracts import Query, Reader, Record
from holdfast.errors import IntegrityError
from holdfast.history import Position
from holdfast.kinds import MESSAGES, REVISIONS

_REVISION_LINK = 0


def check_path(reader: Reader, at: Position) -> None:
    """IntegrityError unless every message up to this position is what was written, in the order it was written."""
    link = history.first_link(at.history)
    for run in history.segments(reader, at.history, at.branch, at.seq):
        rows = Query(kind=MESSAGES, prefix=(at.history, run.branch), low=run.low, high=run.high)
        expected = run.low
        here = history.branch_at(reader, at.history, run.branch)
        if link != here.fork_link:
            raise IntegrityError(
                f"branch {run.branch} in history {at.history} does not begin where it says; run verify"
            )
        link = history.branch_link(here)
        for record in reader.scan(rows):
            if record.key[2] != expected:
                break
            link = _follow(record, link)
            expected += 1
        if expected <= run.high:
            raise IntegrityError(f"message {expected} of branch {run.branch} in history {at.history} is missing")
    if link != at.link:
        raise IntegrityError(f"history {at.history} does not lead to the head at {at.seq}; run verify")


def _follow(record: Record, link: bytes) -> bytes:
    """The link of a sound message behind this link."""
    digest, (message_id, n, stored) = record.digest, record.fields
    if codec.digest(record.body) != digest:
        raise IntegrityError(f"message {message_id!r} does not match its checksum")
    gone = codec.redacted_digest(record.body)
    after = history.next_link(link, gone or digest, int(n)) if isinstance(n, int) and n >= 0 else b""
    if after != stored:
        raise IntegrityError(f"message {message_id!r} does not follow the one before it")
    return after


def check_position(reader: Reader, at: Position) -> None:
    """IntegrityError unless the message at this position is sound and is the one meant."""
    here = history.branch_at(reader, at.history, at.branch)
    if at.seq <= here.fork_seq:
        found: tuple[bytes, str | None] = (here.fork_link, here.fork_id)
    else:
        record = get(reader, MESSAGES, at.history, at.branch, at.seq)
        if record is None:
            raise IntegrityError(f"message {at.seq} of branch {at.branch} in history {at.history} is missing")
        if codec.digest(record.body) != record.digest:
            raise IntegrityError(f"message {record.fields[0]!r} does not match its checksum")
        found = (history.message_link(record), str(record.fields[0]))
    if found != (at.link, at.message_id):
        raise IntegrityError(f"the head at {at.seq} in history {at.history} does not match the message there")


def check_revisions(reader: Reader, agent: str, revision: int, link: bytes | None) -> None:
    """IntegrityError unless every revision up to this one is what was written."""
    after, number = history.first_link(agent), 0
    for record in reader.scan(Query(kind=REVISIONS, prefix=(agent,), high=revision)):
        number += 1
        if codec.digest(record.body) != record.digest:
            raise IntegrityError(f"revision {record.key[1]} of agent {agent} does not match its checksum")
        after = history.next_link(after, record.digest, number)
        if record.key[1] != number or record.fields[_REVISION_LINK] != after:
            raise IntegrityError(f"revision {record.key[1]} of agent {agent} does not follow the one before it")
    if number != revision or after != link:
        raise IntegrityError(f"the revisions of agent {agent} do not lead to revision {revision}; run verify")


def check_revision(reader: Reader, agent: str, revision: int, link: bytes | None) -> None:
    """IntegrityError unless this revision is sound and is the one meant."""
    record = get(reader, REVISIONS, agent, revision)
    if record is None or codec.digest(record.body) != record.digest or record.fields[_REVISION_LINK] != link:
        raise IntegrityError(f"revision {revision} of agent {agent} is damaged or missing")
