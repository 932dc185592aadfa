"""A framework's item as a group of messages: mostly one, several where it answers several calls at once.

The last message of a group has the item's own id and says what the item was beside its content, so that the head of a
session is the newest item, and a fork at an item is a fork behind all of it. Those before it say whose they are.
Every message says of its own pieces which of the item's parts they were: one that is redacted takes only those along.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.errors import CorruptData, InvalidInput
from holdfast.model import Audio, File, Image, Message, Part, Role, Text, ToolCall, Video

_MEDIA: dict[str, type[Image | Audio | Video]] = {"image": Image, "audio": Audio, "video": Video}
Piece = list[Any]  # as stored: what sort of part it was, and the rest of it that the message has no place for


def check_finite(value: object, what: str) -> None:
    """InvalidInput for NaN and infinities, of which frameworks' serialisers make null without a word."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{what} has {value}, which JSON cannot say; use None or a string")
    if isinstance(value, dict | list | tuple | set):
        for inner in value.values() if isinstance(value, dict) else value:
            check_finite(inner, what)


def media(mime_type: str | None, **fields: Any) -> Image | Audio | Video | File:
    """The part for content of this type."""
    return _MEDIA.get((mime_type or "").partition("/")[0], File)(mime_type=mime_type, **fields)


class Draft(Struct):
    """A message to be: its pieces are put in in the order of the item's parts."""

    role: Role
    content: list[Part] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    reasoning: str = ""
    answers: str | None = None
    tool_name: str | None = None
    pieces: list[Piece] = field(default_factory=list)

    def put(self, sort: str, rest: dict[str, Any], *content: Part) -> None:
        """Add a part that stands in the content, or nowhere but in its rest."""
        self.content += content
        self.pieces.append([sort, rest] if rest else [sort])

    def call(self, sort: str, rest: dict[str, Any], call: ToolCall) -> None:
        """Add a part that is a call."""
        self.calls.append(call)
        self.put(sort, rest)

    def think(self, sort: str, rest: dict[str, Any], text: str) -> None:
        """Add a part that is reasoning; a message has one text of it, so each part says how much is its own."""
        self.reasoning += text
        self.pieces.append([sort, rest, len(text)])

    def message(self, note: dict[str, Any]) -> Message:
        """The message, with a note of its pieces where they are not just texts and then calls."""
        plain = [["text"]] * len(self.content) + [["call"]] * len(self.calls)
        if self.pieces != plain or not all(type(part) is Text for part in self.content):
            note = {**note, "parts": self.pieces}
        return Message(
            role=self.role,
            content=self.content,
            tool_calls=self.calls,
            reasoning=self.reasoning or None,
            tool_call_id=self.answers,
            tool_name=self.tool_name,
            metadata=note or None,
        )


class Pieces:
    """What a message holds, handed out in the order in which a draft took it."""

    def __init__(self, message: Message) -> None:
        self._content = [*reversed(message.content)]
        self._calls = [*reversed(message.tool_calls)]
        self._reasoning = message.reasoning or ""

    def part(self) -> Any:
        """The next part of the content."""
        return self._content.pop()

    def call(self) -> ToolCall:
        """The next call."""
        return self._calls.pop()

    def thought(self, length: int) -> str:
        """The next so many characters of the reasoning."""
        text, self._reasoning = self._reasoning[:length], self._reasoning[length:]
        return text


def grouped(drafts: Sequence[Draft], mark: str, item_id: str, note: dict[str, Any], **fields: Any) -> list[Message]:
    """The messages of an item; `fields` are for all of them, and the note is the last one's."""
    last = len(drafts) - 1
    made = []
    for number, draft in enumerate(drafts):
        message = draft.message(note if number == last else {"of": item_id})
        name = item_id if number == last else f"{item_id}#{number + 1}"
        said = None if message.metadata is None else {mark: message.metadata}
        made.append(replace(message, id=name, metadata=said, **fields))
    return made


@contextmanager
def reading(group: Sequence[Message], what: str) -> Iterator[None]:
    """CorruptData where what messages say about the item they were does not make one."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as cause:
        raise CorruptData(f"message {group[-1].id!r} does not read as {what}: {cause}") from cause


def note_of(message: Message, mark: str) -> dict[str, Any] | None:
    """What a message says about the item it is of; None for one that came another way."""
    found = None if message.metadata is None else message.metadata.get(mark)
    return found if isinstance(found, dict) else None


def pieces_of(message: Message, mark: str) -> list[Piece]:
    """What sort of parts a message's pieces were."""
    noted = (note_of(message, mark) or {}).get("parts")
    return [["text"]] * len(message.content) + [["call"]] * len(message.tool_calls) if noted is None else noted


def groups(messages: Iterable[Message], mark: str) -> Iterator[list[Message]]:
    """Messages as the items they are of, in their order."""
    group: list[Message] = []
    for message in messages:
        group.append(message)
        if "of" not in (note_of(message, mark) or {}):
            yield group
            group = []
    if group:
        yield group


def last_groups(read: Callable[[int], Iterable[Message]], count: int, mark: str) -> list[list[Message]]:
    """The last so many items, where `read` gives the last so many messages."""
    wanted = count
    while True:
        messages = list(read(wanted))
        found = list(groups(messages, mark))
        if len(messages) < wanted or len(found) > count or not count:
            return found[-count:] if count else []
        wanted *= 2
