"""Lines of Claude Code's transcripts as messages: text, thinking, calls, and one message for each tool's result."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contents import kind_of, listed, parts_of, role_of, spoken
from holdfast.errors import CorruptData
from holdfast.importers.facts import given, with_facts
from holdfast.importers.reading import moment_of, shaped
from holdfast.model import Json, Message, Usage

_OF_LINE = frozenset(("uuid", "parentUuid", "type", "message", "timestamp", "isSidechain", "userType", "sessionId"))
_OF_MESSAGE = frozenset(("role", "type", "content", "usage"))


class _Tokens(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0


class Turn:
    """One answer of the model and the results of its calls, as the uuids of their lines.

    Parallel calls are written as a bush: each result hangs on its own line of the answer. That is no branch of the
    conversation, so the lines follow one another.
    """

    def __init__(self) -> None:
        self._answer: str | None = None
        self._lines: set[str] = set()

    def goes_on(self, raw: dict[str, Json], said: dict[str, Any]) -> bool:
        """Whether a line belongs to the turn and hangs on it; any other line begins a new one."""
        hangs = raw.get("parentUuid") in self._lines if isinstance(raw.get("parentUuid"), str) else False
        if raw.get("type") == "assistant":
            answer = said.get("id")
            hangs = hangs and isinstance(answer, str) and answer == self._answer
            self._answer = answer if isinstance(answer, str) else None
        else:
            hangs = hangs and any(kind_of(one) == "tool_result" for one in listed(said.get("content")))
        self._lines = {*(self._lines if hangs else ()), str(raw["uuid"])}
        return hangs


def messages_of(raw: dict[str, Json], said: dict[str, Any], names: dict[str, str], where: str) -> Iterator[Message]:
    """The messages of a line: its tools' results, then what else it says. `names` has the tools of calls so far."""
    role = role_of(said.get("role"))
    if role is None:
        raise CorruptData(f"{where}: the role {said.get('role')!r} is not known")
    at = moment_of(raw.get("timestamp"), where)
    facts = given(**{key: one for key, one in raw.items() if key not in _OF_LINE and one is not False})
    facts |= given(message=given(**{key: one for key, one in said.items() if key not in _OF_MESSAGE}))
    content = said.get("content")
    blocks: list[Any] = content if isinstance(content, list) else parts_of(content)
    results = [one for one in blocks if kind_of(one) == "tool_result"]
    for n, one in enumerate(results):
        yield _result(one, at, names, facts if n == 0 else {})
    others = [one for one in blocks if kind_of(one) != "tool_result"]
    if others or not results:
        message = _spoken(others, names)
        metadata = with_facts(None, {**({} if results else facts), **given(**(message.metadata or {}))})
        summary = raw.get("isCompactSummary") is True
        yield replace(message, role=role, created_at=at, metadata=metadata, is_summary=summary)


def _result(block: dict[str, Any], at: datetime, names: dict[str, str], facts: dict[str, Json]) -> Message:
    answers = block.get("tool_use_id")
    told = {**facts, **given(is_error=True if block.get("is_error") is True else None)}
    return Message(
        role="tool",
        content=parts_of(block.get("content")),
        created_at=at,
        tool_call_id=answers if isinstance(answers, str) else None,
        tool_name=names.pop(answers, None) if isinstance(answers, str) else None,
        metadata=with_facts(None, told),
    )


def _spoken(blocks: list[Any], names: dict[str, str]) -> Message:
    """What blocks say, with what has no field of its own as metadata."""
    said = spoken(blocks)
    names |= {call.id: call.name for call in said.calls}
    return Message(
        role="assistant",
        content=said.content,
        tool_calls=said.calls,
        reasoning="\n".join(said.thought) or None,
        metadata=given(signatures=said.signatures),
    )


def usage_of(said: dict[str, Any], id: str, at: datetime, where: str) -> Usage:
    """What an answer of the model used."""
    tokens = shaped(said["usage"], _Tokens, where)
    model = said.get("model")
    read, written = tokens.cache_read_input_tokens or 0, tokens.cache_creation_input_tokens or 0
    return Usage(
        id=id,
        provider="anthropic",
        model=model if isinstance(model, str) else None,
        input=tokens.input_tokens,
        output=tokens.output_tokens,
        total=tokens.input_tokens + tokens.output_tokens + read + written,
        cache_read=read,
        cache_write=written,
        created_at=at,
    )
