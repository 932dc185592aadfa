"""What model providers demand of a conversation, in two styles: pure functions that say what they would refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.model import Message

# OpenAI's style: a flat list; each answer is a message of the role "tool"


def openai_form(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation as it would be sent."""
    return [_openai_message(message) for message in messages]


def _openai_message(message: Message) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        said["tool_calls"] = [{"id": call.id, "function": {"name": call.name}} for call in message.tool_calls]
    if message.role == "tool":
        said["tool_call_id"] = message.tool_call_id
    return said


def openai_refusals(sent: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Every call must be answered once, right behind the message that asks for it and before anything else."""
    open_calls: list[str] = []
    for at, message in enumerate(sent):
        if message["role"] == "tool":
            if message["tool_call_id"] in open_calls:
                open_calls.remove(message["tool_call_id"])
            else:
                yield f"message {at} answers {message['tool_call_id']}, which is not asked for"
            continue
        if open_calls:
            yield f"message {at} comes before the answers to {open_calls}"
        open_calls = [call["id"] for call in message.get("tool_calls", [])]
        if len(set(open_calls)) < len(open_calls):
            yield f"message {at} has two calls with the same id"
        if not message["content"] and not open_calls:
            yield f"message {at} is empty"
    if open_calls:
        yield f"there is no answer to {open_calls}"


# Anthropic's style: user and assistant in turn; the answers are blocks at the beginning of the user's turn


def anthropic_form(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation as it would be sent, without what the system says."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += _blocks(message)
    return turns


def _blocks(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text}]
    said = [{"type": "text", "text": message.text}] if message.text else []
    return [*said, *({"type": "tool_use", "id": call.id, "name": call.name} for call in message.tool_calls)]


def anthropic_refusals(sent: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Turns alternate and begin with the user; one that uses tools is followed by all their results, first of all."""
    used: list[str] = []
    seen: set[str] = set()
    for at, turn in enumerate(sent):
        if turn["role"] != ("user", "assistant")[at % 2] or not turn["content"]:
            yield f"turn {at} is {turn['role']}'s, or empty"
        results = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        if sorted(results) != sorted(used):
            yield f"turn {at} has the results of {results}, not of {used}"
        if any(block["type"] != "tool_result" for block in turn["content"][: len(results)]):
            yield f"turn {at} does not begin with its results"
        used = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
        if seen & {*used} or len({*used}) < len(used):
            yield f"turn {at} uses an id a second time"
        seen |= {*used}
    if used:
        yield f"there are no results of {used}"


def refusals(messages: Sequence[Message]) -> list[str]:
    """What either would refuse."""
    return [*openai_refusals(openai_form(messages)), *anthropic_refusals(anthropic_form(messages))]
