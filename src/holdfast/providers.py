"""Messages in the form that model providers use: dicts with role and content, made into Messages and back."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.contents import Spoken, called, kind_of, part_of, read_arguments, role_of, spoken
from holdfast.errors import InvalidInput
from holdfast.model import ROLES, Code, Image, Json, JsonPart, Message, Part, Role, Text, ToolCall

Read = Callable[[str], bytes]

# from dicts


def message_from(said: object) -> Message:
    """A Message as it is, or made of a dict in provider form (`role`, `content`, …)."""
    if isinstance(said, Message):
        return said
    if not isinstance(said, dict):
        hint = "; give a list's messages one by one, as in append(id, *messages)" if isinstance(said, list) else ""
        raise InvalidInput(f"a message is a Message or a dict with role and content, not {_named(said)}{hint}")
    return _from_provider(said)


def _from_provider(said: dict[str, Any]) -> Message:
    fields = {key: value for key, value in said.items() if key in Message.__struct_fields__ or not _is_empty(value)}
    role = _role(fields.pop("role", None))
    blocks = spoken(_blocks(fields.pop("content", None), fields.pop("refusal", None)))
    asked = fields.pop("tool_calls", None) or []
    if not isinstance(asked, list):
        raise InvalidInput(f"tool_calls is a list, not {type(asked).__name__}")
    calls = [*blocks.calls, *(_provider_call(call) for call in asked)]
    _rename(fields, "name", "tool_name")
    _rename(fields, "reasoning_content", "reasoning")
    _add_thought(fields, blocks)
    unknown = [key for key in fields if key not in Message.__struct_fields__]
    if unknown:
        raise InvalidInput(f"a message has no field {unknown[0]!r}; correct its name, or put it into metadata")
    return Message(role=role, content=blocks.content, tool_calls=calls, **fields)


def _is_empty(value: object) -> bool:
    """Whether a provider says nothing with it: answers name every field there is."""
    return value is None or (isinstance(value, list | dict) and not value)


def _role(name: object) -> Role:
    role = role_of(name)
    if name is None:
        raise InvalidInput(f"the message has no role; give it one of {', '.join(ROLES)}")
    if role is None:
        raise InvalidInput(f"role {name!r} is not one of {', '.join(ROLES)}")
    return role


def _rename(fields: dict[str, Any], theirs: str, ours: str) -> None:
    value = fields.pop(theirs, None)
    if value is not None and fields.get(ours) is None:
        fields[ours] = value


def _add_thought(fields: dict[str, Any], blocks: Spoken) -> None:
    """Thinking as the reasoning; its signatures, without which it cannot be given back, as metadata."""
    if blocks.thought and fields.get("reasoning") is None:
        fields["reasoning"] = "\n".join(blocks.thought)
    told = fields.get("metadata") or {}
    if blocks.signatures and isinstance(told, dict):
        fields["metadata"] = {"signatures": blocks.signatures, **told}


def _blocks(content: object, refusal: object) -> list[Any]:
    """What the content is made of, checked; a refusal is said like anything else."""
    if refusal is not None:
        if not isinstance(refusal, str):
            raise InvalidInput(f"a refusal is a text, not {_named(refusal)}")
        return [*_blocks(content, None), Text(text=refusal)]
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(text=content)]
    if not isinstance(content, list):
        raise InvalidInput(f"content is a string or a list of parts, not {_named(content)}")
    for part in content:
        _check_part(part)
    return content


def _check_part(part: object) -> None:
    if not isinstance(part, str | dict | Part):
        raise InvalidInput(f"a content part is a string, a Part or a dict, not {_named(part)}")
    if kind_of(part) == "image_url" and isinstance(part_of(part), JsonPart):
        raise InvalidInput(f"an image_url part names a url, not {part!r}")


def _provider_call(call: object) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    if not isinstance(call, dict):
        raise InvalidInput(f"a tool call is a ToolCall or a dict, not {_named(call)}")
    asked = call.get("function", call.get("custom", call))
    if not isinstance(asked, dict):
        raise InvalidInput(f"the function of a tool call is a dict with name and arguments, not {_named(asked)}")
    return called(str(call.get("id") or ""), str(asked.get("name") or ""), asked.get("arguments", asked.get("input")))


def _named(given: object) -> str:
    """The type of what cannot be taken, and how it could be."""
    hint = "; give its .model_dump()" if hasattr(given, "model_dump") else ""
    return f"{type(given).__name__}{hint}"


# to dicts


def to_chat(messages: Iterable[Message], *, read: Read | None = None) -> list[dict[str, Any]]:
    """Messages as a chat-completions API takes them; appended again, they say the same.

    Reasoning and attachments stay behind. Images that are kept as artifacts come from `read`, such as
    `hf.artifacts.read`. InvalidInput for parts that a chat has no form for.
    """
    return [_chat(message, read) for message in messages]


def _chat(message: Message, read: Read | None) -> dict[str, Any]:
    parts = [_chat_part(part, read) for part in message.content]
    said: dict[str, Any] = {"role": message.role, "content": parts}
    if not parts:
        said["content"] = None if message.tool_calls else ""
    elif len(parts) == 1 and isinstance(message.content[0], Text | Code):
        said["content"] = parts[0]["text"]
    if message.tool_calls:
        said["tool_calls"] = [_chat_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        said["tool_call_id"] = message.tool_call_id
    return said


def _chat_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _written(call.arguments)}}


def _written(arguments: Json) -> str:
    """Arguments as JSON; what the model wrote that was none goes back as it was."""
    if isinstance(arguments, str) and read_arguments(arguments) == arguments:
        return arguments
    return "{}" if arguments is None else json.dumps(arguments, ensure_ascii=False)


def _chat_part(part: Part, read: Read | None) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Code):
        return {"type": "text", "text": part.code}
    if isinstance(part, JsonPart):
        if isinstance(part.value, dict) and "type" in part.value:
            return part.value  # a provider's own part, as it came
        return {"type": "text", "text": json.dumps(part.value, ensure_ascii=False)}
    if isinstance(part, Image):
        detail = {} if part.detail is None else {"detail": part.detail}
        return {"type": "image_url", "image_url": {"url": _url(part, read), **detail}}
    raise InvalidInput(f"a chat has no form for a part of type {type(part).__name__}; put a text in its place")


def _url(image: Image, read: Read | None) -> str:
    if image.url is not None:
        return image.url
    data = image.data
    if data is None and image.artifact_id is not None:
        if read is None:
            raise InvalidInput(f"an image is kept as artifact {image.artifact_id!r}; give read=hf.artifacts.read")
        data = read(image.artifact_id)
    if not isinstance(data, bytes):
        raise InvalidInput("an image has neither a url nor bytes")
    return f"data:{image.mime_type or ''};base64,{base64.b64encode(data).decode()}"
