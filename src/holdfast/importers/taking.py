"""Taking agents, sessions, checkpoints and executions over: once, and never over what is somebody else's."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast import codec
from holdfast.client import Holdfast
from holdfast.errors import AlreadyExists, InvalidInput
from holdfast.importers.facts import fact, with_facts
from holdfast.importers.placing import Placing
from holdfast.importers.reports import Report
from holdfast.model import Agent, Checkpoint, ExecutionStatus, ToolExecution

_RANK: dict[ExecutionStatus, int] = {"pending": 0, "running": 1, "success": 2, "failed": 2}


class Taker:
    """One import into one store."""

    def __init__(self, hf: Holdfast, report: Report) -> None:
        self.hf = hf
        self.report = report

    def is_ours(self, metadata: dict[str, Any] | None) -> bool:
        """Whether a record came by an import of this format."""
        return bool(fact(metadata, "format") == self.report.format)

    # agents

    def agent(self, agent: Agent, where: str, **facts: Any) -> bool:
        """Save an agent unless one of its revisions says the same; False if the id is an agent's of another origin."""
        wanted = replace(agent, metadata=self._marked(agent.metadata, facts))
        present = self.hf.agents.get(agent.id)
        if present is None:
            self.hf.agents.save(wanted)
            self.report.agents += 1
        elif not self.is_ours(present.metadata):
            self.report.note(where, f"agent {agent.id!r} is there and not of this import; it stays as it is")
            return False
        elif not self._has_revision(wanted):
            self.hf.agents.save(wanted)
        return True

    def bare_agent(self, agent_id: str) -> None:
        """An agent of which the source only knows the name; one that is there stays as it is."""
        if self.hf.agents.get(agent_id) is None:
            self.hf.agents.save(Agent(id=agent_id, name=agent_id, metadata=self._marked(None, {})))
            self.report.agents += 1

    def _has_revision(self, wanted: Agent) -> bool:
        offset = 0
        while revisions := self.hf.agents.revisions(wanted.id, offset=offset):
            if any(_content(one) == _content(wanted) for one in revisions):
                return True
            offset += len(revisions)
        return False

    def _marked(self, own: Any, facts: dict[str, Any]) -> dict[str, Any] | None:
        return with_facts(own, {"format": self.report.format, **facts})

    # sessions

    def session(self, session_id: str, where: str, *, metadata: Any = None, **fields: Any) -> Placing | None:
        """The session to put messages into, made where it is missing; None if the id is a session's of another origin.

        Facts about it go into `fields["facts"]`.
        """
        self.report.understood = True
        present = self.hf.sessions.get(session_id)
        is_new = present is None
        if present is None:
            facts = fields.pop("facts", {})
            present = self.hf.sessions.create(id=session_id, metadata=self._marked(metadata, facts), **fields)
            self.report.sessions += 1
        elif not self.is_ours(present.metadata):
            self.report.note(where, f"not taken: session {session_id!r} is there and not of this import")
            return None
        return Placing(self.hf, self.report, present, is_new=is_new)

    # checkpoints

    def has_checkpoint(self, checkpoint_id: str, where: str) -> bool:
        """Whether a checkpoint has been taken before, or its id is another's."""
        present = self.hf.checkpoints.get(checkpoint_id)
        if present is not None and not self.is_ours(present.metadata):
            self.report.note(where, f"not taken: checkpoint {checkpoint_id!r} is there and not of this import")
        return present is not None

    def checkpoint(self, checkpoint_id: str, where: str, *, metadata: Any = None, **fields: Any) -> Checkpoint | None:
        """A checkpoint of where its session or agent now stands; its step only if no other checkpoint has that."""
        facts = fields.pop("facts", {})
        fields["metadata"] = self._marked(metadata, facts)
        try:
            made = self._create(checkpoint_id, fields)
        except InvalidInput as cause:
            if fields.get("extra") is None:
                raise
            self.report.note(where, f"taken without its extra state: {cause}")
            made = self._create(checkpoint_id, {**fields, "extra": None})
        self.report.checkpoints += 1
        return made

    def _create(self, checkpoint_id: str, fields: dict[str, Any]) -> Checkpoint:
        try:
            return self.hf.checkpoints.create(id=checkpoint_id, **fields)
        except AlreadyExists:
            if fields.get("step") is None:
                raise
            return self.hf.checkpoints.create(id=checkpoint_id, **{**fields, "step": None})

    # executions

    def execution(self, session_id: str, execution: ToolExecution) -> None:
        """Record what a tool did, or how it has gone on since."""
        present = self.hf.executions.get(execution.id)
        if present is None:
            self.hf.executions.record(session_id, execution)
            self.report.executions += 1
        elif present.redacted is None and _RANK[execution.status] > _RANK[present.status]:
            self._go_on(execution)

    def _go_on(self, execution: ToolExecution) -> None:
        if execution.status == "running":
            self.hf.executions.run(execution.id)
        elif execution.status == "success":
            self.hf.executions.finish(execution.id, execution.result, duration_ms=execution.duration_ms or 0)
        else:
            self.hf.executions.fail(execution.id, execution.error or "", duration_ms=execution.duration_ms or 0)


def _content(agent: Agent) -> bytes:
    """An agent without what its store has added; as bytes, because 42 equals 42.0 and is not the same."""
    bare = replace(agent, revision=None, created_at=None, modified_at=None, active_sessions=0)
    return codec.encode(bare, "agent")
