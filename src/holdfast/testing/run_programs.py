"""Programs for runs to drive, that can be stopped anywhere as if by a kill, and the store's clock in a test's hands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.driver import Driver
from holdfast.model import Message, ToolCall

ASK = Message.assistant(
    "I look both up",
    tool_calls=[
        ToolCall(id="c1", name="look", arguments={"at": 1}),
        ToolCall(id="c2", name="look", arguments={"at": 2}),
    ],
)


class Killed(BaseException):
    """The process is gone: nothing is written from here on."""


def die(*_: Any) -> Any:
    """The process is gone."""
    raise Killed


def refuse(at: Any) -> Any:
    """A tool that fails."""
    raise TimeoutError(f"no answer at {at}")


class Hand:
    """A tool whose effects can be seen; it is killed in those calls that it is told of, after the effect."""

    def __init__(self, *fatal: Any) -> None:
        self.fatal = fatal
        self.effects: list[Any] = []

    def __call__(self, at: Any) -> Any:
        self.effects.append(at)
        if at in self.fatal:
            raise Killed
        return {"found": at}


class StoreClock:
    """The clock by which a store's leases run, which goes on when a test says so."""

    def __init__(self, store: RecordStore) -> None:
        self.now = 1_800_000_000 * 1_000_000
        self.set(store)

    def set(self, store: RecordStore) -> None:
        """Let a store go by this clock."""
        vars(store)["now"] = lambda: self.now

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.now += int(seconds * 1_000_000)


def begin(hf: Holdfast, id: str = "s", **fields: Any) -> None:
    """A session with one message."""
    hf.sessions.create(id=id, **fields)
    hf.sessions.append(id, Message.system("be brief"))


def until_killed(hf: Holdfast, program: Callable[[Driver], Any], **given: Any) -> str:
    """Drive a program until it is killed; returns the id of its run, which nobody has ended."""
    run = hf.runs.start("s", **{"key": "k", **given})
    try:
        program(run)
    except Killed:
        return run.id
    raise AssertionError("the program was to be killed")


def drive(hf: Holdfast, program: Callable[[Driver], Any], **given: Any) -> Any:
    """Drive a program to its end; returns what it says."""
    with hf.runs.start("s", **{"key": "k", **given}) as run:
        return program(run)


def parallel(look: Hand) -> Callable[[Driver], list[Any]]:
    """A model asks for two tools; both are called, and their answers appended one by one."""

    def program(run: Driver) -> list[Any]:
        run.append(Message.user("Find two"))
        asked = run.step("model", lambda: ASK)
        run.append(asked)
        found = [run.tool("look", look, call_id=call.id, **call.arguments) for call in asked.tool_calls]
        for call, one in zip(asked.tool_calls, found, strict=True):
            run.append(Message.tool_result(call.id, str(one), tool_name=call.name))
        run.append(Message.assistant("Both found"))
        return found

    return program


def events(hf: Holdfast, run_id: str) -> list[tuple[str, str | None]]:
    """What happened in a run, in order."""
    return [(event.kind, event.name) for event in hf.runs.events(run_id)]
