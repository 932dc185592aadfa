"""An agent that the harness runs, killed at its commits; it goes on from the last snapshot of the run before."""

from __future__ import annotations

import asyncio
from io import StringIO
from typing import Any, TextIO

import adapter_kills
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.step_persistence import StepPersistence, continue_run

import holdfast
from holdfast import Holdfast
from holdfast.adapters.pydantic_ai_harness import HoldfastStepStore

ROOMS = 4


def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Books one room after the other."""
    if booked(messages) == ROOMS:
        return ModelResponse(parts=[TextPart("All are booked")])
    return ModelResponse(parts=[ToolCallPart("book", {"room": booked(messages)})])


def booked(messages: list[ModelMessage]) -> int:
    return sum(part.part_kind == "tool-return" for message in messages for part in message.parts)


async def book(room: int) -> str:
    return f"{room} is booked"


def live(hf: Holdfast, acknowledged: TextIO) -> None:
    """Begin, or go on, and write down how many rooms the harness says are booked."""
    asyncio.run(work(HoldfastStepStore(hf), acknowledged))


async def work(store: Any, acknowledged: TextIO) -> None:
    history = await last(store)
    print(booked(history), file=acknowledged, flush=True)
    agent = Agent(FunctionModel(scripted), tools=[book], capabilities=[StepPersistence(store=store)])
    await (agent.run(message_history=history) if history else agent.run("Book all rooms"))


async def last(store: Any) -> list[ModelMessage]:
    """The history of the newest run that has a snapshot."""
    for run in reversed(await store.list_runs()):
        if await store.latest_snapshot(run_id=run.run_id) is not None:
            return [*await continue_run(store, run_id=run.run_id)]
    return []


def findings(hf: Holdfast, acknowledged: list[str]) -> list[str]:
    done = asyncio.run(last(HoldfastStepStore(hf)))
    wrong = [] if done and done[-1].parts[0].content == "All are booked" else ["the work is not done"]
    if booked(done) != ROOMS:
        wrong.append(f"{booked(done)} rooms are booked")
    if sorted(map(int, acknowledged)) != [*map(int, acknowledged)]:
        wrong.append(f"what was booked is lost: {acknowledged}")
    return wrong


if __name__ == "__main__":
    with holdfast.open("memory:") as memory:
        asyncio.run(work(HoldfastStepStore(memory), StringIO()))
    adapter_kills.run(live, findings, commits=40)
