"""How a call in a run came out: its result or failure in the form that is kept, and given again from there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast import codec, history
from holdfast import execution_records as executions
from holdfast.contracts import Reader, Write
from holdfast.errors import InvalidInput, ToolFailed
from holdfast.model import InFlight, Json, Message, ToolExecution
from holdfast.replays import Call
from holdfast.run_records import StoredEvent

Decision = Literal["raise", "retry", "skip", "fail"]
InFlightPolicy = Decision | Callable[[InFlight], Decision]

LONGEST_REASON = 10_000


class Begun(Struct):
    """A call that has begun: live, or settled by what is on record."""

    call: str
    name: str
    execution: str | None
    settled: StoredEvent | None = None
    known: Call | None = None
    began: float = 0.0


def outcome(begun: Begun) -> Any:
    """The result of a settled call; ToolFailed if it has failed."""
    assert begun.settled is not None
    if begun.settled.kind == "failed":
        raise failure(begun)
    return from_json(begun.settled.value)


def failure(begun: Begun) -> ToolFailed:
    """What a failed call raises, at once and in every replay."""
    assert begun.settled is not None
    reason = str(begun.settled.value)
    return ToolFailed(f"{begun.name!r} failed: {reason}", reason.partition(":")[0], begun.call)


def reason_of(cause: BaseException) -> str:
    """What an exception says, in a form that can be stored."""
    said = f"{type(cause).__name__}: {cause}"[:LONGEST_REASON]
    return said.encode("utf-8", "replace").decode()


def to_json(result: Any, name: str) -> Json:
    """A result as it is kept; what is kept is what the caller gets, at once and in every replay."""
    if isinstance(result, Message):
        codec.encode_message(result)
        return {"message": msgspec.to_builtins(result)}
    codec.check_json(result, f"the result of {name!r}")
    return {"value": msgspec.json.decode(codec.encode(result, f"the result of {name!r}"))}


def from_json(value: Json) -> Any:
    """The result that is kept so."""
    if "message" in value:
        return msgspec.convert(value["message"], Message)
    return value["value"]


def check_policy(policy: object) -> None:
    """InvalidInput if it says nothing about a call in flight."""
    if policy not in ("raise", "retry", "skip", "fail"):
        raise InvalidInput(f"a call in flight can 'raise', 'retry', 'skip' or 'fail', not {policy!r}")


# the execution beside the events


def start_execution(
    reader: Reader, session_id: str, begun: Begun, arguments: Json, asked_by: str | None, now: datetime
) -> list[Write]:
    """The writes that record a tool at work; none for a model."""
    if begun.execution is None:
        return []
    execution = ToolExecution(
        id=begun.execution,
        tool_name=begun.name,
        arguments=arguments,
        call_id=begun.call,
        message_id=asked_by,
        status="running",
        created_at=now,
    )
    return executions.add(reader, history.must_see(reader, session_id).pointer, execution)[0]


def end_execution(
    reader: Reader, begun: Begun, value: Json, error: str | None, took_ms: int | None, now: datetime
) -> list[Write]:
    """The writes that record how a tool's work ended; none for a model."""
    record = None if begun.execution is None else executions.find(reader, begun.execution)
    if record is None or executions.read(record).status != "running":
        return []
    if error is not None:
        return executions.end(record, "failed", None, error, took_ms, now)[0]
    return executions.end(record, "success", value.get("message", value.get("value")), None, took_ms, now)[0]
