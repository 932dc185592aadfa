"""An agent of Google's ADK whose conversation, state and files outlive its process.

    python examples/adk_agent.py [address of a store]

The model is scripted, so this runs offline. Run it twice with the same address: the second run goes on where the first
one ended, or where it was killed.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.tools import ToolContext
from google.genai import types

import holdfast
from holdfast.adapters.adk import HoldfastArtifactService, HoldfastMemoryService, HoldfastSessionService

USED = types.GenerateContentResponseUsageMetadata(prompt_token_count=20, candidates_token_count=5, total_token_count=25)


class Scripted(BaseLlm):
    """A model that books what it is asked to, once, and then says so."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002  (part of ADK's signature)
    ) -> AsyncGenerator[LlmResponse, None]:
        part = llm_request.contents[-1].parts[-1]
        if part.function_response:
            reply = types.Part(text=f"Done: {part.function_response.response['result']}.")
        else:
            reply = types.Part.from_function_call(name="book", args={"room": part.text})
        content = types.Content(role="model", parts=[reply])
        yield LlmResponse(content=content, usage_metadata=USED, model_version="scripted-1")


async def book(room: str, tool_context: ToolContext) -> str:
    """Book a room."""
    booked = [*tool_context.state.get("user:booked", []), room]
    tool_context.state["user:booked"] = booked
    await tool_context.save_artifact("voucher.txt", types.Part(text=f"Voucher for {room}"))
    return f"{room} is booked"


def runner(hf: holdfast.Holdfast) -> Runner:
    """ADK's runner with all three services on one store."""
    agent = LlmAgent(name="planner", model=Scripted(model="scripted-1"), tools=[book])
    return Runner(
        app=App(name="trips", root_agent=agent, resumability_config=ResumabilityConfig(is_resumable=True)),
        session_service=HoldfastSessionService(hf),
        artifact_service=HoldfastArtifactService(hf),
        memory_service=HoldfastMemoryService(hf),
    )


async def ask(runner: Runner, session_id: str, text: str) -> list[str]:
    """Say something in a session, or go on with what was said when the process was killed; the agent's answers."""
    names = {"user_id": "ada", "session_id": session_id}
    session = await runner.session_service.get_session(app_name="trips", **names)
    if session is None:
        session = await runner.session_service.create_session(app_name="trips", **names)
    said = {"new_message": types.Content(role="user", parts=[types.Part(text=text)])}
    last = session.events[-1] if session.events else None
    if last is not None and (last.author == "user" or not last.is_final_response()):
        said = {"invocation_id": last.invocation_id}
    answers = []
    async for event in runner.run_async(**names, **said):
        if event.is_final_response() and event.content:
            answers += [part.text for part in event.content.parts if part.text]
    return answers


async def main(url: str) -> None:
    """Two turns, and what the store then holds."""
    warnings.filterwarnings("ignore", message=".*EXPERIMENTAL.*")
    with holdfast.open(url) as hf:
        for room in ("the first ryokan", "a table by the river"):
            print(*await ask(runner(hf), "kyoto", room), sep="\n")
        [session] = [one for one in hf.sessions.list(agent_id="trips") if not one.archived]
        for message in hf.sessions.messages(session.id):
            print(f"{message.role:9}  {message.text or [call.name for call in message.tool_calls]}")
        print("found:", [found.snippet for found in hf.search("ryokan", agent_id="trips", role="user")])
        print("tokens:", hf.sessions.stats(session.id).total_tokens)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
