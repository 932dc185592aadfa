"""Restoring: verify what would become live, then let the new pointers count by one commit, and keep the way back."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Literal

from holdfast import checkpoint_records as records
from holdfast import history
from holdfast.agent_records import Revised, must_be_present, revise
from holdfast.agent_restores import AgentRestore, Ends, TooMany, moved
from holdfast.agents import Agents
from holdfast.checkpoint_records import Capture, StoredCheckpoint
from holdfast.checks import check_path, check_position, check_revision, check_revisions
from holdfast.commits import commit, get
from holdfast.contracts import Insert, Query, Reader, Record, Write
from holdfast.errors import Busy, CorruptData, HoldfastError, InvalidInput, NotFound
from holdfast.filters import Filter
from holdfast.heads import scan_heads
from holdfast.holds import check_free
from holdfast.ids import EPOCH, moment, new_id
from holdfast.keeping import Keeping, after_checkpoint
from holdfast.kinds import HEADS, REVISIONS
from holdfast.model import Agent, Restored
from holdfast.nouns import Ground
from holdfast.run_records import end_writes, find_run, hold_of, read_run
from holdfast.session_checkpoints import session_checkpoint
from holdfast.sessions import Sessions
from holdfast.settling import abandon, settle

_ROUNDS = 4
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
                newer = scan_heads(self._store, Query(kind=HEADS, where=_shown(stored.agent_id))) if whole else ()
                self._revoke(
                    [*(one.session_id for one in wanted.values()), *(seen.pointer.session_id for seen in newer)]
                )
            restored = self._restore(stored, wanted, with_state, whole=sessions is None)
            self._ground.heads.clear()
            return restored

    def _wanted(self, stored: StoredCheckpoint, sessions: Sequence[str] | None) -> dict[str, Capture]:
        """Where each session to restore stood, by session uid."""
        captured = records.captured(self._store, stored)
        if sessions is None:
            return captured
        if isinstance(sessions, str):
            raise InvalidInput(f"sessions is a list of session ids, not {sessions!r}")
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
            created_at=EPOCH,
            kind="recovery",
            status="completed",
            agent_id=stored.agent_id,
            session_id=stored.session_id,
            description=f"before restoring {stored.name or stored.id}",
        )
        if stored.session_id is not None:
            return self._restore_session(stored, recovery)
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
        if target is None:
            raise CorruptData(f"checkpoint {stored.id!r} does not say where its session stood")
        made: list[Record] = []

        def place(reader: Reader) -> list[Write]:
            seen = history.must_see(reader, session_id)
            check_free(reader, seen.pointer, self._store)
            now = self._stamps.next()
            pointer = history.checkpointed(seen.pointer, recovery.id, now)
            record = session_checkpoint(recovery, pointer, now, seen.pointer.checkpoint_id)
            made[:] = [record]
            back = moved(reader, pointer, target, self._stamps)
            return [*history.move(seen, back)[1], Insert(record)]

        commit(self._store, place)
        return Restored(
            checkpoint=records.view(records.checkpoint_record(stored)),
            recovery=records.view(made[-1]),
            sessions=[session_id],
        )

    def _restore_agent(
        self,
        stored: StoredCheckpoint,
        recovery: StoredCheckpoint,
        wanted: dict[str, Capture],
        with_state: bool,
        whole: bool,
    ) -> Restored:
        agent_id = stored.agent_id
        assert agent_id is not None
        revise = partial(self._revised, stored=stored) if with_state else None
        ends = Ends(self._capture, after_checkpoint, revise)
        work = AgentRestore(self._store, self._stamps, stored, recovery, wanted, whole, ends)
        try:
            self._publish(agent_id, work)
        except HoldfastError:
            with contextlib.suppress(HoldfastError):  # gc takes it back if this cannot
                abandon(self._store, agent_id, recovery.id)
            raise
        with contextlib.suppress(Busy):  # the restore counts; whoever comes next settles the rest
            settle(self._store, agent_id)
        return work.outcome[-1]

    def _publish(self, agent_id: str, work: AgentRestore) -> None:
        """Commit a restore, after staging as much of it as does not fit; sessions that go on moving are Busy."""
        for _ in range(_ROUNDS):
            self._stage(agent_id, leave=1)
            with contextlib.suppress(TooMany):
                commit(self._store, work.place)
                return
            work.stage()
        commit(self._store, work.place)

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
