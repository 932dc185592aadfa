"""What of a store belongs to one moment, while others go on writing to it.

What points is read first and kept: agents, runs, heads. What they point at is only ever added to, so that it can be
read later, up to where they point. Leases and unfinished deletions are of a process, not of the store, and no part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast import codec, history
from holdfast.agent_records import Present, read_present
from holdfast.artifact_records import NOBODY
from holdfast.checkpoint_records import read_capture
from holdfast.checkpoint_texts import with_texts
from holdfast.contracts import Key, Query, Reader, Record
from holdfast.embedding_records import read_space, space_record
from holdfast.errors import Busy
from holdfast.filters import Filter
from holdfast.heads import uid_of
from holdfast.history import Branch, Pointer
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
    ITEMS,
    MARKS,
    MESSAGES,
    PARTS,
    PENDING,
    PRUNED,
    REVISIONS,
    RUNS,
    SESSIONS,
    USAGES,
    Kind,
)
from holdfast.run_records import read_run
from holdfast.spools import Spool, in_batches

UNSEEN: tuple[Kind, ...] = (
    SESSIONS,
    REVISIONS,
    BRANCHES,
    MESSAGES,
    USAGES,
    PRUNED,
    PARTS,
    EXECUTIONS,
    EXTRA_USAGES,
    EVENTS,
    RUNS,
    CAPTURES,
    PENDING,  # before checkpoints, which take them in
    CHECKPOINTS,
    EMBEDDINGS,
    MARKS,
    ARTIFACTS,
    ITEMS,
)
"""What no reader finds before its pointer is there, in the order it is written; what is of no session comes last."""

POINTERS: tuple[Kind, ...] = (EMBEDDING_SPACES, HEADS, AGENTS)
"""What makes the rest visible."""

BLOB_FIELDS = {ARTIFACTS.name: 1, PARTS.name: 0}
"""Which field of a record is the digest of its bytes."""

_TRIES = 10


class _Session(Struct, frozen=True, gc=False):
    """How far a session had come."""

    id: str
    history: str
    n: int
    checkpoints: int
    marked: bool


class Cut:
    """One moment of a namespace; what was added to it later is left out."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._spools = {kind.name: Spool(kind) for kind in (AGENTS, RUNS, HEADS)}
        self._agents: dict[str, Present] = {}
        self._sessions: dict[str, _Session] = {}
        self._just_settled: set[str] = set()
        self._histories: set[str] = set()
        self._events: dict[Key, int] = {}
        self._ends: dict[Key, int] = {}
        self._vectors: dict[str, int] = {}

    def close(self) -> None:
        """Give the temporary files back."""
        for spool in self._spools.values():
            spool.close()

    # what there is

    def records(self, kind: Kind) -> Iterator[Record]:
        """The records of a kind that belong to this moment, by key."""
        if kind.name in self._spools:
            return (record for record in self._spools[kind.name] if self.has(record))
        if kind is MARKS:
            return iter(self._marks.values())
        if kind is EMBEDDINGS:
            return self._embeddings()
        if kind is EMBEDDING_SPACES:
            return self._spaces()
        found = filter(self.has, self.reader.scan(Query(kind=kind)))
        return map(self._whole, found) if kind is CHECKPOINTS else found

    def find(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        """The records with these keys as they are now, None for what does not belong to this moment."""
        found = list(map(self._marks.get, keys)) if kind is MARKS else self.reader.get(kind, keys)
        return [self._whole(record) if record is not None and self.has(record) else None for record in found]

    def _whole(self, record: Record) -> Record:
        """A checkpoint may lead to texts of messages that came later; these it then has in itself."""
        if record.kind is not CHECKPOINTS:
            return record
        return with_texts(self.reader, record, lambda *place: place[2] <= self._ends.get(place[:2], -1))

    def has(self, record: Record) -> bool:
        """Whether a record belongs to this moment."""
        kind, key = record.kind, record.key
        if kind in (BRANCHES, MESSAGES, USAGES, PRUNED, PARTS):
            return key[:2] in self._ends and (kind is BRANCHES or int(key[2]) <= self._ends[key[:2]])
        if kind is SESSIONS:
            mine = self._sessions.get(uid_of(record))
            return mine is not None and mine.id == key[0]
        if kind in (EXECUTIONS, EXTRA_USAGES, ARTIFACTS, PENDING):
            return key[0] in self._sessions or (kind is ARTIFACTS and key[0] == NOBODY)
        if kind in (RUNS, EVENTS):
            return key[:2] in self._events and (kind is RUNS or int(key[2]) <= self._events[key[:2]])
        return self._has_of_agent(record)

    def _has_of_agent(self, record: Record) -> bool:
        kind, key = record.kind, record.key
        if kind is REVISIONS:
            return key[0] in self._agents and int(key[1]) <= self._agents[str(key[0])].revision
        if kind is CHECKPOINTS:
            owner = self._agents.get(str(key[0])) or self._sessions.get(str(key[0]))
            return owner is not None and int(key[1]) <= owner.checkpoints
        if kind is CAPTURES:
            return self._has_capture(record)
        if kind is EMBEDDINGS:
            return record.fields[0] is None or record.fields[0] in self._sessions
        return True

    def _has_capture(self, record: Record) -> bool:
        """Whether a capture is of a checkpoint, or staged for the next one of a place that belongs to this moment."""
        agent, session = self._agents.get(str(record.key[0])), self._sessions.get(str(record.key[1]))
        number = int(record.key[2])
        if agent is None or number <= agent.checkpoints:
            return agent is not None
        at = read_capture(record).position
        return number == agent.checkpoints + 1 and (at is None or session is None or at.n <= session.n)

    def _embeddings(self) -> Iterator[Record]:
        self._vectors.clear()
        for record in filter(self.has, self.reader.scan(Query(kind=EMBEDDINGS))):
            model = str(record.fields[1])
            self._vectors[model] = self._vectors.get(model, 0) + 1
            yield record

    def _spaces(self) -> Iterator[Record]:
        """The space of each model, counting the vectors that were last given out."""
        for record in self.reader.scan(Query(kind=EMBEDDING_SPACES)):
            space = read_space(record)
            count = self._vectors.get(space.model, 0)
            if count:
                yield record if space.count == count else space_record(replace(space, count=count))

    @cached_property
    def _marks(self) -> dict[Key, Record]:
        """The mark of each session whose head says that it has one, and those of sessions that are gone, by key."""
        scanned = self.reader.scan(Query(kind=MARKS))
        marks = {record.key: record for record in scanned if self._is_marked(str(record.key[1]))}
        for head in self._spools[HEADS.name]:
            pointer = history.see(None, head).pointer
            # A detached session loses its mark when its agent is checkpointed, and its head does not know.
            known = pointer.detached_by is None or pointer.uid in self._just_settled
            if pointer.marked and pointer.agent_id is not None and known:
                record = history.mark(pointer, pointer.agent_id).record
                marks[record.key] = record
        return dict(sorted(marks.items()))

    def _is_marked(self, session: str) -> bool:
        return session not in self._sessions or self._sessions[session].marked

    def stands(self) -> bool:
        """Whether every agent and session is still there, so that all of it could be read."""
        for kind in (AGENTS, HEADS):
            for batch in in_batches(self._spools[kind.name]):
                present = self.reader.get(kind, [record.key for record in batch])
                if any(now is None or uid_of(now) != uid_of(then) for now, then in zip(present, batch, strict=True)):
                    return False
        return True

    # reading what points

    def take(self) -> None:
        """Read everything that points; of an agent and its sessions, what belongs together."""
        for record in self.reader.scan(Query(kind=AGENTS)):
            self._spools[AGENTS.name].add(record)
            present = read_present(record)
            self._agents[present.uid] = present
        for record in self.reader.scan(Query(kind=RUNS)):
            self._spools[RUNS.name].add(record)
            self._events[record.key] = read_run(record).events
        self._take_heads()
        self._events = {key: events for key, events in self._events.items() if key[0] in self._sessions}

    def _take_heads(self) -> None:
        """Read each head once all are known: so none is older than a fork that was made from its session."""
        for keys in in_batches([record.key for record in self.reader.scan(Query(kind=HEADS))]):
            for stored in filter(None, self.reader.get(HEADS, keys)):
                record = history.settled(self.reader, stored)
                self._spools[HEADS.name].add(record)
                pointer = history.see(None, record).pointer
                self._see(pointer)
                if record is not stored:
                    self._just_settled.add(pointer.uid)

    def _see(self, pointer: Pointer) -> None:
        self._histories.add(pointer.history)
        self._sessions[pointer.uid] = _Session(
            pointer.session_id, pointer.history, pointer.n, pointer.checkpoints, pointer.marked
        )

    def measure(self) -> None:
        """Note how much of each branch belongs to this moment."""
        for record in self.reader.scan(Query(kind=BRANCHES)):
            if record.key[0] in self._histories:
                branch = codec.decode(record.body, Branch, f"branch {record.key}")
                end = 0 if branch.gone else self._end(branch)
                if end is not None:
                    self._ends[record.key] = end

    def _end(self, branch: Branch) -> int | None:
        """The last position on a branch that belongs to this moment; None if the branch does not."""
        rows = Query(kind=MESSAGES, prefix=(branch.history, branch.branch), reverse=True)
        session = self._sessions.get(branch.opened_by)
        if session is None:  # deleted, or newer: then it has what sessions of this moment reach
            reached = self._reached(branch.history)
            if branch.branch not in reached:
                return None
            rows = replace(rows, high=reached[branch.branch])
        last = next(iter(self.reader.scan(replace(rows, limit=1))), None)
        if last is not None and session is not None and _n(last) > session.n:
            last = next((row for row in self.reader.scan(rows) if _n(row) <= session.n), None)
            if last is None and branch.parent is not None:
                return None
        return 0 if last is None else int(last.key[2])

    def _reached(self, name: str) -> dict[int, int | None]:
        """How far the sessions of this moment reach into each branch of a history."""
        branches = history.branches_of(self.reader, name)
        reached: dict[int, int | None] = {}
        for session in filter(self.has, self.reader.scan(Query(kind=SESSIONS, where=(Filter("history", "=", name),)))):
            for branch, end in history.reach_from(session, branches).items():
                known = reached.get(branch, 0)
                reached[branch] = None if end is None or known is None else max(known, end)
        return reached

    def is_steady(self) -> bool:
        """Whether no agent was checkpointed meanwhile, which would have changed the heads of its sessions."""
        for batch in in_batches(self._agents.values()):
            now = self.reader.get(AGENTS, [(agent.id,) for agent in batch])
            if any(
                record is None or read_present(record).checkpoints != agent.checkpoints
                for record, agent in zip(now, batch, strict=True)
            ):
                return False
        return True


def take(reader: Reader) -> Cut:
    """The present moment of a store; Busy if its agents change faster than they can be read."""
    for _ in range(_TRIES):
        cut = Cut(reader)
        with ExitStack() as stack:
            stack.callback(cut.close)
            cut.take()
            if cut.is_steady():
                cut.measure()
                stack.pop_all()
                return cut
    raise Busy("agents of the source are checkpointed too often to read one moment of it; repeat when it is calmer")


def _n(message: Record) -> Any:
    return message.fields[1]
