"""OpenAI Agents keeps its conversations in Holdfast: its own protocol, its own runner, a scripted model."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import apsw
import openai_agents_chat as example
import pytest
from agents import Agent, Runner, set_tracing_disabled
from agents.memory import Session, SessionSettings
from importing import IMPORTS
from openai.types.responses import Response, ResponseCompletedEvent, ResponseInputItemParam, ResponseUsage
from servers import shared
from servers.postgres import start

import holdfast
from holdfast import Holdfast, InvalidInput, Message, NotFound, ToolCall, codec, importers
from holdfast.adapters.openai_agents import HoldfastSession
from holdfast.model import Image, Usage

T = TypeVar("T")

LONG = "The tide comes in at six and goes out at noon, say the tables of the harbour. 潮"
PICTURE = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB" * 4
ITEMS: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "developer", "content": "Answer in French."},
    {"role": "user", "content": LONG},
    {"type": "message", "role": "user", "content": LONG},
    {"role": "user", "content": ""},
    {"role": "user", "content": [{"type": "input_text", "text": LONG}, {"type": "input_text", "text": LONG[:40]}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": PICTURE, "detail": "low", "file_id": None}]},
    {
        "role": "user",
        "content": [{"type": "input_file", "filename": "a.pdf", "file_data": "data:;base64,JVBERi0xLjQ="}],
    },
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": LONG, "annotations": [{"type": "url_citation", "title": LONG}]},
            {"type": "refusal", "refusal": "No."},
        ],
    },
    {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": LONG}, {"type": "summary_text", "text": "Then look it up twice."}],
        "content": [{"type": "reasoning_text", "text": LONG}],
        "encrypted_content": "gAAAAABo",
    },
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "t", "arguments": '{"port":"Brest","days":2}'},
    {"type": "function_call", "call_id": "c2", "name": "t", "arguments": '{"days": 2.0, "port": "\\u6f6e"}'},
    {"type": "function_call", "call_id": "c3", "name": "t", "arguments": '{"a":{"c":1,"b":2}}', "status": "completed"},
    {"type": "function_call", "call_id": "c4", "name": "t", "arguments": '{ "text" : "' + LONG + '" }'},
    {"type": "function_call", "call_id": "c5", "name": "t", "arguments": "{not json"},
    {"type": "function_call", "call_id": "c6", "name": "t", "arguments": ""},
    {"type": "function_call_output", "call_id": "c1", "output": LONG},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_image", "image_url": PICTURE}]},
    {"role": "user", "content": "costs", "$": 1, "more": {"$text": "x", "$is": {"$": [0, 1, 2]}}},
    {"role": "user", "content": "odd", "score": float("inf"), "count": 2**70, "torn": "\ud800"},
]


def of_every_type() -> list[Any]:
    """An item of each type that OpenAI's own types name, those with no shape in ITEMS with something of everything."""
    kinds = [get_args(get_type_hints(one)["type"]) for one in get_args(ResponseInputItemParam)]
    names = {name for kind in kinds for name in (kind if isinstance(kind[0], str) else get_args(kind[0]))}
    assert len(names) > 25
    said = {"text": LONG, "list": [1, 1.0, True, None, {"text": LONG}], "output": LONG, "call_id": "c1"}
    rest = names - {one.get("type", "message") for one in ITEMS}
    return [*ITEMS, *({"type": name, "id": f"{name}_1", **said} for name in sorted(rest))]


def run(doing: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(doing)


def texts(items: list[Any]) -> list[str]:
    return [one["content"] for one in items]


def said(*words: str) -> list[Any]:
    return [{"role": "user", "content": word} for word in words]


@pytest.fixture
def hf() -> Holdfast:
    return holdfast.open("memory:")


@pytest.fixture
def session(hf: Holdfast) -> HoldfastSession:
    return HoldfastSession(hf, "harbour")


# the protocol


def test_it_is_a_session_of_the_framework(session: HoldfastSession) -> None:
    assert isinstance(session, Session)


@pytest.mark.parametrize("place", ["memory", "sqlite", "file", "postgres"])
def test_an_item_of_every_type_comes_back_as_it_was(place: str, tmp_path: Path) -> None:
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/a.db", "file": f"file:///{tmp_path}/a"}
    url = shared("postgres", start) if place == "postgres" else urls[place]
    items = of_every_type()
    with holdfast.open(url, namespace="openai-agents-items") as hf:
        run(HoldfastSession(hf, "harbour").add_items(items))
        if place == "memory":
            assert exactly(read(hf)) == exactly(items)
    if place != "memory":
        with holdfast.open(url, namespace="openai-agents-items") as hf:
            assert exactly(read(hf)) == exactly(items)


def exactly(items: list[Any]) -> list[str]:
    """Items as texts that tell 1, 1.0 and True apart."""
    return [json.dumps(item, sort_keys=True) for item in items]


def read(hf: Holdfast) -> list[Any]:
    return list(run(HoldfastSession(hf, "harbour").get_items()))


def test_a_text_is_stored_once(hf: Holdfast, session: HoldfastSession) -> None:
    run(session.add_items([one for one in ITEMS if one.get("call_id") != "c4"]))  # whose JSON is in nobody's style
    for message in hf.sessions.messages("harbour"):
        stored = codec.encode_message(message)[0].decode()
        assert stored.count(LONG) <= 1, stored
        assert stored.count(PICTURE[30:90]) <= 1, stored
        assert stored.count("Brest") <= 1, stored


def test_large_pictures_come_back_from_where_they_were_moved() -> None:
    hf = holdfast.open("memory:", inline_limit=16)
    item: Any = {"role": "user", "content": [{"type": "input_image", "image_url": PICTURE, "detail": "low"}]}
    run(HoldfastSession(hf, "harbour").add_items([item]))
    [message] = hf.sessions.messages("harbour")
    assert isinstance(message.content[0], Image)
    assert (message.content[0].data, read(hf)) == (None, [item])


def test_the_latest_items_come_in_chronological_order(session: HoldfastSession) -> None:
    run(session.add_items(said("a", "b")))
    run(session.add_items(said("c", "d")))
    assert texts(run(session.get_items(limit=3))) == ["b", "c", "d"]
    assert texts(run(session.get_items(limit=9))) == texts(run(session.get_items())) == ["a", "b", "c", "d"]
    assert run(session.get_items(limit=0)) == []
    with pytest.raises(InvalidInput, match="limit"):
        run(session.get_items(limit=-1))


def test_settings_limit_what_is_read(hf: Holdfast) -> None:
    session = HoldfastSession(hf, "harbour", session_settings=SessionSettings(limit=2))
    run(session.add_items(said("a", "b", "c")))
    assert texts(run(session.get_items())) == ["b", "c"]
    assert texts(run(session.get_items(limit=1))) == ["c"]


def test_an_unknown_session_is_empty_and_adding_nothing_does_not_make_it(
    hf: Holdfast, session: HoldfastSession
) -> None:
    run(session.add_items([]))
    run(session.clear_session())
    assert (run(session.get_items()), run(session.pop_item()), hf.sessions.get("harbour")) == ([], None, None)


def test_popped_items_leave_the_view_and_stay_on_their_branch(hf: Holdfast, session: HoldfastSession) -> None:
    run(session.add_items(said("a", "b", "c")))
    assert [run(session.pop_item()), run(session.pop_item())] == said("c", "b")
    run(session.add_items(said("d")))
    assert texts(run(session.get_items())) == ["a", "d"]
    assert [one.text for one in hf.sessions.messages("harbour", branch=1)] == ["a", "b", "c"]


def test_popping_all_and_clearing_leave_an_empty_view(hf: Holdfast, session: HoldfastSession) -> None:
    run(session.add_items(said("a")))
    assert (run(session.pop_item()), run(session.pop_item()), run(session.get_items())) == (said("a")[0], None, [])
    run(session.add_items(said("b", "c")))
    run(session.clear_session())
    assert run(session.get_items()) == []
    run(session.add_items(said("d")))
    assert texts(run(session.get_items())) == ["d"]
    assert {one.message.text for one in hf.search("c")} == {"c"}
    assert hf.verify().ok


def test_many_items_and_many_writers_lose_nothing(hf: Holdfast) -> None:
    async def write() -> None:
        writers = [HoldfastSession(hf, "harbour") for _ in range(8)]
        await asyncio.gather(*(one.add_items(said(*map(str, range(n, n + 120)))) for n, one in enumerate(writers)))
        await writers[0].add_items(said(*map(str, range(900))))

    run(write())
    assert len(read(hf)) == 8 * 120 + 900


def test_an_async_store_is_taken_as_well(tmp_path: Path) -> None:
    async def talk() -> list[Any]:
        async with holdfast.aopen(f"sqlite:///{tmp_path}/a.db") as hf:
            session = HoldfastSession(hf, "harbour", agent_id="scout", user_id="ann")
            await session.add_items(said("a", "b"))
            await session.pop_item()
            found = await hf.sessions.list(agent_id="scout", user_id="ann")
            return [*texts(await session.get_items()), *(one.id for one in found)]

    assert run(talk()) == ["a", "harbour"]


@pytest.mark.parametrize("item", ["text", None, {"role": "user", "content": object()}])
def test_what_is_no_item_is_refused_by_name(item: Any, session: HoldfastSession) -> None:
    with pytest.raises(InvalidInput, match="item"):
        run(session.add_items([item]))


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(InvalidInput, match="open store"):
        HoldfastSession("sqlite:///a.db", "harbour")  # type: ignore[arg-type]


# conversations of others


def test_a_conversation_of_another_program_goes_on(hf: Holdfast, session: HoldfastSession) -> None:
    hf.sessions.create(id="harbour")
    calls = [ToolCall(id="c1", name="tides", arguments={"port": "Brest"}), ToolCall(id="c2", name="moon")]
    hf.sessions.append(
        "harbour",
        Message.user("When?", Image(url="https://files.example/a.png")),
        Message.assistant("I look.", tool_calls=calls),
        Message.tool_result("c1", "06:12"),
        Message.tool_result("c2", "full"),
    )
    kinds = [one.get("type", one.get("role")) for one in read(hf)]
    answers = ["function_call_output"] * 2
    assert kinds == ["user", "assistant", "function_call", "function_call", *answers]
    assert [run(session.get_items(limit=n)) for n in (1, 3, 5)] == [read(hf)[-n:] for n in (1, 3, 5)]
    for _ in range(3):
        run(session.pop_item())
    assert [one.get("call_id") for one in read(hf)] == [None, None, "c1"]


def test_an_imported_session_goes_on(hf: Holdfast) -> None:
    importers.read(hf, IMPORTS / "openai.db")
    items = run(HoldfastSession(hf, "harbour").get_items(limit=9))
    assert items[:2] == [{"role": "system", "content": "Be brief."}, *said("When is high tide in Brest?")]
    assert items[2] == {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Look it up."}]}
    assert run(HoldfastSession(hf, "second").get_items())[0] == {"role": "developer", "content": "Answer in French."}


def test_a_model_sees_the_summary_of_a_compacted_session(hf: Holdfast, session: HoldfastSession) -> None:
    run(
        session.add_items(
            [one for n in range(6) for one in (*said(f"q{n}"), {"role": "assistant", "content": f"a{n}"})]
        )
    )
    hf.sessions.compact("harbour", lambda *_: "It was about tides.", keep_turns=1, force=True)
    view = texts(run(session.get_items()))
    assert view[-2:] == ["q5", "a5"]
    assert any("It was about tides." in one for one in view)
    assert len(view) < 6
    assert texts(run(session.get_items(limit=2))) == ["q5", "a5"]


def test_a_redacted_item_keeps_its_place(hf: Holdfast, session: HoldfastSession) -> None:
    run(session.add_items(ITEMS[8:11]))
    first, _, call = list(hf.sessions.messages("harbour"))
    hf.sessions.redact("harbour", first.id, "asked to")
    hf.sessions.redact("harbour", call.id, "asked to")
    assert LONG not in json.dumps(read(hf)[0])
    assert [one.get("call_id") for one in read(hf)] == [None, None, "c1"]


# agents


@pytest.fixture
def agent() -> Agent[Any]:
    set_tracing_disabled(True)
    return Agent(name="Harbour master", model=example.Scripted(), tools=[example.high_tide])


def test_an_agent_remembers_counts_and_branches(hf: Holdfast, session: HoldfastSession, agent: Agent[Any]) -> None:
    async def talk() -> None:
        for port in ("Brest", "Roscoff"):
            result = await Runner.run(agent, f"When is high tide in {port}?", session=session)
            await session.store_run_usage(result)
            await session.store_run_usage(result)
        await session.branch_from(2)
        await Runner.run(agent, "When is high tide in Saint-Malo?", session=session)

    run(talk())
    roles = [one.role for one in hf.sessions.messages("harbour")]
    assert roles == ["user", "assistant", "tool", "assistant"] * 2
    assert [(one.number, one.usage.uses, one.usage.total) for one in run(session.turns())] == [(1, 2, 240), (2, 0, 0)]
    assert hf.sessions.stats("harbour").total_tokens == 480
    assert len(run(session.tree()).branch_points) == 1
    assert {one.message.tool_name for one in run(session.search("high tide")) if one.message.role == "tool"} == {
        "high_tide"
    }
    run(session.switch(1))
    assert run(session.turns())[1].text == "When is high tide in Roscoff?"
    with pytest.raises(NotFound, match="turn 7"):
        run(session.branch_from(7))


class Streaming(example.Scripted):
    """The same model, whose answers come as a stream of one event."""

    async def stream_response(self, *given: Any, **named: Any) -> Any:
        answer = await self.get_response(*given, **named)
        used = ResponseUsage(
            input_tokens=answer.usage.input_tokens,
            output_tokens=answer.usage.output_tokens,
            total_tokens=answer.usage.total_tokens,
            input_tokens_details=answer.usage.input_tokens_details,
            output_tokens_details=answer.usage.output_tokens_details,
        )
        whole = Response(
            id="resp_1",
            created_at=0,
            model="scripted",
            object="response",
            output=answer.output,
            parallel_tool_calls=False,
            tool_choice="auto",
            tools=[],
            usage=used,
        )
        yield ResponseCompletedEvent(response=whole, sequence_number=0, type="response.completed")


def test_a_streamed_run_is_kept_and_counted_as_any_other(hf: Holdfast, session: HoldfastSession) -> None:
    agent = Agent[Any](name="Harbour master", model=Streaming(), tools=[example.high_tide])

    async def talk() -> None:
        result = Runner.run_streamed(agent, "When is high tide in Brest?", session=session)
        async for _ in result.stream_events():
            pass
        await session.store_run_usage(result)

    set_tracing_disabled(True)
    run(talk())
    assert [one.role for one in hf.sessions.messages("harbour")] == ["user", "assistant", "tool", "assistant"]
    assert run(session.turns())[0].usage.total == 240


def test_a_fork_goes_its_own_way(hf: Holdfast, session: HoldfastSession) -> None:
    run(session.add_items(said("a")))
    fork = run(session.fork("other"))
    run(fork.add_items(said("b")))
    assert (texts(run(fork.get_items())), texts(run(session.get_items()))) == (["a", "b"], ["a"])
    assert hf.stats().messages == 2


def test_usage_goes_to_the_answers_it_is_of(hf: Holdfast, session: HoldfastSession, agent: Agent[Any]) -> None:
    result = run(Runner.run(agent, "When is high tide in Brest?", session=session))
    run(session.add_items([{"id": "later", "role": "assistant", "content": "Anything else?"}]))  # type: ignore[list-item]
    run(session.store_run_usage(result))
    assert [one.usage is not None for one in hf.sessions.messages("harbour")] == [False, True, False, True, False]


def test_cached_tokens_are_counted_apart(hf: Holdfast, session: HoldfastSession, agent: Agent[Any]) -> None:
    result = run(Runner.run(agent, "When is high tide in Brest?", session=session))
    result.raw_responses[-1].usage.input_tokens_details.cached_tokens = 60
    run(session.store_run_usage(result))
    used = [one for one in hf.usage.list("harbour") if isinstance(one, Usage)]
    assert [(one.input, one.cache_read, one.total) for one in used] == [(100, 0, 120), (40, 60, 120)]


KILLED = """
import os, sys, openai_agents_chat as example
for die_at in ("1", "2", "3", None):  # each time a process of its own, forked, since importing takes seconds
    if (pid := os.fork()) == 0:
        sys.argv = [example.__file__, sys.argv[1], *(["--die-at", die_at] if die_at else [])]
        example.main()
        sys.stdout.flush()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def test_a_killed_agent_goes_on_where_it_was(agent: Agent[Any], tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/chat.db"
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, store],
        cwd=Path(example.__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    *ended, last = ran.stdout.splitlines()
    assert ended[:3] == [str(-signal.SIGKILL)] * 3, ran.stderr
    assert (ended[5], last) == ("3. When is high tide in Roscoff?  (240 tokens)", "0")
    unbroken = HoldfastSession(holdfast.open("memory:"), "harbour")
    for port in example.PORTS:
        run(Runner.run(agent, f"When is high tide in {port}?", session=unbroken))
    with holdfast.open(store) as hf:
        assert read(hf) == run(unbroken.get_items())
        assert hf.verify().ok


def test_items_that_are_added_while_others_pop_stay(tmp_path: Path) -> None:
    async def work(hf: Holdfast) -> tuple[list[Any], list[Any]]:
        sessions = [HoldfastSession(hf, "chat") for _ in range(8)]
        await sessions[0].add_items(said("first"))
        adds = [one.add_items(said(str(n))) for n, one in enumerate(sessions * 3)]
        pops = [one.pop_item() for one in sessions * 2]
        done = await asyncio.gather(
            *(job for pair in zip(adds, pops, strict=False) for job in pair), *adds[len(pops) :]
        )
        return [item for item in done if item is not None], await sessions[0].get_items()

    with holdfast.open(f"sqlite:///{tmp_path}/chat.db") as hf:
        popped, left = asyncio.run(work(hf))
    assert sorted(one["content"] for one in popped + left) == sorted(["first", *map(str, range(24))])


def test_items_of_more_than_one_commit_are_added(session: HoldfastSession) -> None:
    items = said(*(f"{n} " + "word " * 400_000 for n in range(5)))
    run(session.add_items(items))
    assert run(session.get_items()) == items


def test_sessions_of_one_client_that_add_at_once_share_a_commit(tmp_path: Path) -> None:
    async def use(hf: Holdfast) -> None:
        sessions = [HoldfastSession(hf, f"s{number}") for number in range(8)]
        for session in sessions:
            await session.add_items([{"role": "user", "content": "first"}])
            await session.add_items([{"role": "user", "content": "second"}])
        with closing(apsw.Connection(f"{tmp_path}/agents.db")) as watching:
            before = watching.pragma("data_version")
            await asyncio.gather(*(one.add_items([{"role": "user", "content": "third"}]) for one in sessions))
            assert watching.pragma("data_version") == before + 1
        for one in sessions:
            assert [item["content"] for item in await one.get_items()] == ["first", "second", "third"]  # type: ignore[typeddict-item]

    with holdfast.open(f"sqlite:///{tmp_path}/agents.db") as hf:
        asyncio.run(use(hf))


@pytest.mark.parametrize(
    "items", [[{"role": "user", "content": "x" * 20_000}], [{"role": "user", "content": "x"}] * 17]
)
def test_what_takes_longer_is_added_on_a_thread(tmp_path: Path, items: list[Any]) -> None:
    threads: list[threading.Thread] = []

    def clock() -> datetime:
        threads.append(threading.current_thread())
        return datetime.now(UTC)

    async def use(session: HoldfastSession) -> None:
        await session.add_items([{"role": "user", "content": "first"}])
        threads.clear()
        await session.add_items([{"role": "user", "content": "short"}])
        assert threading.main_thread() in threads
        threads.clear()
        await session.add_items(items)
        assert threading.main_thread() not in threads
        assert (await session.get_items())[2:] == items

    with holdfast.open(f"sqlite:///{tmp_path}/agents.db", clock=clock) as hf:
        asyncio.run(use(HoldfastSession(hf, "s")))
