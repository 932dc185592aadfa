"""ADK's memory on Holdfast finds what ADK's own finds, without a second copy of what was said."""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.events import Event
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.genai import types

from holdfast import Holdfast
from holdfast.adapters.adk import HoldfastMemoryService, HoldfastSessionService

pytest_plugins = ["adapter_stores"]

NAMES: dict[str, Any] = {"app_name": "app", "user_id": "ada"}
SAID = {
    "one": ["I love Kyoto in autumn", "Kyoto has a ryokan by the river", "nothing of note"],
    "two": ["The ryokan was lovely", "Übernachtung in KYOTO"],
    "left out": ["Kyoto is never mentioned"],
}
QUERIES = ["kyoto", "Kyoto ryokan", "a lovely ryokan", "übernachtung", "tokyo", "", "  !"]


def said(session: str, number: int, text: str) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(id=f"{session} {number}", author="user", content=content, timestamp=100.0 + number)


async def remember(sessions: BaseSessionService, memory: BaseMemoryService) -> list[Any]:
    seen: list[Any] = []
    for number, (name, texts) in enumerate(SAID.items()):
        session = await sessions.create_session(**NAMES, session_id=name)
        for each, text in enumerate(texts):
            await sessions.append_event(session, said(name, 10 * number + each, text))
        if name != "left out":
            await memory.add_session_to_memory(session)
            await memory.add_session_to_memory(session)
        await sessions.append_event(session, said(name, 10 * number + 9, "Kyoto, but too late"))
    other = await sessions.create_session(app_name="app", user_id="bob", session_id="one")
    await sessions.append_event(other, said("bob's", 1, "Kyoto is mine"))
    await memory.add_session_to_memory(other)
    seen += [await found(memory, query) for query in QUERIES]
    await memory.delete_memory(**NAMES, memory_id="one 1")
    await memory.delete_memory(**NAMES, memory_id="none")
    await memory.add_session_to_memory(await sessions.get_session(**NAMES, session_id="one"))
    seen += [await found(memory, query) for query in QUERIES]
    await memory.add_events_to_memory(**NAMES, events=[said("loose", 1, "Nara has deer")])
    await memory.add_events_to_memory(**NAMES, events=[said("new", 1, "Deer bow in Nara")], session_id="new")
    seen.append(await found(memory, "deer"))
    return seen


async def found(memory: BaseMemoryService, query: str) -> list[Any]:
    answer = await memory.search_memory(**NAMES, query=query)
    return [(one.id, one.content, one.author, one.timestamp) for one in answer.memories]


def test_the_same_is_remembered_and_found_as_with_adks_service(hf: Holdfast) -> None:
    ours = asyncio.run(remember(HoldfastSessionService(hf), HoldfastMemoryService(hf)))
    theirs = asyncio.run(remember(InMemorySessionService(), InMemoryMemoryService()))
    assert ours == theirs


def test_sessions_of_another_service_are_remembered_too(hf: Holdfast) -> None:
    ours = asyncio.run(remember(InMemorySessionService(), HoldfastMemoryService(hf)))
    theirs = asyncio.run(remember(InMemorySessionService(), InMemoryMemoryService()))
    assert ours == theirs


def test_remembering_copies_nothing(hf: Holdfast) -> None:
    asyncio.run(remember(HoldfastSessionService(hf), HoldfastMemoryService(hf)))
    events = sum(len(texts) + 1 for texts in SAID.values()) + 1
    assert hf.stats().messages == events + 2
