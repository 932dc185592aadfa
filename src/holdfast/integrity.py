"""Verifying: every record against its checksum, every chain against its links, every pointer against its end.

Nothing is re-encoded: the stored bytes are hashed as they are. Whatever is damaged is named, and the check
goes on with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast import codec, history
from holdfast.commits import get
from holdfast.contracts import Query, Reader, Record, RecordStore
from holdfast.errors import HoldfastError, IntegrityError
from holdfast.filters import Scalar
from holdfast.kinds import AGENTS, BRANCHES, HEADS, KINDS, MESSAGES, REVISIONS, SESSIONS, Kind
from holdfast.model import Value

_REVISION_LINK = 0
_MESSAGE_LINK = 2


class Problem(Value, frozen=True, kw_only=True):
    """A record that is not what it was."""

    kind: str
    key: tuple[str | int, ...]
    what: str


class Report(Value, frozen=True, kw_only=True):
    """What a verification found: how many records it read, which are redacted, and what is damaged."""

    checked: int
    redacted: int
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems


Projection = Callable[[dict[str, Any]], tuple[Scalar, ...]]

_PROJECTIONS: Mapping[str, Projection] = {
    AGENTS.name: lambda body: (body["id"],),
    SESSIONS.name: lambda body: (body["id"], body.get("agent_id"), body["history"]),
    HEADS.name: lambda body: (
        body["session_id"],
        body.get("agent_id"),
        body.get("user_id"),
        body.get("status", "active"),
        body.get("detached_by"),
        int(body.get("archived", False)),
        body["created_at"],
        body["updated_at"],
    ),
    BRANCHES.name: lambda body: (body["history"], body["branch"]),
}


class Verifier:
    """Checks one namespace of a store."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._checked = 0
        self._redacted = 0
        self._problems: list[Problem] = []

    def run(self) -> Report:
        """Check everything once."""
        for finding in self._store.inspect(check=True).problems:
            self._problems.append(Problem(kind="engine", key=(), what=finding))
        for kind in KINDS:
            if kind not in (MESSAGES, REVISIONS, BRANCHES):
                for record in self._store.scan(Query(kind=kind)):
                    self._record(record)
        self._histories()
        self._chains(REVISIONS, _REVISION_LINK, lambda owner: history.first_link(str(owner[0])))
        self._heads()
        self._agents()
        return Report(checked=self._checked, redacted=self._redacted, problems=self._problems)

    def _note(self, record: Record, what: str) -> None:
        self._problems.append(Problem(kind=record.kind.name, key=record.key, what=what))

    def _record(self, record: Record) -> bool:
        """Whether a record's own bytes and fields are sound."""
        self._checked += 1
        if codec.digest(record.body) != record.digest:
            self._note(record, "the body does not match its checksum")
            return False
        project = _PROJECTIONS.get(record.kind.name)
        if project is not None:
            try:
                expected = project(codec.decode_envelope(record.body, record.kind.name))
            except (HoldfastError, KeyError) as cause:
                self._note(record, f"the body cannot be read: {cause}")
                return False
            if expected != (*record.key, *record.fields):
                self._note(record, "the indexed fields do not match the body")
                return False
        return True

    def _histories(self) -> None:
        links: dict[tuple[Scalar, ...], bytes] = {}
        for record in self._store.scan(Query(kind=BRANCHES)):
            if self._record(record):
                branch = codec.decode(record.body, history.Branch, "branch")
                links[record.key] = branch.fork_link
                self._branch(record, branch)
        self._chains(MESSAGES, _MESSAGE_LINK, links.get)

    def _branch(self, record: Record, branch: history.Branch) -> None:
        """A branch must leave its parent where it says."""
        try:
            expected, fork_id = fork_point(self._store, branch)
        except HoldfastError as cause:
            self._note(record, str(cause))
            return
        if (expected, fork_id) != (branch.fork_link, branch.fork_id):
            self._note(record, "the branch does not leave its parent where it says")

    def _chains(self, kind: Kind, link_at: int, first: Callable[[tuple[Scalar, ...]], bytes | None]) -> None:
        """Every row must follow the one before it; a break is named once and the chain taken up behind it."""
        chain: tuple[Scalar, ...] | None = None
        link: bytes | None = None
        position: int | None = None
        for record in self._store.scan(Query(kind=kind)):
            if record.key[:-1] != chain:
                chain, link, position = record.key[:-1], first(record.key[:-1]), None
            sound = self._record(record)
            if position is not None and record.key[-1] != position + 1:
                self._note(record, f"{record.key[-1]} follows {position}: something is missing in between")
                link = None
            position = int(record.key[-1])
            if sound:
                self._link(record, link, link_at)
            stored = record.fields[link_at]
            link = stored if isinstance(stored, bytes) else None

    def _link(self, record: Record, before: bytes | None, link_at: int) -> None:
        digest = record.digest
        n = int(record.key[-1])
        if record.kind is MESSAGES:
            gone = codec.redacted_digest(record.body)
            if gone is not None:
                digest = gone
                self._redacted += 1
            n = record.fields[1] if isinstance(record.fields[1], int) else -1
            if codec.decode_envelope(record.body, "message").get("id") != record.fields[0]:
                self._note(record, "the indexed id does not match the body")
        if before is None:
            self._note(record, "there is no sound link in front of it")
        elif not 0 <= n < 2**63 or history.next_link(before, digest, n) != record.fields[link_at]:
            self._note(record, "the link does not follow from the one before")

    def _heads(self) -> None:
        for record in self._store.scan(Query(kind=HEADS)):
            try:
                pointer = history.see(record).pointer
                expected = position_of(self._store, pointer.history, pointer.branch, pointer.seq)
            except HoldfastError as cause:
                self._note(record, str(cause))
                continue
            if expected != (pointer.link, pointer.message_id):
                self._note(record, "the head does not match the message it points at")

    def _agents(self) -> None:
        for record in self._store.scan(Query(kind=AGENTS)):
            try:
                present = codec.decode_envelope(record.body, f"agent {record.key[0]!r}")
                last = get(self._store, REVISIONS, present["uid"], present["revision"])
            except (HoldfastError, KeyError) as cause:
                self._note(record, f"the agent cannot be read: {cause}")
                continue
            if last is None:
                self._note(record, f"revision {present['revision']} is missing")


def fork_point(reader: Reader, branch: history.Branch) -> tuple[bytes, str | None]:
    """The link and id of the message a branch leaves from."""
    if branch.parent is None:
        return history.first_link(branch.history), None
    return position_of(reader, branch.history, branch.parent, branch.fork_seq)


def position_of(reader: Reader, name: str, branch: int, seq: int) -> tuple[bytes, str | None]:
    """The link and id at a position; a position at a branch's very beginning is its fork point."""
    here = history.branch_at(reader, name, branch)
    if seq <= here.fork_seq:
        return here.fork_link, here.fork_id
    record = get(reader, MESSAGES, name, branch, seq)
    if record is None:
        raise HoldfastError(f"message {seq} of branch {branch} in history {name} is missing")
    return history.message_link(record), str(record.fields[0])


def check_path(reader: Reader, at: history.Position) -> None:
    """IntegrityError unless every message up to this position is what was written, in the order it was written."""
    link = history.first_link(at.history)
    for run in history.segments(reader, at.history, at.branch, at.seq):
        rows = Query(kind=MESSAGES, prefix=(at.history, run.branch), low=run.low, high=run.high)
        expected = run.low
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


def check_position(reader: Reader, at: history.Position) -> None:
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
