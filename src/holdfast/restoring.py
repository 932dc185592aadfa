"""Restoring: verify what would become live, then move the pointers in one commit, and keep the way back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal

from msgspec.structs import replace as with_changes

from holdfast import checkpoint_records as records
from holdfast import history
from holdfast.agent_records import Revised, must_be_present, revise
from holdfast.agents import Agents
from holdfast.capturing import Instant
from holdfast.checkpoint_records import Capture, StoredCheckpoint
from holdfast.checks import check_path, check_position, check_revision, check_revisions
from holdfast.commits import commit, get
from holdfast.contracts import MAX_WRITES, Insert, Query, Reader, Record, Write
from holdfast.errors import InvalidInput, NotFound
from holdfast.filters import Filter
from holdfast.history import Pointer, Position, Seen
from holdfast.holds import check_free
from holdfast.ids import moment, new_id
from holdfast.keeping import Keeping, after_checkpoint, session_checkpoint
from holdfast.kinds import HEADS, REVISIONS
from holdfast.model import Agent, Restored
from holdfast.nouns import Ground
from holdfast.run_records import end_writes, find_run, hold_of, read_run
from holdfast.sessions import Sessions

Verification = Literal["full", "pointers"]


class Restoring(Keeping):
    """Going back to checkpoints."""

    def __init__(self, ground: Ground, sessions: Sessions, agents: Agents) -> None:
        super().__init__(ground)
        self._sessions = sessions
        self._agents = agents

    def restore(
        self,
        checkpoint_id: str,
        *,
        sessions: Sequence[str] | None = None,
        state: bool | None = None,
        verify: Verification = "full",
        force: bool = False,
        timeout: float | None = None,
    ) -> Restored:
        """Make a checkpoint's content the present one, or change nothing.

        Everything that would become live is verified first; `verify="pointers"` checks only the checkpoint, the
        revision and the heads. Of an agent's checkpoint, `sessions=[…]` restores a part, without the state
        unless `state=True`. Restoring the result's `recovery` checkpoint undoes it. Busy while a run holds one
        of the sessions, unless `force=True` first ends it as halted.
        """
        if verify not in ("full", "pointers"):
            raise InvalidInput(f"verify is 'full' or 'pointers', not {verify!r}")
        with self._within(timeout):
            stored = self._must_find(self._store, checkpoint_id)
            wanted = self._wanted(stored, sessions)
            with_state = stored.session_id is None and (sessions is None if state is None else state)
            self._verify(stored, wanted, with_state, verify)
            whole = sessions is None and stored.session_id is None
            if force:
                newer = self._store.scan(Query(kind=HEADS, where=_shown(stored.agent_id))) if whole else ()
                self._revoke([*(one.session_id for one in wanted.values()), *(str(row.key[0]) for row in newer)])
            restored = self._restore(stored, wanted, with_state, whole=sessions is None)
            self._ground.heads.clear()
            return restored

    def _wanted(self, stored: StoredCheckpoint, sessions: Sequence[str] | None) -> dict[str, Capture]:
        """Where each session to restore stood, by session uid."""
        captured = records.captured(self._store, stored)
        if sessions is None:
            return captured
        known = {capture.session_id for capture in captured.values()}
        for session_id in sessions:
            if session_id not in known:
                raise NotFound(f"checkpoint {stored.id!r} has no session {session_id!r}")
        return {uid: capture for uid, capture in captured.items() if capture.session_id in sessions}

    def _verify(
        self, stored: StoredCheckpoint, wanted: dict[str, Capture], with_state: bool, verify: Verification
    ) -> None:
        """IntegrityError if anything that would become live is damaged."""
        if with_state and stored.revision is not None:
            check = check_revisions if verify == "full" else check_revision
            check(self._store, stored.owner, stored.revision, stored.revision_link)
        for uid, capture in wanted.items():
            seen = history.look_up(self._store, capture.session_id)
            if seen is None or seen.pointer.uid != uid or capture.position is None:
                continue
            if verify == "full":
                check_path(self._store, capture.position)
            else:
                check_position(self._store, capture.position)

    def _restore(self, stored: StoredCheckpoint, wanted: dict[str, Capture], with_state: bool, whole: bool) -> Restored:
        recovery = StoredCheckpoint(
            id=new_id(),
            owner="",
            at=0,
            created_at=moment(self._stamps.next()),
            kind="recovery",
            status="completed",
            agent_id=stored.agent_id,
            session_id=stored.session_id,
            description=f"before restoring {stored.name or stored.id}",
        )
        if stored.session_id is not None:
            return self._restore_session(stored, recovery)
        assert stored.agent_id is not None
        self._stage(stored.agent_id, leave=1)
        return self._restore_agent(stored, recovery, wanted, with_state, whole)

    def _revoke(self, session_ids: Sequence[str]) -> None:
        """End the runs that hold these sessions."""
        for session_id in session_ids:
            if self._revocation(self._store, session_id):
                commit(self._store, partial(self._revocation, session_id=session_id))

    def _revocation(self, reader: Reader, session_id: str) -> list[Write]:
        seen = history.look_up(reader, session_id)
        hold = None if seen is None else hold_of(reader, seen.pointer.uid)
        record = None if hold is None else find_run(reader, hold.run_id)
        run = None if record is None else read_run(record)
        if run is None or run.status != "running":
            return []
        return end_writes(reader, run, "halted", "revoked", moment(self._stamps.next()))[0]

    def _restore_session(self, stored: StoredCheckpoint, recovery: StoredCheckpoint) -> Restored:
        assert stored.session_id is not None
        session_id, target = stored.session_id, stored.position
        assert target is not None
        made: list[Record] = []

        def place(reader: Reader) -> list[Write]:
            seen = history.must_see(reader, session_id)
            check_free(reader, seen.pointer, self._store)
            at = self._stamps.next(after=seen.pointer.checkpointed_at)
            parent = with_changes(recovery, parent_id=seen.pointer.checkpoint_id)
            record = session_checkpoint(parent, seen.pointer, at)
            made[:] = [record]
            pointer = with_changes(seen.pointer, checkpointed_at=at, checkpoint_id=recovery.id)
            moved = self._moved(reader, pointer, target)
            return [*history.move(seen, moved)[1], Insert(record)]

        commit(self._store, place)
        return Restored(
            checkpoint=records.view(records.checkpoint_record(stored)),
            recovery=records.view(made[-1]),
            sessions=[session_id],
        )

    def _moved(self, reader: Reader, pointer: Pointer, target: Position) -> Pointer:
        """The session's head at an earlier place; appending there opens a branch unless it is an end of its own."""
        here = history.branch_at(reader, target.history, target.branch)
        own = here.opened_by == pointer.uid and target.seq == history.end_of(reader, here)
        return with_changes(
            pointer,
            branch=target.branch,
            seq=target.seq,
            link=target.link,
            message_id=target.message_id,
            open=own,
            updated_at=self._stamps.next(after=pointer.updated_at),
        )

    def _restore_agent(
        self,
        stored: StoredCheckpoint,
        recovery: StoredCheckpoint,
        wanted: dict[str, Capture],
        with_state: bool,
        whole: bool,
    ) -> Restored:
        outcome: list[Restored] = []

        def place(reader: Reader) -> list[Write]:
            assert stored.agent_id is not None
            instant = Instant(reader, stored.agent_id)
            record = self._capture(instant, recovery)
            moved, missing = self._move_sessions(reader, instant, wanted)
            detached = self._detach_newer(reader, instant, stored, wanted, recovery.id) if whole else []
            revised = self._revised(reader, stored) if with_state else None
            present = after_checkpoint(instant, record)
            if revised is not None:
                present = with_changes(present, revision=revised.present.revision, link=revised.present.link)
            outcome[:] = [
                Restored(
                    checkpoint=records.view(records.checkpoint_record(stored)),
                    recovery=records.view(record),
                    agent=None if revised is None else revised.agent,
                    sessions=moved,
                    detached=detached,
                    missing=missing,
                )
            ]
            extra = [] if revised is None else [Insert(revised.record)]
            return _within_limits([*instant.writes(present), Insert(record), *extra])

        commit(self._store, place)
        return outcome[-1]

    def _move_sessions(
        self, reader: Reader, instant: Instant, wanted: dict[str, Capture]
    ) -> tuple[list[str], list[str]]:
        """Point every session at where it stood; returns those restored and those no longer there or another's."""
        restored, missing = [], []
        for uid, capture in wanted.items():
            seen, target = instant.look(capture.session_id), capture.position
            if seen is None or not instant.has(seen.pointer, uid) or target is None:
                missing.append(capture.session_id)
                continue
            restored.append(capture.session_id)
            pointer = seen.pointer
            check_free(reader, pointer, self._store)
            if records.at_position(pointer, target) and pointer.detached_by is None:
                continue
            instant.move(seen, with_changes(self._moved(reader, pointer, target), detached_by=None))
        return restored, missing

    def _detach_newer(
        self, reader: Reader, instant: Instant, stored: StoredCheckpoint, wanted: dict[str, Capture], by: str
    ) -> list[str]:
        """Take sessions out of sight that did not exist at the checkpoint."""
        detached = []
        for seen in self._attached(reader, instant, stored.agent_id):
            if seen.pointer.uid not in wanted:
                check_free(reader, seen.pointer, self._store)
                detached.append(seen.pointer.session_id)
                at = self._stamps.next(after=seen.pointer.updated_at)
                instant.move(seen, with_changes(seen.pointer, detached_by=by, updated_at=at))
        return detached

    def _attached(self, reader: Reader, instant: Instant, agent_id: str | None) -> Iterator[Seen]:
        for record in list(reader.scan(Query(kind=HEADS, where=_shown(agent_id)))):
            seen = instant.look(str(record.key[0]))
            if seen is not None:
                yield seen

    def _revised(self, reader: Reader, stored: StoredCheckpoint) -> Revised:
        """The agent's next revision, with the content of the one the checkpoint refers to."""
        assert stored.agent_id is not None
        present, _ = must_be_present(reader, stored.agent_id)
        kept = self._revision(reader, stored)
        old = get(reader, REVISIONS, present.uid, present.revision)
        return revise(kept, present, old, self._stamps.next())

    def _revision(self, reader: Reader, stored: StoredCheckpoint) -> Agent:
        record = None if stored.revision is None else get(reader, REVISIONS, stored.owner, stored.revision)
        if record is None or stored.agent_id is None:
            raise NotFound(f"checkpoint {stored.id!r} refers to no agent revision")
        present, _ = must_be_present(reader, stored.agent_id)
        return self._agents._read(record, present)


def _shown(agent_id: str | None) -> tuple[Filter, ...]:
    """The sessions that an agent shows."""
    return (Filter("agent_id", "=", agent_id), Filter("detached_by", "=", None))


def _within_limits(writes: list[Write]) -> list[Write]:
    """The writes, or InvalidInput if they are too many to be one commit."""
    if len(writes) > MAX_WRITES:
        raise InvalidInput(
            f"the restore moves or detaches so many sessions that it takes {len(writes)} writes, and one commit"
            f" takes {MAX_WRITES}; restore them in parts: sessions=[…]"
        )
    return writes
