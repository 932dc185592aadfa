"""Verifying: every record against its checksum, every chain against its links, every pointer against its end.

Nothing is re-encoded: the stored bytes are hashed as they are, and each row is read once. Whatever is damaged
is named, and the check goes on with the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct

from holdfast import codec, history
from holdfast.agent_records import read_present
from holdfast.bodies import PLAIN, Columns
from holdfast.checkpoint_records import Standing, StoredCapture
from holdfast.claims import Claims, Problem
from holdfast.commits import get
from holdfast.contracts import Key, Query, Record, RecordStore
from holdfast.errors import HoldfastError, IntegrityError
from holdfast.filters import Scalar
from holdfast.history import Branch
from holdfast.ids import moment
from holdfast.kinds import (
    AGENTS,
    BRANCHES,
    CAPTURES,
    CHECKPOINTS,
    EVENTS,
    HEADS,
    KINDS,
    MESSAGES,
    PRUNED,
    REVISIONS,
    RUNS,
    SESSIONS,
    USAGES,
    Kind,
)
from holdfast.model import Value
from holdfast.run_records import StoredEvent, read_run
from holdfast.session_records import read_stored

Progress: TypeAlias = Callable[[int, int], None]

_TELL_EVERY = 500  # records between two words of progress
DAMAGE = (HoldfastError, KeyError, *codec.UNREADABLE)  # what reading a damaged record raises
_TOO_LARGE = 2**63
_sha256 = hashlib.sha256


class Report(Value, frozen=True, kw_only=True):
    """What a verification found: how many records it read, which are redacted, and what is damaged."""

    checked: int
    redacted: int
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems


class _Said(Struct, frozen=True, gc=False):
    """What a message says that its chain needs to know."""

    id: str
    redacted_digest: bytes | None = None


class _Beside(Struct, frozen=True, gc=False):
    """What a record beside a message says of its place."""

    place: tuple[str, int, int] | None = None


_read_beside = codec.reader_of(_Beside)
_read_message = codec.reader_of(_Said)
_read_head = codec.reader_of(history.Pointer)
_read_checkpoint = codec.reader_of(Standing)
_read_capture = codec.reader_of(StoredCapture)


class Verifier(Claims):
    """Checks one namespace of a store."""

    def __init__(self, store: RecordStore, progress: Progress | None = None) -> None:
        super().__init__(store)
        self._progress = progress
        self._passed = 0
        self._total = 0 if progress is None else sum(store.count(Query(kind=kind)) for kind in KINDS)
        self._checked = 0
        self._redacted = 0
        self._sessions: set[str] = set()
        self._runs: dict[str, tuple[str, int]] = {}
        self._steps: dict[str, int] = {}  # the greatest step of each session's checkpoints, as its head says

    def run(self) -> Report:
        """Check everything once; where the store itself cannot be read on, what came before that, and what it says."""
        engine: list[str] = []
        try:
            for kind, read in self._readers().items():
                self._read_all(kind, read)
            self._messages()
            self._revisions()
            self._unmet(self._living_now)
            self._left_over()
        except IntegrityError as cause:
            engine.append(str(cause))
        try:
            engine += self._store.inspect(check=True).problems
        except IntegrityError as cause:
            engine.append(str(cause))
        found = [Problem(kind="engine", key=(), what=finding) for finding in engine]
        return Report(checked=self._checked, redacted=self._redacted, problems=[*found, *self._problems])

    def _scan(self, query: Query) -> Iterator[Record]:
        rows = self._store.scan(query)
        return rows if self._progress is None else self._told(rows, self._progress)

    def _told(self, rows: Iterator[Record], progress: Progress) -> Iterator[Record]:
        for row in rows:
            self._passed += 1
            if self._passed % _TELL_EVERY == 0:
                progress(self._passed, max(self._passed, self._total))
            yield row

    # records that say where they stand

    def _readers(self) -> Mapping[Kind, Callable[[Record], Columns]]:
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
            RUNS: self._run,
            EVENTS: self._event,
            **PLAIN,
        }

    def _read_all(self, kind: Kind, read: Callable[[Record], Columns]) -> None:
        for record in self._scan(Query(kind=kind)):
            self._checked += 1
            if _sha256(record.body).digest() != record.digest:
                self._note(kind, record.key, "the body does not match its checksum")
                continue
            try:
                said = read(record)
            except DAMAGE as cause:
                self._note(kind, record.key, f"the body cannot be read: {cause}")
                continue
            if said != record.key + record.fields:
                self._note(kind, record.key, "the key or the indexed fields do not match the body")

    def _agent(self, record: Record) -> Columns:
        present = read_present(record)
        self._living.add(present.uid)
        self._claim(record, (present.uid, present.revision), present.link, None, None)
        return (present.id,)

    def _session(self, record: Record) -> Columns:
        stored = read_stored(record)
        self._sessions.add(stored.id)
        return (stored.id, stored.agent_id, stored.history)

    def _head(self, record: Record) -> Columns:
        at = _read_head(record.body)
        self._living.add(at.uid)
        self._claim(record, (at.history, at.branch, at.seq), at.link, at.message_id, None)
        if at.checkpoint_step is not None:
            self._steps[at.uid] = at.checkpoint_step
        if at.pending is not None:
            to = at.pending
            self._claim(record, (at.history, to.branch, to.seq), to.link, to.message_id, None)
        if at.session_id not in self._sessions and get(self._store, SESSIONS, at.session_id) is None:
            self._note(record.kind, record.key, "there is no session that it is the head of")
        fields = (at.agent_id, at.user_id, at.status, at.detached_by, int(at.archived), at.created_at, at.updated_at)
        return (at.session_id, *fields)

    def _branch(self, record: Record) -> Columns:
        branch = codec.decode(record.body, Branch, "branch")
        self._branches[record.key] = branch
        if branch.parent is not None:
            place = (branch.history, branch.parent, branch.fork_seq)
            self._claim(record, place, branch.fork_link, branch.fork_id, None)
        elif branch.fork_link != history.first_link(branch.history) or branch.fork_id is not None:
            self._note(record.kind, record.key, "the branch does not begin where its history does")
        return (branch.history, branch.branch)

    def _checkpoint(self, record: Record) -> Columns:
        stored = _read_checkpoint(record.body)
        moment(stored.at)  # which says so if it is none
        at = stored.position
        if at is not None:
            self._claim(record, (at.history, at.branch, at.seq), at.link, at.message_id, stored.owner)
            self._leads.update({(at.history, *one[:2]): record.key for one in stored.texts if not isinstance(one, str)})
        if stored.revision is not None:
            self._claim(record, (stored.owner, stored.revision), stored.revision_link or b"", None, stored.owner)
        if stored.step is not None and stored.step > self._steps.get(stored.owner, stored.step):
            self._check_step(record, stored.owner, stored.session_id or "", stored.step)
        return (stored.owner, stored.number, stored.id, stored.step, stored.at)

    def _check_step(self, record: Record, owner: str, session_id: str, step: int) -> None:
        """The head of a session knows how far its checkpoints go; it may have moved since it was read."""
        head = get(self._store, HEADS, session_id)
        now = None if head is None else _read_head(head.body)
        if now is not None and now.uid == owner and now.checkpoint_step is not None and now.checkpoint_step < step:
            self._note(
                record.kind,
                record.key,
                f"it has step {step}, but the head of its session says that the last is {now.checkpoint_step}",
            )

    def _capture(self, record: Record) -> Columns:
        stored = _read_capture(record.body)
        at = stored.position
        if at is not None:
            self._claim(record, (at.history, at.branch, at.seq), at.link, at.message_id, stored.session)
        return (stored.agent, stored.session, stored.number)

    def _run(self, record: Record) -> Columns:
        run = read_run(record)
        self._runs[run.id] = (run.owner, run.number)
        return (run.owner, run.number, run.id, run.key, run.status)

    def _event(self, record: Record) -> Columns:
        """An event stands in the run it names, at the position it names."""
        event = codec.decode(record.body, StoredEvent, "event")
        return (*self._runs.get(event.run_id, record.key[:2]), event.seq)

    def _belongs(self, record: Record) -> Columns:
        """A record beside a message names its place, unless it is of an older store; there must be a message there."""
        self._beside.setdefault(record.key, []).append(record.kind)
        return _read_beside(record.body).place or record.key

    def _living_now(self) -> set[str]:
        """The sessions and agents that are there by now."""
        again = Verifier(self._store)
        for kind, read in ((AGENTS, again._agent), (HEADS, again._head)):
            again._read_all(kind, read)
        return again._living

    # records that are chained

    def _messages(self) -> None:
        """Every message must follow the one before it; a break is named once and the chain taken up behind it.

        Most of a store is messages, so this loop calls little.
        """
        name, branch, expected, link = "", 0, 0, None
        claims, beside, leads = self._claims, self._beside, self._leads
        for record in self._scan(Query(kind=MESSAGES)):
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
                try:
                    said = _read_message(body)
                except DAMAGE as cause:
                    self._note(MESSAGES, key, f"the body cannot be read: {cause}")
                    said = _Said("")
                if said.id != message_id:
                    self._note(MESSAGES, key, "the indexed id does not match the body")
                if said.redacted_digest is not None:
                    self._redacted += 1
                if not _follows(link, said.redacted_digest or digest, n, stored) and not self._is_going(key):
                    self._note(MESSAGES, key, "it does not follow the one before it")
            link = stored if type(stored) is bytes else None
            claim = claims.pop(key, None)
            if claim is not None and not (claim[3] == link and claim[4] == message_id and claim[6] is None):
                self._met(claim, link, record)
            if beside:
                beside.pop(key, None)
            if leads:
                leads.pop(key, None)

    def _first_link(self, key: Key) -> bytes | None:
        """What the first message of a branch follows; None if its branch cannot say."""
        branch = self._branches.get(key[:2])
        return None if branch is None else history.branch_link(branch)

    def _revisions(self) -> None:
        """Every revision must follow the one before it, like messages."""
        agent: Scalar = None
        link: bytes | None = None
        for record in self._scan(Query(kind=REVISIONS)):
            self._checked += 1
            (owner, number), (stored,) = record.key, record.fields
            if owner != agent:
                agent, link = owner, history.first_link(str(owner))
            if codec.digest(record.body) != record.digest:
                self._note(REVISIONS, record.key, "the body does not match its checksum")
            elif not _follows(link, record.digest, number, stored):
                self._note(REVISIONS, record.key, "it does not follow the one before it")
            link = stored if type(stored) is bytes else None
            claim = self._claims.pop(record.key, None)
            if claim is not None:
                self._met(claim, link, record)


def _follows(before: bytes | None, digest: bytes, n: Scalar, link: Scalar) -> bool:
    """Whether this is the link of the n-th row, with this digest, behind the link before."""
    if before is None or type(n) is not int or not 0 <= n < _TOO_LARGE:
        return False
    return _sha256(before + digest + n.to_bytes(8)).digest() == link
