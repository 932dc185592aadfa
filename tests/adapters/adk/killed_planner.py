"""The example agent, killed at its commits; ADK goes on with the invocation that was under way."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any, TextIO

import adapter_kills
import adk_agent
from google.adk.sessions import InMemorySessionService, Session

import holdfast
from holdfast import Holdfast
from holdfast.adapters.adk import HoldfastSessionService

ROOMS = ["one", "two", "three"]
NAMES = {"app_name": "trips", "user_id": "ada", "session_id": "kyoto"}


def live(hf: Holdfast, acknowledged: TextIO) -> None:
    """Go on with the turns that are left, and write down every event that ADK has handed out."""
    asyncio.run(turns(adk_agent.runner(hf), acknowledged))


async def turns(runner: Any, acknowledged: TextIO) -> None:
    run = runner.run_async

    async def noted(**given: Any) -> Any:
        async for event in run(**given):
            if not event.partial:
                print(event.id, file=acknowledged, flush=True)
            yield event

    runner.run_async = noted
    while (asked := await answered(runner)) < len(ROOMS):
        await adk_agent.ask(runner, "kyoto", ROOMS[asked])


async def answered(runner: Any) -> int:
    session = await runner.session_service.get_session(**NAMES)
    events = [] if session is None else session.events
    return sum(bool(event.content and (event.content.parts[0].text or "").startswith("Done")) for event in events)


def findings(hf: Holdfast, acknowledged: list[str]) -> list[str]:
    return asyncio.run(look(hf, acknowledged))


async def look(hf: Holdfast, acknowledged: list[str]) -> list[str]:
    service: Any = HoldfastSessionService(hf)
    session = await service.get_session(**NAMES)
    ids = [event.id for event in session.events]
    wrong = [f"acknowledged, but lost: {name}" for name in acknowledged if ids.count(name) != 1]
    if acknowledged != [name for name in ids if name in acknowledged]:
        wrong.append("the events are in another order")
    asked = [event.content.parts[0].text for event in session.events if event.author == "user"]
    if asked != ROOMS:
        wrong.append(f"asked {asked}")
    again = await replayed(session)
    if (again.state, again.events) != (session.state, session.events):
        wrong.append(f"state {session.state}, but by its events {again.state}")
    if session.state.get("user:booked") != ROOMS:
        wrong.append(f"booked {session.state.get('user:booked')}")
    return wrong


async def replayed(session: Session) -> Session:
    """The same events in ADK's own service."""
    service: Any = InMemorySessionService()
    copy = await service.create_session(**NAMES)
    for event in session.events:
        await service.append_event(copy, event)
    return await service.get_session(**NAMES)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    with holdfast.open("memory:") as memory:  # ADK imports much as late as here, which each life would do again
        asyncio.run(adk_agent.ask(adk_agent.runner(memory), "kyoto", "one"))
    adapter_kills.run(live, findings, commits=14)
