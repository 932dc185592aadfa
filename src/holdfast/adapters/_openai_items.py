"""Messages as items of OpenAI Agents, and back: each item comes back as it was, and its text is stored once.

A message that says all of its item has nothing beside it, so that it is the same as one that another program wrote.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast import codec
from holdfast.adapters._templates import Load, as_text, leave_out, put_back, settled, storable
from holdfast.contents import role_of
from holdfast.errors import CorruptData, InvalidInput
from holdfast.importers.facts import fact
from holdfast.importers.openai_items import Items
from holdfast.model import Image, Json, JsonPart, Message, Part, Text

KEY = "openai"
_GONE = "[redacted]"
_FEW, _SHORT = 16, 8_192  # items, and bytes of all of them together


def are_short(items: Sequence[Json]) -> bool:
    """Whether items are few and small, so that making messages of them takes moments."""
    if not isinstance(items, list) or len(items) > _FEW:
        return False
    try:
        return len(codec.encode(items, "items")) <= _SHORT
    except InvalidInput:
        return False  # which is said when a message is made of it


def messages_of(items: Iterable[Json]) -> list[Message]:
    """A message for each item; InvalidInput for what is no object that JSON can say."""
    known = Items()
    return [_message_of(item, known) for item in items]


def _message_of(item: Json, known: Items) -> Message:
    if not isinstance(item, dict):
        raise InvalidInput(f"an item is a dict, not {type(item).__name__}")
    if not storable(item, "an item"):
        return Message(role=role_of(item.get("role")) or "assistant", metadata={KEY: as_text(item, "an item")})
    try:
        fields = known.fields_of(item, "item")
    except CorruptData:
        fields = {"role": "assistant", "content": [JsonPart(value=item)]}
    message = settled(Message(**{**fields, "metadata": None}))
    moves = any(isinstance(part, Image) and part.data is not None for part in message.content)  # if it is large
    if not moves and codec.same(_told_by(message), [item]):
        return message
    return replace(message, metadata={KEY: leave_out(item, [message])})


def items_of(message: Message, load: Load) -> list[Json]:
    """The items of a message: the one it was made of, or for another program's what it says, which may be several."""
    if message.metadata is None and message.redacted is None and message.role != "tool" and not message.tool_calls:
        content = message.content
        if len(content) == 1 and type(content[0]) is Text:  # as most are
            return [{"role": message.role, "content": content[0].text}]
    kept = (message.metadata or {}).get(KEY)
    if kept is None or message.pruned:  # of a pruned one only a placeholder is to be seen
        return _told_by(message)
    return [put_back(kept, [message], load)]


def _told_by(message: Message) -> list[Json]:
    if message.role == "tool":
        output = _GONE if message.redacted else _plain(message.content)
        return [{"type": "function_call_output", "call_id": message.tool_call_id or "", "output": output}]
    said = [*_reasoning(message), *_said(message)]
    return said + [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name or _GONE,
            "arguments": call.arguments if isinstance(call.arguments, str) else _compact(call.arguments or {}),
        }
        for call in message.tool_calls
    ]


def _said(message: Message) -> list[Json]:
    role = fact(message.metadata, "role") or message.role
    if message.redacted and not message.tool_calls:
        return [{"role": role, "content": _GONE}]
    if not message.content:
        return []
    if message.role == "user" and any(isinstance(part, Image) for part in message.content):
        return [{"role": role, "content": [_input(part) for part in message.content]}]
    return [{"role": role, "content": _plain(message.content)}]


def _reasoning(message: Message) -> list[Json]:
    """Reasoning that an import has brought with its id, without which the API takes none."""
    own = fact(message.metadata, "id")
    if fact(message.metadata, "type") != "reasoning" or own is None:
        return []
    told = [] if message.reasoning is None else [{"type": "summary_text", "text": message.reasoning}]
    sealed = fact(message.metadata, "encrypted_content")
    return [{"type": "reasoning", "id": own, "summary": told, **({"encrypted_content": sealed} if sealed else {})}]


def _input(part: Part) -> Json:
    url = _url(part) if isinstance(part, Image) else None
    if isinstance(part, Image) and url is not None:
        return {"type": "input_image", "image_url": url, "detail": part.detail or "auto"}
    return {"type": "input_text", "text": _plain([part])}


def _url(part: Image) -> str | None:
    if part.data is None:
        return part.url
    return f"data:{part.mime_type or 'image/png'};base64,{base64.b64encode(part.data).decode()}"


def _plain(content: list[Part]) -> str:
    """Parts as one text; what is none as JSON, bytes by their name alone."""
    return "\n".join(part.text if isinstance(part, Text) else _as_json(part) for part in content)


def _as_json(part: Part) -> str:
    if isinstance(part, JsonPart):
        return _compact(part.value)
    shown: dict[str, Any] = {name: getattr(part, name) for name in part.__struct_fields__ if name != "data"}
    return _compact(
        {"type": part.__struct_config__.tag, **{name: one for name, one in shown.items() if one is not None}}
    )


def _compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
