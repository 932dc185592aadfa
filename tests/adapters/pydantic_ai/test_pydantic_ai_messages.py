"""A message of pydantic-ai comes back as it was, whatever it holds, and search, usage and readers understand it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    CachePoint,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from holdfast import Message, ToolCall
from holdfast.adapters._pydantic_ai_messages import message_of, messages_of
from holdfast.errors import CorruptData, InvalidInput

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
PICTURE = BinaryContent(data=b"\xff\xfe\x00", media_type="image/png")
PROMPTS: list[Any] = [
    SystemPromptPart("You are kind", timestamp=AT, dynamic_ref="d"),
    UserPromptPart("Find a ryokan", timestamp=AT),
    UserPromptPart(
        ["See", ImageUrl(url="https://x/y.png"), PICTURE, TextContent("t", metadata={"a": 1}), CachePoint(), "!"],
        timestamp=AT,
    ),
    UserPromptPart([AudioUrl(url="https://x/a.mp3"), DocumentUrl(url="https://x/d.pdf", force_download=True)]),
    UserPromptPart([]),
    ToolReturnPart("look", "rain", "c1", timestamp=AT),
    ToolReturnPart("look", {"a": [1, None], "b": {"c": 1.5}}, "c2", metadata={"m": None}, timestamp=AT),
    ToolReturnPart("look", None, "c3", outcome="failed"),
    ToolReturnPart("look", ["a", PICTURE], "c4"),
    RetryFeedbackPart("again", retry=RetryInfo(cause="model_retry")),
]
ANSWERS: list[Any] = [
    TextPart("Two look good"),
    TextPart("", id="t1", provider_details={"x": None}),
    ThinkingPart("Hm.", signature="s", provider_name="p"),
    ThinkingPart(""),
    ToolCallPart("look", {"city": "Kyoto", "n": None}, "c1"),
    ToolCallPart("look", '{"city": "Ky\u014dto"}', "c2"),
    ToolCallPart("look", '{"city":"Kyoto"}', "c3", id="i"),
    ToolCallPart("look", '{ "odd":1}', "c4"),
    ToolCallPart("look", "{not json", "c5"),
    ToolCallPart("look", '"text"', "c6"),
    ToolCallPart("look", None, "c7"),
    FilePart(PICTURE, id="f"),
    NativeToolCallPart("web", {"q": 1}, "n1"),
    NativeToolReturnPart("web", {"r": 1}, "n1", timestamp=AT),
]


def no_bytes(_: str) -> bytes:
    raise AssertionError("all bytes are in the message")


def as_pydantic_ai_keeps_it(message: ModelMessage) -> ModelMessage:
    dumped = ModelMessagesTypeAdapter.dump_json([message])
    return ModelMessagesTypeAdapter.validate_json(dumped)[0]


def check(message: ModelMessage) -> None:
    made = messages_of(message, "e")
    assert made[-1].id == "e"
    assert message_of(made, no_bytes) == as_pydantic_ai_keeps_it(message)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PROMPTS), max_size=5), st.none() | st.just("Be kind"))
def test_a_request_of_any_parts_comes_back_as_it_was(parts: list[Any], instructions: str | None) -> None:
    check(ModelRequest(parts=parts, instructions=instructions, timestamp=AT, run_id="r", metadata={"a": None}))
    check(ModelRequest(parts=parts, instructions=instructions))


@settings(deadline=None)
@given(st.lists(st.sampled_from(ANSWERS), max_size=6))
def test_a_response_of_any_parts_comes_back_as_it_was(parts: list[Any]) -> None:
    usage = RequestUsage(input_tokens=10, cache_read_tokens=4, output_tokens=3, details={"d": 1})
    check(ModelResponse(parts=parts, usage=usage, model_name="m", timestamp=AT, finish_reason="stop"))


def test_a_request_is_a_message_for_each_prompt_and_each_answer_to_a_call() -> None:
    request = ModelRequest(parts=[PROMPTS[0], PROMPTS[1], PROMPTS[5], PROMPTS[6]])
    assert [(one.role, one.text, one.tool_call_id, one.id) for one in messages_of(request, "e")] == [
        ("system", "You are kind", None, "e#1"),
        ("user", "Find a ryokan", None, "e#2"),
        ("tool", "rain", "c1", "e#3"),
        ("tool", "", "c2", "e"),
    ]


def test_a_response_says_what_was_said_asked_for_thought_and_used() -> None:
    usage = RequestUsage(input_tokens=10, cache_read_tokens=4, cache_write_tokens=1, output_tokens=3)
    parts = [ANSWERS[2], ANSWERS[0], ANSWERS[4], ANSWERS[5]]
    [message] = messages_of(ModelResponse(parts=parts, usage=usage, model_name="m", provider_name="p"), "e")
    assert (message.text, message.reasoning) == ("Two look good", "Hm.")
    assert [call.arguments for call in message.tool_calls] == [{"city": "Kyoto", "n": None}, {"city": "Kyōto"}]
    used = message.usage
    assert used is not None
    assert (used.model, used.provider, used.input, used.output, used.total) == ("m", "p", 5, 3, 13)
    assert (used.cache_read, used.cache_write) == (4, 1)


def test_messages_that_came_another_way_are_prompts_and_answers() -> None:
    said = [
        Message.system("Be kind"),
        Message.user("Hello"),
        Message.assistant("I look", tool_calls=[ToolCall(id="c", name="look", arguments={"x": 1})], reasoning="Hm."),
        Message.tool_result("c", "42", tool_name="look"),
    ]
    made = [message_of([message], no_bytes) for message in said]
    assert [part.part_kind for message in made for part in message.parts] == [
        "system-prompt",
        "user-prompt",
        "thinking",
        "text",
        "tool-call",
        "tool-return",
    ]


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(InvalidInput):
        messages_of(ModelRequest(parts=[ToolReturnPart("look", {"x": float("nan")}, "c")]), "e")


@pytest.mark.parametrize(
    "note",
    [
        {"message": 5},
        {"message": {"kind": "none"}},
        {"message": {"kind": "request"}, "parts": [["user-prompt"], ["user-prompt"]]},
        {"message": {"kind": "request"}, "parts": [["no such sort"]]},
        {"message": {"kind": "request"}, "parts": [["item"]]},
    ],
)
def test_a_note_that_makes_no_message_is_damage(note: dict[str, Any]) -> None:
    with pytest.raises(CorruptData):
        message_of([Message.user("Hello", metadata={"pydantic_ai": note})], no_bytes)
