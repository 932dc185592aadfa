"""behest: SQLite tables `sessions`, `messages`, `tool_executions` and `usage_records`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.appends import ROOT
from holdfast.contents import call_of, listed, part_of, role_of
from holdfast.errors import CorruptData
from holdfast.importers.databases import Database, opened
from holdfast.importers.facts import given, with_facts
from holdfast.importers.placing import Placing
from holdfast.importers.reading import derive, is_finer, moment_of, parse, shaped
from holdfast.importers.taking import Taker
from holdfast.model import Compaction, ExecutionStatus, Json, JsonPart, Message, Part, ToolCall, ToolExecution, Usage

_STATUSES: dict[str, ExecutionStatus] = {"pending": "pending", "success": "success", "failed": "failed"}
_MESSAGE = "id, role, content, tool_calls, usage, created_at, is_compaction, is_summary, compaction_meta"
_EXECUTION = "id, message_id, call_id, tool_name, arguments, result, status, error, duration_ms, created_at"
_USAGE = "id, provider, model, input_tokens, output_tokens, total_tokens, created_at"


class _Message(Struct):
    id: str
    role: str
    content: str
    tool_calls: str
    usage: str | None
    created_at: str
    is_compaction: int
    is_summary: int
    compaction_meta: str | None


class _Execution(Struct):
    id: str
    message_id: str
    call_id: str
    tool_name: str
    arguments: str
    result: str | None
    status: str
    error: str | None
    duration_ms: int
    created_at: str


class _Usage(Struct):
    id: str
    provider: str
    model: str
    input_tokens: int
    output_tokens: int
    total_tokens: int
    created_at: str


class _Tokens(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0


class _Compacted(Struct):
    tail_start_id: str | None = None
    previous_compaction_id: str | None = None
    summary_text: str | None = None


def read(taker: Taker, path: Path) -> None:
    """Take a database over, session by session."""
    with opened(path) as database:
        sql = "SELECT rowid, id, title, model, metadata, created_at, updated_at FROM sessions ORDER BY rowid"
        for row, *told in [*database.rows(sql)]:
            with taker.report.noting(f"{path}, sessions row {row}"):
                _Session(taker, path, database).take(f"{path}, sessions row {row}", *told)
            taker.report.step()


class _Session:
    """One session under import."""

    def __init__(self, taker: Taker, path: Path, database: Database) -> None:
        self._taker = taker
        self._report = taker.report
        self._path = path
        self._database = database
        self._model: str | None = None
        self._asked: deque[ToolCall] = deque()

    def take(
        self, where: str, id: str, title: str, model: str, metadata: str, created_at: str, updated_at: str
    ) -> None:
        self._model = model or None
        own = parse(metadata, self._report, where)
        facts = given(created_at=created_at, updated_at=updated_at)
        if not isinstance(own, dict):
            facts["metadata"] = own
        placing = self._taker.session(
            id,
            where,
            title=title or None,
            model=self._model,
            metadata=own if isinstance(own, dict) else None,
            facts=facts,
        )
        if placing is None:
            return
        at = ROOT
        for row in self._in_order("messages", id):
            place = f"{self._path}, messages row {row}"
            with self._report.noting(place):
                at = self._put(placing, row, at, place)
        placing.flush()
        self._executions(placing, id)
        self._extra_usages(id)

    def _in_order(self, table: str, session_id: str) -> list[int]:
        """The rowids of a session's rows by time, then as written; times are compared as times, not as text."""
        keyed = []
        for row, text in self._database.rows(
            f"SELECT rowid, created_at FROM {table} WHERE session_id = ?", (session_id,)
        ):
            where = f"{self._path}, {table} row {row}"
            with self._report.noting(where):
                keyed.append((moment_of(text, where), _below_micros(str(text)), row))
        return [row for *_, row in sorted(keyed)]

    def _row(self, table: str, columns: str, row: int) -> dict[str, Any]:
        names = columns.split(", ")
        for values in self._database.rows(f"SELECT {columns} FROM {table} WHERE rowid = ?", (row,)):
            return dict(zip(names, values, strict=True))
        raise CorruptData(f"{self._path}, {table} row {row} is missing")

    # messages

    def _put(self, placing: Placing, row: int, parent: str, where: str) -> str:
        told = shaped(self._row("messages", _MESSAGE, row), _Message, where)
        role = role_of(told.role)
        if role is None:
            raise CorruptData(f"{where}: the role {told.role!r} is not known")
        calls = [*self._calls(told, where)]
        facts = given(created_at=told.created_at if is_finer(told.created_at) else None)
        message = Message(
            id=told.id,
            role=role,
            content=[_part(one) for one in listed(parse(told.content, self._report, where))],
            created_at=moment_of(told.created_at, where),
            tool_calls=calls,
            is_compaction=bool(told.is_compaction),
            is_summary=bool(told.is_summary),
            compaction=self._compaction(told, facts, where),
            usage=self._usage(told, where),
        )
        if role == "tool":
            message = self._answering(message, facts, where)
        elif role == "assistant":
            self._asked = deque(calls)
        return placing.put(replace(message, metadata=with_facts(None, facts)), parent, where)

    def _calls(self, told: _Message, where: str) -> Iterator[ToolCall]:
        for one in listed(parse(told.tool_calls, self._report, where)):
            call = call_of(one.get("id"), one.get("name"), one.get("arguments")) if isinstance(one, dict) else None
            if call is None:
                self._report.note(where, f"a tool call without an id or a name was not taken: {one!r}")
            else:
                yield call

    def _answering(self, message: Message, facts: dict[str, Json], where: str) -> Message:
        """A tool's message with the call id and name it has lost: results follow the calls in their order."""
        if not self._asked:
            self._report.note(where, "it has lost its call id, and no call before it waits for a result")
            return message
        call = self._asked.popleft()
        facts["inferred"] = ["tool_call_id", "tool_name"]
        self._report.note(where, f"its lost call id {call.id!r} ({call.name}) was inferred from the order")
        return replace(message, tool_call_id=call.id, tool_name=call.name)

    def _compaction(self, told: _Message, facts: dict[str, Json], where: str) -> Compaction | None:
        if told.compaction_meta is None:
            return None
        raw = parse(told.compaction_meta, self._report, where)
        if raw is not None and told.is_summary:
            facts["compaction_meta"] = raw
        meta = shaped(raw or {}, _Compacted, where)
        if not told.is_compaction or meta.tail_start_id is None:
            return None
        return Compaction(tail_start_id=meta.tail_start_id, previous_id=meta.previous_compaction_id)

    # usage

    def _records(self, sql: str, values: tuple[str, ...]) -> Iterator[tuple[str, Usage]]:
        names = _USAGE.split(", ")
        for row, message_id, *told in self._database.rows(sql, values):
            where = f"{self._path}, usage_records row {row}"
            with self._report.noting(where):
                use = shaped(dict(zip(names, told, strict=True)), _Usage, where)
                yield (
                    message_id,
                    Usage(
                        id=use.id,
                        provider=use.provider,
                        model=use.model,
                        input=use.input_tokens,
                        output=use.output_tokens,
                        total=use.total_tokens,
                        created_at=moment_of(use.created_at, where),
                    ),
                )

    def _usage(self, told: _Message, where: str) -> Usage | None:
        """What a message used: its first usage record, or where it has none what it says itself."""
        sql = f"SELECT rowid, message_id, {_USAGE} FROM usage_records WHERE message_id = ? ORDER BY rowid"
        for _, usage in self._records(sql, (told.id,)):
            return usage
        said = None if told.usage is None else parse(told.usage, self._report, where)
        if said is None:
            return None
        tokens = shaped(said, _Tokens, where)
        return Usage(
            id=derive(told.id, "usage"),
            model=self._model,
            input=tokens.input_tokens,
            output=tokens.output_tokens,
            total=tokens.total_tokens,
            created_at=moment_of(told.created_at, where),
        )

    def _extra_usages(self, session_id: str) -> None:
        """Uses of messages that are not there, and further ones of one message."""
        seen: set[str] = set()
        present = {one.id for one in self._taker.hf.usage.list(session_id)}
        sql = f"SELECT rowid, message_id, {_USAGE} FROM usage_records WHERE session_id = ? ORDER BY rowid"
        for message_id, usage in self._records(sql, (session_id,)):
            is_first = message_id not in seen
            seen.add(message_id)
            if usage.id in present or (is_first and self._taker.hf.sessions.message(session_id, message_id)):
                continue
            self._taker.hf.usage.record(session_id, usage)
            self._report.usages += 1
            self._report.note(
                str(self._path), f"usage {usage.id!r} of message {message_id!r} was taken as the session's"
            )

    # executions

    def _executions(self, placing: Placing, session_id: str) -> None:
        for row in self._in_order("tool_executions", session_id):
            where = f"{self._path}, tool_executions row {row}"
            with self._report.noting(where):
                told = shaped(self._row("tool_executions", _EXECUTION, row), _Execution, where)
                if told.status not in _STATUSES:
                    raise CorruptData(f"{where}: the status {told.status!r} is not known")
                if self._taker.hf.sessions.message(session_id, told.message_id) is None:
                    self._report.note(where, f"its message {told.message_id!r} is not there")
                self._taker.execution(placing.session_id, self._execution(told, where))

    def _execution(self, told: _Execution, where: str) -> ToolExecution:
        return ToolExecution(
            id=told.id,
            message_id=told.message_id or None,
            call_id=told.call_id,
            tool_name=told.tool_name,
            arguments=parse(told.arguments, self._report, where),
            status=_STATUSES[told.status],
            result=None if told.result is None else parse(told.result, self._report, where),
            error=told.error,
            duration_ms=told.duration_ms,
            created_at=moment_of(told.created_at, where),
        )


def _part(raw: Json) -> Part:
    if isinstance(raw, dict) and raw.get("type") == "json" and "value" in raw:
        return JsonPart(value=raw["value"])
    return part_of(raw)


def _below_micros(text: str) -> str:
    """The digits of a time that a datetime has no room for."""
    _, _, fraction = text.partition(".")
    digits = fraction.rstrip("Z").partition("+")[0].ljust(9, "0")
    return digits[6:9]
