"""`hf.checkpoints`: points to go back to, which cost the same at message 10 and at message 100,000."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast import checkpoint_records as records
from holdfast import diffs, history
from holdfast.agent_records import must_be_present
from holdfast.automatic import Automatic
from holdfast.checkpoint_records import Capture, StoredCheckpoint
from holdfast.contracts import Query, Reader
from holdfast.errors import AlreadyExists, InvalidInput, NotFound
from holdfast.heads import restore_of
from holdfast.history import Pointer, Position, Segment
from holdfast.ids import check_id, new_id
from holdfast.kinds import MARKS
from holdfast.model import (
    Agent,
    Change,
    Checkpoint,
    CheckpointDiff,
    CheckpointKind,
    Head,
    Message,
    Session,
    SessionDiff,
)
from holdfast.pruning import Pruning
from holdfast.scopes import Scope


class Checkpoints(Pruning):
    """`hf.checkpoints`: create, restore, fork, diff, prune, and read what was."""

    # what was

    def state(self, checkpoint_id: str, *, timeout: float | None = None) -> Agent:
        """The agent as it was at a checkpoint of it."""
        with self._within(timeout):
            stored = self._must_find(self._store, checkpoint_id)
            if stored.session_id is not None:
                raise InvalidInput(f"checkpoint {checkpoint_id!r} is of a session; only an agent's has a state")
            return self._revision(self._store, stored)

    def heads(self, checkpoint_id: str, *, timeout: float | None = None) -> Mapping[str, Head]:
        """Where each session stood at a checkpoint, by session id."""
        with self._within(timeout):
            captured = records.captured(self._store, self._must_find(self._store, checkpoint_id))
        return {
            one.session_id: Head(branch=one.position.branch, seq=one.position.seq, message_id=one.position.message_id)
            for one in captured.values()
            if one.position is not None
        }

    def messages(
        self, checkpoint_id: str, session_id: str | None = None, *, timeout: float | None = None
    ) -> Iterator[Message]:
        """The transcript of a session as of a checkpoint, lazily; a session's own checkpoint needs no session id."""
        with self._within(timeout):
            stored = self._must_find(self._store, checkpoint_id)
            position = self._position(stored, session_id)
            name = session_id or stored.session_id or ""
            runs = history.segments(self._store, position.history, position.branch, position.seq)
        return (message for run in runs for message in history.read(self._store, name, position.history, run))

    def _position(self, stored: StoredCheckpoint, session_id: str | None) -> Position:
        wanted = session_id or stored.session_id
        if wanted is None:
            raise InvalidInput(f"checkpoint {stored.id!r} is of a whole agent; name the session_id to read")
        for uid, capture in records.captured(self._store, stored).items():
            if capture.session_id == wanted and capture.position is not None and self._lives(uid, wanted):
                return capture.position
        raise NotFound(f"checkpoint {stored.id!r} has no session {wanted!r}, or it was deleted since")

    def _lives(self, uid: str, session_id: str) -> bool:
        """Whether it is still the same session: what a fork keeps of a deleted one is the fork's to read."""
        seen = history.look_up(self._store, session_id)
        return seen is not None and seen.pointer.uid == uid

    # what changed

    def diff(self, before: str, after: str, *, messages: bool = True, timeout: float | None = None) -> CheckpointDiff:
        """What changed from one checkpoint to another; `messages=False` only says in which sessions."""
        with self._within(timeout):
            old, new = (self._must_find(self._store, one) for one in (before, after))
            return CheckpointDiff(
                agent=[*self._state_changes(old, new)], sessions=[*self._session_changes(old, new, messages)]
            )

    def _state_changes(self, old: StoredCheckpoint, new: StoredCheckpoint) -> Iterator[Change]:
        if old.revision is None or new.revision is None or old.owner != new.owner:
            return iter(())
        return diffs.agent_changes(self._revision(self._store, old), self._revision(self._store, new))

    def _session_changes(self, old: StoredCheckpoint, new: StoredCheckpoint, messages: bool) -> Iterator[SessionDiff]:
        stood, stands = (records.captured(self._store, one) for one in (old, new))
        for uid in [*stood, *(uid for uid in stands if uid not in stood)]:
            yield from self._session_change(uid, stood.get(uid), stands.get(uid), messages)

    def _session_change(
        self, uid: str, old: Capture | None, new: Capture | None, messages: bool
    ) -> Iterator[SessionDiff]:
        known = new or old
        assert known is not None
        before, after = (None if one is None else one.position for one in (old, new))
        if before is not None and after is not None and before.link == after.link:
            return
        common, removed, added = diffs.parted(self._store, before, after)
        past = (after or before).history  # type: ignore[union-attr]

        def read(runs: Sequence[Segment]) -> list[Message]:
            wanted = runs if messages and self._lives(uid, known.session_id) else ()
            return [one for run in wanted for one in history.read(self._store, known.session_id, past, run)]

        yield SessionDiff(
            session_id=known.session_id,
            kind="added" if before is None else "removed" if after is None else "changed",
            common=common,
            added=read(added),
            removed=read(removed),
        )

    # going on from there

    def fork(
        self,
        checkpoint_id: str,
        *,
        id: str | None = None,
        title: str | None = None,
        copy: bool = False,
        timeout: float | None = None,
    ) -> Session | Agent:
        """The same point as a new session, or for an agent's checkpoint as a new agent with its sessions.

        It shares storage with what it came from; `copy=True` makes it independent.
        """
        with self._within(timeout):
            stored = self._must_find(self._store, checkpoint_id)
            new = new_id() if id is None else check_id(id, "id")
            captured = records.captured(self._store, stored)
            if stored.session_id is not None:
                position = captured[stored.owner].position
                assert position is not None
                return self._fork_session(stored.owner, stored.session_id, position, new, title=title, copy=copy)
            if title is not None:
                raise InvalidInput("a title is a session's; an agent's checkpoint gives a new agent")
            return self._fork_agent(stored, captured, new, copy)

    def _fork_agent(self, stored: StoredCheckpoint, captured: Mapping[str, Capture], new: str, copy: bool) -> Agent:
        agent = self._revision(self._store, stored)
        if self._agents.get(new) is not None:
            raise AlreadyExists(f"agent {new!r} exists; choose another id")
        for uid, one in captured.items():
            seen = history.look_up(self._store, one.session_id)
            if one.position is not None and seen is not None and seen.pointer.uid == uid:
                self._fork_session(uid, one.session_id, one.position, new_id(), agent_id=new, copy=copy)
        return self._agents.save(replace(agent, id=new, revision=None))

    def _fork_session(self, uid: str, session_id: str, at: Position, new: str, **given: Any) -> Session:
        def stand(_: Reader, pointer: Pointer) -> Pointer:
            if pointer.uid != uid:
                raise NotFound(f"session {session_id!r} was deleted meanwhile")
            place = {name: getattr(at, name) for name in ("history", "branch", "seq", "link", "n", "message_id")}
            return replace(pointer, **place)

        return self._sessions._fork(session_id, new, stand, **given)

    # when to make them

    def changed(self, agent_id: str, *, timeout: float | None = None) -> bool:
        """Whether an agent or one of its sessions has changed since its last checkpoint."""
        with self._within(timeout):
            present, _ = must_be_present(self._store, check_id(agent_id, "agent id"))
            restore = restore_of(self._store, agent_id)
            if restore is not None and restore.published:
                return True
            moved = self._store.scan(Query(kind=MARKS, prefix=(agent_id,), limit=1))
            if present.checkpoints == 0 or next(iter(moved), None) is not None:
                return True
            last = next(records.newest_first(self._store, present.uid), None)
            if last is None or last.fields[0] != present.checkpoint_id:
                return True
            return records.view(last).revision != present.revision

    def before(
        self,
        description: str,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        rollback_on_error: bool = False,
    ) -> Scope:
        """A scope around a risky operation: `with … as scope:` takes a checkpoint, `scope.rollback()` goes back.

        With `rollback_on_error=True` an exception rolls back by itself, and is raised all the same.
        """
        kind: CheckpointKind = "pre_operation"

        def take() -> Checkpoint:
            return self.create(agent_id, session_id=session_id, kind=kind, description=description)

        return Scope(take, self.restore, rollback_on_error)

    def automatic(self, agent_id: str, *, every_s: float = 300, keep: int = 10, enabled: bool = True) -> Automatic:
        """The timer that checkpoints an agent while something changes; it runs from `start()` to `stop()`.

        There is one per agent: asking again gives the same one while it runs.
        """
        check_id(agent_id, "agent id")
        known = self._ground.timers.get(agent_id)
        if known is not None and known.running:
            return known
        timer = Automatic(Keeper(self), agent_id, every_s, keep, enabled)
        self._ground.timers[agent_id] = timer
        return timer


class Keeper:
    """What a timer does to an agent."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints

    def take(self, agent_id: str) -> Checkpoint | None:
        """Checkpoint the agent unless nothing has changed since its last checkpoint."""
        if not self._checkpoints.changed(agent_id):
            return None
        return self._checkpoints.create(agent_id, kind="automatic")

    def trim(self, agent_id: str, keep: int) -> None:
        """Keep the last so many automatic checkpoints."""
        self._checkpoints.prune(agent_id, keep=keep, kind="automatic")
