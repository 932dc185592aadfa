"""An event comes back as it was, whatever it holds, and is a message that search, usage and readers understand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Holdfast, Message, ToolCall
from holdfast.adapters._adk_events import event_of, messages_of
from holdfast.adapters.adk import HoldfastSessionService
from holdfast.errors import CorruptData, InvalidInput
from holdfast.model import JsonPart

pytest_plugins = ["adapter_stores"]

NAMES: dict[str, Any] = {"app_name": "app", "user_id": "ada"}

CALL = types.FunctionCall(id="c1", name="weather", args={"city": "Kyoto", "none": None})
TEXT = types.Part(text="The weather")
PARTS = [
    TEXT,
    types.Part(text=""),
    types.Part(text="signed", thought_signature=b"\xff\x00"),
    types.Part(text="I think", thought=True),
    types.Part(text="", thought=True, thought_signature=b"\xfe"),
    types.Part(function_call=CALL),
    types.Part(function_call=CALL, thought_signature=b"s"),
    types.Part(function_call=types.FunctionCall(name="bare")),
    types.Part(function_call=types.FunctionCall(id="c2", name="none", args={})),
    types.Part(function_call=types.FunctionCall(id="", name="odd", args={"a": 1})),
    types.Part(function_response=types.FunctionResponse(id="c1", name="weather", response={"result": "rain"})),
    types.Part(function_response=types.FunctionResponse(id="c2", name="none", response={"result": 7, "more": [None]})),
    types.Part(function_response=types.FunctionResponse(id="c3", name="later", response={}, will_continue=True)),
    types.Part(function_response=types.FunctionResponse(name="bare")),
    types.Part(inline_data=types.Blob(data=b"\x89PNG\xff\xfe", mime_type="image/png", display_name="map")),
    types.Part(inline_data=types.Blob(data=b"", mime_type="application/pdf")),
    types.Part(inline_data=types.Blob(mime_type="audio/wav")),
    types.Part(file_data=types.FileData(file_uri="gs://b/film.mp4", mime_type="video/mp4")),
    types.Part(executable_code=types.ExecutableCode(code="print(1)", language=types.Language.PYTHON)),
    types.Part(code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1")),
    types.Part(),
]
USED = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=100,
    cached_content_token_count=40,
    candidates_token_count=7,
    thoughts_token_count=3,
    total_token_count=110,
)


def no_bytes(_: str) -> bytes:
    raise AssertionError("all bytes are in the message")


def come_back(event: Event) -> Event:
    return event_of(messages_of(event), no_bytes, "app")


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(PARTS), max_size=6) | st.none(),
    st.sampled_from(["user", "agent"]),
    st.floats(min_value=0, max_value=4e9),
)
def test_an_event_of_any_parts_comes_back_as_it_was(parts: list[types.Part] | None, author: str, at: float) -> None:
    content = None if parts is None else types.Content(role="user", parts=parts)
    event = Event(author=author, invocation_id="i", content=content, timestamp=at)
    assert come_back(event) == event


def test_everything_beside_the_content_comes_back_as_it_was() -> None:
    event = Event(
        author="agent",
        branch="a.b",
        long_running_tool_ids={"x", "y"},
        usage_metadata=USED,
        model_version="gemini-9",
        finish_reason=types.FinishReason.STOP,
        custom_metadata={"a": [1, None]},
        error_code="E",
        output={"any": None},
        actions=EventActions(
            state_delta={"k": None, "deep": {"x": [1.5, None]}},
            artifact_delta={"f": 3},
            transfer_to_agent="b",
            escalate=True,
            compaction=EventCompaction(
                start_timestamp=1.5, end_timestamp=2.5, compacted_content=types.Content(role="model", parts=[TEXT])
            ),
        ),
        content=types.Content(parts=[]),
    )
    assert come_back(event) == event


def test_each_answer_of_a_tool_is_a_message_to_its_call() -> None:
    answers = [
        types.Part(function_response=types.FunctionResponse(id=name, name="look", response={"result": name}))
        for name in ("c1", "c2", "c3")
    ]
    messages = messages_of(Event(id="e", author="agent", content=types.Content(role="user", parts=answers)))
    assert [(one.role, one.tool_call_id, one.tool_name, one.text, one.id) for one in messages] == [
        ("tool", "c1", "look", "c1", "e#1"),
        ("tool", "c2", "look", "c2", "e#2"),
        ("tool", "c3", "look", "c3", "e"),
    ]


def test_a_message_says_what_the_model_said_asked_for_thought_and_used() -> None:
    parts = [types.Part(text="Hm.", thought=True), TEXT, types.Part(function_call=CALL)]
    content = types.Content(role="model", parts=parts)
    [message] = messages_of(Event(author="agent", content=content, usage_metadata=USED, model_version="gemini-9"))
    assert (message.role, message.text, message.reasoning) == ("assistant", "The weather", "Hm.")
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [("c1", "weather", CALL.args)]
    used = message.usage
    assert used is not None
    assert (used.model, used.input, used.cache_read, used.output, used.total) == ("gemini-9", 60, 40, 10, 110)


def test_large_pictures_are_kept_as_artifacts_and_come_back(hf: Holdfast) -> None:
    picture = types.Part(inline_data=types.Blob(data=bytes(range(256)) * 2_000, mime_type="image/png"))

    async def scenario() -> tuple[Event, Event]:
        service: Any = HoldfastSessionService(hf)
        session = await service.create_session(**NAMES, session_id="s")
        event = await service.append_event(session, Event(author="user", content=types.Content(parts=[TEXT, picture])))
        return event, (await service.get_session(**NAMES, session_id="s")).events[0]

    sent, found = asyncio.run(scenario())
    assert sent == found


def test_text_is_stored_once_and_found(hf: Holdfast) -> None:
    text = "a ryokan in Kyoto " * 20_000

    async def scenario() -> None:
        service: Any = HoldfastSessionService(hf)
        session = await service.create_session(**NAMES, session_id="s")
        content = types.Content(role="user", parts=[types.Part(text=text)])
        await service.append_event(session, Event(author="user", content=content))

    asyncio.run(scenario())
    [found] = hf.search("ryokan", agent_id="app")
    assert found.message.text == text
    assert sum(body.count("ryokan in Kyoto") for body in _bodies(found.message)) == 20_000


def _bodies(message: Message) -> list[str]:
    return [message.text, str(message.metadata)]


def test_messages_that_came_another_way_are_events() -> None:
    said = [
        Message.user("Hello"),
        Message.assistant("I look", tool_calls=[ToolCall(id="c", name="look", arguments={"x": 1})]),
        Message.tool_result("c", "42", tool_name="look"),
        Message.assistant(JsonPart(value={"a": 1}), reasoning="Hm."),
    ]
    events = [event_of([message], no_bytes, "agent") for message in said]
    assert [event.author for event in events] == ["user", "agent", "agent", "agent"]
    assert events[1].get_function_calls()[0].args == {"x": 1}
    assert events[2].get_function_responses()[0].response == {"result": "42"}
    assert [(part.text, part.thought) for part in events[3].content.parts] == [("Hm.", True), ('{"a": 1}', None)]


@pytest.mark.parametrize("at", [float("nan"), 1e20, -1e20])
def test_a_time_that_is_none_is_refused(at: float) -> None:
    with pytest.raises(InvalidInput):
        messages_of(Event(author="user", timestamp=at))


@pytest.mark.parametrize(
    "note",
    [
        {"event": 5},
        {"event": {"timestamp": "never"}},
        {"event": {}, "parts": [["text"], ["text"]]},
        {"event": {}, "parts": [["no such sort"]]},
        {"event": {}, "parts": 7},
    ],
)
def test_a_note_that_makes_no_event_is_damage(note: dict[str, Any]) -> None:
    with pytest.raises(CorruptData):
        event_of([Message.user("Hello", metadata={"adk": note})], no_bytes, "app")
