"""When to compact a conversation, what to keep, and what a model sees of it afterwards: pure functions.

A turn begins with a user's message. A call and its results stay together, whoever speaks in between.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast import codec
from holdfast.errors import InvalidInput
from holdfast.ids import check_count, check_whole
from holdfast.model import ArtifactRef, Attachment, Code, JsonPart, Message, Part, Text, ToolCall

Count: TypeAlias = Callable[[Message], int]
Summary: TypeAlias = str | Message
Summarise: TypeAlias = Callable[[list[Message], str | None], Summary | Awaitable[Summary]]

THRESHOLD = 0.8
_BYTES_PER_TOKEN = 4
_FRAME_TOKENS = 4  # role and separators, which every provider adds to a message
_MEDIA_TOKENS = 1_000


# when


def estimate_tokens(message: Message) -> int:
    """About how many tokens a message takes: a quarter of its UTF-8 bytes, 1,000 for each image, sound or file.

    An estimate, within a third for most English text; give `count=` your model's tokenizer where that matters.
    """
    size = len((message.reasoning or "").encode(errors="replace"))
    media = 0
    for part in message.content:
        size, media = _weigh(part, size, media)
    for attachment in message.attachments:
        size, media = _weigh(attachment, size, media)
    size += sum(map(_call_size, message.tool_calls))
    return _FRAME_TOKENS + math.ceil(size / _BYTES_PER_TOKEN) + _MEDIA_TOKENS * media


def _weigh(part: Part | Attachment, size: int, media: int) -> tuple[int, int]:
    if isinstance(part, Text | Code):
        return size + len((part.text if isinstance(part, Text) else part.code).encode(errors="replace")), media
    if isinstance(part, JsonPart):
        return size + len(codec.encode(part.value, "a json part")), media
    if isinstance(part, Attachment) and part.content is not None:
        return size + len(part.content.encode(errors="replace")), media
    return (size + len(part.artifact_id), media) if isinstance(part, ArtifactRef) else (size, media + 1)


def _call_size(call: ToolCall) -> int:
    return len(call.name.encode(errors="replace")) + len(codec.encode(call.arguments, "the arguments of a call"))


def count_tokens(messages: Sequence[Message], count: Count = estimate_tokens) -> int:
    """How many tokens messages take together."""
    return sum(map(count, messages))


def should_compact(
    messages: Sequence[Message],
    max_context_tokens: int | None,
    *,
    threshold: float = THRESHOLD,
    count: Count = estimate_tokens,
) -> bool:
    """Whether messages take up so much of a context that it is time to compact; never without a limit."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        raise InvalidInput(f"threshold is a share of the context above 0 and up to 1, not {threshold!r}")
    if max_context_tokens is None:
        return False
    return count_tokens(messages, count) >= threshold * check_whole(max_context_tokens, "max_context_tokens")


# what to keep


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Where turns begin: the first message, and each user's message that parts no call from its result."""
    asked_at = _asked_at(messages)
    starts, earliest = list[int](), len(messages)
    for at in range(len(messages) - 1, -1, -1):
        earliest = min(earliest, asked_at.get(at, earliest))
        if at == 0 or (messages[at].role == "user" and earliest >= at):
            starts.append(at)
    return starts[::-1]


def _asked_at(messages: Sequence[Message]) -> dict[int, int]:
    """Where the call was made that each result answers."""
    asked: dict[str, int] = {}
    found: dict[int, int] = {}
    for at, said in enumerate(messages):
        if said.tool_call_id is not None and said.tool_call_id in asked:
            found[at] = asked[said.tool_call_id]
        asked.update(dict.fromkeys((call.id for call in said.tool_calls), at))
    return found


def choose_tail(
    messages: Sequence[Message],
    *,
    keep_tokens: int | None = None,
    keep_turns: int | None = None,
    count: Count = estimate_tokens,
) -> int:
    """The index of the first message to keep: the last turns that fit both limits, and always the very last turn."""
    for limit, what in ((keep_tokens, "keep_tokens"), (keep_turns, "keep_turns")):
        if limit is not None:
            check_count(limit, what)
    tail, tokens = len(messages), 0
    for turns, start in enumerate(reversed(turn_starts(messages)), 1):
        tokens += count_tokens(messages[start:tail], count)
        over = (keep_tokens is not None and tokens > keep_tokens) or (keep_turns is not None and turns > keep_turns)
        if over and turns > 1:
            break
        tail = start
    return tail


# what a model sees


class View(Struct, frozen=True, gc=False):
    """What is left of a path after its last compaction: the summary, and the messages it does not cover."""

    marker: Message | None
    summary: Message | None
    live: list[Message]

    def messages(self) -> list[Message]:
        """The summary, then the rest."""
        return self.live if self.summary is None else [self.summary, *self.live]


def view(messages: Sequence[Message]) -> View:
    """What a model sees of a whole path; a marker without a summary or without its tail is ignored."""
    pairs = _pairs(messages)
    for pair in reversed(pairs):
        found = _behind(messages, pairs, pair)
        if found is not None:
            return found
    return View(None, None, _live(messages, 0, pairs))


def view_at_end(messages: Sequence[Message]) -> View | None:
    """The same for the end of a path, or None if that does not reach back to its last compaction's tail."""
    pairs = _pairs(messages)
    return _behind(messages, pairs, pairs[-1]) if pairs else None


def _behind(messages: Sequence[Message], pairs: list[tuple[int, int]], pair: tuple[int, int]) -> View | None:
    """The view that a marker and its summary make, or None if the tail they name does not stand before them."""
    marker, summary = (messages[at] for at in pair)
    assert marker.compaction is not None
    tail = marker.compaction.tail_start_id
    start = next((at for at in range(pair[0]) if messages[at].id == tail), None)
    return None if start is None else View(marker, summary, _live(messages, start, pairs))


def _live(messages: Sequence[Message], start: int, pairs: list[tuple[int, int]]) -> list[Message]:
    """What was said from here on, without markers and their summaries, pruned outputs as placeholders."""
    summaries = {summary for _, summary in pairs}
    spoken = (at for at in range(start, len(messages)) if not messages[at].is_compaction and at not in summaries)
    return [without_pruned(messages[at]) for at in spoken]


def _pairs(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Where markers with a summary stand, and where that stands, oldest first."""
    found: list[tuple[int, int]] = []
    marker: int | None = None
    for at, said in enumerate(messages):
        if said.is_compaction and said.compaction is not None:
            marker = at
        elif said.is_summary and marker is not None:
            found.append((marker, at))
            marker = None
    return found


def without_pruned(said: Message) -> Message:
    """A message as a model sees it: where its content is pruned, a short note in its place."""
    if not said.pruned:
        return said
    name = said.tool_name or "the tool"
    return replace(said, content=[Text(text=f"[output of {name} left out]")], attachments=[])


def choose_outputs(messages: Sequence[Message], *, keep_last: int, min_tokens: int, count: Count) -> list[Message]:
    """The tool results to prune: all but the last so many, as far as they take at least so many tokens."""
    outputs = [said for said in messages if said.role == "tool"]
    old = outputs[: len(outputs) - check_count(keep_last, "keep_last")] if len(outputs) > keep_last else []
    check_count(min_tokens, "min_tokens")
    return [said for said in old if not said.pruned and said.redacted is None and count(said) >= min_tokens]
