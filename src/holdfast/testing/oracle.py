"""What a store must show after a crash, worked out from the steps that were asked for and acknowledged.

The oracle has a model of its own and shares nothing with the stores it judges.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from datetime import timedelta
from itertools import groupby
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from holdfast.client import Holdfast
from holdfast.contracts import Query
from holdfast.errors import HoldfastError
from holdfast.ids import now
from holdfast.kinds import (
    AGENTS,
    BRANCHES,
    CAPTURES,
    CHECKPOINTS,
    HEADS,
    MESSAGES,
    PRUNED,
    SESSIONS,
    SWEEPS,
    USAGES,
    Kind,
)
from holdfast.model import Checkpoint, Message, Session
from holdfast.testing.oracle_model import Chat, Fact, Point, State, Step, after
from holdfast.testing.oracle_steps import said

Opener: TypeAlias = Callable[[str], Holdfast]
Broken = Literal["lost", "torn", "unasked", "damaged"]
Finding: TypeAlias = tuple[Broken, str]

GRACE = timedelta(days=2)  # after which gc takes what a killed copy has left
SILENCE_S = 60


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


# the oracle


def look(hf: Holdfast) -> State:
    """What the store shows; a message in the wrong place or with other words is not shown at all."""
    state = State()
    histories = {str(row.key[0]): str(row.fields[1]) for row in hf._store.scan(Query(kind=SESSIONS))}
    shown = {session.id for session in hf.sessions.list(limit=1_000)}
    for id, history in histories.items():
        session = hf.sessions.get(id)
        if session is not None:
            state.chats[id] = _chat(hf, session, history, id in shown)
    for agent in hf.agents.list(limit=1_000):
        revisions = hf.agents.revisions(agent.id, limit=10_000)
        state.agents[agent.id] = [int(old.state["step"]) for old in reversed(revisions)]
    for id in state.chats:
        _look_at_checkpoints(hf, state, id, session_id=id)
    for id in state.agents:
        _look_at_checkpoints(hf, state, id, agent_id=id)
    return state


def _chat(hf: Holdfast, session: Session, history: str, shown: bool) -> Chat:
    path = hf.sessions.messages(session.id)
    reached = [
        one
        for branch in hf.sessions.tree(session.id).branches
        for one in hf.sessions.messages(session.id, branch=branch.id, start=branch.fork_seq + 1)
    ]
    return Chat(
        history=history,
        agent=session.agent_id or "",
        mark=(session.metadata or {})["mark"],
        path=[one.id for place, one in enumerate(path, 1) if one.seq == place and _is_true(one)],
        reached=frozenset(one.id for one in reached if _is_true(one)),
        redacted=frozenset(one.id for one in reached if one.redacted is not None),
        detached_by=None if shown else session.detached_by or "",
    )


def _look_at_checkpoints(hf: Holdfast, state: State, owner: str, **of: Any) -> None:
    found = [_point(hf, state, one) for one in hf.checkpoints.list(limit=1_000, **of)]
    if found:
        state.points[owner] = [*reversed(found)]


def _point(hf: Holdfast, state: State, one: Checkpoint) -> Point:
    sessions = [session for session in hf.checkpoints.heads(one.id) if session in state.chats]
    return Point(
        id=one.id,
        paths={session: [said.id for said in hf.checkpoints.messages(one.id, session)] for session in sessions},
        state=0 if one.session_id is not None else int(hf.checkpoints.state(one.id).state["step"]),
        protected=one.protected,
        recovery=one.kind == "recovery",
    )


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
    sessions, agents = (_names(hf, kind) for kind in (SESSIONS, AGENTS))
    alive: dict[Kind, Container[str | int]] = {SESSIONS: seen.chats, HEADS: seen.chats, SWEEPS: ()}
    alive |= dict.fromkeys((BRANCHES, MESSAGES, USAGES, PRUNED), reached)
    alive |= {CHECKPOINTS: {*sessions, *agents}, CAPTURES: agents}
    for kind, owners in alive.items():
        for row in hf._store.scan(Query(kind=kind)):
            if row.key[0] not in owners or (kind is MESSAGES and row.fields[0] not in reached[row.key[0]]):
                yield f"{kind.name} {row.key}"
    captures = Counter((row.key[0], row.key[1]) for row in hf._store.scan(Query(kind=CAPTURES)))
    for (agent, session), count in captures.items():
        # One for each checkpoint at most, and what the next one will need.
        if count > len(seen.points.get(agents.get(agent, ""), [])) + 1:
            yield f"{count} captures of {session}"


def _names(hf: Holdfast, kind: Kind) -> dict[str | int, str]:
    """The readable sessions or agents that there are, by what tells them from others of that id."""
    names: dict[str | int, str] = {}
    for row in hf._store.scan(Query(kind=kind)):
        with contextlib.suppress(ValueError):
            names[json.loads(row.body)["uid"]] = str(row.key[0])
    return names
