"""The steps that crash tests take: drawn at random so that they can be done, and carried out on a store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any, get_args

from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.model import Agent, Message, Usage
from holdfast.testing.oracle_model import KEPT, Do, State, Step, after

WEIGHTS = (8, 3, 3, 2, 2, 2, 2, 3, 1, 6, 5, 5, 3, 3, 1)  # how often each Do is drawn
LONG = 250  # messages: more than a sweep or a copy takes in one commit
OWNED = 3  # sessions of one worker, before it deletes
AGENTS = 2  # of one worker
MANY = 5  # checkpoints of one owner, before it prunes


def said(id: str) -> Message:
    """The message with this id, which alone decides what it says."""
    at = datetime(2000, 1, 1, tzinfo=UTC)
    usage = Usage(id=f"{id} used", input=len(id), created_at=at) if id.endswith("u") else None
    return Message.user(f"said in {id}", id=id, created_at=at, usage=usage)


def plan(
    chance: Random, state: State, numbers: Iterator[int], owner: str, length: int, shared: str | None = None
) -> list[Step]:
    """So many steps that this owner can do one after the other."""
    steps: list[Step] = []
    for _ in range(length):
        steps.append(draw(chance, state, next(numbers), owner, shared))
        state = after(state, steps[-1])
    return steps


def draw(chance: Random, state: State, number: int, owner: str, shared: str | None = None) -> Step:
    """A step that this owner can do now; to the shared session it only appends, and its agent stays where it is."""
    new = f"{owner}{number:06}"
    length = chance.choices((1, chance.randint(2, 9), LONG), (60, 39, 1))[0]
    ids = [f"{new}.{index}{chance.choice(('', 'u'))}" for index in range(length)]
    do: Do = chance.choices(get_args(Do), WEIGHTS)[0]
    agent = f"{owner}{chance.randrange(AGENTS)}"
    own = [id for id in state.chats if id.startswith(owner) and id != shared]
    free = [id for id in own if state.chats[id].detached_by is None]
    step = Step(number=number, do=do, session="", agent=agent, new=new, ids=ids, at=None)
    if len(own) > OWNED:
        return replace(step, do="delete", session=max(own, key=lambda id: len(state.chats[id].path)))
    if not free:
        return replace(step, do="create")
    if shared is not None and chance.random() < 0.5:
        return replace(step, do="append", session=shared)
    step = _at_a_place(chance, state, replace(step, session=chance.choice(free)))
    return _about_checkpoints(chance, state, step, free, None if shared is None else state.chats[shared].agent)


def _at_a_place(chance: Random, state: State, step: Step) -> Step:
    """The step, at a message of its session; where there is none, one can only append."""
    path = state.chats[step.session].path
    if path:
        return replace(step, at=chance.choice(path))
    return replace(step, do="append") if step.do in ("branch", "fork", "copy", "redact") else step


def _about_checkpoints(chance: Random, state: State, step: Step, free: list[str], busy: str | None) -> Step:
    """The step with a checkpoint that it can be about, or a step that makes one."""
    if step.do == "capture" and (step.agent not in state.agents or step.agent == busy):
        return replace(step, do="save")
    if step.do not in ("restore", "undo", "prune"):
        return step
    agents = [id for id in state.agents if id.startswith(step.agent[:-1]) and id != busy]
    found = [(owner, point) for owner in (*free, *agents) for point in state.points.get(owner, [])]
    if step.do != "prune":
        found = [(owner, point) for owner, point in found if point.recovery == (step.do == "undo")]
    if not found:
        return replace(step, do="checkpoint")
    owner, point = chance.choice(found)
    whole = owner in agents
    place = {"agent": owner} if whole else {"session": owner}
    do: Do = "prune" if len(state.points[owner]) > MANY else step.do
    return replace(step, do=do, of=point.id, whole=whole, **place)


def perform(hf: Holdfast, step: Step) -> None:
    """Carry the step out on a store."""
    match step.do:
        case "append":
            hf.sessions.append(step.session, *map(said, step.ids))
        case "branch":
            hf.sessions.append(step.session, *map(said, step.ids), parent=step.at)
        case "create":
            hf.sessions.create(id=step.new, agent_id=step.agent, metadata={"mark": 0})
        case "fork" | "copy":
            hf.sessions.fork(step.session, at=step.at, id=step.new, copy=step.do == "copy")
        case "redact":
            hf.sessions.redact(step.session, step.at or "", "asked to")
        case "update":
            hf.sessions.update(step.session, metadata={"mark": step.number})
        case "save":
            hf.agents.save(Agent(id=step.agent, name=step.agent, state={"step": step.number}))
        case "delete":
            hf.sessions.delete(step.session)
        case _:
            _perform_with_checkpoints(hf, step)


def _perform_with_checkpoints(hf: Holdfast, step: Step) -> None:
    of: Any = {"agent_id": step.agent} if step.whole else {"session_id": step.session}
    match step.do:
        case "checkpoint":
            messages = [said(id) for id in step.ids]
            hf.checkpoints.create(
                session_id=step.session, messages=messages, id=step.new, step=step.number, protected=step.protected
            )
        case "capture":
            hf.checkpoints.create(step.agent, id=step.new, protected=step.protected)
        case "restore":
            hf.checkpoints.restore(step.of or "")
        case "undo":
            hf.checkpoints.restore(hf.checkpoints.list(**of, kind="recovery", limit=1)[0].id)
        case "prune":
            hf.checkpoints.prune(**of, keep=KEPT)
        case "gc":
            hf.gc()
