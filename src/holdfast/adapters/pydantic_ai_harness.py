"""The step persistence of pydantic-ai's harness on Holdfast: runs, their events, snapshots and tool effects.

    Agent(model, capabilities=[StepPersistence(store=HoldfastStepStore(hf))])

A run is a session whose transcript is what its snapshots hold, each message once; a snapshot is a checkpoint of it.
What happened step by step is the log of a second session.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from holdfast.adapters._extras import needing

with needing("pydantic-ai-harness"):
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelMessagesTypeAdapter
    from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord, StepEvent, ToolEffectRecord

from holdfast import codec
from holdfast.adapters._awaited import Awaited
from holdfast.adapters._groups import groups, note_of
from holdfast.adapters._pydantic_ai_messages import MARK as MESSAGE_MARK
from holdfast.adapters._pydantic_ai_messages import message_of, messages_of
from holdfast.adapters._together import every
from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.errors import AlreadyExists, NotFound
from holdfast.ids import check_count, check_id, new_id
from holdfast.model import Checkpoint, Message, Session

__all__ = ["HoldfastStepStore"]

MARK = "pydantic_ai_harness"
TAG = "pydantic-ai-run"
_PAGE = 200

_RUNS: TypeAdapter[RunRecord] = TypeAdapter(RunRecord)
_EVENTS: TypeAdapter[StepEvent] = TypeAdapter(StepEvent)
_EFFECTS: TypeAdapter[ToolEffectRecord] = TypeAdapter(ToolEffectRecord)
_SNAPSHOTS: TypeAdapter[ContinuableSnapshot] = TypeAdapter(ContinuableSnapshot)


class HoldfastStepStore:
    """The harness's StepStore in a Holdfast store; takes a `Holdfast` or an `AsyncHoldfast`.

    `max_snapshots_per_run` keeps so many snapshots of a run, and the newest complete one.
    """

    def __init__(
        self,
        hf: Holdfast | AsyncHoldfast,
        *,
        agent_id: str | None = None,
        max_snapshots_per_run: int | None = None,
    ) -> None:
        self._awaited = Awaited(hf)
        self._hf = self._awaited.hf
        self._agent_id = None if agent_id is None else check_id(agent_id, "agent id")
        if max_snapshots_per_run is not None and check_count(max_snapshots_per_run, "max_snapshots_per_run") < 1:
            raise ValueError(f"max_snapshots_per_run must be >= 1 or None, got {max_snapshots_per_run!r}")
        self._most = max_snapshots_per_run

    # runs

    async def register_run(self, record: RunRecord) -> None:
        """Keep a run; the very same again changes nothing, another with its id is AlreadyExists."""
        await self._awaited.call(self._register, record)

    def _register(self, record: RunRecord) -> None:
        said = {"run": _RUNS.dump_python(record, mode="json")}
        known = _noted(self._begun(record.run_id, said))
        if "run" not in known:
            self._hf.sessions.update(_session_of(record.run_id), metadata={MARK: said})
        elif known != said:
            raise AlreadyExists(f"run {record.run_id!r} is registered already; give the new one its own id")

    def _begun(self, run_id: str, note: dict[str, Any]) -> Session:
        """The session of a run; a new one gets this note."""
        name = _session_of(run_id)
        known = self._hf.sessions.get(name)
        if known is not None:
            return known
        return self._hf.sessions.create(id=name, agent_id=self._agent_id, tags=[TAG], metadata={MARK: note})

    async def get_run(self, *, run_id: str) -> RunRecord | None:
        """A run by its id, or None."""
        found = await self._awaited.call(self._hf.sessions.get, _session_of(run_id))
        return None if found is None else _run(found)

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> list[RunRecord]:
        """The runs that match, the first started first."""
        found = await self._awaited.call(lambda: [*filter(None, map(_run, self._sessions()))])
        wanted = {"parent_run_id": parent_run_id, "conversation_id": conversation_id}
        asked = {name: value for name, value in wanted.items() if value is not None}
        runs = [run for run in found if all(getattr(run, name) == value for name, value in asked.items())]
        return sorted(runs, key=lambda run: run.started_at)

    def _sessions(self) -> Iterator[Session]:
        page = partial(self._hf.sessions.list, tag=TAG, order="created", limit=_PAGE)
        return every(lambda cursor: page(cursor=cursor))

    # the log: events and effects

    async def append_event(self, event: StepEvent) -> None:
        """Add an event; one with an idempotency key that is there already is left out."""
        said = {"event": _EVENTS.dump_python(event, mode="json")}
        name = None if event.idempotency_key is None else _name("event", event.run_id, event.idempotency_key)
        await self._awaited.call(self._log, event.run_id, said, name)

    def _log(self, run_id: str, note: dict[str, Any], name: str | None = None) -> None:
        log = _log_of(run_id)
        message = Message(role="system", id=name or new_id(), metadata={MARK: note})
        try:
            self._hf.sessions.append(log, message)
        except AlreadyExists:
            return  # the same key, whatever it says now
        except NotFound:
            title = f"steps of {run_id}"
            self._hf.sessions.create(id=log, agent_id=self._agent_id, title=title, archived=True)
            self._hf.sessions.append(log, message)

    def _logged(self, run_id: str, sort: str) -> list[Any]:
        notes = (note_of(message, MARK) or {} for message in self._hf.sessions.messages(_log_of(run_id)))
        return [note[sort] for note in notes if sort in note]

    async def list_events(self, *, run_id: str) -> list[StepEvent]:
        """A run's events in the order they came."""
        return [*map(_EVENTS.validate_python, await self._awaited.call(self._logged, run_id, "event"))]

    async def record_tool_effect(self, record: ToolEffectRecord) -> None:
        """Say how it stands with a call of a tool; what was said before stays in the log."""
        await self._awaited.call(self._log, record.run_id, {"effect": _EFFECTS.dump_python(record, mode="json")})

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        """How it stands with a call, or None."""
        return (await self._effects(run_id)).get(tool_call_id)

    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        """The calls that have begun and not ended: after a crash each may or may not have had its effect."""
        return [one for one in (await self._effects(run_id)).values() if one.status == "started"]

    async def _effects(self, run_id: str) -> dict[str, ToolEffectRecord]:
        logged = await self._awaited.call(self._logged, run_id, "effect")
        return {one.tool_call_id: one for one in map(_EFFECTS.validate_python, logged)}

    # snapshots

    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        """Keep a snapshot; only messages that the run has not had yet are added."""
        await self._awaited.call(self._save, snapshot)

    def _save(self, snapshot: ContinuableSnapshot) -> None:
        run_id, key = snapshot.run_id, snapshot.idempotency_key
        name = None if key is None else _name("snapshot", run_id, key)
        if name is not None and self._hf.sessions.message(_log_of(run_id), name) is not None:
            return
        session = self._begun(run_id, {})
        said = [
            one
            for number, message in enumerate(snapshot.messages)
            for one in messages_of(message, _entry_id(number, message), session.created_at)
        ]
        self._hf.sessions.save({"id": session.id}, said)
        about = _SNAPSHOTS.dump_python(snapshot, mode="json", exclude={"messages"})
        if name is None or not self._hf.checkpoints.has(name):
            self._hf.checkpoints.create(session_id=session.id, id=name, kind="automatic", metadata={MARK: about})
        if name is not None:  # stays when the snapshot is pruned
            self._log(run_id, {}, name)
        self._prune(session.id)

    def _prune(self, session_id: str) -> None:
        if self._most is None:
            return
        kept = list(self._checkpoints(session_id))
        complete = next((one for one in kept if _about(one)["state"] == "complete"), None)
        for one in kept[self._most :]:
            if one is not complete:
                self._hf.checkpoints.delete(one.id)

    def _checkpoints(self, session_id: str) -> Iterator[Checkpoint]:
        """The checkpoints that are snapshots, newest first."""
        page = partial(self._hf.checkpoints.list, session_id=session_id, limit=_PAGE)
        return filter(_about, every(lambda cursor: page(cursor=cursor)))

    async def latest_snapshot(self, *, run_id: str, include_interrupted: bool = False) -> ContinuableSnapshot | None:
        """The newest complete snapshot, or the newest of all; None if there is none."""
        return await self._awaited.call(lambda: next(self._snapshots(run_id, include_interrupted), None))

    async def list_snapshots(self, *, run_id: str, include_interrupted: bool = False) -> list[ContinuableSnapshot]:
        """The complete snapshots that are kept, or all of them, the oldest first."""
        return await self._awaited.call(lambda: [*self._snapshots(run_id, include_interrupted)][::-1])

    def _snapshots(self, run_id: str, include_interrupted: bool) -> Iterator[ContinuableSnapshot]:
        for one in self._checkpoints(_session_of(run_id)):
            about = _about(one)
            if include_interrupted or about["state"] == "complete":
                path = groups(self._hf.checkpoints.messages(one.id), MESSAGE_MARK)
                messages = [message_of(group, self._hf.artifacts.read) for group in path]
                yield _SNAPSHOTS.validate_python({**about, "messages": messages})


def _session_of(run_id: str) -> str:
    return f"run/{run_id}"


def _log_of(run_id: str) -> str:
    return f"steps/{run_id}"


def _noted(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = (session.metadata or {}).get(MARK) or {}
    return found


def _run(session: Session) -> RunRecord | None:
    said = _noted(session).get("run")
    return None if said is None else _RUNS.validate_python(said)


def _about(checkpoint: Checkpoint) -> dict[str, Any]:
    found: dict[str, Any] = (checkpoint.metadata or {}).get(MARK) or {}
    return found


def _name(sort: str, *of: str) -> str:
    """The id of what these name, the same for no others."""
    return f"{sort} {codec.digest(codec.encode(of, sort)).hex()}"


def _entry_id(number: int, message: Any) -> str:
    """The id of a message by its place and content, so that it is the same in the next snapshot."""
    return f"{number}.{codec.digest(ModelMessagesTypeAdapter.dump_json([message])).hex()}"
