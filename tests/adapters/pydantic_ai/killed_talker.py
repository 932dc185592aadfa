"""The example agent, killed at its commits; each turn is in the store whole, or not at all."""

from __future__ import annotations

import asyncio
from typing import TextIO

import adapter_kills
import pydantic_ai_agent
from pydantic_ai.messages import ModelMessage, UserPromptPart

import holdfast
from holdfast import Holdfast
from holdfast.adapters.pydantic_ai import HoldfastConversationStore

ROOMS = ["one", "two", "three", "four"]


def live(hf: Holdfast, acknowledged: TextIO) -> None:
    """Go on with the turns that are left, and write down each that was saved."""
    asyncio.run(turns(hf, acknowledged))


async def turns(hf: Holdfast, acknowledged: TextIO) -> None:
    store = HoldfastConversationStore(hf)
    while (done := len(asked(await messages(hf)))) < len(ROOMS):
        await pydantic_ai_agent.ask(store, "kyoto", ROOMS[done])
        print(ROOMS[done], file=acknowledged, flush=True)


async def messages(hf: Holdfast) -> list[ModelMessage]:
    found = await HoldfastConversationStore(hf).load("kyoto")
    return [] if found is None else found.messages


def asked(said: list[ModelMessage]) -> list[str]:
    return [part.content for message in said for part in message.parts if isinstance(part, UserPromptPart)]


def findings(hf: Holdfast, acknowledged: list[str]) -> list[str]:
    said = asyncio.run(messages(hf))
    wrong = [f"acknowledged, but lost: {room}" for room in acknowledged if room not in asked(said)]
    if asked(said) != ROOMS or len(said) != 4 * len(ROOMS):
        wrong.append(f"asked {asked(said)} in {len(said)} messages")
    session = hf.sessions.get("kyoto")
    if session is None or session.metadata is None:
        return [*wrong, "the session is gone"]
    if session.metadata["pydantic_ai"]["record"]["usage"]["requests"] != 2 * len(ROOMS):
        wrong.append("usage and messages are of different saves")
    return wrong


if __name__ == "__main__":
    with holdfast.open("memory:") as memory:
        asyncio.run(pydantic_ai_agent.ask(HoldfastConversationStore(memory), "kyoto", "one"))
    adapter_kills.run(live, findings, commits=4)
