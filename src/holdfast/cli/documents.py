"""Agents and conversations as JSON documents: what `load` prints, `save` reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.errors import InvalidInput
from holdfast.model import Agent, Attachment, Compaction, Message, Moment, Part, Session, ToolCall, Usage

if TYPE_CHECKING:  # or the help of a command would load the whole library
    from holdfast import Holdfast

T = TypeVar("T")

_PLACE = ("session_id", "branch", "seq", "parent_id", "pruned", "redacted")  # the store fills these in
_VALUES: dict[str, Any] = {
    "created_at": Moment,
    "usage": Usage,
    "attachments": list[Attachment],
    "compaction": Compaction,
}


def read_json(source: BinaryIO) -> Any:
    """The JSON document of a file."""
    name = source.name if isinstance(getattr(source, "name", None), str) else "the input"
    try:
        return msgspec.json.decode(source.read())
    except msgspec.DecodeError as cause:
        raise InvalidInput(f"{name} is not JSON: {cause}") from cause
    except RecursionError as cause:
        raise InvalidInput(f"{name} is nested more deeply than can be read; flatten it") from cause


def agent_of(document: Any, *, keep_revision: bool) -> Agent:
    """The agent that a document says; without its revision a save replaces whatever is there."""
    agent = _convert(document, Agent, "agent")
    unknown = [name for name in document if name not in Agent.__struct_fields__]
    if unknown:
        raise InvalidInput(f"an agent has no field {unknown[0]!r}; correct its name, or put it into metadata")
    if keep_revision and agent.revision is None:
        raise InvalidInput("--if-unchanged needs the file's revision, as `holdfast agent load` prints it")
    return agent if keep_revision else replace(agent, revision=None)


def conversation(hf: Holdfast, session: Session, messages: Iterable[Message]) -> dict[str, Any]:
    """A session with its messages; parts that were moved out of a message are put back into it."""
    return {**msgspec.to_builtins(session), "messages": [_whole(hf, message) for message in messages]}


def _whole(hf: Holdfast, message: Message) -> Message:
    content = [_inline(hf, part) for part in message.content]
    attachments = [_inline(hf, one) for one in message.attachments]
    return replace(message, content=content, attachments=attachments)


def _inline(hf: Holdfast, part: Any) -> Any:
    moved = getattr(part, "artifact_id", None)
    if moved is None or not moved.startswith("sha256:") or not hasattr(part, "data"):
        return part
    return replace(part, data=hf.artifacts.read(moved), artifact_id=None)


def fields_and_messages(document: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A session's fields and its messages, from a document or a bare list of messages."""
    if isinstance(document, list):
        return {}, list(_messages(document))
    if not isinstance(document, dict):
        raise InvalidInput("a conversation is an object with messages, or a list of messages")
    fields = {name: value for name, value in document.items() if name != "messages"}
    return fields, list(_messages(document.get("messages", [])))


def _messages(given: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise InvalidInput("messages is a list of objects with role and content")
    for one in given:
        yield _message(one)


def _message(given: dict[str, Any]) -> dict[str, Any]:
    """A message in provider form, with the values that JSON cannot say; what the caller left out stays out."""
    fields = {name: value for name, value in given.items() if name not in _PLACE}
    for name, kind in _VALUES.items():
        if fields.get(name) is not None:
            fields[name] = _convert(fields[name], kind, f"a message's {name}")
    if isinstance(fields.get("content"), list):
        fields["content"] = [_part(one) for one in fields["content"]]
    if isinstance(fields.get("tool_calls"), list):
        fields["tool_calls"] = [_call(one) for one in fields["tool_calls"]]
    return fields


def _part(given: Any) -> Any:
    """A part where it is one of ours to the last key; a provider's part stays what it is."""
    try:
        part: Any = msgspec.convert(given, Part)
    except msgspec.ValidationError:
        return given
    known = {"type", *part.__struct_fields__}
    return part if set(given) <= known else given


def _call(given: Any) -> Any:
    if isinstance(given, dict) and "name" in given and "function" not in given:
        return _convert(given, ToolCall, "a tool call")
    return given


def _convert(value: Any, kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as cause:
        raise InvalidInput(f"{what} cannot be read: {cause}") from cause
