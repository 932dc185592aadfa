"""LangChain's messages as Holdfast's, and back: what both know is mapped, the rest is kept beside it word for word.

A message whose mapping does not read back the same (a class of somebody's own, values that JSON cannot say) is kept
whole in LangGraph's own encoding, with its text cut out, so that text is stored once either way.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol

from holdfast import codec
from holdfast.adapters._langgraph_payloads import Packed, cut, filled, from_text, to_text
from holdfast.errors import CorruptData, InvalidId, InvalidInput
from holdfast.ids import check_id, new_id
from holdfast.model import Image, Json, JsonPart, Message, Part, Role, Text, ToolCall, Usage
from holdfast.parts import digest_of

KEPT = "langgraph"  # under which metadata holds what a message of LangChain's has and ours has not
Fetch = Callable[[bytes], bytes]

_CLASSES: dict[Role, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}
_ROLES: dict[str, Role] = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_MAPPED = {"content", "type", "id", "tool_calls", "tool_call_id"}
_EMPTY: dict[Role, dict[str, Any]] = {
    role: (kind("", tool_call_id="") if kind is ToolMessage else kind("")).model_dump()
    for role, kind in _CLASSES.items()
}


# from LangChain's to ours


def said(message: BaseMessage, at: datetime, serde: SerializerProtocol) -> Message:
    """The message as Holdfast keeps it."""
    own = _own_id(message)
    try:
        mapped = _mapped(message, own, at)
        if _same(heard(mapped, serde), message):
            return mapped
    except (InvalidInput, CorruptData, TypeError, ValueError):
        pass
    return _whole(message, own, at, serde)


def _own_id(message: BaseMessage) -> str:
    try:
        return check_id(message.id, "message id")
    except InvalidId:
        return new_id()


def _mapped(message: BaseMessage, own: str, at: datetime) -> Message:
    role = next((role for role, kind in _CLASSES.items() if type(message) is kind), None)
    if role is None:
        raise InvalidInput(f"a {type(message).__name__} has no role that Holdfast knows")
    dump = message.model_dump()
    kept = {name: value for name, value in dump.items() if name not in _MAPPED and value != _EMPTY[role][name]}
    if isinstance(message.content, list):
        kept["blocks"] = True
    if message.id != own:
        kept["id"] = message.id
    return Message(
        role=role,
        content=_parts(message.content),
        id=own,
        created_at=at,
        tool_calls=[ToolCall(id=one["id"], name=one["name"], arguments=one["args"]) for one in _calls(message)],
        tool_call_id=message.tool_call_id if isinstance(message, ToolMessage) else None,
        tool_name=message.name if isinstance(message, ToolMessage) else None,
        metadata={KEPT: kept} if kept else None,
        usage=_usage(message, own, at),
    )


def _calls(message: BaseMessage) -> list[Any]:
    return message.tool_calls if isinstance(message, AIMessage) else []


def _parts(content: str | list[Any]) -> list[Part]:
    if isinstance(content, str):
        return [Text(text=content)] if content else []
    return [_part(block) for block in content]


def _part(block: Any) -> Part:
    """A block of content as a part, by its meaning where that gives the same block again."""
    if isinstance(block, dict) and block.keys() == {"type", "text"} and isinstance(block["text"], str):
        return Text(text=block["text"])
    part = _image(block)
    return part if part is not None and codec.same(_block(part, None), block) else JsonPart(value=block)


def _image(block: Any) -> Image | None:
    image = block.get("image_url") if isinstance(block, dict) and block.get("type") == "image_url" else None
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str):
        return None
    head, found, body = url.partition(";base64,")
    if not found or not head.startswith("data:"):
        return Image(url=url)
    try:
        return Image(data=base64.b64decode(body, validate=True), mime_type=head.removeprefix("data:"))
    except binascii.Error:
        return Image(url=url)


def _usage(message: BaseMessage, own: str, at: datetime) -> Usage | None:
    told: Any = message.usage_metadata if isinstance(message, AIMessage) else None
    if not told:
        return None
    details, said = told.get("input_token_details") or {}, message.response_metadata
    model = said.get("model_name") or said.get("model")
    provider = said.get("model_provider")
    return Usage(
        id=own,
        created_at=at,
        model=model if isinstance(model, str) else None,
        provider=provider if isinstance(provider, str) else None,
        input=told.get("input_tokens", 0),
        output=told.get("output_tokens", 0),
        total=told.get("total_tokens", 0),
        cache_read=details.get("cache_read") or 0,
        cache_write=details.get("cache_creation") or 0,
    )


def _whole(message: BaseMessage, own: str, at: datetime, serde: SerializerProtocol) -> Message:
    """The message with its text for people and search, and everything else of it as LangGraph encodes it."""
    kind, body = serde.dumps_typed(message)
    parts = [part for part in _parts(_plain(message.content)) if isinstance(part, Text)]
    pieces = cut([body], [(part.text.encode("utf-8", "surrogatepass"), n) for n, part in enumerate(parts)])
    return Message(
        role=_ROLES.get(message.type, "user"),
        content=[*parts],
        id=own,
        created_at=at,
        metadata={KEPT: {"whole": to_text(Packed(kind, pieces))}},
        usage=_usage(message, own, at),
    )


def _plain(content: Any) -> str | list[Any]:
    return content if isinstance(content, str | list) else str(content)


def _same(one: BaseMessage, other: BaseMessage) -> bool:
    """Whether two messages say exactly the same: 42, 42.0 and "42" differ."""
    dumps = [message.model_dump() for message in (one, other)]
    codec.check_json(dumps[1], "message")
    return type(one) is type(other) and dumps[0] == dumps[1] and codec.same(*dumps)


# from ours to LangChain's


def heard(message: Message, serde: SerializerProtocol, fetch: Fetch | None = None) -> BaseMessage:
    """The message as LangChain knows it; `fetch` gets large parts by their digest."""
    kept: dict[str, Json] = dict((message.metadata or {}).get(KEPT) or {})
    if "whole" in kept and message.redacted is None:
        texts = [part.text.encode("utf-8", "surrogatepass") for part in message.content if isinstance(part, Text)]
        packed = from_text(kept["whole"], Packed, f"message {message.id!r}")
        found: BaseMessage = serde.loads_typed((packed.type, filled(packed.pieces, texts)))
        return found
    kept.pop("whole", None)
    fields: dict[str, Any] = {"content": _content(message, bool(kept.pop("blocks", False)), fetch), "id": message.id}
    if message.role == "tool":
        fields |= {"tool_call_id": message.tool_call_id or "", "name": message.tool_name}
    if message.tool_calls:
        calls = ({"name": one.name, "args": one.arguments, "id": one.id} for one in message.tool_calls)
        fields["tool_calls"] = [{**call, "type": "tool_call"} for call in calls if isinstance(call["args"], dict)]
    return _CLASSES[message.role](**(fields | kept))


def _content(message: Message, blocks: bool, fetch: Fetch | None) -> str | list[Any]:
    if not blocks and all(isinstance(part, Text) for part in message.content):
        return message.text
    return [_block(part, fetch) for part in message.content]


def _block(part: Part, fetch: Fetch | None) -> Any:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, JsonPart):
        return part.value
    if isinstance(part, Image):
        digest = digest_of(part.artifact_id)
        data = fetch(digest) if digest is not None and fetch is not None else part.data
        url = part.url if data is None else f"data:{part.mime_type};base64,{base64.b64encode(data).decode()}"
        return {"type": "image_url", "image_url": {"url": url}}
    return codec.decode_envelope(codec.encode(part, "a part"), "a part")
