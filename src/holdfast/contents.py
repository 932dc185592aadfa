"""What providers write as content, roles and calls, as Holdfast has them: for dicts that are appended, and imports."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from holdfast import codec
from holdfast.errors import InvalidInput
from holdfast.model import Audio, File, Image, Json, JsonPart, Part, Role, Text, ToolCall

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_TEXTS = ("text", "input_text", "output_text")


def role_of(name: object) -> Role | None:
    """The role that a source means, in any case; None for one that is not known, which nobody may guess."""
    return _ROLES.get(name.lower()) if isinstance(name, str) else None


def told_role(name: object) -> str | None:
    """What the source calls a role where that is not Holdfast's word for it."""
    return name if isinstance(name, str) and name.lower() != role_of(name) else None


def parts_of(content: Json) -> list[Part]:
    """Content parts of a provider's content: text where it is text, what is not known as it is."""
    if content is None or content == "":
        return []
    if isinstance(content, list):
        return [part_of(one) for one in content]
    return [Text(text=content)] if isinstance(content, str) else [JsonPart(value=content)]


def part_of(part: Json) -> Part:
    """One content part."""
    if isinstance(part, str):
        return Text(text=part)
    if not isinstance(part, dict):
        return JsonPart(value=part)
    kind = part.get("type")
    if kind in _TEXTS and isinstance(part.get("text"), str):
        return Text(text=part["text"])
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return Text(text=part["refusal"])
    if kind in ("image_url", "input_image"):
        return _image(part) or JsonPart(value=part)
    if kind in ("image", "document"):
        return _sourced(part, Image if kind == "image" else File) or JsonPart(value=part)
    return JsonPart(value=part)


class Spoken(Struct, frozen=True):
    """What content blocks say: parts, the calls and the thinking among them, and the signatures of the thinking."""

    content: list[Part]
    calls: list[ToolCall]
    thought: list[str]
    signatures: list[str]


def spoken(blocks: Iterable[Any]) -> Spoken:
    """Content blocks in Anthropic's form, or parts, each where Holdfast has it."""
    said = Spoken([], [], [], [])
    for block in blocks:
        kind = kind_of(block)
        call = call_of(block.get("id"), block.get("name"), block.get("input")) if kind == "tool_use" else None
        if call is not None:
            said.calls.append(call)
        elif kind == "thinking" and isinstance(block.get("thinking"), str):
            said.thought.append(block["thinking"])
            said.signatures.extend([block["signature"]] if block.get("signature") else [])
        else:
            said.content.append(block if isinstance(block, Part) else part_of(block))
    return said


def kind_of(block: object) -> Json:
    """The type of a content block, None for what is none."""
    return block.get("type") if isinstance(block, dict) else None


def _image(part: dict[str, Any]) -> Image | None:
    held: Any = part.get("image_url", part.get("url"))
    detail: Any = part.get("detail")
    if isinstance(held, dict):
        held, detail = held.get("url"), held.get("detail", detail)
    if not isinstance(held, str) or not (detail is None or isinstance(detail, str)):
        return None
    mime_type = part.get("mime_type")
    return image(held, detail=detail, mime_type=mime_type if isinstance(mime_type, str) else None)


def image(url: str, *, detail: str | None = None, mime_type: str | None = None) -> Image:
    """An image by its URL; the bytes of a `data:` URL are kept as bytes, so that large ones can move out."""
    head, _, body = url.partition(",")
    if head.startswith("data:") and head.endswith(";base64"):
        data = unbase64(body)
        if data is not None:
            return Image(data=data, mime_type=head[5:-7] or mime_type, detail=detail)
    return Image(url=url, detail=detail, mime_type=mime_type)


def _sourced(part: dict[str, Any], kind: type[Image] | type[File] | type[Audio]) -> Part | None:
    """A part whose bytes or URL stand in its `source`."""
    source = part.get("source")
    if not isinstance(source, dict):
        return None
    mime_type = source.get("media_type")
    if not (mime_type is None or isinstance(mime_type, str)):
        return None
    if isinstance(source.get("url"), str):
        return kind(url=source["url"], mime_type=mime_type)
    data = unbase64(source.get("data")) if source.get("type") == "base64" else None
    return None if data is None else kind(data=data, mime_type=mime_type)


def unbase64(text: object) -> bytes | None:
    """The bytes that a text stands for, or None if it is no base64."""
    if not isinstance(text, str):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def listed(value: Json) -> list[Any]:
    """A list as it is, nothing for nothing, and anything else as the only thing in a list."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def tool_names(said: dict[str, Json]) -> dict[str, str]:
    """The tools that a message calls, by the ids of the calls."""
    calls = [one for one in listed(said.get("tool_calls")) if isinstance(one, dict)]
    return {one["id"]: str(one.get("name")) for one in calls if isinstance(one.get("id"), str)}


def call_of(id: object, name: object, arguments: Json) -> ToolCall | None:
    """A tool call, or None without an id or a name."""
    if not isinstance(id, str) or not isinstance(name, str):
        return None
    return called(id, name, arguments)


def called(id: str, name: str, arguments: Json) -> ToolCall:
    """A tool call; arguments that are text are read as JSON where they are JSON."""
    return ToolCall(id=id, name=name, arguments=read_arguments(arguments) if isinstance(arguments, str) else arguments)


def read_arguments(text: str) -> Json:
    """Arguments that are text: what they say as JSON, or the text where they say nothing that can be stored."""
    arguments = ToolCall.parse("", "", text).arguments
    try:
        codec.check_json(arguments, "arguments")
        codec.encode(arguments, "arguments")
    except InvalidInput:
        return text
    return arguments
