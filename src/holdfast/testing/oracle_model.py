"""What steps should make of a store: a model of sessions, agents and checkpoints that shares nothing with any store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

Fact: TypeAlias = tuple[str | int, ...]
Do = Literal[
    "append", "branch", "create", "fork", "copy", "redact", "update", "save", "delete",
    "checkpoint", "capture", "restore", "undo", "prune", "gc",
]  # fmt: skip

KEPT = 2  # checkpoints, by a prune
PROTECTED_EVERY = 4  # steps


class Step(Struct, frozen=True, kw_only=True):
    """One operation, with every id that it may use; with `whole` it is about the agent, not about one session."""

    number: int
    do: Do
    session: str
    agent: str
    new: str
    ids: list[str]
    at: str | None
    of: str | None = None
    whole: bool = False

    @property
    def owner(self) -> str:
        """Whose checkpoints it is about."""
        return self.agent if self.whole else self.session

    @property
    def protected(self) -> bool:
        """Whether the checkpoint it makes is to survive every prune."""
        return self.number % PROTECTED_EVERY == 0


class Chat(Struct, frozen=True, kw_only=True):
    """A session as its reader sees it: the path to its head, all that it reaches, and what took it out of sight."""

    history: str
    agent: str
    mark: int = 0
    path: list[str] = []
    reached: frozenset[str] = frozenset()
    redacted: frozenset[str] = frozenset()
    detached_by: str | None = None


class Point(Struct, frozen=True, kw_only=True):
    """A checkpoint: the path of each session at it, and for an agent's the step that had written its state.

    One that a restore has made is known by its place alone, since the store chooses its id.
    """

    id: str
    paths: dict[str, list[str]]
    state: int = 0
    protected: bool = False
    recovery: bool = False


class State(Struct):
    """The sessions and agents of a store, and the checkpoints of each, oldest first."""

    chats: dict[str, Chat] = field(default_factory=dict)
    agents: dict[str, list[int]] = field(default_factory=dict)
    points: dict[str, list[Point]] = field(default_factory=dict)

    def facts(self) -> set[Fact]:
        """The same, as facts that are there or not."""
        return {*self._session_facts(), *self._agent_facts(), *self._checkpoint_facts()}

    def _session_facts(self) -> Iterator[Fact]:
        for id, chat in self.chats.items():
            yield ("session", id, chat.agent, chat.mark)
            yield from (("on the path", id, message) for message in chat.path)
            yield from (("reached", id, message) for message in chat.reached)
            yield from (("redacted", id, message) for message in chat.redacted)
            if chat.detached_by is not None:
                by = [point.id for point in self.points.get(chat.agent, [])]
                yield ("detached", id, by.index(chat.detached_by) if chat.detached_by in by else "by nothing")

    def _agent_facts(self) -> Iterator[Fact]:
        for id, steps in self.agents.items():
            yield from (("revision", id, number, step) for number, step in enumerate(steps, 1))

    def _checkpoint_facts(self) -> Iterator[Fact]:
        for owner, points in self.points.items():
            for place, point in enumerate(points):
                yield ("checkpoint", owner, place, "recovery" if point.recovery else point.id, point.state)
                yield ("protected", owner, place, int(point.protected))
                for session, path in point.paths.items():
                    if session in self.chats:
                        yield ("captured", owner, place, session, " ".join(path))


def after(state: State, *steps: Step) -> State:
    """What the steps should make of a state; the one given stays as it is."""
    state = State(dict(state.chats), dict(state.agents), dict(state.points))
    for step in steps:
        _apply(state, step)
    return state


def _apply(state: State, step: Step) -> None:
    match step.do:
        case "append" | "branch" | "checkpoint":
            _append(state, step)
        case "create":
            state.chats[step.new] = Chat(history=step.new, agent=step.agent)
        case "fork" | "copy":
            _fork(state, step)
        case "redact":
            _redact(state, step)
        case "update":
            state.chats[step.session] = replace(state.chats[step.session], mark=step.number)
        case "save":
            state.agents[step.agent] = [*state.agents.get(step.agent, []), step.number]
        case "delete":
            del state.chats[step.session]
            state.points.pop(step.session, None)
        case "capture":
            _add(state, step.agent, _whole(state, step))
        case "restore" | "undo":
            _restore(state, step)
        case "prune":
            state.points[step.owner] = [*_kept(state, step.owner)]


def _upto(chat: Chat, message: str | None) -> list[str]:
    return chat.path[: chat.path.index(message) + 1] if message is not None else []


def _append(state: State, step: Step) -> None:
    chat = state.chats[step.session]
    path = [*(_upto(chat, step.at) if step.do == "branch" else chat.path), *step.ids]
    state.chats[step.session] = replace(chat, path=path, reached=chat.reached.union(step.ids))
    if step.do == "checkpoint":
        _add(state, step.session, Point(id=step.new, paths={step.session: path}, protected=step.protected))


def _fork(state: State, step: Step) -> None:
    chat = state.chats[step.session]
    path = _upto(chat, step.at)
    history = chat.history if step.do == "fork" else step.new
    reached = frozenset(path)
    state.chats[step.new] = replace(
        chat, history=history, path=path, reached=reached, redacted=chat.redacted & reached, detached_by=None
    )


def _redact(state: State, step: Step) -> None:
    history = state.chats[step.session].history
    for id, other in list(state.chats.items()):
        if other.history == history and step.at in other.reached:
            state.chats[id] = replace(other, redacted=other.redacted | {step.at})


# checkpoints


def _add(state: State, owner: str, point: Point) -> None:
    state.points[owner] = [*state.points.get(owner, []), point]


def _shown(state: State, agent: str) -> dict[str, Chat]:
    """The sessions that an agent shows."""
    return {id: chat for id, chat in state.chats.items() if chat.agent == agent and chat.detached_by is None}


def _whole(state: State, step: Step) -> Point:
    paths = {id: chat.path for id, chat in _shown(state, step.agent).items()}
    return Point(id=step.new, paths=paths, state=state.agents[step.agent][-1], protected=step.protected)


def _restore(state: State, step: Step) -> None:
    """Go back to a checkpoint, or by the newest way back, and leave one."""
    target = next(
        point
        for point in reversed(state.points[step.owner])
        if (point.recovery if step.do == "undo" else point.id == step.of)
    )
    if step.whole:
        way_back = _whole(state, step)
        for id, chat in _shown(state, step.agent).items():
            if id not in target.paths:
                state.chats[id] = replace(chat, detached_by=step.new)
        state.agents[step.agent] = [*state.agents[step.agent], target.state]
    else:
        way_back = Point(id=step.new, paths={step.session: state.chats[step.session].path})
    for id, path in target.paths.items():
        if id in state.chats:
            state.chats[id] = replace(state.chats[id], path=path, detached_by=None)
    _add(state, step.owner, replace(way_back, recovery=True, protected=False))


def _kept(state: State, owner: str) -> Iterator[Point]:
    """What a prune leaves: the last few, those that are protected, and the ways back to what is out of sight."""
    needed = {chat.detached_by for chat in state.chats.values()}
    points = state.points.get(owner, [])
    loose = [point.id for point in points if not point.protected and point.id not in needed]
    going = loose[:-KEPT]
    return (point for point in points if point.id not in going)
