"""Making checkpoints: of a session, by writing down its head; of an agent, by writing down the heads that moved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace as with_changes

from holdfast import appends, codec, history
from holdfast import checkpoint_records as records
from holdfast.agent_records import Present
from holdfast.capturing import Instant, stage
from holdfast.checkpoint_records import StoredCheckpoint
from holdfast.commits import commit
from holdfast.contracts import Delete, Insert, Put, Query, Reader, Record, Write
from holdfast.deadlines import remaining
from holdfast.errors import AlreadyExists, Busy, Conflict, InvalidInput
from holdfast.filters import Filter
from holdfast.finding import Finding
from holdfast.history import Pointer, Seen
from holdfast.ids import check_id, moment, new_id
from holdfast.kinds import CHECKPOINTS
from holdfast.model import Checkpoint, CheckpointKind, CheckpointStatus, Json, Message, ToolCall
from holdfast.settling import settle

T = TypeVar("T")


class Keeping(Finding):
    """Checkpoints that are made."""

    def create(
        self,
        agent_id: str | None = None,
        *,
        session_id: str | None = None,
        messages: Sequence[Message | dict[str, Any]] = (),
        id: str | None = None,
        kind: CheckpointKind = "manual",
        step: int | None = None,
        status: CheckpointStatus = "completed",
        reason: str | None = None,
        name: str | None = None,
        protected: bool = False,
        description: str | None = None,
        metadata: dict[str, Json] | None = None,
        partial_results: Sequence[Json] = (),
        tool_calls: Sequence[ToolCall] = (),
        extra: Json = None,
        run_id: str | None = None,
        parent_id: str | None = None,
        ttl: float | None = None,
        replace: bool = False,
        timeout: float | None = None,
    ) -> Checkpoint:
        """A checkpoint of one session, or of an agent's state and all its sessions at one instant.

        `messages` are appended to the session in the same commit. `ttl` seconds from now it may be pruned.
        A second one of the same session and step is AlreadyExists if it says something else, unless
        `replace=True`.
        """
        if (agent_id is None) == (session_id is None):
            raise InvalidInput("name either an agent_id or a session_id to checkpoint")
        _check_ttl(ttl)
        now = None if ttl is None else moment(self._stamps.next())
        draft = StoredCheckpoint(
            id=new_id() if id is None else check_id(id, "checkpoint id"),
            owner="",
            at=0,
            kind=kind,
            status=status,
            agent_id=agent_id,
            session_id=session_id,
            run_id=run_id,
            step=step,
            reason=reason,
            name=name,
            protected=protected,
            description=description,
            metadata=metadata,
            partial_results=_listed(partial_results, "partial_results"),
            tool_calls=_listed(tool_calls, "tool_calls"),
            extra=extra,
            parent_id=parent_id,
            created_at=now,
            expires_at=None if now is None or ttl is None else now + timedelta(seconds=ttl),
        )
        _check_draft(draft)
        with self._within(timeout):
            if session_id is not None:
                check_id(session_id, "session id")
                return self._of_session(session_id, draft, messages, replace)
            if messages:
                raise InvalidInput("messages are appended to a session; name its session_id")
            assert agent_id is not None
            return self._of_agent(check_id(agent_id, "agent id"), draft)

    # of a session

    def _of_session(
        self,
        session_id: str,
        draft: StoredCheckpoint,
        messages: Sequence[Message | dict[str, Any]],
        overwrite: bool,
    ) -> Checkpoint:
        said = self._ground.say(messages)
        made: list[tuple[Record, Seen]] = []

        def place(reader: Reader) -> list[Write]:
            seen = history.must_see(reader, session_id)
            rivals = _rivals(reader, seen.pointer, draft)
            if rivals and not (overwrite and all(one.key[0] == seen.pointer.uid for one in rivals)):
                made[:] = [(self._repeated(reader, seen, rivals[0], draft, said), seen)]
                return []
            parent_id = draft.parent_id or seen.pointer.checkpoint_id
            at, made_at = self._stamps.behind(seen.pointer.checkpointed_at)
            pointer = history.checkpointed(seen.pointer, at, draft.id, draft.step)
            seen, writes = _append(reader, Seen(pointer, seen.digest, seen.later), said, at)
            record = session_checkpoint(draft, seen.pointer, at, made_at, parent_id)
            made[:] = [(record, seen)]
            gone = [Delete(CHECKPOINTS, rival.key, over=rival.digest) for rival in rivals]
            return [*writes, *gone, Insert(record)]

        hopeful = None if overwrite else self._hopeful(session_id, draft, said)
        if hopeful is None:
            commit(self._store, place)
        else:
            commit(self._store, place, hopeful.writes)
            if not made:
                self._ground.remember(hopeful.seen)
                return hopeful.view()
        record, seen = made[-1]
        self._ground.remember(seen)
        return records.view(record)

    def _hopeful(self, session_id: str, draft: StoredCheckpoint, said: list[appends.Said]) -> _Hopeful | None:
        """What to write if the session stands where it was last seen, which the commit finds out; None if unseen.

        Whoever makes a checkpoint moves the head, so that no other of this step can have come since.
        """
        seen = self._ground.heads.get(session_id)
        if seen is None or not appends.goes_on(seen.pointer, said):
            return None
        if of_step(self._store, seen.pointer, draft.step):
            return None
        parent_id = draft.parent_id or seen.pointer.checkpoint_id
        at, made_at = self._stamps.behind(seen.pointer.checkpointed_at)
        pointer = history.checkpointed(seen.pointer, at, draft.id, draft.step)
        seen, writes = _behind(Seen(pointer, seen.digest, seen.later), said, at)
        stored = _standing(draft, seen.pointer, at, made_at, parent_id)
        plain = records.is_plain(stored)
        record = records.checkpoint_record(stored, plain=plain)
        writes.append(Insert(record))
        return _Hopeful(stored if plain else None, record, seen, writes)

    def _repeated(
        self, reader: Reader, seen: Seen, rival: Record, draft: StoredCheckpoint, said: list[appends.Said]
    ) -> Record:
        """The one that is there, if it is the one asked for; AlreadyExists if it says or points at something else."""
        present = _same(rival, draft)
        stands = (seen.pointer.branch, seen.pointer.seq)
        if said:
            found = appends.settle(reader, seen, said, None, True, self._stamps.next())
            last = found.messages[-1]
            stands = (-1, -1) if found.writes else (last.branch or 0, last.seq or 0)
        elif present.id == draft.id:
            return rival
        if present.position is None or stands != (present.position.branch, present.position.seq):
            raise AlreadyExists(
                f"checkpoint {present.id!r} exists at another message; use replace=True, or another step or id", present
            )
        return rival

    # of an agent

    def _of_agent(self, agent_id: str, draft: StoredCheckpoint) -> Checkpoint:
        self._stage(agent_id)
        made: list[Record] = []

        def place(reader: Reader) -> list[Write]:
            rival = records.find(reader, draft.id)
            if rival is not None:
                _same(rival, draft)
                made[:] = [rival]
                return []
            instant = Instant(reader, agent_id)
            record = self._capture(instant, draft)
            made[:] = [record]
            return [*instant.writes(after_checkpoint(instant, record)), Insert(record)]

        commit(self._store, place)
        self._ground.heads.clear()
        return records.view(made[-1])

    def _stage(self, agent_id: str, leave: int | None = None) -> None:
        """Capture beforehand what one commit could not hold, or all but a few; settle first what counts already."""
        settle(self._store, agent_id)
        staged: list[Write] = []

        def some(reader: Reader) -> list[Write]:
            staged[:] = stage(reader, agent_id, leave)
            return staged

        commit(self._store, some)
        while staged:
            if remaining() == 0:
                raise Busy(f"agent {agent_id!r} has many sessions that moved; repeat to go on, or raise timeout=")
            commit(self._store, some)

    def _capture(self, instant: Instant, draft: StoredCheckpoint) -> Record:
        """The checkpoint's record; the instant has then captured every session that moved."""
        if not instant.capture_all():
            raise Conflict(f"too many sessions of agent {draft.agent_id!r} moved meanwhile; repeat")
        present = instant.present
        at, made_at = self._stamps.behind(present.checkpointed_at)
        return records.checkpoint_record(
            with_changes(
                draft,
                owner=present.uid,
                at=at,
                created_at=draft.created_at or made_at,
                number=instant.number,
                revision=present.revision,
                revision_link=present.link,
                parent_id=draft.parent_id or present.checkpoint_id,
            )
        )


def _append(reader: Reader, seen: Seen, said: list[appends.Said], at: int) -> tuple[Seen, list[Write]]:
    """The head with what was said at this time behind it, and the writes for both."""
    if said:
        appended = appends.settle(reader, seen, said, None, True, _later(seen, at))
        if appended.writes:
            return appended.seen, appended.writes
    return _behind(seen, [], at)


def _behind(seen: Seen, said: list[appends.Said], at: int) -> tuple[Seen, list[Write]]:
    """The same where nothing of it can be there already."""
    if said:
        appended = appends.extend(seen, said, _later(seen, at))
        return appended.seen, appended.writes
    head = history.pointer_record(seen.pointer, seen.later)
    return Seen(seen.pointer, head.digest, seen.later), [Put(head, seen.digest)]


def _later(seen: Seen, at: int) -> int:
    """This time, or where another's clock was ahead of it, a moment after the session's last change."""
    return max(at, seen.pointer.updated_at + 1)


def session_checkpoint(
    draft: StoredCheckpoint, pointer: Pointer, at: int, made_at: datetime | None, parent_id: str | None
) -> Record:
    """The record of a checkpoint of the session that stands here; `made_at` is told where it is not `at`."""
    return records.checkpoint_record(_standing(draft, pointer, at, made_at, parent_id))


def _standing(
    draft: StoredCheckpoint, pointer: Pointer, at: int, made_at: datetime | None, parent_id: str | None
) -> StoredCheckpoint:
    return with_changes(
        draft,
        owner=pointer.uid,
        at=at,
        created_at=draft.created_at or made_at,
        agent_id=pointer.agent_id,
        parent_id=parent_id,
        position=history.position_of(pointer),
    )


class _Hopeful(Struct, frozen=True, gc=False):
    """A checkpoint that is made if its session has not moved; as it will read back, where that is known."""

    stored: StoredCheckpoint | None
    record: Record
    seen: Seen
    writes: list[Write]

    def view(self) -> Checkpoint:
        """As its reader sees it."""
        return records.view(self.record) if self.stored is None else records.shown(self.stored, self.record)


def after_checkpoint(instant: Instant, record: Record) -> Present:
    """The agent's record once this checkpoint is made."""
    return with_changes(
        instant.present,
        checkpoints=instant.number,
        checkpointed_at=int(record.key[1]),
        checkpoint_id=str(record.fields[0]),
    )


def _rivals(reader: Reader, pointer: Pointer, draft: StoredCheckpoint) -> list[Record]:
    """The checkpoint that has this id already, and this session's with the same step."""
    found = records.find(reader, draft.id)
    rivals = [] if found is None else [found]
    return rivals + [one for one in of_step(reader, pointer, draft.step) if found is None or one.key != found.key]


def of_step(reader: Reader, pointer: Pointer, step: int | None) -> list[Record]:
    """A session's checkpoints of this step; nothing is read where all are known to be of earlier ones."""
    greatest = pointer.checkpoint_step
    if step is None or (greatest is not None and step > greatest):
        return []
    return list(reader.scan(Query(kind=CHECKPOINTS, prefix=(pointer.uid,), where=(Filter("step", "=", step),))))


_OWN = ("id", "owner", "at", "created_at", "parent_id", "expires_at", "position", "number", "revision", "revision_link")


def _same(rival: Record, draft: StoredCheckpoint) -> StoredCheckpoint:
    """What the one that is there says, if it says the same; AlreadyExists if not."""
    present = records.read_stored(rival)
    own = _OWN if draft.session_id is None else (*_OWN, "agent_id")
    for name in StoredCheckpoint.__struct_fields__:
        said, asked = (codec.encode(getattr(one, name), name) for one in (present, draft))
        if name not in own and said != asked:
            raise AlreadyExists(
                f"checkpoint {present.id!r} exists with another {name}; use replace=True, or another step or id",
                present,
            )
    return present


def _listed(given: Sequence[T], what: str) -> list[T]:
    if type(given) not in (tuple, list) and (isinstance(given, str | bytes) or not isinstance(given, Sequence)):
        raise InvalidInput(f"{what} is a list, not {type(given).__name__}")
    return [*given]


def _check_draft(draft: StoredCheckpoint) -> None:
    if draft.metadata is not None or draft.extra is not None or draft.partial_results:
        for name in ("metadata", "partial_results", "extra"):
            codec.check_json(getattr(draft, name), f"checkpoint {name}")
    for call in draft.tool_calls:
        if not isinstance(call, ToolCall):
            raise InvalidInput(f"tool_calls are ToolCalls, not {type(call).__name__}")
        codec.check_json(call.arguments, f"the arguments of tool call {call.id!r}")
    if draft.step is not None and (not isinstance(draft.step, int) or not 0 <= draft.step < 2**63):
        raise InvalidInput(f"step is a whole number from 0, not {draft.step!r}")


def _check_ttl(ttl: float | None) -> None:
    if ttl is not None and (not isinstance(ttl, int | float) or not 0 <= ttl < 10**10):
        raise InvalidInput(f"ttl is a number of seconds from 0, not {ttl!r}")
