"""What is stored of tool executions: one record each, numbered within its session in the order they were recorded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast import codec, history
from holdfast.commits import next_number
from holdfast.contracts import Insert, Put, Query, Reader, Record, Write
from holdfast.echoes import Echo
from holdfast.errors import AlreadyExists, Conflict, InvalidInput
from holdfast.filters import Filter
from holdfast.heads import uid_of
from holdfast.history import Pointer
from holdfast.ids import check_count, check_id
from holdfast.kinds import EXECUTIONS, MESSAGES, SESSIONS
from holdfast.model import ExecutionStatus, Json, Message, Redaction, ToolExecution

_RANK: dict[ExecutionStatus, int] = {"pending": 0, "running": 1, "success": 2, "failed": 2}
_MILLISECOND = timedelta(milliseconds=1)


class StoredExecution(ToolExecution, frozen=True, kw_only=True):
    """An execution as it is kept: `session` is its session's uid, `n` its number there."""

    session: str
    n: int


class Tally(Struct):
    """What a session's executions come to."""

    calls: int = 0
    succeeded: int = 0
    failed: int = 0
    ms: int = 0


class _Outcome(Struct, frozen=True, gc=False):
    status: ExecutionStatus = "pending"
    duration_ms: int | None = None


def check_execution(execution: ToolExecution) -> None:
    """InvalidInput where an execution cannot be stored as it is."""
    if not isinstance(execution, ToolExecution):
        raise InvalidInput(f"an execution is a ToolExecution, not {type(execution).__name__}")
    check_id(execution.id, "execution id")
    if execution.message_id is not None:
        check_id(execution.message_id, "message id")
    if execution.duration_ms is not None:
        check_count(execution.duration_ms, "duration_ms")
    codec.check_json(execution.arguments, "the arguments of an execution")
    codec.check_json(execution.result, "the result of an execution")
    codec.encode_value(execution, ToolExecution, "execution")


def find(reader: Reader, execution_id: str) -> Record | None:
    """An execution's record by its id."""
    same = (Filter("id", "=", execution_id),)
    return next(iter(reader.scan(Query(kind=EXECUTIONS, where=same))), None)


def read(record: Record) -> StoredExecution:
    """What an execution's record says."""
    return codec.decode(record.body, StoredExecution, f"execution {record.fields[0]!r}")


def view(stored: StoredExecution) -> ToolExecution:
    """An execution as its reader sees it."""
    return ToolExecution(**{name: getattr(stored, name) for name in ToolExecution.__struct_fields__})


def is_living(reader: Reader, stored: StoredExecution) -> bool:
    """Whether the session that an execution belongs to is there."""
    seen = history.look_up(reader, stored.session_id or "")
    return seen is not None and seen.pointer.uid == stored.session


def executions_of(reader: Reader, session: str, message_id: str | None = None) -> Iterator[StoredExecution]:
    """A session's executions, or those of one message, in the order they were recorded."""
    where = () if message_id is None else (Filter("message_id", "=", message_id),)
    return map(read, reader.scan(Query(kind=EXECUTIONS, prefix=(session,), where=where)))


def tally(reader: Reader, session: str) -> Tally:
    """How many executions a session has, how they ended and how long they took."""
    sums = Tally()
    for record in reader.scan(Query(kind=EXECUTIONS, prefix=(session,))):
        one = codec.decode(record.body, _Outcome, f"execution {record.fields[0]!r}")
        sums.calls += 1
        sums.succeeded += one.status == "success"
        sums.failed += one.status == "failed"
        sums.ms += one.duration_ms or 0
    return sums


# writing


def add(reader: Reader, pointer: Pointer, execution: ToolExecution) -> tuple[list[Write], ToolExecution]:
    """The writes that record an execution, none where it is on record already; and the execution as it then stands."""
    present = find(reader, execution.id)
    if present is not None:
        stored = read(present)
        if stored.session != pointer.uid or not _repeats(execution, stored):
            raise AlreadyExists(
                f"execution {execution.id!r} exists with other content; give the new one its own id, or finish it"
            )
        return [], view(stored)
    if pointer.detached_by is not None:
        raise Conflict(f"session {pointer.session_id!r} is detached; bring it back with sessions.attach")
    n = next_number(reader, EXECUTIONS, pointer.uid)
    said = {name: getattr(execution, name) for name in ToolExecution.__struct_fields__}
    stored = StoredExecution(**{**said, "session_id": pointer.session_id}, session=pointer.uid, n=n)
    body = codec.encode(stored, "execution")
    return [Insert(_record(body, stored))], view(stored)


def _record(body: bytes, stored: StoredExecution) -> Record:
    return Record(EXECUTIONS, (stored.session, stored.n), body, codec.digest(body), (stored.id, stored.message_id))


def _repeats(given: ToolExecution, present: StoredExecution) -> bool:
    """Whether recording this again changes nothing: it says the same, or what was true before it went on."""
    if present.redacted is not None:
        return True
    stands = replace(view(present), session_id=given.session_id)
    if _RANK[given.status] < _RANK[stands.status]:
        went = ("status", "result", "error", "duration_ms")
        stands = replace(stands, **{name: getattr(given, name) for name in went})
    return codec.encode(stands, "execution") == codec.encode(given, "execution")


def run(record: Record) -> tuple[list[Write], ToolExecution]:
    """The writes that set a pending execution to running, none where it is past that."""
    stored = read(record)
    if stored.status != "pending":
        return [], view(stored)
    return _change(record, {"status": "running"})


def end(
    record: Record, status: ExecutionStatus, result: Json, error: str | None, duration_ms: int | None, now: datetime
) -> tuple[list[Write], ToolExecution]:
    """The writes that finish an execution, none where it has ended so; Conflict where it has ended otherwise."""
    stored = read(record)
    if _RANK[stored.status] == _RANK[status]:
        wanted = replace(stored, status=status, result=result, error=error)
        if duration_ms is not None:
            wanted = replace(wanted, duration_ms=duration_ms)
        if codec.encode(wanted, "execution") != codec.encode(stored, "execution"):
            raise Conflict(f"execution {stored.id!r} has ended with {stored.status}; record another one")
        return [], view(stored)
    if duration_ms is None:
        duration_ms = max(0, (now - stored.created_at) // _MILLISECOND)
    return _change(record, {"status": status, "result": result, "error": error, "duration_ms": duration_ms})


def _change(record: Record, changes: dict[str, Any]) -> tuple[list[Write], ToolExecution]:
    """The record with some fields changed; what only a later version knows stays."""
    envelope = codec.decode_envelope(record.body, f"execution {record.fields[0]!r}")
    said = {name: value for name, value in {**envelope, **changes}.items() if value is not None or name not in changes}
    body = codec.encode(said, "execution")
    changed = replace(record, body=body, digest=codec.digest(body))
    return [Put(changed, record.digest)], view(read(changed))


# redacting


def redact(reader: Reader, place: Record, said: Message, redaction: Redaction) -> Iterator[Write]:
    """Take away what the executions of a message say, in every session of its history."""
    past = str(place.key[0])
    calls = {call.id for call in said.tool_calls} | {said.tool_call_id} - {None}
    asker = said.id if said.tool_call_id is None else _asker(reader, place, said.tool_call_id)
    echo = Echo(said)
    for session in list(reader.scan(Query(kind=SESSIONS, where=(Filter("history", "=", past),)))):
        uid = uid_of(session)
        for record in list(reader.scan(Query(kind=EXECUTIONS, prefix=(uid,)))):
            stored = read(record)
            mine = stored.message_id == said.id or (stored.call_id in calls and stored.message_id in (None, asker))
            mine = mine or echo.in_value(stored.result) or echo.in_error(stored.error)
            if mine and stored.redacted is None:
                yield _empty(record, stored, redaction)


def _empty(record: Record, stored: StoredExecution, redaction: Redaction) -> Put:
    emptied = replace(stored, tool_name="", arguments=None, result=None, error=None, redacted=redaction)
    return Put(_record(codec.encode(emptied, "execution"), emptied), record.digest)


def _asker(reader: Reader, place: Record, call_id: str) -> str | None:
    """The message whose call a tool result answers: the nearest one before it, or None."""
    name, branch, seq = str(place.key[0]), int(place.key[1]), int(place.key[2])
    for run in reversed(history.segments(reader, name, branch, seq - 1)):
        before = Query(kind=MESSAGES, prefix=(name, run.branch), low=run.low, high=run.high, reverse=True)
        for row in reader.scan(before):
            asked = codec.decode_message(row.body, f"message {row.fields[0]!r}")
            if any(call.id == call_id for call in asked.tool_calls):
                return asked.id
    return None
