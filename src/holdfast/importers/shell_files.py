"""What the files of aethershell look like, and the checksums of its checkpoints."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from functools import partial

from msgspec import Struct

from holdfast.model import Json

_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


class AgentShape(Struct):
    """An agent's file, or an agent's state in a checkpoint."""

    agent_id: str
    name: str
    agent_type: str = ""
    system_prompt: str | None = None
    capabilities: list[str] = []
    config: dict[str, Json] = {}
    custom_state: dict[str, Json] = {}
    active_conversations: list[str] = []
    created_at: int | None = None
    modified_at: int | None = None
    version: int = 1
    metadata: dict[str, Json] | None = None


class ConversationShape(Struct):
    """A conversation, whose messages are read one by one."""

    id: str
    agent_id: str | None = None
    title: str | None = None
    messages: list[dict[str, Json]] = []
    metadata: dict[str, Json] | None = None
    created_at: int | None = None
    last_message_at: int | None = None
    archived: bool = False
    tags: list[str] = []


class AttachmentShape(Struct):
    """What was sent along with a message."""

    id: str
    attachment_type: str
    name: str
    mime_type: str | None = None
    content: str | None = None
    url: str | None = None
    size: int | None = None


class CallShape(Struct):
    """A tool call of a message."""

    id: str
    name: str
    arguments: dict[str, Json] = {}


class OutcomeShape(CallShape):
    """How a call came out."""

    result: str | None = None
    status: str = "Pending"


class MessageShape(Struct):
    """A message of a conversation."""

    id: str
    role: str
    timestamp: int
    content: str = ""
    tokens: int | None = None
    attachments: list[AttachmentShape] = []
    tool_calls: list[CallShape] = []
    parent_id: str | None = None
    metadata: dict[str, Json] | None = None


class CheckpointShape(Struct):
    """A checkpoint with copies of what it holds."""

    id: str
    agent_id: str
    agent_state: dict[str, Json]
    created_at: int
    name: str | None = None
    description: str | None = None
    conversations: list[dict[str, Json]] = []
    checkpoint_type: str = "Manual"
    size_bytes: int | None = None
    checksum: str = ""


# checksums


def wrong_sum(text: str, told: CheckpointShape) -> str | None:
    """What is wrong with a checkpoint's checksum, which is over compact JSON with the keys in the file's order."""
    members = dict(_members(text))
    pair = ",".join(_BLANKS.sub(r"\1", members.get(name, "null")) for name in ("agent_state", "conversations"))
    made = hashlib.sha256 if len(told.checksum) == 64 else partial(hashlib.md5, usedforsecurity=False)
    if made(f"[{pair}]".encode()).hexdigest() == told.checksum.lower():
        return None
    return f"its checksum {told.checksum!r} is not that of its content"


def _members(text: str) -> Iterator[tuple[str, str]]:
    """The members of a JSON object, each value as it stands in the text; the text is known to be whole."""
    decoder = json.JSONDecoder()
    at = text.index("{") + 1
    blank = re.compile(r"[\s,:]*")
    while text[at := blank.match(text, at).end()] != "}":  # type: ignore[union-attr]
        name, at = decoder.raw_decode(text, at)
        start = blank.match(text, at).end()  # type: ignore[union-attr]
        _, at = decoder.raw_decode(text, start)
        yield name, text[start:at]
