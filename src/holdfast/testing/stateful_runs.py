"""Steps of the state machine: runs that are driven, dropped, entered again and ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from holdfast.driver import Driver
from holdfast.model import Message, ToolCall
from holdfast.testing.driving import NOON
from holdfast.testing.run_programs import die
from holdfast.testing.stateful_twins import SESSIONS, Call, Twin, Twins

LEASE_S = 3600  # none lapses by itself, however slow the machine
KEYS = st.sampled_from([None, "k1", "k2"])
ENDS = st.sampled_from(["complete", "fail", "halt", "drop", "die"])
POLICIES = st.sampled_from(["raise", "retry", "skip", "fail"])


def _said(who: str) -> list[Message]:
    calls = [ToolCall(id=f"{who} call", name="look", arguments={"at": 1})]
    return [
        Message.user("Look it up", id=f"{who} asks", created_at=NOON),
        Message.assistant("I look", id=f"{who} looks", created_at=NOON, tool_calls=calls),
        Message.tool_result(f"{who} call", "2", id=f"{who} found", created_at=NOON, tool_name="look"),
    ]


def _found(at: int) -> int:
    return at + 1


def program(who: str) -> list[Callable[[Driver], Any]]:
    """What a run does, one after the other; the same for the same key, so that it can be replayed."""
    asks, looks, found = _said(who)
    return [
        lambda run: run.append(asks),
        lambda run: run.step("model", lambda: {"use": "look"}),
        lambda run: run.append(looks),
        lambda run: run.tool("look", _found, call_id=f"{who} call", at=1),
        lambda run: run.append(found),
        lambda run: run.stream("piece"),
        lambda run: run.iteration(),
        lambda run: run.checkpoint(),
    ]


class RunSteps(Twins):
    """What can be done with runs."""

    @rule(session=SESSIONS, key=KEYS, length=st.integers(0, 8), policy=POLICIES, end=ENDS)
    def drive(self, session: str, key: str | None, length: int, policy: Any, end: str) -> None:
        def driven(hf: Twin) -> Any:
            run = hf.runs.start(session, key=key, in_flight=policy, lease_s=LEASE_S)
            hf.driven[session] = run  # as long as somebody has it, it holds the session
            done = [step(run) for step in program(f"{session} {key}")[:length]]
            return [done, run.replaying, _end(run, end)]

        self.both(driven)

    @rule(session=SESSIONS, end=ENDS)
    def end(self, session: str, end: str) -> None:
        self.both(lambda hf: _end(hf.driven[session], end) if session in hf.driven else None)

    @rule(session=SESSIONS)
    def halt_from_outside(self, session: str) -> None:
        self.both(lambda hf: [hf.runs.halt(run.id) for run in hf.runs.list(session, limit=1)])

    @rule(session=SESSIONS, after=st.integers(0, 5), limit=st.integers(0, 3), offset=st.integers(0, 2))
    def read_runs(self, session: str, after: int, limit: int, offset: int) -> None:
        self.both(lambda hf: hf.runs.list(session, limit=limit, offset=offset))
        self.both(lambda hf: [list(hf.runs.events(run.id, after=after)) for run in hf.runs.list(session)])

    def everything(self) -> Sequence[Call]:
        return [
            *super().everything(),
            lambda hf: [
                [run, hf.runs.get(run.id), list(hf.runs.events(run.id))]
                for session in hf.sessions.list()
                for run in hf.runs.list(session.id)
            ],
        ]


def _end(run: Driver, end: str) -> Any:
    if end == "complete":
        return run.complete()
    if end == "fail":
        return run.fail("no way")
    if end == "halt":
        return run.halt("enough")
    return run.tool("fatal", die) if end == "die" else run.pending()
