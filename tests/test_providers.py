"""Dicts as model providers write them are messages, and messages are such dicts again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion_message_tool_call import ChatCompletionMessageToolCall, Function

import holdfast
from holdfast import Message, ToolCall, to_chat
from holdfast.errors import InvalidInput
from holdfast.model import ROLES, Code, File, Image, JsonPart, Part, Text
from holdfast.providers import message_from

CALL = ChatCompletionMessageToolCall(
    id="c1", type="function", function=Function(name="book", arguments='{"room": 7, "nights": [1, 2]}')
)


def stored(said: dict[str, Any]) -> Message:
    """What a session has after the append of a dict."""
    with holdfast.open("memory:") as hf:
        hf.sessions.create(id="s")
        hf.sessions.append("s", said)
        (message,) = hf.sessions.messages("s")
        return message


def test_an_answer_of_openai_is_a_message() -> None:
    said = stored(ChatCompletionMessage(role="assistant", content="Two look good.", annotations=[]).model_dump())
    assert (said.role, said.text, said.tool_calls) == ("assistant", "Two look good.", [])


def test_calls_of_openai_are_tool_calls() -> None:
    said = stored(ChatCompletionMessage(role="assistant", tool_calls=[CALL]).model_dump())
    assert said.content == []
    assert said.tool_calls == [ToolCall(id="c1", name="book", arguments={"room": 7, "nights": [1, 2]})]


def test_a_custom_call_of_openai_has_its_name_and_input() -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}}
    assert stored({"role": "assistant", "tool_calls": [call]}).tool_calls[0].arguments == "ls -l"


@pytest.mark.parametrize("said", [{"refusal": "No."}, {"content": [{"type": "refusal", "refusal": "No."}]}])
def test_a_refusal_is_what_was_said(said: dict[str, Any]) -> None:
    assert stored({"role": "assistant", **said}).content == [Text(text="No.")]


@pytest.mark.parametrize(
    ("theirs", "ours"), [("developer", "system"), ("Human", "user"), ("model", "assistant"), ("function", "tool")]
)
def test_roles_have_the_names_that_providers_give_them(theirs: str, ours: str) -> None:
    assert stored({"role": theirs, "content": "x"}).role == ours


@pytest.mark.parametrize("empty", [None, [], {}])
def test_a_field_that_says_nothing_is_passed_over(empty: object) -> None:
    assert stored({"role": "user", "content": "x", "colour": empty}).text == "x"


@pytest.mark.parametrize("value", ["", 0, False, ["red"], {"a": 1}])
def test_a_field_that_says_something_is_not(value: object) -> None:
    with pytest.raises(InvalidInput, match="no field 'colour'"):
        stored({"role": "user", "content": "x", "colour": value})


def test_blocks_of_anthropic_are_text_calls_and_reasoning() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Two are", "signature": "s1"},
        {"type": "thinking", "thinking": "free.", "signature": "s2"},
        {"type": "text", "text": "I book the first.", "citations": None},
        {"type": "tool_use", "id": "t1", "name": "book", "input": {"room": 7}},
    ]
    said = stored({"role": "assistant", "content": blocks, "metadata": {"mine": 1}})
    assert said.content == [Text(text="I book the first.")]
    assert said.tool_calls == [ToolCall(id="t1", name="book", arguments={"room": 7})]
    assert said.reasoning == "Two are\nfree."
    assert said.metadata == {"mine": 1, "signatures": ["s1", "s2"]}


def test_what_has_no_other_place_stays_as_it_is() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "done"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "name": "nameless call has no id"},
    ]
    assert stored({"role": "user", "content": blocks}).content == [JsonPart(value=block) for block in blocks]


def test_images_and_documents_are_kept_by_url_or_with_their_bytes() -> None:
    blocks = [
        {"type": "image_url", "image_url": {"url": "https://e.com/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAEC"}},
        {"type": "document", "source": {"type": "url", "url": "https://e.com/a.pdf"}},
    ]
    assert stored({"role": "user", "content": blocks}).content == [
        Image(url="https://e.com/a.png", detail="low"),
        Image(data=b"\0\1\2", mime_type="image/png"),
        Image(data=b"\0\1\2", mime_type="image/png"),
        File(url="https://e.com/a.pdf"),
    ]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_has_either_name(field: str) -> None:
    assert stored({"role": "assistant", "content": "x", "reasoning": None, field: "because"}).reasoning == "because"


@pytest.mark.parametrize(
    "said",
    [
        ChatCompletionMessage(role="assistant", content="x"),
        {"role": "assistant", "content": [Function(name="a part", arguments="")]},
        {"role": "assistant", "tool_calls": [CALL]},
    ],
)
def test_an_object_of_a_client_library_is_refused_with_what_to_give(said: Any) -> None:
    with pytest.raises(InvalidInput, match=r"give its \.model_dump\(\)"):
        stored(said)


# and back

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
CALLS = st.builds(ToolCall, id=st.text(), name=st.text(), arguments=VALUES.filter(lambda value: value is not None))
URLS = st.text().map("https://example.com/".__add__)
DETAILS = st.sampled_from([None, "low"])
IMAGES = st.builds(Image, url=URLS, detail=DETAILS) | st.builds(Image, data=st.binary(), detail=DETAILS)
PARTS: st.SearchStrategy[Part] = st.builds(Text, text=st.text()) | IMAGES
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(ROLES),
    content=st.lists(PARTS, min_size=1),
    tool_calls=st.lists(CALLS),
    tool_call_id=st.none() | st.text(),
)


@given(MESSAGES)
def test_what_was_given_to_a_model_says_the_same_when_it_is_appended(message: Message) -> None:
    (said,) = to_chat([message])
    again = message_from(said)
    assert (again.role, again.content) == (message.role, message.content)
    assert (again.tool_calls, again.tool_call_id) == (message.tool_calls, message.tool_call_id)


def test_a_chat_has_texts_as_strings_and_arguments_as_json() -> None:
    calls = [ToolCall(id="c1", name="book", arguments={"room": 7}), ToolCall(id="c2", name="look")]
    asked, answered = Message.assistant(tool_calls=calls), Message.tool_result("c1", "done", tool_name="book")
    assert to_chat([Message.user("Hi"), asked, answered, Message.user()]) == [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "book", "arguments": '{"room": 7}'}},
                {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "content": "done", "tool_call_id": "c1"},
        {"role": "user", "content": ""},
    ]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Code(code="x = 1"), "x = 1"),
        (JsonPart(value={"type": "input_audio", "n": 1}), [{"type": "input_audio", "n": 1}]),
        (JsonPart(value={"n": [1]}), [{"type": "text", "text": '{"n": [1]}'}]),
    ],
)
def test_other_parts_are_text_or_what_a_provider_called_them(part: Part, said: object) -> None:
    assert to_chat([Message.user(part)])[0]["content"] == said


def test_an_image_that_is_kept_as_an_artifact_is_read() -> None:
    picture = bytes(300_000)
    with holdfast.open("memory:") as hf:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.user(Image(data=picture, mime_type="image/png")))
        context = hf.sessions.context("s")
        (said,) = to_chat(context, read=hf.artifacts.read)
        assert message_from(said).content == [Image(data=picture, mime_type="image/png")]
        with pytest.raises(InvalidInput, match=r"read=hf\.artifacts\.read"):
            to_chat(context)


@pytest.mark.parametrize("part", [Image(), File(url="https://e.com/a.pdf")])
def test_what_a_chat_has_no_form_for_is_refused(part: Part) -> None:
    with pytest.raises(InvalidInput):
        to_chat([Message.user(part)])
