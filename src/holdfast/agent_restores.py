"""Restoring an agent's sessions: in one commit, or staged in their heads and published by one.

A staged head keeps the place where the session stands and has the other one `pending`. Whatever moves a session
takes that away and marks it, so the commit that publishes finds by the marks what is to be done once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from holdfast import checkpoint_records as records
from holdfast import codec, history
from holdfast.agent_records import Present, Revised
from holdfast.capturing import Instant
from holdfast.checkpoint_records import Capture, StoredCheckpoint
from holdfast.commits import commit, get
from holdfast.contracts import MAX_WRITES, Insert, Put, Query, Reader, Record, RecordStore, Write
from holdfast.errors import Busy
from holdfast.filters import Filter
from holdfast.heads import Pending, Pointer, Restore, restore_of, restore_record
from holdfast.history import Position
from holdfast.holds import held_by, is_live, store_now
from holdfast.ids import Stamps
from holdfast.kinds import HEADS, HOLDS, MARKS
from holdfast.model import Restored
from holdfast.run_records import read_hold

BATCH = 400  # heads in one commit: each is looked at together with its branch
_read_pointer = codec.reader_of(Pointer)


class TooMany(Busy):
    """More sessions are to be moved than one commit can."""


class Ends(Struct, frozen=True):
    """What an agent's restore needs of the rest: its recovery checkpoint's record, and the revision it goes back to."""

    capture: Callable[[Instant, StoredCheckpoint], Record]
    after: Callable[[Instant, Record], Present]
    revise: Callable[[Reader], Revised] | None


class _Plan(Struct):
    """What becomes of an agent's sessions."""

    restored: list[Pointer] = []
    detached: list[Pointer] = []
    moving: list[Pointer] = []
    missing: list[str] = []


class AgentRestore:
    """One restore of an agent's checkpoint; `wanted` are the captures to go back to, by session uid."""

    def __init__(
        self,
        store: RecordStore,
        stamps: Stamps,
        stored: StoredCheckpoint,
        recovery: StoredCheckpoint,
        wanted: dict[str, Capture],
        whole: bool,
        ends: Ends,
    ) -> None:
        assert stored.agent_id is not None
        self._store = store
        self._stamps = stamps
        self._agent_id = stored.agent_id
        self._stored = stored
        self._recovery = recovery
        self._wanted = wanted
        self._whole = whole
        self._ends = ends
        self._staged = False
        self.outcome: list[Restored] = []

    # the commit after which the new state counts

    def place(self, reader: Reader) -> list[Write]:
        """Everything in one commit, or what is left to do where the rest is staged; TooMany if that is too much."""
        if self._staged:
            self._check_mine(reader)
        instant = Instant(reader, self._agent_id)
        record = self._ends.capture(instant, self._recovery)
        plan = self._plan(reader)
        self._check_free(reader, [*plan.restored, *plan.detached])
        for pointer in plan.moving:
            seen = None if self._has(pointer) else instant.look(pointer.session_id)
            if seen is not None:
                instant.move(seen, self._target(reader, seen.pointer))
        revised = None if self._ends.revise is None else self._ends.revise(reader)
        self.outcome[:] = [self._restored(plan, record, revised)]
        present = self._ends.after(instant, record)
        if revised is not None:
            present = replace(present, revision=revised.present.revision, link=revised.present.link)
        extra = [] if revised is None else [Insert(revised.record)]
        publishing = [Put(self._record(published=True))] if self._staged else []
        writes = [*instant.writes(present), Insert(record), *extra, *publishing]
        if len(writes) > MAX_WRITES:
            raise TooMany(f"too many sessions of agent {self._agent_id!r} move at a time; nothing was restored, repeat")
        return writes

    def _restored(self, plan: _Plan, record: Record, revised: Revised | None) -> Restored:
        return Restored(
            checkpoint=records.view(records.checkpoint_record(self._stored)),
            recovery=records.view(record),
            agent=None if revised is None else revised.agent,
            sessions=[pointer.session_id for pointer in plan.restored],
            detached=[pointer.session_id for pointer in plan.detached],
            missing=plan.missing,
        )

    def _check_free(self, reader: Reader, pointers: list[Pointer]) -> None:
        """Busy if a run holds one of the sessions."""
        now = store_now(self._store)
        holds = {hold.session: hold for hold in map(read_hold, reader.scan(Query(kind=HOLDS))) if is_live(hold, now)}
        for pointer in pointers:
            if pointer.uid in holds:
                raise held_by(holds[pointer.uid], pointer.session_id)

    # what becomes of each session

    def _plan(self, reader: Reader) -> _Plan:
        plan, heads = _Plan(), {pointer.uid: pointer for pointer in self._pointers(reader)}
        for uid, capture in self._wanted.items():
            pointer, target = heads.get(uid), capture.position
            if pointer is None or target is None:
                plan.missing.append(capture.session_id)
                continue
            plan.restored.append(pointer)
            if not records.at_position(pointer, target) or pointer.detached_by is not None:
                plan.moving.append(pointer)
        if self._whole:
            plan.detached += [one for one in heads.values() if one.detached_by is None and one.uid not in self._wanted]
        plan.moving += plan.detached
        return plan

    def _pointers(self, reader: Reader) -> Iterator[Pointer]:
        """Where the agent's sessions stand, detached ones included."""
        mine = (Filter("agent_id", "=", self._agent_id),)
        return (_read_pointer(record.body) for record in reader.scan(Query(kind=HEADS, where=mine)))

    def _has(self, pointer: Pointer) -> bool:
        """Whether this restore has staged a session that has not moved since."""
        return pointer.pending is not None and pointer.pending.by == self._recovery.id

    def _target(self, reader: Reader, pointer: Pointer) -> Pointer:
        """A session's head as it will be."""
        capture = self._wanted.get(pointer.uid)
        if capture is None or capture.position is None:
            at = self._stamps.next(after=pointer.updated_at)
            return replace(pointer, detached_by=self._recovery.id, updated_at=at)
        return replace(moved(reader, pointer, capture.position, self._stamps), detached_by=None)

    # staging

    def stage(self) -> None:
        """Write the new places into the heads that have to move, where they do not count yet."""
        commit(self._store, self._begin)
        self._staged = True
        still = [one.session_id for one in self._plan(self._store).moving if not self._has(one)]
        for start in range(0, len(still), BATCH):
            commit(self._store, partial(self._stage, session_ids=still[start : start + BATCH]))

    def _begin(self, reader: Reader) -> list[Write]:
        restore = restore_of(reader, self._agent_id)
        if restore is not None and restore.published:
            raise Busy(f"a restore of agent {self._agent_id!r} has just been published; nothing was restored, repeat")
        return [Put(self._record())]

    def _stage(self, reader: Reader, session_ids: list[str]) -> list[Write]:
        self._check_mine(reader)
        writes: list[Write] = []
        for session_id in session_ids:
            seen = history.look_up(reader, session_id)
            if seen is None or seen.pointer.agent_id != self._agent_id or _is_marked(reader, seen.pointer):
                continue
            target = self._target(reader, seen.pointer)
            staged = replace(seen.pointer, pending=_pending(self._recovery.id, target))
            writes.append(Put(history.pointer_record(staged, seen.later), seen.digest))
        return writes

    def _record(self, published: bool = False) -> Record:
        at = self._stamps.next()
        return restore_record(Restore(agent_id=self._agent_id, by=self._recovery.id, at=at, published=published))

    def _check_mine(self, reader: Reader) -> None:
        restore = restore_of(reader, self._agent_id)
        if restore is None or restore.by != self._recovery.id:
            raise Busy(f"another restore of agent {self._agent_id!r} has begun; nothing was restored, repeat")


def _is_marked(reader: Reader, pointer: Pointer) -> bool:
    """Whether a session is not captured as it stands: it is left to the commit that publishes, which does that.

    A detached one's head keeps saying so when it has been.
    """
    marked = pointer.marked
    return marked and (
        pointer.detached_by is None or get(reader, MARKS, pointer.agent_id or "", pointer.uid) is not None
    )


def _pending(by: str, target: Pointer) -> Pending:
    place = {name: getattr(target, name) for name in Pending.__struct_fields__ if name != "by"}
    return Pending(by=by, **place)


def moved(reader: Reader, pointer: Pointer, target: Position, stamps: Stamps) -> Pointer:
    """The session's head at an earlier place; appending there opens a branch unless it is an end of its own."""
    here = history.branch_at(reader, target.history, target.branch)
    own = here.opened_by == pointer.uid and target.seq == history.end_of(reader, here)
    return replace(
        pointer,
        branch=target.branch,
        seq=target.seq,
        link=target.link,
        message_id=target.message_id,
        open=own,
        updated_at=stamps.next(after=pointer.updated_at),
    )
