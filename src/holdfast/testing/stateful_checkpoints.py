"""Steps of the state machine: checkpoints, and going back to them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from holdfast.client import Holdfast
from holdfast.model import Message
from holdfast.testing.stateful_twins import AGENTS, JSON, NUMBERS, SESSIONS, Call, Twin, Twins

KINDS = st.sampled_from(["manual", "automatic", "pre_operation"])
STEPS = st.none() | st.integers(0, 3)


class CheckpointSteps(Twins):
    """What can be done with checkpoints."""

    def _point(self, number: int) -> str:
        """The name of a checkpoint that was made, not necessarily one that is still there."""
        if not self._points:
            self.capture("scout", "manual", named=False, ttl=None)
        return self._points[-1 - number % len(self._points)]

    def _new_point(self) -> str:
        self._points.append(f"c{len(self._points)}")
        return self._points[-1]

    # making them

    @rule(agent=AGENTS, kind=KINDS, named=st.booleans(), ttl=st.none() | st.integers(0, 5))
    def capture(self, agent: str, kind: Any, named: bool, ttl: int | None) -> None:
        id = self._new_point()
        self.both(
            lambda hf: hf.checkpoints.create(agent, id=id, kind=kind, name="kept" if named else None, ttl=ttl, extra=id)
        )

    @rule(session=SESSIONS, count=st.integers(0, 2), step=STEPS, replace=st.booleans(), extra=JSON)
    def checkpoint(self, session: str, count: int, step: int | None, replace: bool, extra: Any) -> None:
        id, messages = self._new_point(), [self.message(session, f"{session} with a checkpoint") for _ in range(count)]
        given: Any = {"session_id": session, "messages": messages, "step": step, "replace": replace, "extra": extra}
        self.both(lambda hf: hf.checkpoints.create(id=id, **given))

    @rule(number=NUMBERS, session=SESSIONS, extra=JSON)
    def checkpoint_again(self, number: int, session: str, extra: Any) -> None:
        self.both(lambda hf: hf.checkpoints.create(id=hf.id(self._point(number)), session_id=session, extra=extra))

    # finding them

    @rule(session=SESSIONS, agent=AGENTS, order=st.sampled_from(["written", "step"]), limit=st.integers(0, 4))
    def list_checkpoints(self, session: str, agent: str, order: Any, limit: int) -> None:
        self.both(lambda hf: list(hf.checkpoints.list(session_id=session, order=order, limit=limit)))
        self.both(lambda hf: list(hf.checkpoints.list(agent, order=order, limit=limit)))
        self.both(lambda hf: list(hf.checkpoints.list(order=order, offset=limit)))
        self.both(lambda hf: [hf.checkpoints.latest(agent), hf.checkpoints.latest(session_id=session, order=order)])
        self.both(lambda hf: hf.checkpoints.changed(agent))

    @rule(number=NUMBERS, session=SESSIONS)
    def look_back(self, number: int, session: str) -> None:
        self.both(lambda hf: hf.checkpoints.get(hf.id(self._point(number))))
        self.both(lambda hf: hf.checkpoints.has(hf.id(self._point(number))))
        self.both(lambda hf: hf.checkpoints.state(hf.id(self._point(number))))
        self.both(lambda hf: hf.checkpoints.heads(hf.id(self._point(number))))
        self.both(lambda hf: list(hf.checkpoints.messages(hf.id(self._point(number)), session)))

    @rule(before=NUMBERS, after=NUMBERS, messages=st.booleans())
    def compare(self, before: int, after: int, messages: bool) -> None:
        one, other = self._point(before), self._point(after)
        self.both(lambda hf: hf.checkpoints.diff(hf.id(one), hf.id(other), messages=messages))

    # going back

    def _restore(self, name: str, **given: Any) -> Any:
        """Go back on both; returns the name of the way back, None where that was refused."""
        how, done = self.both(lambda hf: hf.checkpoints.restore(hf.id(name), **given))
        if how != "ok":
            return None
        self._points.append(done["recovery"]["id"])
        return self._points[-1]

    @rule(number=NUMBERS, verify=st.sampled_from(["full", "pointers"]), force=st.booleans())
    def restore(self, number: int, verify: str, force: bool) -> None:
        self._restore(self._point(number), verify=verify, force=force)

    @rule(number=NUMBERS, sessions=st.lists(SESSIONS, unique=True, max_size=2), state=st.none() | st.booleans())
    def restore_in_part(self, number: int, sessions: list[str], state: bool | None) -> None:
        self._restore(self._point(number), sessions=sessions, state=state)

    @rule(number=NUMBERS)
    def restore_and_undo(self, number: int) -> None:
        before = self.both(lambda hf: shown(hf))
        way_back = self._restore(self._point(number))
        if way_back is not None:
            assert self._restore(way_back) is not None
            assert self.both(lambda hf: shown(hf)) == before

    @rule(number=NUMBERS, new=SESSIONS | AGENTS, copy=st.booleans())
    def fork_checkpoint(self, number: int, new: str, copy: bool) -> None:
        self.both(lambda hf: hf.checkpoints.fork(hf.id(self._point(number)), id=new, copy=copy))

    # letting them go

    @rule(agent=AGENTS, keep=st.none() | st.integers(0, 3), kind=st.none() | KINDS, dry_run=st.booleans())
    def prune_agent(self, agent: str, keep: int | None, kind: Any, dry_run: bool) -> None:
        self.both(lambda hf: hf.checkpoints.prune(agent, keep=keep, kind=kind, dry_run=dry_run))

    @rule(session=SESSIONS, keep=st.none() | st.integers(0, 3), number=NUMBERS)
    def prune_session(self, session: str, keep: int | None, number: int) -> None:
        self.both(lambda hf: hf.checkpoints.prune(session_id=session, keep=keep))
        if number % 4 == 0:
            self.both(lambda hf: hf.checkpoints.delete(hf.id(self._point(number))))

    def everything(self) -> Sequence[Call]:
        return [
            *super().everything(),
            lambda hf: list(hf.checkpoints.list(limit=1_000)),
            lambda hf: [travelled(hf, one.id) for one in hf.checkpoints.list(limit=1_000)],
        ]


def shown(hf: Holdfast) -> list[Any]:
    """What a restore may change, and its undo must bring back."""
    agents = {agent.id: [agent.name, agent.state, agent.metadata] for agent in hf.agents.list()}
    return [agents, {session.id: [session.agent_id, session.head] for session in hf.sessions.list()}]


def travelled(hf: Twin, checkpoint_id: str) -> list[Any]:
    """Where each session stood at a checkpoint, and what had been said there; some have been deleted since."""
    heads = hf.checkpoints.heads(checkpoint_id)
    return [heads, [hf.outcome(partial(_transcript, checkpoint_id, session)) for session in heads]]


def _transcript(checkpoint_id: str, session_id: str, hf: Twin) -> list[Message]:
    return list(hf.checkpoints.messages(checkpoint_id, session_id))
