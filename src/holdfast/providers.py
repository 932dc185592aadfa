"""Messages in the form that model providers use: dicts with role and content, made into Messages."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidInput
from holdfast.model import ROLES, Image, JsonPart, Message, Part, Text, ToolCall


def message_from(said: object) -> Message:
    """A Message as it is, or made of a dict in provider form (`role`, `content`, …)."""
    if isinstance(said, Message):
        return said
    if not isinstance(said, dict):
        hint = "; give a list's messages one by one, as in append(id, *messages)" if isinstance(said, list) else ""
        raise InvalidInput(f"a message is a Message or a dict with role and content, not {type(said).__name__}{hint}")
    return _from_provider(said)


def _from_provider(said: dict[str, Any]) -> Message:
    fields = dict(said)
    role = fields.pop("role", None)
    if role is None:
        raise InvalidInput(f"the message has no role; give it one of {', '.join(ROLES)}")
    if not isinstance(role, str) or role.lower() not in ROLES:
        raise InvalidInput(f"role {role!r} is not one of {', '.join(ROLES)}")
    content = fields.pop("content", None)
    asked = fields.pop("tool_calls", None) or []
    if not isinstance(asked, list):
        raise InvalidInput(f"tool_calls is a list, not {type(asked).__name__}")
    calls = [_provider_call(call) for call in asked]
    name = fields.pop("name", None)
    if name is not None:
        fields.setdefault("tool_name", name)
    unknown = [key for key in fields if key not in Message.__struct_fields__]
    if unknown:
        raise InvalidInput(f"a message has no field {unknown[0]!r}; correct its name, or put it into metadata")
    return Message(role=role.lower(), content=_provider_parts(content), tool_calls=calls, **fields)  # type: ignore[arg-type]


def _provider_parts(content: object) -> list[Part]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(text=content)]
    if not isinstance(content, list):
        raise InvalidInput(f"content is a string or a list of parts, not {type(content).__name__}")
    return [_provider_part(part) for part in content]


def _provider_part(part: object) -> Part:
    if isinstance(part, str):
        return Text(text=part)
    if isinstance(part, Part):
        return part
    if isinstance(part, dict):
        kind, text = part.get("type"), part.get("text")
        if kind in ("text", "input_text", "output_text") and isinstance(text, str):
            return Text(text=text)
        if kind == "image_url":
            return _image(part.get("image_url", part))
        return JsonPart(value=part)
    raise InvalidInput(f"a content part is a string, a Part or a dict, not {type(part).__name__}")


def _image(given: object) -> Image:
    url, detail = (given.get("url"), given.get("detail")) if isinstance(given, dict) else (given, None)
    if not isinstance(url, str):
        raise InvalidInput(f"an image_url part names a url, not {given!r}")
    return Image(url=url, detail=detail)


def _provider_call(call: object) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    if not isinstance(call, dict):
        raise InvalidInput(f"a tool call is a ToolCall or a dict, not {type(call).__name__}")
    asked = call.get("function", call)
    if not isinstance(asked, dict):
        raise InvalidInput(f"the function of a tool call is a dict with name and arguments, not {type(asked).__name__}")
    arguments = asked.get("arguments")
    if isinstance(arguments, str):
        return ToolCall.parse(str(call.get("id", "")), str(asked.get("name", "")), arguments)
    return ToolCall(id=str(call.get("id", "")), name=str(asked.get("name", "")), arguments=arguments)
