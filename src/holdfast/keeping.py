"""Making checkpoints: of a session, by writing down its head; of an agent, by writing down the heads that moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from operator import is_
from typing import Any, TypeVar

from msgspec.structs import replace as with_changes

from holdfast import appends, codec
from holdfast import checkpoint_records as records
from holdfast.agent_records import Present
from holdfast.capturing import Instant, stage
from holdfast.checkpoint_records import StoredCheckpoint
from holdfast.commits import Plan, commit
from holdfast.contracts import Insert, Reader, Record, RecordStore, Write
from holdfast.deadlines import remaining
from holdfast.errors import Busy, Conflict, InvalidInput
from holdfast.finding import Finding
from holdfast.heads import next_stamp
from holdfast.ids import EPOCH, check_id, moment, new_id
from holdfast.model import Checkpoint, CheckpointKind, CheckpointStatus, Json, Message, ToolCall
from holdfast.retention import check_kind
from holdfast.session_checkpoints import check_same, keep
from holdfast.settling import settle

T = TypeVar("T")

_USUAL = ("completed", None, None, False, None, None, None, None, None, (), ())  # of `rarer` in _plan_create
_LONGEST_TTL_S = 10_000_000_000  # some three centuries


class Blocking(Plan[Checkpoint]):
    """A checkpoint that is not for an event loop to make: it takes several commits, or a while to check."""

    blocks = True

    make: Callable[[], Checkpoint]

    def carry_out(self, store: RecordStore) -> Checkpoint:  # noqa: ARG002 — its maker has it
        return self.make()


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
        return self._submit(
            self._plan_create,
            timeout,
            agent_id,
            session_id,
            messages,
            id,
            kind,
            step,
            status,
            reason,
            name,
            protected,
            description,
            metadata,
            partial_results,
            tool_calls,
            extra,
            run_id,
            parent_id,
            ttl,
            replace,
        )

    def _plan_create(
        self,
        agent_id: str | None,
        session_id: str | None,
        messages: Sequence[Message | dict[str, Any]],
        id: str | None,
        kind: CheckpointKind,
        step: int | None,
        status: CheckpointStatus,
        reason: str | None,
        name: str | None,
        protected: bool,
        description: str | None,
        metadata: dict[str, Json] | None,
        partial_results: Sequence[Json],
        tool_calls: Sequence[ToolCall],
        extra: Json,
        run_id: str | None,
        parent_id: str | None,
        ttl: float | None,
        replace: bool,
    ) -> Plan[Checkpoint]:
        if (agent_id is None) == (session_id is None):
            raise InvalidInput("name either an agent_id or a session_id to checkpoint")
        check_kind(kind)
        if name == "":
            raise InvalidInput("a name is not empty; leave it out for a checkpoint without one")
        draft = StoredCheckpoint(
            id=new_id() if id is None else check_id(id, "checkpoint id"),
            kind=kind,
            agent_id=agent_id,
            session_id=session_id,
            step=step,
            created_at=EPOCH,
        )
        lists = partial_results, tool_calls
        rarer = (status, reason, name, protected, description, metadata, extra, run_id, parent_id, *lists)
        # A Struct takes longer the more fields it is given, and most checkpoints are given none of these.
        usual = all(map(is_, rarer, _USUAL))
        if not usual:
            draft = with_changes(
                draft,
                status=status,
                reason=reason,
                name=name,
                protected=protected,
                description=description,
                metadata=metadata,
                partial_results=_listed(partial_results, "partial_results"),
                tool_calls=_listed(tool_calls, "tool_calls"),
                extra=extra,
                run_id=run_id,
                parent_id=parent_id,
            )
        if ttl is not None:
            drafted = moment(self._stamps.next())
            expires = drafted + timedelta(seconds=_check_ttl(ttl))
            draft = with_changes(draft, created_at=drafted, expires_at=expires)
            usual = False
        if step is not None:
            if not isinstance(step, int) or not 0 <= step < 2**63:
                raise InvalidInput(f"step is a whole number from 0, not {step!r}")
            usual = usual and type(step) is int
        if session_id is None:
            if messages:
                raise InvalidInput("messages are appended to a session; name its session_id")
            return Blocking(None, partial(self._of_agent, check_id(agent_id, "agent id"), draft))
        if type(session_id) is not str or session_id not in self._ground.heads:
            check_id(session_id, "session id")
        if not usual and _has_json(draft):
            return Blocking(None, partial(self._of_session, session_id, draft, messages, replace))
        return keep(self._ground, session_id, draft, appends.say(_listed(messages, "messages")), replace, usual)

    def _of_session(
        self,
        session_id: str,
        draft: StoredCheckpoint,
        messages: Sequence[Message | dict[str, Any]],
        overwrite: bool,
    ) -> Checkpoint:
        _check_json(draft)
        said = appends.say(_listed(messages, "messages"))
        return keep(self._ground, session_id, draft, said, overwrite, False).carry_out(self._store)

    def _of_agent(self, agent_id: str, draft: StoredCheckpoint) -> Checkpoint:
        _check_json(draft)
        self._stage(agent_id)
        made: list[Record] = []

        def place(reader: Reader) -> list[Write]:
            rival = records.find(reader, draft.id)
            if rival is not None:
                check_same(rival, draft)
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
        now = self._stamps.next()
        return records.checkpoint_record(
            with_changes(
                draft,
                uid=present.uid,
                number=instant.number,
                at=next_stamp(now, present.checkpoint_at),
                created_at=records.made_at(draft, moment(now)),
                revision=present.revision,
                revision_link=present.link,
                parent_id=draft.parent_id or present.checkpoint_id,
            )
        )


def after_checkpoint(instant: Instant, record: Record) -> Present:
    """The agent's record once this checkpoint is made."""
    checkpoint_id, _, at = record.fields
    assert isinstance(at, int)
    return with_changes(instant.present, checkpoints=instant.number, checkpoint_at=at, checkpoint_id=str(checkpoint_id))


def _listed(given: Sequence[T], what: str) -> list[T]:
    if type(given) not in (tuple, list) and (isinstance(given, str | bytes) or not isinstance(given, Sequence)):
        raise InvalidInput(f"{what} is a list, not {type(given).__name__}")
    return [*given]


def _has_json(draft: StoredCheckpoint) -> bool:
    """Whether it has values of the caller's, which may be large."""
    return not (draft.metadata is draft.extra is None) or bool(draft.partial_results or draft.tool_calls)


def _check_json(draft: StoredCheckpoint) -> None:
    for name in ("metadata", "partial_results", "extra"):
        codec.check_json(getattr(draft, name), f"checkpoint {name}")
    for call in draft.tool_calls:
        if not isinstance(call, ToolCall):
            raise InvalidInput(f"tool_calls are ToolCalls, not {type(call).__name__}")
        codec.check_json(call.arguments, f"the arguments of tool call {call.id!r}")


def _check_ttl(ttl: float) -> float:
    if not isinstance(ttl, int | float) or not 0 <= ttl <= _LONGEST_TTL_S:
        raise InvalidInput(f"ttl is a number of seconds from 0 to {_LONGEST_TTL_S:,}, not {ttl!r}")
    return ttl
