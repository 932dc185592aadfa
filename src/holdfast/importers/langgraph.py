"""LangGraph: the checkpoints of `langgraph-checkpoint-sqlite`, a thread each session."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from holdfast import codec
from holdfast.contents import call_of, listed, part_of, parts_of, role_of
from holdfast.errors import CorruptData
from holdfast.importers.databases import Database, opened
from holdfast.importers.facts import given, with_facts
from holdfast.importers.langgraph_values import Stored, decode, plain
from holdfast.importers.reading import derive, moment_of, parse, shaped, usable_id
from holdfast.importers.snapshots import Line, Snapshots
from holdfast.importers.taking import Taker
from holdfast.model import Json, Message, Part, Text, ToolCall, Usage

_CHANNEL = "messages"
_MAPPED = frozenset(
    ("id", "type", "content", "tool_calls", "tool_call_id", "usage_metadata", "role", "invalid_tool_calls", "example")
)
_WITHIN_CALL = ("text", "tool_use", "tool_call", "tool_call_chunk", "input_json_delta")


class _Row(Struct):
    row: int
    thread_id: str
    namespace: str
    checkpoint_id: str
    parent_id: str | None
    kind: str | None
    body: Any
    metadata: Any


class _Checkpoint(Struct):
    ts: str
    channel_values: dict[str, Any] = {}
    channel_versions: dict[str, Any] = {}


class _Steps(Struct):
    step: int | None = None


class _Tokens(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_token_details: dict[str, Any] | None = None


def read(taker: Taker, path: Path) -> None:
    """Take a database over, thread by thread, each from its oldest checkpoint on."""
    with opened(path) as database:
        importing = _Importing(taker, path, database)
        # Checkpoint ids are time-ordered, which is how LangGraph itself finds the latest.
        order = "ORDER BY thread_id, checkpoint_ns, checkpoint_id"
        sql = (
            "SELECT rowid, thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
            f" FROM checkpoints {order}"
        )
        for values in database.rows(sql):
            where = f"{path}, checkpoints row {values[0]}"
            with taker.report.noting(where):
                names = _Row.__struct_fields__
                importing.checkpoint(shaped(dict(zip(names, values, strict=True)), _Row, where), where)
            taker.report.step()


class _Importing:
    """Checkpoints of threads, oldest first."""

    def __init__(self, taker: Taker, path: Path, database: Database) -> None:
        self._taker = taker
        self._report = taker.report
        self._path = path
        self._database = database
        self._last = dict(_steps(database))
        self._open: Snapshots | None = None

    def checkpoint(self, row: _Row, where: str) -> None:
        id = usable_id(row.checkpoint_id, self._report, where, row.thread_id, row.namespace)
        if self._taker.has_checkpoint(id, where):
            return
        if not isinstance(row.body, bytes):
            raise CorruptData(f"{where}: it holds no checkpoint")
        stored = decode(row.kind, row.body, self._report, where)
        told = shaped(stored, _Checkpoint, where)
        facts: Json = {}
        with self._report.noting(f"{where}, metadata"):
            facts = parse(row.metadata, self._report, where) if row.metadata else {}
        snapshots = self._snapshots(row, where)
        if snapshots is None:
            raise CorruptData(f"{where}: its thread could not be taken")
        channel = _channel(told.channel_values)
        at = moment_of(told.ts, where)
        if channel not in told.channel_values and channel in told.channel_versions:
            raise CorruptData(f"{where}: the channel {channel!r} is stored as changes, which are not read")
        said = listed(told.channel_values.get(channel))
        last = snapshots.take(self._lines(said, at, where))
        step = facts.get("step") if isinstance(facts, dict) else None
        with snapshots.placing.standing(last):
            self._taker.checkpoint(
                id,
                where,
                session_id=snapshots.placing.session_id,
                step=step if self._last.get((row.thread_id, row.namespace, step)) == row.checkpoint_id else None,
                parent_id=self._parent(row),
                extra=self._extra(stored, channel, row, where),
                facts=given(created_at=told.ts, metadata=facts, parent_checkpoint_id=row.parent_id),
            )

    def _parent(self, row: _Row) -> str | None:
        known = row.parent_id is not None and self._taker.hf.checkpoints.has(row.parent_id)
        return row.parent_id if known else None

    def _snapshots(self, row: _Row, where: str) -> Snapshots | None:
        name = f"{row.thread_id}/{row.namespace}" if row.namespace else row.thread_id
        session_id = usable_id(name, self._report, where)
        if self._open is None or self._open.placing.session_id != session_id:
            facts = given(thread_id=row.thread_id, checkpoint_ns=row.namespace or None)
            placing = self._taker.session(session_id, where, facts=facts)
            self._open = None if placing is None else Snapshots(placing, self._report)
        return self._open

    def _extra(self, stored: dict[str, Any], channel: str, row: _Row, where: str) -> Json:
        """Everything else a checkpoint holds: the other channels, versions, and what was written but not applied."""
        values = {name: one for name, one in stored.get("channel_values", {}).items() if name != channel}
        extra = {**{name: one for name, one in stored.items() if name not in ("id", "ts")}, "channel_values": values}
        pending = [*self._pending(row, where)]
        return plain({**extra, "pending_writes": pending} if pending else extra)

    def _pending(self, row: _Row, where: str) -> Iterator[list[Any]]:
        """The writes of a checkpoint that none follows; those of others are in the checkpoint after them."""
        key = (row.thread_id, row.namespace, row.checkpoint_id)
        child = (
            "SELECT 1 FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND parent_checkpoint_id = ? LIMIT 1"
        )
        if any(True for _ in self._database.rows(child, key)):
            return
        sql = (
            "SELECT task_id, channel, type, value FROM writes"
            " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_id, idx"
        )
        for task_id, channel, kind, body in self._database.rows(sql, key):
            with self._report.noting(f"{where}, write of {channel!r}"):
                yield [task_id, channel, decode(kind, body or b"", self._report, where)]

    # messages

    def _lines(self, said: list[Any], at: datetime, where: str) -> Iterator[Line]:
        for n, one in enumerate(said, 1):
            place = f"{where}, message {n}"
            fields = one.value if isinstance(one, Stored) else one
            if not isinstance(fields, dict):
                self._report.note(place, "not taken: it is no message")
                continue
            own = fields.get("id")
            make = partial(self._message, fields, at, place)
            yield Line(id=own if isinstance(own, str) else None, raw=plain(fields), where=place, make=make)

    def _message(self, fields: dict[str, Any], at: datetime, where: str) -> Message | None:
        named = fields.get("role", fields.get("type"))
        role = role_of(named)
        if role is None:
            self._report.note(where, f"not taken: the role {named!r} is not known")
            return None
        calls = [*self._calls(fields, where)]
        content, reasoning = _content(plain(fields.get("content")), bool(calls))
        answers, name = fields.get("tool_call_id"), fields.get("name")
        facts = {key: plain(one) for key, one in fields.items() if key not in _MAPPED and one not in (None, {}, [], "")}
        if role == "tool" and isinstance(name, str):
            facts.pop("name", None)
        return Message(
            role=role,
            content=content,
            created_at=at,
            tool_calls=calls,
            tool_call_id=answers if isinstance(answers, str) else None,
            tool_name=name if role == "tool" and isinstance(name, str) else None,
            reasoning=reasoning,
            usage=_usage(fields, at, where),
            metadata=with_facts(None, facts),
        )

    def _calls(self, fields: dict[str, Any], where: str) -> Iterator[ToolCall]:
        for one in [*listed(fields.get("tool_calls")), *listed(fields.get("invalid_tool_calls"))]:
            told = plain(one)
            call = call_of(told.get("id"), told.get("name"), told.get("args")) if isinstance(told, dict) else None
            if call is None:
                self._report.note(where, f"a tool call without an id or a name was not taken: {told!r}")
            else:
                yield call


def _steps(database: Database) -> Iterator[tuple[tuple[str, str, Json], str]]:
    """The checkpoints by their steps, oldest first: of a fork's two with one step, the later is to go on from."""
    sql = "SELECT thread_id, checkpoint_ns, checkpoint_id, metadata FROM checkpoints ORDER BY checkpoint_id"
    for thread, namespace, checkpoint, metadata in database.rows(sql):
        try:
            step = codec.reader_of(_Steps)(metadata or b"{}").step
        except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
            continue
        if step is not None and step >= 0:
            yield (thread, namespace, step), checkpoint


def _channel(values: dict[str, Any]) -> str:
    """The channel that holds the conversation: `messages`, or else the first with messages in it."""
    if isinstance(values.get(_CHANNEL), list):
        return _CHANNEL
    for name, value in values.items():
        if isinstance(value, list) and value and all(isinstance(one, Stored) and one.is_message for one in value):
            return name
    return _CHANNEL


def _content(content: Json, has_calls: bool) -> tuple[list[Part], str | None]:
    """The parts of a message and its reasoning; a block that only repeats a call is left out."""
    if not isinstance(content, list):
        return parts_of(content), None
    parts: list[Part] = []
    thought: list[str] = []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        text = block.get("thinking", block.get("reasoning")) if isinstance(block, dict) else None
        if kind in ("thinking", "reasoning") and isinstance(text, str):
            thought.append(text)
        elif not (has_calls and kind in _WITHIN_CALL[1:]):
            parts.append(part_of(block))
    return [one for one in parts if not (isinstance(one, Text) and not one.text)], "\n".join(thought) or None


def _usage(fields: dict[str, Any], at: datetime, where: str) -> Usage | None:
    if not isinstance(fields.get("usage_metadata"), dict):
        return None
    tokens = shaped(plain(fields["usage_metadata"]), _Tokens, where)
    cached = tokens.input_token_details or {}
    answered = plain(fields.get("response_metadata") or {})
    model = answered.get("model_name", answered.get("model")) if isinstance(answered, dict) else None
    return Usage(
        id=derive("usage", str(fields.get("id")), where if fields.get("id") is None else ""),
        model=model if isinstance(model, str) else None,
        input=tokens.input_tokens,
        output=tokens.output_tokens,
        total=tokens.total_tokens,
        cache_read=_whole(cached.get("cache_read")),
        cache_write=_whole(cached.get("cache_creation")),
        created_at=at,
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
