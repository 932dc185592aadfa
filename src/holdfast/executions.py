"""`hf.executions`: what an agent's tools did, in the order they were asked to."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast import codec, history
from holdfast import execution_records as records
from holdfast.commits import commit
from holdfast.contracts import Reader, Record, Write
from holdfast.errors import InvalidInput, NotFound
from holdfast.ids import check_count, check_id, moment, new_id
from holdfast.model import ExecutionStatus, Json, ToolExecution
from holdfast.nouns import Noun

_Step = Callable[[Record], tuple[list[Write], ToolExecution]]


class Executions(Noun):
    """`hf.executions`: record, start, finish and list what tools did."""

    def record(self, session_id: str, execution: ToolExecution, *, timeout: float | None = None) -> ToolExecution:
        """Add an execution at whatever stage it is; safe to repeat, AlreadyExists if its id has other content."""
        records.check_execution(execution)
        if execution.session_id not in (None, check_id(session_id, "session id")):
            raise InvalidInput(f"execution {execution.id!r} is of session {execution.session_id!r}, not {session_id!r}")
        given = replace(execution, session_id=session_id)
        return self._add(session_id, lambda _: given, timeout)

    def start(
        self,
        session_id: str,
        tool_name: str,
        arguments: Json = None,
        *,
        message_id: str | None = None,
        call_id: str | None = None,
        id: str | None = None,
        timeout: float | None = None,
    ) -> ToolExecution:
        """Record that a tool now runs; with an `id` of your own it is safe to repeat. A string is kept as it is."""
        fresh = ToolExecution(
            id=new_id() if id is None else id,
            session_id=check_id(session_id, "session id"),
            tool_name=tool_name,
            arguments=arguments,
            message_id=message_id,
            call_id=call_id,
            status="running",
            created_at=moment(self._stamps.next()),
        )
        records.check_execution(fresh)

        def as_begun(reader: Reader) -> ToolExecution:
            present = records.find(reader, fresh.id)
            return fresh if present is None else replace(fresh, created_at=records.read(present).created_at)

        return self._add(session_id, as_begun, timeout)

    def _add(self, session_id: str, make: Callable[[Reader], ToolExecution], timeout: float | None) -> ToolExecution:
        added: list[ToolExecution] = []

        def place(reader: Reader) -> list[Write]:
            pointer = history.must_see(reader, session_id).pointer
            writes, execution = records.add(reader, pointer, make(reader))
            added[:] = [execution]
            return writes

        with self._within(timeout):
            commit(self._store, place)
            return added[-1]

    def run(self, execution_id: str, *, timeout: float | None = None) -> ToolExecution:
        """Set a pending execution to running; fine if it is past that, NotFound without it."""
        return self._step(execution_id, records.run, timeout)

    def finish(
        self, execution_id: str, result: Json = None, *, duration_ms: int | None = None, timeout: float | None = None
    ) -> ToolExecution:
        """End an execution with its result; saying the same again is fine, anything else is Conflict.

        Without `duration_ms` it took from its `created_at` until now, by this client's clock.
        """
        codec.check_json(result, "the result of an execution")
        return self._end(execution_id, "success", result, None, duration_ms, timeout)

    def fail(
        self, execution_id: str, error: str, *, duration_ms: int | None = None, timeout: float | None = None
    ) -> ToolExecution:
        """End an execution with what went wrong; otherwise like `finish`."""
        if not isinstance(error, str):
            raise InvalidInput(f"error is a string, not {type(error).__name__}")
        return self._end(execution_id, "failed", None, error, duration_ms, timeout)

    def _end(
        self,
        execution_id: str,
        status: ExecutionStatus,
        result: Json,
        error: str | None,
        duration_ms: int | None,
        timeout: float | None,
    ) -> ToolExecution:
        if duration_ms is not None:
            check_count(duration_ms, "duration_ms")
        now = moment(self._stamps.next())
        codec.encode([result, error], "the outcome of an execution")
        return self._step(
            execution_id, lambda record: records.end(record, status, result, error, duration_ms, now), timeout
        )

    def _step(self, execution_id: str, step: _Step, timeout: float | None) -> ToolExecution:
        """Move an execution on."""
        check_id(execution_id, "execution id")
        moved: list[ToolExecution] = []

        def place(reader: Reader) -> list[Write]:
            record = records.find(reader, execution_id)
            if record is None or not records.is_living(reader, records.read(record)):
                raise NotFound(f"there is no execution {execution_id!r}; begin it with executions.start")
            writes, execution = step(record)
            moved[:] = [execution]
            return writes

        with self._within(timeout):
            commit(self._store, place)
            return moved[-1]

    def get(self, execution_id: str, *, timeout: float | None = None) -> ToolExecution | None:
        """The execution, or None."""
        with self._within(timeout):
            record = records.find(self._store, check_id(execution_id, "execution id"))
            stored = None if record is None else records.read(record)
            return records.view(stored) if stored is not None and records.is_living(self._store, stored) else None

    def list(
        self, session_id: str, *, message_id: str | None = None, timeout: float | None = None
    ) -> list[ToolExecution]:
        """A session's executions in the order they were recorded, or one message's; nothing for an unknown session."""
        if message_id is not None:
            check_id(message_id, "message id")
        with self._within(timeout):
            seen = history.look_up(self._store, check_id(session_id, "session id"))
            if seen is None:
                return []
            return [*map(records.view, records.executions_of(self._store, seen.pointer.uid, message_id))]
