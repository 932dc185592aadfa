"""ADK's events as messages and back: what a message can say it says, the rest is kept beside it verbatim."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from google.adk.events import Event
from pydantic import BaseModel

from holdfast.adapters._groups import Draft, Pieces, check_finite, grouped, media, note_of, pieces_of, reading
from holdfast.errors import InvalidInput
from holdfast.model import Code, JsonPart, Media, Message, Text, ToolCall, Usage

MARK = "adk"
Fetch = Callable[[str], bytes]
Json = dict[str, Any]


# from an event to messages


def messages_of(event: Event) -> list[Message]:
    """The messages of an event; the last has its id and all of it that is not content."""
    said: Json = dumped(event)
    said.pop("id", None)
    said["timestamp"] = event.timestamp
    at = _moment(event.timestamp)
    parts = said["content"].pop("parts", None) if "content" in said else None
    if parts == []:
        said["content"]["parts"] = []
    made = grouped(_drafts(parts or [], said.get("author")), MARK, event.id, {"event": said}, created_at=at)
    return [*made[:-1], _used(made[-1], said, at)]


def dumped(model: BaseModel) -> Json:
    """A model of ADK's as ADK's own serialiser says it, without what is as it always is."""
    check_finite(model.model_dump(exclude_none=True, exclude_defaults=True), "an event")
    said: Json = model.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return said


def _moment(timestamp: float) -> datetime:
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (ValueError, OverflowError, OSError) as cause:
        raise InvalidInput(f"an event's timestamp is in seconds since 1970, not {timestamp!r}") from cause


def _drafts(parts: list[Json], author: str | None) -> list[Draft]:
    """Each answer to a call as a message of its own, and what stands between answers as one."""
    drafts: list[Draft] = []
    for part in parts:
        if "function_response" in part:
            drafts.append(Draft(role="tool"))
        elif not drafts or drafts[-1].role == "tool":
            drafts.append(Draft(role="user" if author == "user" else "assistant"))
        _cut(part, drafts[-1])
    return drafts or [Draft(role="user" if author == "user" else "assistant")]


def _cut(part: Json, draft: Draft) -> None:
    """Put what a message can say of a part into it."""
    sort = next((name for name in _CUTS if name in part), None)
    rest = {name: value for name, value in part.items() if name != sort}
    if sort is None or not _CUTS[sort](part[sort], rest, draft):
        draft.put("verbatim", {}, JsonPart(value=part))


def _cut_text(text: str, rest: Json, draft: Draft) -> bool:
    if rest.pop("thought", False):
        draft.think("thought", rest, text)
    else:
        draft.put("text", rest, Text(text=text))
    return True


def _cut_call(call: Json, rest: Json, draft: Draft) -> bool:
    other = _other(call, "id", "name", "args")
    if call.get("id") == "" or not call.get("name"):
        return False
    made = ToolCall(id=call.get("id", ""), name=call["name"], arguments=call.get("args"))
    draft.call("call", {**rest, "function_call": other} if other else rest, made)
    return True


def _cut_response(answer: Json, rest: Json, draft: Draft) -> bool:
    draft.answers, draft.tool_name = answer.get("id"), answer.get("name")
    given, other = answer.get("response"), _other(answer, "id", "name", "response")
    rest = {**rest, "function_response": other} if other else rest
    if given is None:
        draft.put("no response", rest)
    elif given.keys() == {"result"} and isinstance(given["result"], str):
        draft.put("result", rest, Text(text=given["result"]))
    else:
        draft.put("response", rest, JsonPart(value=given))
    return True


def _cut_inline(blob: Json, rest: Json, draft: Draft) -> bool:
    if "data" not in blob:
        return False
    other = _other(blob, "data", "mime_type")
    picture = media(blob.get("mime_type"), data=urlsafe_b64decode(blob["data"]), name=blob.get("display_name"))
    draft.put("inline", {**rest, "inline_data": other} if other else rest, picture)
    return True


def _cut_file(file: Json, rest: Json, draft: Draft) -> bool:
    if "file_uri" not in file:
        return False
    other = _other(file, "file_uri", "mime_type")
    linked = media(file.get("mime_type"), url=file["file_uri"], name=file.get("display_name"))
    draft.put("file", {**rest, "file_data": other} if other else rest, linked)
    return True


def _cut_code(code: Json, rest: Json, draft: Draft) -> bool:
    other = _other(code, "code", "language")
    if "code" not in code:
        return False
    draft.put(
        "code",
        {**rest, "executable_code": other} if other else rest,
        Code(code=code["code"], language=code.get("language")),
    )
    return True


_CUTS: dict[str, Callable[[Any, Json, Draft], bool]] = {
    "text": _cut_text,
    "function_call": _cut_call,
    "function_response": _cut_response,
    "inline_data": _cut_inline,
    "file_data": _cut_file,
    "executable_code": _cut_code,
}


def _other(given: Json, *names: str) -> Json:
    return {name: value for name, value in given.items() if name not in names}


def _used(message: Message, said: Json, at: datetime) -> Message:
    """The message with what the model used; Holdfast counts what came from a cache apart from the input."""
    used = said.get("usage_metadata")
    if not used:
        return message
    cached = used.get("cached_content_token_count", 0)
    usage = Usage(
        model=said.get("model_version"),
        input=max(used.get("prompt_token_count", 0) - cached, 0) + used.get("tool_use_prompt_token_count", 0),
        output=used.get("candidates_token_count", 0) + used.get("thoughts_token_count", 0),
        total=used.get("total_token_count", 0),
        cache_read=cached,
        created_at=at,
    )
    return Message(**{name: getattr(message, name) for name in message.__struct_fields__} | {"usage": usage})


# from messages to an event


def event_of(group: Sequence[Message], fetch: Fetch, author: str) -> Event:
    """The event that a group of messages is; a message that came another way is an event of the user or the author."""
    with reading(group, "an event of ADK"):
        last = group[-1]
        noted = (note_of(last, MARK) or {}).get("event")
        said: Json = dict(_plain(last, author) if noted is None else noted)
        parts = [part for message in group for part in _parts(message, fetch)]
        if parts:
            said["content"] = {**said.get("content", {}), "parts": parts}
        return Event.model_validate({**said, "id": last.id})


def _plain(message: Message, author: str) -> Json:
    by_user = message.role == "user"
    said: Json = {"author": "user" if by_user else author, "timestamp": message.created_at.timestamp()}
    if message.content or message.tool_calls:
        said["content"] = {"role": "user" if by_user or message.role == "tool" else "model"}
    return said


def _parts(message: Message, fetch: Fetch) -> list[Json]:
    if message.redacted is not None:
        return []
    if note_of(message, MARK) is None and message.role == "tool":
        answer = {"id": message.tool_call_id, "name": message.tool_name, "response": {"result": message.text}}
        return [{"function_response": answer}]
    pieces = Pieces(message)
    sorts = pieces_of(message, MARK) if note_of(message, MARK) is not None else _sorts(message)
    return [_join(sort, dict(more[0]) if more else {}, more, pieces, message, fetch) for sort, *more in sorts]


def _join(sort: str, rest: Json, more: list[Any], pieces: Pieces, message: Message, fetch: Fetch) -> Json:
    """A part of an event, put together from the piece that a message has of it and the rest."""
    if sort == "call":
        return _join_call(pieces.call(), rest)
    if sort == "thought":
        return {**rest, "text": pieces.thought(more[1]), "thought": True}
    if sort == "no response":
        return _join_response(rest, message, None)
    held = pieces.part()
    match sort:
        case "text":
            return {**rest, "text": held.text}
        case "result":
            return _join_response(rest, message, {"result": held.text})
        case "response":
            return _join_response(rest, message, held.value)
        case "inline":
            data = fetch(held.artifact_id) if held.artifact_id is not None else held.data or b""
            return _within(rest, "inline_data", data=urlsafe_b64encode(data).decode(), mime_type=held.mime_type)
        case "file":
            return _within(rest, "file_data", file_uri=held.url, mime_type=held.mime_type)
        case "code":
            return _within(rest, "executable_code", code=held.code, language=held.language)
        case "told":
            return {"text": json.dumps(held.value) if isinstance(held, JsonPart) else str(held)}
    verbatim: Json = held.value
    return verbatim


def _sorts(message: Message) -> list[list[Any]]:
    """What the pieces of a message are that came another way."""
    thought = [["thought", {}, len(message.reasoning)]] if message.reasoning else []
    return [*thought, *([_sort(part)] for part in message.content), *([["call"]] * len(message.tool_calls))]


def _sort(part: object) -> str:
    if isinstance(part, Media):
        return "file" if part.url is not None else "inline"
    return {Text: "text", Code: "code"}.get(type(part), "told")  # type: ignore[call-overload, no-any-return]


def _join_call(call: ToolCall, rest: Json) -> Json:
    args = call.arguments
    if args is not None and not isinstance(args, dict):
        args = {"arguments": args}
    return _within(rest, "function_call", name=call.name, id=call.id or None, args=args)


def _join_response(rest: Json, message: Message, response: Json | None) -> Json:
    return _within(rest, "function_response", id=message.tool_call_id, name=message.tool_name, response=response)


def _within(rest: Json, sort: str, /, **fields: Any) -> Json:
    """The rest of a part with these fields put back into what the part is of."""
    given = {field: value for field, value in fields.items() if value is not None}
    return {**rest, sort: {**rest.get(sort, {}), **given}}
