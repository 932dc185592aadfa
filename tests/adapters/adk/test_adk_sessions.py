"""ADK's sessions on Holdfast are those of ADK's own services: the same calls, the same results."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import holdfast
from holdfast import Holdfast, Message
from holdfast.adapters.adk import HoldfastSessionService
from holdfast.errors import AlreadyExists, InvalidInput

pytest_plugins = ["adapter_stores"]

APP, USER = "trip planner", "ada"
NAMES: dict[str, Any] = {"app_name": APP, "user_id": USER}


def said(text: str, at: float, author: str = "user", **state: Any) -> Event:
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)])
    delta = {key.replace("__", ":"): value for key, value in state.items()}
    actions = EventActions(state_delta=delta)
    return Event(author=author, invocation_id="i", content=content, timestamp=at, actions=actions, id=f"{text} {at}")


# what ADK's own services do, done by all


async def talk(service: BaseSessionService) -> list[Any]:
    """A scenario with every kind of call, and what it shows."""
    seen: list[Any] = []
    first = await service.create_session(
        **NAMES, session_id="one", state={"app:theme": "dark", "user:name": "Ada", "temp:t": 1, "mood": {"now": None}}
    )
    seen.append(shown(first))
    await service.append_event(first, said("hello", 10.5, user__name="Ada L.", temp__secret=1, count=1))
    await service.append_event(first, said("hi", 11.25, "agent", app__theme="light", count=2, mood=None))
    await service.append_event(first, Event(author="agent", partial=True, timestamp=12.0))
    seen.append(shown(first))
    second = await service.create_session(**NAMES, session_id="two")
    other = await service.create_session(app_name=APP, user_id="bob", session_id="one", state={"mine": True})
    elsewhere = await service.create_session(app_name="other", user_id=USER, session_id="one")
    seen += [shown(second), shown(other), shown(elsewhere)]
    await service.append_event(second, said("and here", 5.0, user__seen=[1, 2]))
    await service.append_event(other, said("I am Bob", 7.0))
    for name in ("one", "two", "three"):
        seen.append(shown(await service.get_session(**NAMES, session_id=name)))
    seen.append(listed(await service.list_sessions(app_name=APP)))
    seen.append(listed(await service.list_sessions(**NAMES)))
    seen.append(listed(await service.list_sessions(app_name="nobody's")))
    seen.append(await service.get_user_state(**NAMES))
    seen.append(await service.get_user_state(app_name=APP, user_id="nobody"))
    for config in ({"num_recent_events": 1}, {"num_recent_events": 0}, {"after_timestamp": 11.0}, {}):
        found = await service.get_session(**NAMES, session_id="one", config=GetSessionConfig(**config))
        seen.append(shown(found))
    await service.delete_session(**NAMES, session_id="one")
    await service.delete_session(**NAMES, session_id="one")
    seen.append(shown(await service.get_session(**NAMES, session_id="one")))
    seen.append(listed(await service.list_sessions(**NAMES)))
    again = await service.create_session(**NAMES, session_id="one")
    seen.append(shown(again))
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**NAMES, session_id="one")
    await service.delete_session(**NAMES, session_id="one")
    with pytest.raises(SessionNotFoundError):
        await service.append_event(again, said("too late", 20.0))
    return seen


def shown(session: Session | None) -> Any:
    if session is None:
        return None
    events = [event.model_dump(mode="json", exclude_none=True) for event in session.events]
    return (session.app_name, session.user_id, session.id, session.state, events)


def listed(answer: Any) -> list[Any]:
    return [(session.last_update_time, *shown(session)) for session in answer.sessions]


def test_the_same_calls_have_the_same_results_as_with_adks_services(hf: Holdfast, tmp_path: Path) -> None:
    ours = asyncio.run(talk(HoldfastSessionService(hf)))
    assert ours == asyncio.run(talk(InMemorySessionService()))
    assert ours == asyncio.run(talk(SqliteSessionService(str(tmp_path / "adk.db"))))


def test_an_awaited_store_does_the_same(tmp_path: Path) -> None:
    async def scenario() -> list[Any]:
        async with holdfast.aopen(f"sqlite:///{tmp_path}/awaited.db") as hf:
            return await talk(HoldfastSessionService(hf))

    assert asyncio.run(scenario()) == asyncio.run(talk(InMemorySessionService()))


# one commit, and nobody's work lost


def test_a_copy_that_others_have_gone_beyond_is_stale(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        mine = await service.create_session(**NAMES, session_id="s")
        theirs = await service.get_session(**NAMES, session_id="s")
        await service.append_event(theirs, said("first", 1.0, count=1))
        with pytest.raises(StaleSessionError):
            await service.append_event(mine, said("second", 2.0, count=2, app__x=1, user__y=1))
        assert mine.events == []
        now = await service.get_session(**NAMES, session_id="s")
        assert now.state == {"count": 1}
        await service.append_event(now, said("second", 2.0))
        await service.append_event(now, said("third", 3.0))

    asyncio.run(scenario())


def test_a_session_built_by_hand_is_told_by_its_time_and_last_event(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        stored = await service.create_session(**NAMES, session_id="s")
        await service.append_event(stored, said("first", 1e9))
        with pytest.raises(StaleSessionError):
            await service.append_event(Session(**NAMES, id="s"), said("second", 2e9))
        await service.append_event(Session(**NAMES, id="s", events=stored.events), said("second", 2e9))
        await service.append_event(Session(**NAMES, id="s", last_update_time=2e9), said("third", 3e9))

    asyncio.run(scenario())


def test_events_of_one_copy_may_come_at_once(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        session = await service.create_session(**NAMES, session_id="s")
        await asyncio.gather(*(service.append_event(session, said(f"{n}", 1.0 + n, count=n)) for n in range(8)))
        stored = await service.get_session(**NAMES, session_id="s")
        assert stored.events == session.events
        assert stored.state == session.state

    asyncio.run(scenario())


def test_of_many_who_create_a_session_one_does_and_the_others_are_told(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        tries = (service.create_session(**NAMES, session_id="s", state={f"app:{n}": n}) for n in range(8))
        done = await asyncio.gather(*tries, return_exceptions=True)
        assert sorted(type(one).__name__ for one in done) == ["AlreadyExistsError"] * 7 + ["Session"]
        assert len((await service.get_session(**NAMES, session_id="s")).state) == 1

    asyncio.run(scenario())


def test_what_is_kept_of_a_user_is_no_session_under_any_name(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        await service.create_session(**NAMES, session_id="s", state={"user:x": 1})
        [own] = [one.id for one in hf.sessions.list(user_id=USER, archived=True)]
        assert await service.get_session(**NAMES, session_id=own) is None
        await service.delete_session(**NAMES, session_id=own)
        assert await service.get_user_state(**NAMES) == {"x": 1}
        await service.create_session(**NAMES, session_id=own)
        assert len((await service.list_sessions(**NAMES)).sessions) == 2

    asyncio.run(scenario())


def test_the_same_event_again_changes_nothing(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        session = await service.create_session(**NAMES, session_id="s")
        late = await service.get_session(**NAMES, session_id="s")
        for copy in (session, session, late):
            await service.append_event(copy, said("once", 1.0, count=1))
        await service.append_event(late, said("then", 2.0))
        stored = await service.get_session(**NAMES, session_id="s")
        assert [event.id for event in stored.events] == [event.id for event in late.events] == ["once 1.0", "then 2.0"]
        changed = said("once", 1.0)
        changed.content.parts[0].text = "other"
        with pytest.raises(AlreadyExists):
            await service.append_event(stored, changed)

    asyncio.run(scenario())


def test_what_json_cannot_say_is_refused_and_nothing_is_written(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        session = await service.create_session(**NAMES, session_id="s")
        for delta in ({"user:x": float("nan")}, {"x": 2**70}, {"app:x": float("inf")}):
            with pytest.raises(InvalidInput):
                await service.append_event(session, Event(author="user", actions=EventActions(state_delta=delta)))
        assert (await service.get_session(**NAMES, session_id="s")).state == {}

    asyncio.run(scenario())


def test_names_with_separators_and_of_any_length_stay_apart(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        names = [("a/b", "c", "d"), ("a", "b/c", "d"), ("a", "b", "c/d"), ("a%2Fb", "c", "d"), ("a", "b", "ü" * 250)]
        names += [("a", "b" * 200, "c" * 200), ("a", "b" * 200, "c" * 199)]
        for app, user, session in names:
            made = await service.create_session(app_name=app, user_id=user, session_id=session, state={"n": session})
            await service.append_event(made, said("hello", 1.0))
        for app, user, session in names:
            found = await service.get_session(app_name=app, user_id=user, session_id=session)
            assert (found.state["n"], len(found.events)) == (session, 1)
            mine = (await service.list_sessions(app_name=app, user_id=user)).sessions
            assert session in [one.id for one in mine]

    asyncio.run(scenario())


# what Holdfast does with ADK's sessions


def test_going_back_to_a_checkpoint_brings_the_state_of_that_point_back(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        session = await service.create_session(**NAMES, session_id="s", state={"kept": True})
        await service.append_event(session, said("one", 1.0, count=1))
        [stored] = [one for one in hf.sessions.list(agent_id=APP) if one.metadata]
        point = hf.checkpoints.create(session_id=stored.id)
        await service.append_event(session, said("two", 2.0, count=2, new=True))
        hf.checkpoints.restore(point.id)
        with pytest.raises(StaleSessionError):
            await service.append_event(session, said("three", 3.0))
        back = await service.get_session(**NAMES, session_id="s")
        assert (back.state, [event.id for event in back.events]) == ({"kept": True, "count": 1}, ["one 1.0"])
        assert (await service.list_sessions(**NAMES)).sessions[0].state == back.state
        await service.append_event(back, said("other two", 2.5, other=1))
        assert (await service.get_session(**NAMES, session_id="s")).state == {"kept": True, "count": 1, "other": 1}
        assert len(hf.sessions.tree(stored.id).branches) == 2

    asyncio.run(scenario())


def test_going_back_with_the_whole_agent_takes_the_apps_state_and_later_sessions_along(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        session = await service.create_session(**NAMES, session_id="s", state={"app:season": "autumn"})
        point = hf.checkpoints.create(agent_id=APP)
        await service.append_event(session, said("one", 1.0, app__season="winter", user__seen=True))
        await service.create_session(**NAMES, session_id="later")
        hf.checkpoints.restore(point.id)
        back = await service.get_session(**NAMES, session_id="s")
        assert (back.events, back.state) == ([], {"app:season": "autumn", "user:seen": True})
        assert await service.get_session(**NAMES, session_id="later") is None
        assert [one.id for one in (await service.list_sessions(**NAMES)).sessions] == ["s"]
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**NAMES, session_id="later")

    asyncio.run(scenario())


def test_a_fork_is_a_session_of_adk_under_its_own_id(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        session = await service.create_session(**NAMES, session_id="s")
        await service.append_event(session, said("one", 1.0, count=1))
        await service.append_event(session, said("two", 2.0, count=2))
        [stored] = list(hf.sessions.list(agent_id=APP))
        fork = hf.sessions.fork(stored.id, at="one 1.0")
        again = await service.get_session(**NAMES, session_id=fork.id)
        assert (again.id, again.state, len(again.events)) == (fork.id, {"count": 1}, 1)
        await service.append_event(again, said("elsewhere", 3.0, count=3))
        assert {one.id: one.state for one in (await service.list_sessions(**NAMES)).sessions} == {
            "s": {"count": 2},
            fork.id: {"count": 3},
        }
        assert await service.get_session(app_name=APP, user_id="bob", session_id=fork.id) is None

    asyncio.run(scenario())


def test_a_session_of_holdfast_goes_on_in_adk(hf: Holdfast) -> None:
    hf.sessions.create(id="plain", agent_id=APP, user_id=USER)
    hf.sessions.append("plain", Message.user("Find a ryokan"), Message.assistant("Two look good"))

    async def scenario() -> list[tuple[str, str]]:
        service: Any = HoldfastSessionService(hf)
        session = await service.get_session(**NAMES, session_id="plain")
        await service.append_event(session, said("Book the first", 3.0, booked=True))
        return [(event.author, event.content.parts[0].text) for event in session.events]

    assert asyncio.run(scenario()) == [("user", "Find a ryokan"), (APP, "Two look good"), ("user", "Book the first")]
    assert [message.text for message in hf.sessions.messages("plain")][-1] == "Book the first"


def test_erasing_a_user_erases_their_sessions_and_state(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        await service.create_session(**NAMES, session_id="s", state={"user:secret": 1, "app:open": 2})
        hf.sessions.delete(user_id=USER)
        assert await service.get_user_state(**NAMES) == {}
        assert (await service.list_sessions(app_name=APP)).sessions == []
        assert (await service.create_session(**NAMES)).state == {"app:open": 2}

    asyncio.run(scenario())


def test_a_redacted_event_is_an_event_without_content(hf: Holdfast) -> None:
    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        session = await service.create_session(**NAMES, session_id="s")
        await service.append_event(session, said("my password", 1.0))
        await service.append_event(session, said("thanks", 2.0, "agent"))
        [stored] = list(hf.sessions.list(agent_id=APP))
        hf.sessions.redact(stored.id, "my password 1.0", "secret")
        found = await service.get_session(**NAMES, session_id="s")
        assert [(event.id, event.author) for event in found.events] == [
            ("my password 1.0", "user"),
            ("thanks 2.0", "agent"),
        ]
        assert found.events[0].content is None

    asyncio.run(scenario())
