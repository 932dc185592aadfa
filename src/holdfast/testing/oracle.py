"""What a store must show after a crash, worked out from the steps that were asked for and acknowledged.

The oracle has a model of its own and shares nothing with the stores it judges.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from random import Random
from typing import Literal, TypeAlias, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.contracts import Query
from holdfast.errors import HoldfastError
from holdfast.ids import now
from holdfast.kinds import BRANCHES, HEADS, MESSAGES, PRUNED, SESSIONS, SWEEPS, USAGES, Kind
from holdfast.model import Agent, Message, Usage

Opener: TypeAlias = Callable[[str], Holdfast]
Fact: TypeAlias = tuple[str | int, ...]
Do = Literal["append", "branch", "create", "fork", "copy", "redact", "update", "save", "delete"]
Broken = Literal["lost", "torn", "unasked", "damaged"]
Finding: TypeAlias = tuple[Broken, str]

WEIGHTS = (10, 3, 3, 2, 2, 2, 2, 2, 1)  # how often each Do is drawn
LONG = 250  # messages: more than a sweep or a copy takes in one commit
OWNED = 3  # sessions of one worker, before it deletes
GRACE = timedelta(days=2)  # after which gc takes what a killed copy has left
SILENCE_S = 60


class Step(Struct, frozen=True, kw_only=True):
    """One operation, with every id that it may use."""

    number: int
    do: Do
    session: str
    agent: str
    new: str
    ids: list[str]
    at: str | None


class Chat(Struct, frozen=True, kw_only=True):
    """A session as its reader sees it: the path to its head, and all that it reaches."""

    history: str
    mark: int = 0
    path: list[str] = []
    reached: frozenset[str] = frozenset()
    redacted: frozenset[str] = frozenset()


class State(Struct):
    """The sessions and agents of a store."""

    chats: dict[str, Chat] = field(default_factory=dict)
    agents: dict[str, list[int]] = field(default_factory=dict)

    def facts(self) -> set[Fact]:
        """The same, as facts that are there or not."""
        found: set[Fact] = set()
        for id, chat in self.chats.items():
            found.add(("session", id, chat.mark))
            found.update(("on the path", id, message) for message in chat.path)
            found.update(("reached", id, message) for message in chat.reached)
            found.update(("redacted", id, message) for message in chat.redacted)
        for id, steps in self.agents.items():
            found.update(("revision", id, number, step) for number, step in enumerate(steps, 1))
        return found


class Problem(Struct, frozen=True):
    """A broken promise, and after which kill or in which crash state it was found."""

    where: int
    broken: Broken
    what: str


class Tally(Struct):
    """How often a store was crashed, how much of its work was acknowledged by then, and what was found."""

    crashes: int = 0
    acknowledged: int = 0
    in_flight: int = 0
    problems: list[Problem] = []


# what a step does, and what it should leave


def said(id: str) -> Message:
    """The message with this id, which alone decides what it says."""
    at = datetime(2000, 1, 1, tzinfo=UTC)
    usage = Usage(id=f"{id} used", input=len(id), created_at=at) if id.endswith("u") else None
    return Message.user(f"said in {id}", id=id, created_at=at, usage=usage)


def draw(chance: Random, state: State, number: int, owner: str, shared: str | None = None) -> Step:
    """A step that this owner can do now; on the shared session it only appends."""
    own = [id for id in state.chats if id.startswith(owner) and id != shared]
    do: Do = chance.choices(get_args(Do), WEIGHTS)[0]
    session = chance.choice(own) if own else ""
    if not own:
        do = "create"
    elif len(own) > OWNED:
        do, session = "delete", max(own, key=lambda id: len(state.chats[id].path))
    elif shared is not None and chance.random() < 0.5:
        do, session = "append", shared
    elif not state.chats[session].path and do in ("branch", "fork", "copy", "redact"):
        do = "append"
    path = state.chats[session].path if own else []
    length = chance.choices((1, chance.randint(2, 9), LONG), (60, 39, 1))[0]
    new = f"{owner}{number:06}"
    ids = [f"{new}.{index}{chance.choice(('', 'u'))}" for index in range(length)]
    agent, at = f"{owner}{chance.randrange(3)}", chance.choice(path) if path else None
    return Step(number=number, do=do, session=session, agent=agent, new=new, ids=ids, at=at)


def perform(hf: Holdfast, step: Step) -> None:
    """Carry the step out on a store."""
    match step.do:
        case "append":
            hf.sessions.append(step.session, *map(said, step.ids))
        case "branch":
            hf.sessions.append(step.session, *map(said, step.ids), parent=step.at)
        case "create":
            hf.sessions.create(id=step.new, metadata={"mark": 0})
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


def after(state: State, *steps: Step) -> State:
    """What the steps should make of a state; the one given stays as it is."""
    state = State(dict(state.chats), dict(state.agents))
    for step in steps:
        _apply(state, step)
    return state


def _apply(state: State, step: Step) -> None:
    chats = state.chats
    chat = chats.get(step.session) or Chat(history=step.new)
    upto = chat.path[: chat.path.index(step.at) + 1] if step.at is not None else []
    match step.do:
        case "append" | "branch":
            path = [*(upto if step.do == "branch" else chat.path), *step.ids]
            chats[step.session] = replace(chat, path=path, reached=chat.reached.union(step.ids))
        case "create":
            chats[step.new] = Chat(history=step.new)
        case "fork" | "copy":
            history = chat.history if step.do == "fork" else step.new
            reached = frozenset(upto)
            gone = chat.redacted & reached
            chats[step.new] = replace(chat, history=history, path=upto, reached=reached, redacted=gone)
        case "redact":
            for id, other in list(chats.items()):
                if other.history == chat.history and step.at in other.reached:
                    chats[id] = replace(other, redacted=other.redacted | {step.at})
        case "update":
            chats[step.session] = replace(chat, mark=step.number)
        case "save":
            state.agents[step.agent] = [*state.agents.get(step.agent, []), step.number]
        case "delete":
            del chats[step.session]


def plan(
    chance: Random, state: State, numbers: Iterator[int], owner: str, length: int, shared: str | None = None
) -> list[Step]:
    """So many steps that this owner can do one after the other."""
    steps: list[Step] = []
    for _ in range(length):
        steps.append(draw(chance, state, next(numbers), owner, shared))
        state = after(state, steps[-1])
    return steps


# the oracle


def look(hf: Holdfast) -> State:
    """What the store shows; a message in the wrong place or with other words is not shown at all."""
    state = State()
    histories = {row.key[0]: str(row.fields[1]) for row in hf._store.scan(Query(kind=SESSIONS))}
    for session in hf.sessions.list(limit=1_000):
        path = hf.sessions.messages(session.id)
        reached = [
            one
            for branch in hf.sessions.tree(session.id).branches
            for one in hf.sessions.messages(session.id, branch=branch.id, start=branch.fork_seq + 1)
        ]
        state.chats[session.id] = Chat(
            history=histories[session.id],
            mark=(session.metadata or {})["mark"],
            path=[one.id for place, one in enumerate(path, 1) if one.seq == place and _is_true(one)],
            reached=frozenset(one.id for one in reached if _is_true(one)),
            redacted=frozenset(one.id for one in reached if one.redacted is not None),
        )
    for agent in hf.agents.list(limit=1_000):
        revisions = hf.agents.revisions(agent.id, limit=10_000)
        state.agents[agent.id] = [int(old.state["step"]) for old in reversed(revisions)]
    return state


def _is_true(message: Message) -> bool:
    meant = said(message.id)
    return not message.text if message.redacted else (message.text, message.usage) == (meant.text, meant.usage)


def judge(before: State, acked: Iterable[Step], flying: Iterable[Step], seen: State) -> Iterator[Finding]:
    """Acknowledged ⊆ seen ⊆ attempted, and each step in flight whole or absent."""
    sure = after(before, *acked)
    known, present = sure.facts(), seen.facts()
    expected, unclear = set(known), set[Fact]()
    for step in flying:
        then = after(sure, step).facts()
        adds, removes = then - known, known - then
        if adds <= present and not removes & present:
            expected = expected - removes | adds
        elif adds & present or not removes <= present:
            unclear |= adds
            yield "torn", f"{step.do} {step.new}"
    yield from (("lost", repr(fact)) for fact in expected - present - unclear)
    yield from (("unasked", repr(fact)) for fact in present - expected - unclear)


def examine(hf: Holdfast, seen: State) -> Iterator[Finding]:
    """Damage: what verify finds, messages out of order, and what deletions leave behind after gc."""
    yield from (("damaged", str(found)) for found in hf.verify().problems)
    for id, chat in seen.chats.items():
        if not _in_order(chat.path):
            yield "damaged", f"the messages of {id} are out of order: {chat.path}"
    unswept = hf._store.count(Query(kind=SWEEPS))
    Holdfast(hf._store, clock=lambda: now() + GRACE).gc()
    if unswept:
        yield from (("damaged", f"after gc: {found}") for found in hf.verify().problems)
    yield from (("damaged", f"left over: {row}") for row in _leftovers(hf, seen))


def check(
    where: int, reopen: Callable[[], Holdfast], verdict: Callable[[State], Iterable[Finding]]
) -> tuple[State, list[Problem]]:
    """What a store shows after a crash, and everything that is wrong with it."""
    seen = State()
    try:
        with reopen() as hf:
            seen = look(hf)
            found = [*verdict(seen), *examine(hf, seen)]
    except HoldfastError as cause:
        found = [("damaged", f"the store cannot be read: {cause!r}")]
    return seen, [Problem(where, broken, what) for broken, what in found]


def _in_order(path: list[str]) -> bool:
    """Whether each append stands in one piece, and those of one worker in the order it made them."""
    last: dict[str, str] = {}
    for append, ids in groupby(path, lambda id: id.partition(".")[0]):
        owner = append.partition("-")[0]
        places = [int(id.partition(".")[2].rstrip("u")) for id in ids]
        if append <= last.get(owner, "") or places != list(range(len(places))):
            return False
        last[owner] = append
    return True


def _leftovers(hf: Holdfast, seen: State) -> Iterator[str]:
    """Rows of nothing that the store shows."""
    reached: dict[str | int, set[str]] = {}
    for chat in seen.chats.values():
        reached.setdefault(chat.history, set()).update(chat.reached)
    alive: dict[Kind, Container[str | int]] = {SESSIONS: seen.chats, HEADS: seen.chats, SWEEPS: ()}
    alive |= dict.fromkeys((BRANCHES, MESSAGES, USAGES, PRUNED), reached)
    for kind, owners in alive.items():
        for row in hf._store.scan(Query(kind=kind)):
            if row.key[0] not in owners or (kind is MESSAGES and row.fields[0] not in reached[row.key[0]]):
                yield f"{kind.name} {row.key}"
