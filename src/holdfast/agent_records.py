"""What is stored of an agent: a small record of which revision is the present one, and the revisions, chained."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast import codec
from holdfast.commits import get
from holdfast.contracts import Reader, Record
from holdfast.errors import NotFound
from holdfast.history import first_link, next_link
from holdfast.ids import moment, new_id
from holdfast.kinds import AGENTS, REVISIONS
from holdfast.model import Agent, Value


class Present(Value, frozen=True, kw_only=True):
    """Which revision of an agent is the present one; `uid` tells agents of the same id apart.

    `checkpoints` is the number of its last checkpoint, and `checkpoint_at` that one's place in time.
    """

    id: str
    uid: str
    revision: int
    link: bytes
    created_at: int
    checkpoints: int = 0
    checkpoint_at: int = 0
    checkpoint_id: str | None = None


def present_record(present: Present, before: Record | None) -> Record:
    """The record of an agent; what only a later version knows is carried over from the one before."""
    later: dict[str, Any] = {}
    if before is not None:
        envelope = codec.decode_envelope(before.body, f"agent {present.id!r}")
        later = {name: value for name, value in envelope.items() if name not in Present.__struct_fields__}
    content = {**msgspec.to_builtins(present), **later} if later else present
    body = codec.encode(content, "agent")
    return Record(AGENTS, (present.id,), body, codec.digest(body))


def read_present(record: Record) -> Present:
    """What an agent's record says."""
    return codec.decode(record.body, Present, f"agent {record.key[0]!r}")


def must_be_present(reader: Reader, agent_id: str) -> tuple[Present, Record]:
    """The agent's record; NotFound if there is no such agent."""
    record = get(reader, AGENTS, agent_id)
    if record is None:
        raise NotFound(f"there is no agent with the id {agent_id!r}; save it first")
    return read_present(record), record


class Revised(Value, frozen=True, kw_only=True):
    """A new revision: the agent as it will be read, its record, and the agent's record that points at it."""

    agent: Agent
    record: Record
    present: Present


def revise(agent: Agent, present: Present | None, old: Record | None, at: int) -> Revised:
    """The next revision of an agent, or the first."""
    if present is None:
        uid = new_id()
        present = Present(id=agent.id, uid=uid, revision=0, link=first_link(uid), created_at=at)
    number = present.revision + 1
    kept = replace(
        agent,
        revision=number,
        created_at=moment(present.created_at),
        modified_at=moment(at),
        active_sessions=0,
    )
    body = _revision_body(kept, old)
    digest = codec.digest(body)
    link = next_link(present.link, digest, number)
    record = Record(REVISIONS, (present.uid, number), body, digest, (link,))
    return Revised(agent=kept, record=record, present=replace(present, revision=number, link=link))


_KNOWN = frozenset(Agent.__struct_fields__)


def _revision_body(agent: Agent, old: Record | None) -> bytes:
    """The bytes of a revision; fields that only a later version knows are carried over from the last."""
    content: dict[str, Any] = {
        name: value for name, value in msgspec.to_builtins(agent).items() if name not in ("revision",)
    }
    if old is not None:
        before = codec.decode_envelope(old.body, f"agent {agent.id!r}")
        content = {**{name: value for name, value in before.items() if name not in _KNOWN}, **content}
    return codec.encode(content, "agent")
