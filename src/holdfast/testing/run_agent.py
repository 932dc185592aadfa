"""An agent to be killed: it plans, uses three tools, some at once, and leaves a line outside the store for each use."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from holdfast.client import Holdfast
from holdfast.driver import Driver
from holdfast.errors import InFlightCall, ToolFailed
from holdfast.model import InFlight, Message, ToolCall

TURNS = 4
TOOLS = ("note", "book", "measure")
IDEMPOTENT = "measure"
Say = Callable[[str], None]


def asked(task: int, turn: int) -> list[ToolCall]:
    """What the model asks for in a turn; the same whenever it is asked."""
    chance = Random(f"{task} {turn}")
    return [
        ToolCall(id=f"{task}-{turn}-{number}", name=chance.choice(TOOLS), arguments={"x": chance.randint(1, 99)})
        for number in range(chance.randint(1, 3))
    ]


def expected(call: ToolCall) -> int | str:
    """What a tool gives, or what it fails with."""
    x = int(call.arguments["x"])
    return "ValueError" if call.name == "note" and x % 4 == 0 else x * x


class Worker:
    """One life of the agent."""

    def __init__(self, task: int, effects: Path, decision: Any, say: Say) -> None:
        self._task = task
        self._effects = effects
        self._decision = decision
        self._say = say

    def live(self, hf: Holdfast) -> None:
        """Enter the run of the task and drive it, to its end or as far as the decision lets it."""
        session = f"task {self._task}"
        if hf.sessions.get(session) is None:
            hf.sessions.create(id=session)
        try:
            with hf.runs.start(session, key="only", in_flight=self._decide) as run:
                self._drive(run)
        except InFlightCall:
            self._say("raised")
            return
        self._say("completed")

    def _decide(self, call: InFlight) -> Any:
        self._say(f"asked {call.call}")
        return self._decision

    def _drive(self, run: Driver) -> None:
        run.append(Message.user(f"Task {self._task}"))
        for turn in range(TURNS):
            run.iteration()
            answer = run.step("think", lambda turn=turn: self._think(run, turn))
            run.append(answer)
            if turn % 2:
                run.append(*self._together(run, answer.tool_calls))
            else:
                for call in answer.tool_calls:
                    run.append(self._use(run, call))
        run.append(Message.assistant("All done"))

    def _think(self, run: Driver, turn: int) -> Message:
        self._say("!")
        run.stream("I will ")
        self._say("!")
        return Message.assistant(f"I will do {turn}", tool_calls=asked(self._task, turn))

    def _together(self, run: Driver, calls: list[ToolCall]) -> list[Message]:
        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(lambda call: self._use(run, call), calls))

    def _use(self, run: Driver, call: ToolCall) -> Message:
        def work(x: int) -> int:
            return self._work(call, x)

        try:
            found = run.tool(call.name, work, call_id=call.id, idempotent=call.name == IDEMPOTENT, **call.arguments)
        except ToolFailed as failure:
            found = failure.kind
        return Message.tool_result(call.id, str(found), tool_name=call.name)

    def _work(self, call: ToolCall, x: int) -> int:
        self._say("!")
        leave(self._effects, call.id)
        self._say("!")
        if expected(call) == "ValueError":
            raise ValueError(f"{x} will not do")
        return x * x


def leave(path: Path, line: str) -> None:
    """Add a line to a file for good."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, line.encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
