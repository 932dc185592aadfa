"""Verifying: every record against its checksum, every chain against its links, every pointer against its end.

Nothing is re-encoded: the stored bytes are hashed as they are, and each row is read once. Whatever is damaged
is named, and the check goes on with the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast import codec, embedding_records, history
from holdfast.agent_records import read_present
from holdfast.artifact_records import read_artifact
from holdfast.checkpoint_records import StoredCapture
from holdfast.commits import get
from holdfast.contracts import Key, Query, Record, RecordStore
from holdfast.errors import HoldfastError
from holdfast.execution_records import read as read_execution
from holdfast.filters import Filter, Scalar
from holdfast.history import Branch, Mark, Position
from holdfast.ids import micros
from holdfast.kinds import (
    AGENTS,
    ARTIFACTS,
    BRANCHES,
    CAPTURES,
    CHECKPOINTS,
    EMBEDDING_SPACES,
    EMBEDDINGS,
    EVENTS,
    EXECUTIONS,
    EXTRA_USAGES,
    HEADS,
    HOLDS,
    KINDS,
    MARKS,
    MESSAGES,
    PARTS,
    PRUNED,
    REVISIONS,
    RUNS,
    SESSIONS,
    SWEEPS,
    USAGES,
    Kind,
)
from holdfast.model import Moment, Value
from holdfast.parts import read_part
from holdfast.run_records import StoredEvent, read_hold, read_run
from holdfast.session_records import read_stored
from holdfast.usage_records import read_extra

_TOO_LARGE = 2**63
_sha256 = hashlib.sha256


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


# What a record (kind, key, digest) says of another place: the link and the message id there, and the uid of the
# session or agent without which it says nothing.
_Claim: TypeAlias = tuple[Kind, Key, bytes, bytes, str | None, str | None]


class _Said(Struct, frozen=True, gc=False):
    """What a message says that its chain needs to know."""

    id: str
    redacted_digest: bytes | None = None


class _Checkpoint(Struct, frozen=True, gc=False):
    """What a checkpoint says of its place and of what it points at."""

    owner: str
    at: int
    id: str
    step: int | None = None
    expires_at: Moment | None = None
    position: Position | None = None
    revision: int | None = None
    revision_link: bytes | None = None


_read_message = msgspec.json.Decoder(_Said).decode
_read_head = msgspec.json.Decoder(history.Pointer).decode
_read_checkpoint = msgspec.json.Decoder(_Checkpoint).decode
_read_capture = msgspec.json.Decoder(StoredCapture).decode


class Verifier:
    """Checks one namespace of a store."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._checked = 0
        self._redacted = 0
        self._problems: list[Problem] = []
        self._sessions: set[str] = set()
        self._living: set[str] = set()
        self._branches: dict[Key, Branch] = {}
        self._unsure: set[Key] = set()
        self._claims: dict[Key, list[_Claim]] = {}
        self._beside: dict[Key, list[Kind]] = {}
        self._runs: dict[str, tuple[str, int]] = {}

    def run(self) -> Report:
        """Check everything once."""
        for finding in self._store.inspect(check=True).problems:
            self._problems.append(Problem(kind="engine", key=(), what=finding))
        readers = self._readers()
        for kind in (*readers, *(kind for kind in KINDS if kind not in (*readers, MESSAGES, REVISIONS))):
            self._read_all(kind)
        self._messages()
        self._revisions()
        self._unmet()
        self._left_over()
        return Report(checked=self._checked, redacted=self._redacted, problems=self._problems)

    def _note(self, kind: Kind, key: Key, what: str) -> None:
        self._problems.append(Problem(kind=kind.name, key=key, what=what))
        if kind is BRANCHES:
            self._unsure.add(key)

    # records that say where they stand

    def _readers(self) -> Mapping[Kind, Callable[[Record], tuple[Scalar, ...]]]:
        """How each kind is read: what its body says of its key and fields. Owners come before what is theirs."""
        return {
            AGENTS: self._agent,
            SESSIONS: self._session,
            HEADS: self._head,
            BRANCHES: self._branch,
            CHECKPOINTS: self._checkpoint,
            CAPTURES: self._capture,
            USAGES: self._belongs,
            PRUNED: self._belongs,
            MARKS: _mark,
            SWEEPS: _sweep,
            ARTIFACTS: _artifact,
            PARTS: _part,
            RUNS: self._run,
            EVENTS: self._event,
            HOLDS: _hold,
            EXECUTIONS: _execution,
            EXTRA_USAGES: _extra_usage,
            EMBEDDINGS: _embedding,
            EMBEDDING_SPACES: _embedding_space,
        }

    def _read_all(self, kind: Kind) -> None:
        read = self._readers().get(kind, _columns)
        for record in self._store.scan(Query(kind=kind)):
            self._checked += 1
            if _sha256(record.body).digest() != record.digest:
                self._note(kind, record.key, "the body does not match its checksum")
                continue
            try:
                said = read(record)
            except (HoldfastError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError) as cause:
                self._note(kind, record.key, f"the body cannot be read: {cause}")
                continue
            if said != record.key + record.fields:
                self._note(kind, record.key, "the key or the indexed fields do not match the body")

    def _agent(self, record: Record) -> tuple[Scalar, ...]:
        present = read_present(record)
        self._living.add(present.uid)
        self._claim(record, (present.uid, present.revision), present.link, None, None)
        return (present.id,)

    def _session(self, record: Record) -> tuple[Scalar, ...]:
        stored = read_stored(record)
        self._sessions.add(stored.id)
        return (stored.id, stored.agent_id, stored.history)

    def _head(self, record: Record) -> tuple[Scalar, ...]:
        at = _read_head(record.body)
        self._living.add(at.uid)
        self._claim(record, (at.history, at.branch, at.seq), at.link, at.message_id, None)
        if at.session_id not in self._sessions and get(self._store, SESSIONS, at.session_id) is None:
            self._note(record.kind, record.key, "there is no session that it is the head of")
        fields = (at.agent_id, at.user_id, at.status, at.detached_by, int(at.archived), at.created_at, at.updated_at)
        return (at.session_id, *fields)

    def _branch(self, record: Record) -> tuple[Scalar, ...]:
        branch = codec.decode(record.body, Branch, "branch")
        self._branches[record.key] = branch
        if branch.parent is not None:
            place = (branch.history, branch.parent, branch.fork_seq)
            self._claim(record, place, branch.fork_link, branch.fork_id, None)
        elif branch.fork_link != history.first_link(branch.history) or branch.fork_id is not None:
            self._note(record.kind, record.key, "the branch does not begin where its history does")
        return (branch.history, branch.branch)

    def _checkpoint(self, record: Record) -> tuple[Scalar, ...]:
        stored = _read_checkpoint(record.body)
        at = stored.position
        if at is not None:
            self._claim(record, (at.history, at.branch, at.seq), at.link, at.message_id, stored.owner)
        if stored.revision is not None:
            self._claim(record, (stored.owner, stored.revision), stored.revision_link or b"", None, stored.owner)
        expires = None if stored.expires_at is None else micros(stored.expires_at)
        return (stored.owner, stored.at, stored.id, stored.step, expires)

    def _capture(self, record: Record) -> tuple[Scalar, ...]:
        stored = _read_capture(record.body)
        at = stored.position
        if at is not None:
            self._claim(record, (at.history, at.branch, at.seq), at.link, at.message_id, stored.session)
        return (stored.agent, stored.session, stored.number)

    def _run(self, record: Record) -> tuple[Scalar, ...]:
        run = read_run(record)
        self._runs[run.id] = (run.owner, run.number)
        return (run.owner, run.number, run.id, run.key, run.status)

    def _event(self, record: Record) -> tuple[Scalar, ...]:
        """An event stands in the run it names, at the position it names."""
        event = codec.decode(record.body, StoredEvent, "event")
        return (*self._runs.get(event.run_id, record.key[:2]), event.seq)

    def _belongs(self, record: Record) -> tuple[Scalar, ...]:
        """A record beside a message says nothing of its place; there must be a message there."""
        self._beside.setdefault(record.key, []).append(record.kind)
        return record.key

    def _claim(self, record: Record, at: Key, link: bytes, message_id: str | None, of: str | None) -> None:
        if of is None or of in self._living:
            claim = (record.kind, record.key, record.digest, link, message_id, of)
            others = self._claims.get(at)
            if others is None:
                self._claims[at] = [claim]
            else:
                others.append(claim)

    # records that are chained

    def _messages(self) -> None:
        """Every message must follow the one before it; a break is named once and the chain taken up behind it.

        Most of a store is messages, so this loop calls little.
        """
        name, branch, expected, link = "", 0, 0, None
        claims, beside = self._claims, self._beside
        for record in self._store.scan(Query(kind=MESSAGES)):
            self._checked += 1
            key, body, digest, (message_id, n, stored) = record.key, record.body, record.digest, record.fields
            if key[0] != name or key[1] != branch:
                name, branch, link = key[0], key[1], self._first_link(key)  # type: ignore[assignment]
            elif key[2] != expected:
                link = None
            expected = key[2] + 1  # type: ignore[operator]
            if _sha256(body).digest() != digest:
                self._note(MESSAGES, key, "the body does not match its checksum")
            else:
                said = self._said(key, body)
                if said.id != message_id:
                    self._note(MESSAGES, key, "the indexed id does not match the body")
                if not _follows(link, said.redacted_digest or digest, n, stored) and not self._is_going(key):
                    self._note(MESSAGES, key, "it does not follow the one before it")
            link = stored if type(stored) is bytes else None
            if key in claims:
                self._met(claims.pop(key), link, record)
            if key in beside:
                del beside[key]

    def _said(self, key: Key, body: bytes) -> _Said:
        """What the body of a message says."""
        try:
            said = _read_message(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as cause:
            self._note(MESSAGES, key, f"the body cannot be read: {cause}")
            return _Said("")
        if said.redacted_digest is not None:
            self._redacted += 1
        return said

    def _first_link(self, key: Key) -> bytes | None:
        """What the first message of a branch follows; None if its branch cannot say."""
        branch = self._branches.get(key[:2])
        return None if branch is None else branch.fork_link

    def _revisions(self) -> None:
        """Every revision must follow the one before it, like messages."""
        agent: Scalar = None
        link: bytes | None = None
        for record in self._store.scan(Query(kind=REVISIONS)):
            self._checked += 1
            (owner, number), (stored,) = record.key, record.fields
            if owner != agent:
                agent, link = owner, history.first_link(str(owner))
            if codec.digest(record.body) != record.digest:
                self._note(REVISIONS, record.key, "the body does not match its checksum")
            elif not _follows(link, record.digest, number, stored):
                self._note(REVISIONS, record.key, "it does not follow the one before it")
            link = stored if type(stored) is bytes else None
            if record.key in self._claims:
                self._met(self._claims.pop(record.key), link, record)

    def _is_going(self, key: Key) -> bool:
        """Whether a row is of a history that is being deleted, or copied and not yet anybody's."""
        same = (Filter("history", "=", key[0]),)
        sessions = [found.key for found in self._store.scan(Query(kind=SESSIONS, where=same))]
        staged = get(self._store, SWEEPS, f"staged {key[0]}")
        return staged is not None or any(get(self._store, HEADS, *session) is None for session in sessions)

    # pointers and where they lead

    def _met(self, claims: list[_Claim], link: bytes | None, record: Record) -> None:
        message_id = record.fields[0] if record.kind is MESSAGES else None
        for kind, key, _, claimed, claimed_id, _ in claims:
            if claimed != link or claimed_id != message_id:
                self._note(kind, key, f"it does not match {record.kind.name} {record.key}")

    def _unmet(self) -> None:
        """What leads to no message must lead to the beginning of a branch, unless it has gone meanwhile."""
        missing: list[tuple[_Claim, Key]] = []
        for at, claims in self._claims.items():
            branch = self._branches.get(at[:2])
            if branch is not None and at[2:] == (branch.fork_seq,):
                beginning = (branch.fork_link, branch.fork_id)
                missing += [(claim, at) for claim in claims if claim[3:5] != beginning]
            elif at[:2] not in self._unsure:
                missing += [(claim, at) for claim in claims]
        living = self._living_now() if missing else set()
        for (kind, key, digest, _, _, of), at in missing:
            present = get(self._store, kind, *key)
            if present is None or present.digest != digest or (kind is BRANCHES and self._is_going(key)):
                continue
            if of is None or of in living:
                self._note(kind, key, f"there is nothing at {at}, which it points at")

    def _living_now(self) -> set[str]:
        """The sessions and agents that are there by now."""
        again = Verifier(self._store)
        for kind in (AGENTS, HEADS):
            again._read_all(kind)
        return again._living

    def _left_over(self) -> None:
        """What stands beside a message that is not there, unless it is being deleted."""
        for kind, key in ((kind, key) for key, kinds in self._beside.items() for kind in kinds):
            record = get(self._store, kind, *key)
            if record is not None and get(self._store, MESSAGES, *key) is None and not self._is_going(key):
                self._note(kind, key, "there is no message that it belongs to")


def _follows(before: bytes | None, digest: bytes, n: Scalar, link: Scalar) -> bool:
    """Whether this is the link of the n-th row, with this digest, behind the link before."""
    if before is None or type(n) is not int or not 0 <= n < _TOO_LARGE:
        return False
    return _sha256(before + digest + n.to_bytes(8)).digest() == link


def _columns(record: Record) -> tuple[Scalar, ...]:
    """Of a kind whose body does not repeat its key and fields there is nothing to compare."""
    return record.key + record.fields


def _hold(record: Record) -> tuple[Scalar, ...]:
    return (read_hold(record).session,)


def _artifact(record: Record) -> tuple[Scalar, ...]:
    stored = read_artifact(record)
    return (stored.owner, stored.name, stored.version, stored.id, stored.blob, int(stored.newest), stored.created_at)


def _part(record: Record) -> tuple[Scalar, ...]:
    stored = read_part(record)
    return (stored.history, stored.branch, stored.seq, stored.part, stored.kept.digest)


def _mark(record: Record) -> tuple[Scalar, ...]:
    mark = codec.decode(record.body, Mark, "mark")
    return (mark.agent_id, mark.session)


def _sweep(record: Record) -> tuple[Scalar, ...]:
    envelope = codec.decode_envelope(record.body, "sweep")
    return (f"{envelope['kind']} {envelope['name']}",)


def _execution(record: Record) -> tuple[Scalar, ...]:
    one = read_execution(record)
    return (one.session, one.n, one.id, one.message_id)


def _extra_usage(record: Record) -> tuple[Scalar, ...]:
    one = read_extra(record)
    return (one.session, one.n, one.id)


def _embedding(record: Record) -> tuple[Scalar, ...]:
    one = embedding_records.read_stored(record)
    embedding_records.from_bytes(one.vector)
    return (one.id, one.owner, one.model, one.at)


def _embedding_space(record: Record) -> tuple[Scalar, ...]:
    return (embedding_records.read_space(record).model,)
