"""A chat of OpenAI Agents whose conversation is in Holdfast: kill it at any moment, run it again, and it goes on.

    python examples/openai_agents_chat.py sqlite:///chat.db

It runs offline: the model is scripted. `--die-at 2` kills the process at its second model call, as a power cut would.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from agents.items import TResponseStreamEvent
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import holdfast
from holdfast.adapters.openai_agents import HoldfastSession

PORTS = ["Brest", "Saint-Malo", "Roscoff"]


@function_tool
def high_tide(port: str) -> str:
    """When the tide is high."""
    return f"high tide in {port} at {6 + len(port) % 5}:12"


class Scripted(Model):
    """A model that looks up the tide for the port it is asked about, and then says what it has found."""

    def __init__(self, die_at: int | None = None) -> None:
        self._calls = 0
        self._die_at = die_at

    async def get_response(self, system_instructions: Any, input: Any, *given: Any, **named: Any) -> ModelResponse:
        """A pure function of the conversation, which is what makes a resumed run end as one that was never cut."""
        del system_instructions, given, named
        self._calls += 1
        if self._calls == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        n = len(input)
        if input[-1].get("type") == "function_call_output":
            return _response(_says(f"msg_{n}", f"I looked: {input[-1]['output']}."))
        port = next(port for port in PORTS if port in input[-1]["content"])
        asked = json.dumps({"port": port})
        call = ResponseFunctionToolCall(
            id=f"fc_{n}", call_id=f"call_{n}", name="high_tide", arguments=asked, type="function_call"
        )
        return _response(call)

    def stream_response(self, *given: Any, **named: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError("the script is not streamed")


def _says(id: str, text: str) -> ResponseOutputMessage:
    said = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id=id, content=[said], role="assistant", status="completed", type="message")


def _response(output: Any) -> ModelResponse:
    used = Usage(requests=1, input_tokens=100, output_tokens=20, total_tokens=120)
    return ModelResponse(output=[output], usage=used, response_id=None)


async def chat(store: str, die_at: int | None = None) -> None:
    """Ask about each port that has not been asked about; a turn that was cut short is finished first."""
    agent = Agent(name="Harbour master", model=Scripted(die_at), tools=[high_tide])
    async with holdfast.aopen(store) as hf:
        session = HoldfastSession(hf, "harbour")
        asked = len(await session.turns())
        last = await session.get_items(limit=1)
        if last and last[0].get("role") != "assistant":  # no answer: the turn was cut short
            result = await Runner.run(agent, [], session=session)
            await session.store_run_usage(result)
        for port in PORTS[asked:]:
            result = await Runner.run(agent, f"When is high tide in {port}?", session=session)
            await session.store_run_usage(result)
        for turn in await session.turns():
            print(f"{turn.number}. {turn.text}  ({turn.usage.total} tokens)")
        print(f"the last answer: {result_text(await session.get_items(limit=1))}")


def result_text(items: list[Any]) -> str:
    """What the last item says."""
    return str(items[-1]["content"][0]["text"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("store", help="where the conversation is kept, such as sqlite:///chat.db")
    parser.add_argument("--die-at", type=int, help="kill the process at this model call")
    given = parser.parse_args()
    set_tracing_disabled(True)
    asyncio.run(chat(given.store, given.die_at))


if __name__ == "__main__":
    main()
