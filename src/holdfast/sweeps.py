"""Deleting in two steps: one small commit after which the thing is absent, then a sweep behind it.

A session is there as long as its head is. What a dead one leaves is found by the sweep record, in bounded
batches that any process may go on with; `gc` goes on with what a crash has left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from holdfast import codec, embedding_records, history
from holdfast.checkpoint_records import was_captured
from holdfast.commits import commit, get
from holdfast.contracts import (
    Delete,
    Insert,
    Key,
    Moved,
    Put,
    Query,
    Reader,
    Record,
    RecordStore,
    Scrubs,
    SearchesText,
    Write,
)
from holdfast.embedding_records import Gone
from holdfast.filters import Filter
from holdfast.heads import uid_of
from holdfast.history import Branch, Pointer, Segment
from holdfast.holds import check_free
from holdfast.ids import Stamps
from holdfast.kinds import (
    AGENTS,
    ARTIFACTS,
    BRANCHES,
    CAPTURES,
    CHECKPOINTS,
    EVENTS,
    EXECUTIONS,
    EXTRA_USAGES,
    HEADS,
    HOLDS,
    MARKS,
    MESSAGES,
    PARTS,
    PENDING,
    PRUNED,
    RESTORES,
    REVISIONS,
    RUNS,
    SESSIONS,
    SWEEPS,
    USAGES,
    Kind,
)
from holdfast.model import Value
from holdfast.parts import part_record, parts_at

BATCH = 200
GRACE_US = 24 * 3600 * 1_000_000
Forget = Callable[[Sequence[Gone]], None]
_BY_PLACE: tuple[Kind, ...] = (MESSAGES, USAGES, PRUNED, PARTS)
_BY_SESSION: tuple[Kind, ...] = (CHECKPOINTS, PENDING, EVENTS, RUNS, HOLDS, EXECUTIONS, EXTRA_USAGES, ARTIFACTS)


class Sweep(Value, frozen=True, kw_only=True):
    """Something that is gone for readers and whose rows are still to go."""

    kind: Literal["session", "agent", "staged"]
    name: str
    uid: str | None = None
    at: int


class Sweeps:
    """Deletes sessions, agents and what is left of them."""

    def __init__(self, store: RecordStore, stamps: Stamps, forget: Forget = lambda _: None) -> None:
        self._store = store
        self._stamps = stamps
        self._forget = forget

    def delete_session(self, session_id: str) -> None:
        """Make a session absent and sweep what it leaves."""
        record = get(self._store, SESSIONS, session_id)
        if record is None:
            return

        def place(reader: Reader) -> list[Write]:
            seen = history.look_up(reader, session_id)
            if seen is None:
                return []
            check_free(reader, seen.pointer, self._store)
            sweep = Put(_record(self._sweep("session", session_id)))
            return [Delete(HEADS, (session_id,)), *_farewell(reader, seen.pointer), sweep]

        commit(self._store, place)
        self._sweep_session(session_id)

    def delete_user(self, user_id: str) -> None:
        """Make every session of a user absent, what was the user's once, and what others have forked from them."""
        mine = (Filter("user_id", "=", user_id),)
        theirs = {str(head.key[0]) for head in self._store.scan(Query(kind=HEADS, where=mine))}
        theirs |= {str(one.key[0]) for one in self._store.scan(Query(kind=SESSIONS)) if user_id in _users_of(one)}
        for session_id in sorted(theirs):
            for fork in self._forks(session_id):
                self.delete_session(fork)
            self.delete_session(session_id)

    def _forks(self, session_id: str) -> list[str]:
        record = get(self._store, SESSIONS, session_id)
        if record is None:
            return []
        branches = history.branches_of(self._store, _history_of(record))
        own = {number for number, branch in branches.items() if branch.opened_by == uid_of(record)}
        return [
            str(other.key[0]) for other in self._sharers(record) if own & history.reach_from(other, branches).keys()
        ]

    def delete_agent(self, agent_id: str) -> None:
        """Make an agent and all its sessions absent in one commit, and sweep what they leave; Busy if a run has one."""
        mine = (Filter("agent_id", "=", agent_id),)
        made: list[Sweep] = []

        def place(reader: Reader) -> list[Write]:
            record = get(reader, AGENTS, agent_id)
            made[:] = [self._sweep("agent", agent_id, None if record is None else uid_of(record))]
            for head in reader.scan(Query(kind=HEADS, where=mine)):
                check_free(reader, history.see(reader, head).pointer, self._store)
            gone = [Delete(kind, (agent_id,)) for kind in (AGENTS, MARKS, RESTORES)]
            return [*gone, Delete(HEADS, (), mine), Put(_record(made[-1]))]

        commit(self._store, place)
        self._sweep_agent(made[-1])

    def finish_session(self, session_id: str) -> None:
        """If a deleted session still has this id, sweep it, so that the id is free."""
        if get(self._store, SESSIONS, session_id) is not None and get(self._store, HEADS, session_id) is None:
            self._sweep_session(session_id)

    def scrub(self) -> None:
        """Take what was deleted out of the bytes of the text index and of working files, where there are some."""
        if isinstance(self._store, SearchesText):
            self._store.text.purge()
        if isinstance(self._store, Scrubs):
            self._store.scrub()

    def resume(self) -> int:
        """Finish what crashes have left; returns how many sweeps were finished."""
        finished = 0
        for record in list(self._store.scan(Query(kind=SWEEPS))):
            sweep = codec.decode(record.body, Sweep, "sweep")
            if sweep.kind == "session":
                self._sweep_session(sweep.name)
            elif sweep.kind == "agent":
                self._sweep_agent(sweep)
            elif sweep.at < self._stamps.next() - GRACE_US:
                self._wipe(sweep.name)
                self._store.commit([_done(sweep)])
            else:
                continue
            finished += 1
        return finished

    def _sweep(self, kind: Literal["session", "agent", "staged"], name: str, uid: str | None = None) -> Sweep:
        return Sweep(kind=kind, name=name, uid=uid, at=self._stamps.next())

    def _sweep_agent(self, sweep: Sweep) -> None:
        mine = (Filter("agent_id", "=", sweep.name),)
        for record in list(self._store.scan(Query(kind=SESSIONS, where=mine))):
            self.finish_session(str(record.key[0]))
        if sweep.uid is not None:
            for kind in (REVISIONS, CHECKPOINTS, CAPTURES):
                self._clear(Query(kind=kind, prefix=(sweep.uid,)))
            self._store.commit([Delete(CHECKPOINTS, (sweep.uid,))])
        self._store.commit([_done(sweep)])

    def _sweep_session(self, session_id: str) -> None:
        record = get(self._store, SESSIONS, session_id)
        if record is not None and get(self._store, HEADS, session_id) is None:
            # Before the sessions are looked at: a branch that comes later is of one that may not be among them.
            branches = history.branches_of(self._store, _history_of(record))
            sharers = self._sharers(record)
            if sharers:
                self._wipe_unreached(_history_of(record), branches, sharers)
            else:
                self._wipe(_history_of(record))
            for kind in _BY_SESSION:
                self._clear(Query(kind=kind, prefix=(uid_of(record),)))
            self._store.commit([Delete(kind, (uid_of(record),)) for kind in (EVENTS, CHECKPOINTS)])
            self._forget(embedding_records.clear(self._store, uid_of(record)))
            self._remove(record)
        sweep = get(self._store, SWEEPS, f"session {session_id}")
        if sweep is not None and get(self._store, SESSIONS, session_id) is None:
            self._remove(sweep)

    def _remove(self, record: Record) -> None:
        """Delete a record unless somebody has put another in its place: then it is no longer ours."""
        with contextlib.suppress(Moved):
            self._store.commit([Delete(record.kind, record.key, over=record.digest)])

    def _sharers(self, session: Record) -> list[Record]:
        """The other living sessions of the same history."""
        same = (Filter("history", "=", _history_of(session)),)
        return [
            other
            for other in self._store.scan(Query(kind=SESSIONS, where=same))
            if other.key != session.key and get(self._store, HEADS, *other.key) is not None
        ]

    def _wipe_unreached(self, name: str, branches: dict[int, Branch], sharers: Iterable[Record]) -> None:
        """Remove what none of these sessions reaches."""
        kept: dict[int, int | None] = {}
        for session in sharers:
            reached = history.reach_from(session, branches)
            for number, end in reached.items():
                known = kept.get(number, 0)
                kept[number] = None if end is None or known is None else max(known, end)
        for branch in branches.values():
            if branch.branch not in kept:
                self._wipe_branch(branch)
            elif (end := kept[branch.branch]) is not None:
                for kind in _BY_PLACE:
                    self._clear(Query(kind=kind, prefix=(name, branch.branch), low=end + 1))

    def _wipe_branch(self, branch: Branch) -> None:
        prefix = (branch.history, branch.branch)
        for kind in _BY_PLACE:
            self._clear(Query(kind=kind, prefix=prefix))
        # The number stays taken: a slower sweeper must not meet a newer branch under it.
        first = history.first_link(branch.history)
        gone = replace(branch, gone=True, parent=None, fork_seq=0, fork_link=first, fork_id=None)
        self._store.commit([Delete(MESSAGES, prefix), Put(history.branch_record(gone))])

    def _wipe(self, name: str) -> None:
        for kind in (*_BY_PLACE, BRANCHES):
            self._clear(Query(kind=kind, prefix=(name,)))
        self._store.commit([Delete(MESSAGES, (name,))])

    def _clear(self, query: Query) -> None:
        """Delete what matches, in batches that hold no lock for long."""
        for batch in _batches(self._store.scan(query)):
            self._store.commit([Delete(query.kind, key) for key in batch])

    # copies that are not yet anybody's

    def staged_copy(self, new: str, source: str, runs: Iterable[Segment]) -> bytes:
        """Copy a path into a history that no session has yet; returns its last link."""
        self._store.commit([Put(_record(self._sweep("staged", new)))])
        link, batch = history.first_link(new), list[Write]()
        for seq, record in enumerate(_rows(self._store, source, runs), 1):
            digest = codec.redacted_digest(record.body) or record.digest
            link = history.next_link(link, digest, seq)
            key = (new, history.ROOT_BRANCH, seq)
            fields = (record.fields[0], seq, link)
            batch.append(Insert(Record(MESSAGES, key, record.body, record.digest, fields)))
            for kind in (USAGES, PRUNED):
                beside = get(self._store, kind, *record.key)
                if beside is not None:
                    said = codec.decode_envelope(beside.body, kind.name)
                    batch.append(Insert(history.beside_record(kind, key, said)))
            batch += [Insert(part_record(key, one.part, one.kept)) for one in parts_at(self._store, record.key)]
            if len(batch) >= BATCH:
                self._store.commit(batch)
                batch = []
        self._store.commit(batch)
        return link

    def publish(self, new: str) -> Write:
        """The write that makes a staged copy somebody's."""
        return Delete(SWEEPS, (f"staged {new}",))


def _record(sweep: Sweep) -> Record:
    body = codec.encode(sweep, "sweep")
    return Record(SWEEPS, (f"{sweep.kind} {sweep.name}",), body, codec.digest(body))


def _done(sweep: Sweep) -> Delete:
    return Delete(SWEEPS, (f"{sweep.kind} {sweep.name}",))


def _farewell(reader: Reader, pointer: Pointer) -> list[Write]:
    """What an agent's next checkpoint must learn of a session that goes: nothing if there was none before."""
    agent_id = pointer.agent_id
    if agent_id is None:
        return []
    agent = get(reader, AGENTS, agent_id)
    if agent is None or not was_captured(reader, uid_of(agent), pointer.uid):
        return [Delete(MARKS, (agent_id, pointer.uid))]
    return [history.mark(pointer, agent_id)]


def _users_of(session: Record) -> list[str]:
    return codec.decode_envelope(session.body, "session").get("users") or []


def _history_of(session: Record) -> str:
    return str(session.fields[1])


def _rows(reader: Reader, source: str, runs: Iterable[Segment]) -> Iterator[Record]:
    for run in runs:
        yield from reader.scan(Query(kind=MESSAGES, prefix=(source, run.branch), low=run.low, high=run.high))


def _batches(records: Iterable[Record]) -> Iterator[list[Key]]:
    batch: list[Key] = []
    for record in records:
        batch.append(record.key)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
