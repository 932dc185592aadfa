"""An agent of pydantic-ai whose conversation outlives its process.

    python examples/pydantic_ai_agent.py [address of a store]

The model is scripted, so this runs offline. Run it twice with the same address: the second run goes on where the first
one ended, or was killed.
"""

from __future__ import annotations

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationStore
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import holdfast
from holdfast.adapters.pydantic_ai import HoldfastConversationStore


def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """A model that books what it is asked to, and then says so."""
    part = messages[-1].parts[-1]
    if part.part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(f"Done: {part.content}.")])
    return ModelResponse(parts=[ToolCallPart("book", {"room": part.content})])


def book(room: str) -> str:
    """Book a room."""
    return f"{room} is booked"


agent = Agent(FunctionModel(scripted), tools=[book])


async def ask(store: ConversationStore, conversation_id: str, text: str) -> str:
    """One turn of a conversation, which is there when this returns."""
    conversation = await store.load(conversation_id) or Conversation(conversation_id=conversation_id)
    result = await agent.run(text, conversation=conversation)
    await store.save(result, scope="ada")
    return str(result.output)


async def main(url: str) -> None:
    """Two turns, a fork without a copy, and what the store then holds."""
    with holdfast.open(url) as hf:
        store = HoldfastConversationStore(hf, agent_id="planner")
        for room in ("the first ryokan", "a table by the river"):
            print(await ask(store, "kyoto", room))
        fork = await store.fork("kyoto", at=4)
        print(await ask(store, fork.conversation_id, "a tea house"))
        for message in hf.sessions.messages("kyoto"):
            print(f"{message.role:9}  {message.text or [call.name for call in message.tool_calls]}")
        print("found:", [found.snippet for found in hf.search("tea house", agent_id="planner", role="user")])
        print("tokens:", hf.sessions.stats("kyoto").total_tokens)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
