"""Lines of Claude Code's transcripts as messages, and back: each line comes back as it was, its text is stored once.

What a person, the model or a tool says is one message or several. A line that says nothing to anybody (titles, costs,
attachments, snapshots) is a message without content, so that the order of lines is the order of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.adapters._templates import Load, as_text, leave_out, put_back, settled, storable
from holdfast.errors import CorruptData, InvalidId, InvalidInput
from holdfast.ids import check_id, new_id, now
from holdfast.importers.claude_messages import messages_of, usage_of
from holdfast.importers.reading import as_text as time_as_text
from holdfast.importers.reading import derive, moment_of
from holdfast.model import Json, Message, Text, Usage

KEY = "claude"
_GONE = "[redacted]"
_SPOKEN = ("user", "assistant")


def check_entries(entries: object) -> list[dict[str, Any]]:
    """The entries themselves, or InvalidInput if they are no list of objects."""
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise InvalidInput("entries are a list of dicts, one for each line of a transcript")
    return entries


def uuid_of(entry: dict[str, Any]) -> str | None:
    """The id that makes an entry safe to repeat; None for one that has none, or none that can be used."""
    try:
        return check_id(entry.get("uuid"), "uuid")
    except InvalidId:
        return None


def is_spoken(entry: dict[str, Any]) -> bool:
    """Whether an entry is something said, which only has a place in the tree of the conversation."""
    return entry.get("type") in _SPOKEN and isinstance(entry.get("message"), dict)


def answer_of(entry: dict[str, Any]) -> tuple[str, Usage] | None:
    """The answer of the model that a line belongs to, and what that used so far; None if it says neither."""
    said = entry.get("message")
    if entry.get("type") != "assistant" or not isinstance(said, dict) or not isinstance(said.get("id"), str):
        return None
    try:
        return said["id"], usage_of(said, derive(said["id"]), _moment(entry), "entry")
    except (CorruptData, KeyError):
        return None


def part_id(session_id: str, uuid: str, n: int) -> str:
    """The id of the nth message of an entry."""
    return uuid if n == 0 else derive(session_id, uuid, str(n))


def messages_from(session_id: str, entry: dict[str, Any], names: dict[str, str]) -> list[Message]:
    """The messages of an entry; `names` has the tools of the calls before it."""
    uuid = uuid_of(entry) or new_id()
    if not storable(entry, "an entry"):
        return [Message(id=uuid, role="system", metadata={KEY: as_text(entry, "an entry")})]
    said = [settled(one) for one in _said(entry, names)] or [Message(role="system", created_at=_moment(entry))]
    placed = [replace(one, id=part_id(session_id, uuid, n)) for n, one in enumerate(said)]
    kept = [leave_out(entry, placed), *range(1, len(placed))]
    return [replace(one, metadata={KEY: mark}) for one, mark in zip(placed, kept, strict=True)]


def _said(entry: dict[str, Any], names: dict[str, str]) -> list[Message]:
    if not is_spoken(entry):
        return []
    at = time_as_text(_moment(entry))
    try:
        return [
            replace(one, metadata=None)
            for one in messages_of({**entry, "timestamp": at}, entry["message"], names, "entry")
        ]
    except CorruptData:
        return []  # a role that nobody knows: kept, but not said


def _moment(entry: dict[str, Any]) -> Any:
    try:
        return moment_of(entry.get("timestamp"), "entry")
    except CorruptData:
        return now()


# back


def entries_of(messages: Iterable[Message], load: Load) -> Iterator[dict[str, Any]]:
    """The entries that messages were made of, in their order; a message of another program's becomes one."""
    group: list[Message] = []
    before: str | None = None
    for message in messages:
        if isinstance((message.metadata or {}).get(KEY), int):
            group.append(message)
            continue
        if group:
            entry = _entry(group, before, load)
            before = uuid_of(entry) or before
            yield entry
        group = [message]
    if group:
        yield _entry(group, before, load)


def _entry(group: list[Message], before: str | None, load: Load) -> dict[str, Any]:
    kept = (group[0].metadata or {}).get(KEY)
    entry = _told_by(group[0], before) if kept is None else put_back(kept, group, load)
    if not isinstance(entry, dict):
        raise CorruptData(f"message {group[0].id!r} keeps no line of a transcript")
    return entry


def _told_by(message: Message, before: str | None) -> dict[str, Any]:
    """A line for what another program has said, or for what was redacted."""
    role = "assistant" if message.role == "assistant" else "user"
    return {
        "type": role,
        "uuid": message.id,
        "parentUuid": before,
        "isSidechain": False,
        "timestamp": time_as_text(message.created_at),
        "message": {"role": role, "content": _blocks(message)},
    }


def _blocks(message: Message) -> list[Json]:
    text = _GONE if message.redacted else message.text
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": text}]
    said = [{"type": "text", "text": part.text} for part in message.content if isinstance(part, Text) and part.text]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name or _GONE, "input": _input(call.arguments)}
        for call in message.tool_calls
    ]
    return [*said, *calls] or [{"type": "text", "text": text or _GONE}]


def _input(arguments: Json) -> Json:
    return arguments if isinstance(arguments, dict) else {} if arguments is None else {"arguments": arguments}
