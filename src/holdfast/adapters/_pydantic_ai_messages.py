"""Messages of pydantic-ai as Holdfast's and back: what these can say they say, the rest is kept beside them verbatim.

A response is one message. A request is one for each of its parts: a prompt, or the answer to one call.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from holdfast.adapters._groups import Draft, Pieces, check_finite, grouped, media, note_of, pieces_of, reading
from holdfast.ids import now
from holdfast.model import Audio, Code, File, Image, JsonPart, Media, Message, Part, Text, ToolCall, Usage, Video

MARK = "pydantic_ai"
Fetch = Callable[[str], bytes]
Json = dict[str, Any]

_URLS: dict[str, type[Image | Audio | Video | File]] = {
    "image-url": Image,
    "audio-url": Audio,
    "video-url": Video,
    "document-url": File,
}
_STYLES: dict[str, Json] = {  # how arguments may be written down, so that they are read as JSON and come back as text
    "spaced": {"ensure_ascii": False},
    "dense": {"ensure_ascii": False, "separators": (",", ":")},
}


# from a message of pydantic-ai


def messages_of(message: ModelMessage, entry_id: str, at: datetime | None = None) -> list[Message]:
    """The messages of one of pydantic-ai's; the last has the entry's id, and all of it that is not in parts.

    One that does not say when it was said is of the time `at`, or of now.
    """
    check_finite(ModelMessagesTypeAdapter.dump_python([message]), "a message")
    [dumped] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    said = _given(dumped)
    parts: list[Json] = said.pop("parts")
    at = _moment(said, parts) or at or now()
    usage = _used(said, at)
    if "usage" in said:
        said["usage"] = {name: value for name, value in said["usage"].items() if value}
    drafts = [_answer(parts)] if said["kind"] == "response" else [*map(_prompt, parts)] or [Draft(role="user")]
    made = grouped(drafts, MARK, entry_id, {"message": said}, created_at=at)
    return [*made[:-1], replace(made[-1], usage=usage)]


def _given(fields: Json, *taken: str) -> Json:
    """The fields that say something, less those that a message has a place for."""
    return {name: value for name, value in fields.items() if value is not None and name not in taken}


def _moment(said: Json, parts: list[Json]) -> datetime | None:
    stamps = [said.get("timestamp"), *(part.get("timestamp") for part in parts)]
    stamp = next((one for one in stamps if one is not None), None)
    at = None if stamp is None else datetime.fromisoformat(stamp)
    return None if at is None else at.astimezone(UTC) if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _used(said: Json, at: datetime) -> Usage | None:
    """What a response used; Holdfast counts what came from a cache or went there apart from the input."""
    used = said.get("usage", {})
    if not any(used.values()):
        return None
    cache_read, cache_write = used.get("cache_read_tokens", 0), used.get("cache_write_tokens", 0)
    cost = used.get("cost")
    return Usage(
        provider=said.get("provider_name"),
        model=said.get("model_name"),
        input=max(used.get("input_tokens", 0) - cache_read - cache_write, 0),
        output=used.get("output_tokens", 0),
        total=used.get("input_tokens", 0) + used.get("output_tokens", 0),
        cache_read=cache_read,
        cache_write=cache_write,
        cost=None if cost is None else float(cost),
        created_at=at,
    )


def _prompt(part: Json) -> Draft:
    """A part of a request as a message of its own."""
    kind, content = part["part_kind"], part.get("content")
    rest = _given(part, "part_kind", "content")
    if kind == "system-prompt":
        return _told("system", kind, rest, content)
    if kind == "user-prompt" and isinstance(content, list):
        draft = Draft(role="user")
        draft.put("user-prompt list", rest)
        for item in content:
            _item(item, draft)
        return draft
    if kind == "user-prompt":
        return _told("user", kind, rest, content)
    if kind in ("tool-return", "retry-prompt") and part.get("tool_name"):
        draft = _told("tool", kind, _given(rest, "tool_name", "tool_call_id"), content)
        draft.answers, draft.tool_name = part["tool_call_id"], part["tool_name"]
        return draft
    draft = Draft(role="system")
    draft.put("verbatim", {}, JsonPart(value=part))
    return draft


def _told(role: Any, kind: str, rest: Json, content: Any) -> Draft:
    draft = Draft(role=role)
    if isinstance(content, str):
        draft.put(kind, rest, Text(text=content))
    else:
        draft.put(f"{kind} json", rest, JsonPart(value=content))
    return draft


def _item(item: str | Json, draft: Draft) -> None:
    """One of the things that a prompt with several has."""
    if isinstance(item, str):
        return draft.put("item", {}, Text(text=item))
    kind = item.get("kind")
    if kind in _URLS:
        return draft.put(kind, _given(item, "kind", "url"), _URLS[kind](url=item["url"]))
    if kind == "binary":
        return draft.put(kind, _given(item, "kind", "data", "media_type"), _binary(item))
    if kind == "text-content":
        return draft.put(kind, _given(item, "kind", "content"), Text(text=item["content"]))
    return draft.put("item json", {}, JsonPart(value=item))


def _binary(content: Json) -> Part:
    return media(content["media_type"], data=urlsafe_b64decode(content["data"]))


def _answer(parts: list[Json]) -> Draft:
    """A response as one message."""
    draft = Draft(role="assistant")
    for part in parts:
        kind: str = part["part_kind"]
        content: Any = part.get("content")
        rest = _given(part, "part_kind", "content")
        if kind == "text":
            draft.put(kind, rest, Text(text=content))
        elif kind == "thinking":
            draft.think(kind, rest, content)
        elif kind == "tool-call":
            _call(part, draft)
        elif kind == "file" and isinstance(content, dict) and content.get("kind") == "binary":
            kept = {**rest, "content": _given(content, "kind", "data", "media_type")}
            draft.put(kind, kept, _binary(content))
        else:
            draft.put("verbatim", {}, JsonPart(value=part))
    return draft


def _call(part: Json, draft: Draft) -> None:
    args = part.get("args")
    rest = _given(part, "part_kind", "args", "tool_name", "tool_call_id")
    if isinstance(args, str):
        style, args = _read(args)
        rest |= {"args": style}
    call = ToolCall(id=part["tool_call_id"], name=part["tool_name"], arguments=args)
    draft.call("tool-call" if rest else "call", rest, call)


def _read(text: str) -> tuple[str, Any]:
    """Arguments that a model wrote, as JSON if they come back from that exactly as they were written."""
    read = ToolCall.parse("", "", text).arguments
    for style, options in _STYLES.items():
        if not isinstance(read, str) and json.dumps(read, **options) == text:
            return style, read
    return "raw", text


# to a message of pydantic-ai


def message_of(group: Sequence[Message], fetch: Fetch) -> ModelMessage:
    """The message that a group is; one that came another way is a prompt or an answer like any other."""
    with reading(group, "a message of pydantic-ai"):
        noted = (note_of(group[-1], MARK) or {}).get("message")
        said: Json = dict(_plain(group[-1]) if noted is None else noted)
        said["parts"] = [part for message in group for part in _parts(message, fetch)]
        [read] = ModelMessagesTypeAdapter.validate_python([said])
        return read


def _plain(message: Message) -> Json:
    kind = "response" if message.role == "assistant" else "request"
    return {"kind": kind, "timestamp": message.created_at.isoformat()}


def _parts(message: Message, fetch: Fetch) -> list[Json]:
    if note_of(message, MARK) is None:
        return _plain_parts(message)
    pieces = Pieces(message)
    made: list[Json] = []
    for sort, *more in pieces_of(message, MARK):
        rest = dict(more[0]) if more else {}
        if sort in _ITEMS:
            made[-1]["content"].append(_ITEMS[sort](pieces.part(), rest, fetch))
        elif sort == "user-prompt list":
            made.append({**rest, "part_kind": "user-prompt", "content": []})
        else:
            made.append(_part(sort, rest, more, pieces, message, fetch))
    return made


def _part(sort: str, rest: Json, more: list[Any], pieces: Pieces, message: Message, fetch: Fetch) -> Json:
    kind = sort.removesuffix(" json")
    if sort == "verbatim":
        verbatim: Json = pieces.part().value
        return verbatim
    if kind in ("tool-call", "call"):
        return _joined_call(rest, pieces.call())
    if kind == "thinking":
        return {**rest, "part_kind": kind, "content": pieces.thought(more[1])}
    if kind == "file":
        return {**rest, "part_kind": kind, "content": _joined_binary(pieces.part(), rest["content"], fetch)}
    held = pieces.part()
    content = held.value if isinstance(held, JsonPart) else held.text
    answers = {"tool_call_id": message.tool_call_id, "tool_name": message.tool_name} if message.role == "tool" else {}
    return {**rest, **answers, "part_kind": kind, "content": content}


def _joined_call(rest: Json, call: ToolCall) -> Json:
    style, args = rest.pop("args", None), call.arguments
    if style in _STYLES:
        args = json.dumps(args, **_STYLES[style])
    return {**rest, "part_kind": "tool-call", "tool_name": call.name, "tool_call_id": call.id, "args": args}


def _joined_binary(part: Media, rest: Json, fetch: Fetch) -> Json:
    data = fetch(part.artifact_id) if part.artifact_id is not None else part.data or b""
    return {**rest, "kind": "binary", "media_type": part.mime_type, "data": urlsafe_b64encode(data).decode()}


_ITEMS: dict[str, Callable[[Any, Json, Fetch], Any]] = {
    "item": lambda part, _, __: part.text,
    "item json": lambda part, _, __: part.value,
    "text-content": lambda part, rest, _: {**rest, "kind": "text-content", "content": part.text},
    "binary": _joined_binary,
    "image-url": lambda part, rest, _: {**rest, "kind": "image-url", "url": part.url},
    "audio-url": lambda part, rest, _: {**rest, "kind": "audio-url", "url": part.url},
    "video-url": lambda part, rest, _: {**rest, "kind": "video-url", "url": part.url},
    "document-url": lambda part, rest, _: {**rest, "kind": "document-url", "url": part.url},
}


def _plain_parts(message: Message) -> list[Json]:
    """The parts of a message that came another way; of a redacted one, so much that its calls stay answered."""
    text = "\n".join(filter(None, map(_text, message.content)))
    if message.role == "tool":
        names = {"tool_name": message.tool_name or "tool", "tool_call_id": message.tool_call_id or ""}
        return [{"part_kind": "tool-return", "content": text, **names}]
    if message.role != "assistant":
        return [{"part_kind": f"{message.role}-prompt", "content": text}] if message.content else []
    thought = [{"part_kind": "thinking", "content": message.reasoning}] if message.reasoning else []
    said = [{"part_kind": "text", "content": text}] if text else []
    return [*thought, *said, *(_joined_call({}, call) for call in message.tool_calls)]


def _text(part: Part) -> str:
    if isinstance(part, Text | Code):
        return part.text if isinstance(part, Text) else part.code
    return json.dumps(part.value) if isinstance(part, JsonPart) else ""
