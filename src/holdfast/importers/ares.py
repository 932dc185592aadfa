"""ares: a flat folder of `{session}_{step}.json`, each with the whole conversation up to its step."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec import Struct

from holdfast.contents import parts_of, read_arguments, role_of, told_role
from holdfast.errors import CorruptData
from holdfast.importers.facts import given, with_facts
from holdfast.importers.reading import as_text, derive, moment_of, parse_file, rest_of, shaped, usable_id
from holdfast.importers.snapshots import Line, Snapshots
from holdfast.importers.taking import Taker
from holdfast.model import CheckpointStatus, Json, Message, ToolCall, ToolExecution

POINTER = "_latest.json"
_STATUSES: dict[str, CheckpointStatus] = {
    "InProgress": "in_progress",
    "Completed": "completed",
    "Failed": "failed",
    "Halted": "halted",
}


class _Call(Struct):
    tool_name: str
    arguments: str = ""
    result: str | None = None
    success: bool = False


class _Message(Struct):
    role: str
    content: str = ""


class _Step(Struct):
    id: str
    agent_name: str
    session_id: str
    step: int
    timestamp: int
    messages: list[dict[str, Json]] = []
    tool_calls: list[dict[str, Json]] = []
    partial_results: list[Json] = []
    status: str | dict[str, str] = "InProgress"


class _Place(Struct, frozen=True, order=True):
    session_id: str
    timestamp: int
    step: int
    source: str


def read(taker: Taker, path: Path) -> None:
    """Take a folder over, session by session, each from its oldest step on."""
    places = sorted(_places(taker, path))
    importing = _Importing(taker)
    for place in places:
        with taker.report.noting(place.source):
            importing.step(parse_file(Path(place.source), taker.report), place.source)
        taker.report.step()
    _check_pointers(taker, path, places)


def _places(taker: Taker, path: Path) -> Iterator[_Place]:
    for file in sorted(path.glob("*.json")):
        where = str(file)
        if not file.name.endswith(POINTER):
            with taker.report.noting(where):
                told = shaped(parse_file(file, taker.report), _Step, where)
                yield _Place(told.session_id, told.timestamp, told.step, where)


def _check_pointers(taker: Taker, path: Path, places: list[_Place]) -> None:
    """Note the pointers that lead nowhere, or not to the newest step."""
    newest = {place.session_id: Path(place.source).name for place in places}
    read = {Path(place.source).name: place.session_id for place in places}
    for file in sorted(path.glob(f"*{POINTER}")):
        named = file.read_bytes().decode(errors="replace").strip()
        if named not in read:
            taker.report.note(str(file), f"it points at {named!r}, which could not be read")
        elif newest[read[named]] != named:
            taker.report.note(str(file), f"it points at {named!r}, the newest is {newest[read[named]]!r}")


class _Importing:
    """Steps of sessions, oldest first."""

    def __init__(self, taker: Taker) -> None:
        self._taker = taker
        self._report = taker.report
        self._open: Snapshots | None = None

    def step(self, raw: dict[str, Json], where: str) -> None:
        told = shaped(raw, _Step, where)
        checkpoint_id = usable_id(told.id, self._report, where, told.session_id)
        if self._taker.has_checkpoint(checkpoint_id, where):
            return
        agent_id = usable_id(told.agent_name, self._report, where, "agent")
        self._taker.bare_agent(agent_id)
        snapshots = self._snapshots(told, agent_id, where)
        if snapshots is None:
            raise CorruptData(f"{where}: its session could not be taken")
        last = snapshots.take(self._lines(told, where))
        session_id = snapshots.placing.session_id
        status, reason = self._status(told.status, where)
        with snapshots.placing.standing(last):
            self._taker.checkpoint(
                checkpoint_id,
                where,
                session_id=session_id,
                step=told.step if told.step >= 0 else None,
                status=status,
                reason=reason,
                partial_results=told.partial_results,
                tool_calls=[*self._calls(told, session_id, where)],
                facts=given(
                    timestamp=as_text(moment_of(told.timestamp, where)), step=told.step, fields=rest_of(raw, _Step)
                ),
            )

    def _snapshots(self, told: _Step, agent_id: str, where: str) -> Snapshots | None:
        session_id = usable_id(told.session_id, self._report, where, "session")
        if self._open is None or self._open.placing.session_id != session_id:
            placing = self._taker.session(session_id, where, agent_id=agent_id)
            self._open = None if placing is None else Snapshots(placing, self._report)
        return self._open

    def _status(self, told: str | dict[str, str], where: str) -> tuple[CheckpointStatus, str | None]:
        name, reason = (told, None) if isinstance(told, str) else next(iter(told.items()), ("", None))
        if name not in _STATUSES:
            self._report.note(where, f"its status {told!r} is not known; it was taken as in progress")
        return _STATUSES.get(name, "in_progress"), reason

    def _lines(self, told: _Step, where: str) -> Iterator[Line]:
        """Messages have neither ids nor times: a place and what is said there make the one, the step the other."""
        for n, raw in enumerate(told.messages, 1):
            place = f"{where}, message {n}"
            yield Line(id=None, raw=raw, where=place, make=partial(self._message, raw, told.timestamp, place))

    def _message(self, raw: dict[str, Json], timestamp: int, where: str) -> Message | None:
        told = shaped(raw, _Message, where)
        role = role_of(told.role)
        if role is None:
            self._report.note(where, f"not taken: the role {told.role!r} is not known")
            return None
        facts = given(role=told_role(told.role), fields=rest_of(raw, _Message))
        return Message(
            role=role,
            content=parts_of(told.content),
            created_at=moment_of(timestamp, where),
            metadata=with_facts(None, facts),
        )

    def _calls(self, told: _Step, session_id: str, where: str) -> Iterator[ToolCall]:
        """The calls of a step, each recorded as an execution the first time it is seen."""
        for n, raw in enumerate(told.tool_calls, 1):
            place = f"{where}, tool call {n}"
            with self._report.noting(place):
                call = shaped(raw, _Call, place)
                own = derive(session_id, str(n), repr(sorted(raw.items())))
                execution = _execution(call, own, moment_of(told.timestamp, place))
                self._taker.execution(session_id, execution)
                yield ToolCall(id=execution.id, name=call.tool_name, arguments=execution.arguments)


def _execution(call: _Call, id: str, created_at: datetime) -> ToolExecution:
    return ToolExecution(
        id=id,
        tool_name=call.tool_name,
        arguments=read_arguments(call.arguments),
        status="success" if call.success else "failed",
        result=call.result if call.success else None,
        error=None if call.success else call.result,
        created_at=created_at,
    )
