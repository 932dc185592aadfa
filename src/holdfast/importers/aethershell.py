"""aethershell: folders `agents`, `conversations` and `checkpoints`, a JSON file for each thing in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from holdfast.contents import listed, role_of, tool_names, unbase64
from holdfast.errors import CorruptData
from holdfast.importers.facts import given, with_facts
from holdfast.importers.reading import as_text, derive, moment_of, parse_file, rest_of, shaped
from holdfast.importers.reports import Report
from holdfast.importers.shell_files import (
    AgentShape,
    AttachmentShape,
    CheckpointShape,
    ConversationShape,
    MessageShape,
    OutcomeShape,
    wrong_sum,
)
from holdfast.importers.shell_values import record_of
from holdfast.importers.snapshots import Line, Snapshots
from holdfast.importers.taking import Taker
from holdfast.model import (
    Agent,
    Attachment,
    CheckpointKind,
    ExecutionStatus,
    Json,
    Message,
    Text,
    ToolCall,
    ToolExecution,
)

_KINDS: dict[str, CheckpointKind] = {
    "Automatic": "automatic",
    "Manual": "manual",
    "PreOperation": "pre_operation",
    "Recovery": "recovery",
}
_STATUSES: dict[str, ExecutionStatus] = {
    "Pending": "pending",
    "Running": "running",
    "Completed": "success",
    "Failed": "failed",
}
AttachmentType = Literal["image", "audio", "video", "file", "code"]


def read(taker: Taker, path: Path) -> None:
    """Take a folder over: checkpoints from the oldest on, then agents and conversations as they are now."""
    importing = _Importing(taker)
    for _, file in sorted(_dated(taker, path / "checkpoints")):
        with taker.report.noting(str(file)):
            importing.checkpoint(file)
        taker.report.step()
    for file in _files(path / "agents"):
        with taker.report.noting(str(file)):
            importing.agent(parse_file(file, taker.report), str(file))
    for file in _files(path / "conversations"):
        with taker.report.noting(str(file)):
            importing.conversation(parse_file(file, taker.report), str(file))
        taker.report.step()


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json")) if folder.is_dir() else []


def _dated(taker: Taker, folder: Path) -> Iterator[tuple[int, Path]]:
    """The checkpoints that can be read, with their times."""
    for file in _files(folder):
        with taker.report.noting(str(file)):
            yield shaped(parse_file(file, taker.report), CheckpointShape, str(file)).created_at, file


class _Importing:
    """One folder under import."""

    def __init__(self, taker: Taker) -> None:
        self._taker = taker
        self._report = taker.report
        self._sessions: dict[str, Snapshots] = {}

    def agent(self, raw: dict[str, Json], where: str) -> bool:
        told = shaped(raw, AgentShape, where)
        agent = Agent(
            id=told.agent_id,
            name=told.name,
            kind=told.agent_type,
            system_prompt=told.system_prompt,
            capabilities=told.capabilities,
            config=record_of(told.config),
            state=record_of(told.custom_state),
            metadata=told.metadata,
            schema_version=told.version,
        )
        facts = given(
            created_at=_text(told.created_at, where),
            modified_at=_text(told.modified_at, where),
            active_conversations=told.active_conversations,
            fields=rest_of(raw, AgentShape),
        )
        return self._taker.agent(agent, where, **facts)

    def conversation(self, raw: dict[str, Json], where: str) -> None:
        """Put a conversation in as it is now, and move the head to its end if anything of it has moved."""
        snapshots, last = self._taken(raw, where)
        if snapshots.placing.has_moved:
            snapshots.placing.stand(last)

    def _taken(self, raw: dict[str, Json], where: str) -> tuple[Snapshots, str]:
        """A conversation put in, and its last message; the head stays where it is unless something is new."""
        told = shaped(raw, ConversationShape, where)
        if told.agent_id is not None and self._taker.hf.agents.get(told.agent_id) is None:
            self._report.note(where, f"it names the agent {told.agent_id!r}, which has no file")
        snapshots = self._snapshots(told, raw, where)
        if snapshots is None:
            raise CorruptData(f"{where}: its session could not be taken")
        names: dict[str, str] = {}
        places = ((one, f"{where}, message {n}") for n, one in enumerate(told.messages, 1))
        last = snapshots.take(self._line(one, place, names) for one, place in places)
        snapshots.placing.flush()
        self._outcomes(told, where)
        return snapshots, last

    def _snapshots(self, told: ConversationShape, raw: dict[str, Json], where: str) -> Snapshots | None:
        if told.id not in self._sessions:
            facts = given(
                created_at=_text(told.created_at, where),
                last_message_at=_text(told.last_message_at, where),
                fields=rest_of(raw, ConversationShape),
            )
            placing = self._taker.session(
                told.id,
                where,
                agent_id=told.agent_id,
                title=told.title,
                metadata=told.metadata,
                tags=told.tags,
                archived=told.archived,
                facts=facts,
            )
            if placing is None:
                return None
            self._sessions[told.id] = Snapshots(placing, self._report)
        return self._sessions[told.id]

    def _line(self, raw: dict[str, Json], where: str, names: dict[str, str]) -> Line:
        parent, own = raw.get("parent_id"), raw.get("id")
        names |= tool_names(raw)
        return Line(
            id=own if isinstance(own, str) else None,
            raw=_without_outcomes(raw),
            where=where,
            make=partial(self._message, raw, where, names),
            parent=parent if isinstance(parent, str) else None,
        )

    def _message(self, raw: dict[str, Json], where: str, names: dict[str, str]) -> Message | None:
        told = shaped(raw, MessageShape, where)
        role = role_of(told.role)
        if role is None:
            self._report.note(where, f"not taken: the role {told.role!r} is not known")
            return None
        called = (told.metadata or {}).get("tool_call_id") if role == "tool" else None
        return Message(
            role=role,
            content=[Text(text=told.content)] if told.content else [],
            created_at=moment_of(told.timestamp, where),
            tool_calls=[
                ToolCall(id=one.id, name=one.name, arguments=record_of(one.arguments)) for one in told.tool_calls
            ],
            tool_call_id=called if isinstance(called, str) else None,
            tool_name=names.get(called) if isinstance(called, str) else None,
            attachments=[_attachment(one, self._report, where) for one in told.attachments],
            metadata=with_facts(told.metadata, given(tokens=told.tokens, fields=rest_of(raw, MessageShape))),
        )

    def _outcomes(self, told: ConversationShape, where: str) -> None:
        for n, raw in enumerate(told.messages, 1):
            for call in listed(raw.get("tool_calls")):
                place = f"{where}, message {n}"
                with self._report.noting(f"{place}, outcome of a call"):
                    self._outcome(told.id, shaped(raw, MessageShape, place), shaped(call, OutcomeShape, place), place)

    def _outcome(self, session_id: str, said: MessageShape, call: OutcomeShape, where: str) -> None:
        status = _STATUSES.get(call.status)
        if status is None:
            raise CorruptData(f"{where}: the status {call.status!r} of call {call.id!r} is not known")
        execution = ToolExecution(
            id=derive(session_id, said.id, call.id),
            tool_name=call.name,
            arguments=record_of(call.arguments),
            message_id=said.id,
            call_id=call.id,
            status=status,
            result=call.result if status == "success" else None,
            error=call.result if status == "failed" else None,
            created_at=moment_of(said.timestamp, where),
        )
        self._taker.execution(session_id, execution)

    def checkpoint(self, file: Path) -> None:
        where = str(file)
        raw = parse_file(file, self._report)
        told = shaped(raw, CheckpointShape, where)
        if self._taker.has_checkpoint(told.id, where):
            return
        facts = given(created_at=_text(told.created_at, where), checksum=told.checksum, size_bytes=told.size_bytes)
        wrong = wrong_sum(file.read_text("utf-8-sig"), told)
        if wrong is not None:
            facts["damaged"] = wrong
            self._report.note(where, f"taken and flagged: {wrong}")
        if told.agent_state.get("agent_id") != told.agent_id or not self.agent(told.agent_state, where):
            raise CorruptData(f"{where}: its agent could not be taken")
        held = [self._taken(one, f"{where}, conversation {n}") for n, one in enumerate(told.conversations, 1)]
        facts["conversations"] = [snapshots.placing.session_id for snapshots, _ in held]
        if told.checkpoint_type not in _KINDS:
            self._report.note(where, f"its kind {told.checkpoint_type!r} is not known; it was taken as manual")
        with ExitStack() as stack:
            for snapshots, last in held:
                stack.enter_context(snapshots.placing.standing(last))
            self._taker.checkpoint(
                told.id,
                where,
                agent_id=told.agent_id,
                kind=_KINDS.get(told.checkpoint_type, "manual"),
                name=told.name or None,
                description=told.description,
                facts=facts,
            )


def _text(seconds: int | None, where: str) -> str | None:
    return None if seconds is None else as_text(moment_of(seconds, where))


def _without_outcomes(raw: dict[str, Json]) -> dict[str, Json]:
    """What a message says; how its calls came out changes without its saying anything else."""
    calls = raw.get("tool_calls")
    if not isinstance(calls, list):
        return raw
    changing = ("result", "status")
    said = [{k: v for k, v in one.items() if k not in changing} if isinstance(one, dict) else one for one in calls]
    return {**raw, "tool_calls": said}


def _attachment(told: AttachmentShape, report: Report, where: str) -> Attachment:
    kind = told.attachment_type.lower()
    if kind not in get_args(AttachmentType):
        report.note(where, f"an attachment of the type {told.attachment_type!r} was taken as a file")
        kind = "file"
    data = None if kind == "code" else unbase64(told.content)
    return Attachment(
        id=told.id,
        type=kind,  # type: ignore[arg-type]
        name=told.name,
        mime_type=told.mime_type,
        content=told.content if data is None else None,
        data=data,
        url=told.url,
        size=told.size,
    )
