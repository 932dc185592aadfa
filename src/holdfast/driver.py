"""A run as the loop drives it: what it does goes on record as it happens, and is replayed after a crash."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import appends, codec, history
from holdfast import run_records as records
from holdfast.checkpoints import Checkpoints
from holdfast.commits import commit, get
from holdfast.contracts import Insert, Put, Reader, Write
from holdfast.errors import Conflict, HoldfastError, InFlightCall, InvalidInput, ToolFailed
from holdfast.holds import store_now
from holdfast.ids import moment, new_id
from holdfast.kinds import HOLDS, RUNS
from holdfast.model import Checkpoint, EventKind, InFlight, Json, Message, Run
from holdfast.nouns import Ground
from holdfast.replays import Call, Replay, digest_of, said_digest
from holdfast.run_records import StoredEvent, StoredRun
from holdfast.strategies import Event as LoopEvent
from holdfast.strategies import Strategy

Decision = Literal["raise", "retry", "skip", "fail"]
InFlightPolicy = Decision | Callable[[InFlight], Decision]
Ending = Literal["completed", "failed", "halted"]


class Begun(Struct):
    """A call that has begun: live, or settled by what is on record."""

    call: str
    name: str
    settled: StoredEvent | None = None


class Driver:
    """`with hf.runs.start(session_id, key=…) as run:` completes at the end, fails with an exception."""

    def __init__(
        self,
        ground: Ground,
        checkpoints: Checkpoints,
        run: StoredRun,
        events: Sequence[StoredEvent],
        *,
        open_events: Sequence[StoredEvent],
        in_flight: InFlightPolicy,
        strategy: Strategy,
        lease_s: float,
    ) -> None:
        self._ground = ground
        self._store = ground.store
        self._checkpoints = checkpoints
        self._run = run
        self._replay = Replay(events)
        self._record = Replay(open_events)
        self._in_flight = in_flight
        self._strategy = strategy
        self._lease_s = lease_s
        self._iteration = 0
        self._ended = threading.Event()
        if run.status == "running":
            threading.Thread(target=self._keep, name="holdfast-lease", daemon=True).start()

    # what it is

    @property
    def id(self) -> str:
        """The run's id."""
        return self._run.id

    @property
    def record(self) -> Run:
        """The run as it stands on record, as this process last saw it."""
        return records.run_view(self._run)

    @property
    def replaying(self) -> bool:
        """Whether what comes next is still on record."""
        return not self._replay.done

    @property
    def partial(self) -> str:
        """The text of an answer that was streaming when the run was interrupted."""
        return self._record.partial

    def last_checkpoint(self) -> Checkpoint | None:
        """The run's last good checkpoint, with its step, extra JSON and partial results; None if it has none."""
        for one in self._checkpoints.list(session_id=self._run.session_id):
            if one.run_id == self.id and one.damaged is None:
                return one
        return None

    def pending(self) -> list[InFlight]:
        """Calls whose beginning is on record and whose end is not."""
        return [InFlight(call=str(one.call), name=one.name, arguments=one.value) for one in self._record.open_calls()]

    # what it does

    def append(self, *messages: Message | dict[str, Any]) -> list[Message]:
        """Add messages to the session, or give those on record for this place of the program."""
        said = self._ground.say(messages)
        digest = said_digest(one.message for one in said)
        known = self._replay.match("append", "append", digest, None)
        if known is not None:
            return self._on_record(known)
        made: list[list[Message]] = []

        def add(reader: Reader) -> list[Write]:
            seen = history.must_see(reader, self._run.session_id)
            appended = appends.settle(reader, seen, said, None, True, self._ground.stamps.next(seen.pointer.updated_at))
            made[:] = [appended.messages]
            return appended.writes

        ids = [one.message.id for one in said]
        self._write("append", add, name="append", digest=digest, value=ids)
        self._ground.heads.pop(self._run.session_id, None)
        return made[-1]

    def _on_record(self, known: Call) -> list[Message]:
        pointer = history.must_see(self._store, self._run.session_id).pointer
        found = []
        for message_id in known.value:
            _, branch, seq = history.find_reached(self._store, pointer, message_id).key
            run = history.last_of(history.segments(self._store, pointer.history, int(branch), int(seq)), 1)[0]
            found += [*history.read(self._store, pointer.session_id, pointer.history, run)]
        return found

    def step(self, name: str, function: Callable[..., Any], /, *args: Json, **kwargs: Json) -> Any:
        """Call a model, or give its answer on record; interrupted ones are simply asked again.

        The answer is JSON or a Message.
        """
        begun = self._begin(name, {"args": [*args], "kwargs": kwargs}, None, idempotent=True)
        if begun.settled is None:
            self._finish(begun, self._attempt(begun, lambda: function(*args, **kwargs)))
            self._maybe_checkpoint("model_response")
        return self._outcome(begun)

    def tool(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *,
        call_id: str | None = None,
        idempotent: bool = False,
        **arguments: Json,
    ) -> Any:
        """Call a tool and keep its result, or give the result on record without calling it again.

        One that was in flight when the process died is the caller's to decide, unless it is idempotent.
        Parallel calls are told apart by `call_id`.
        """
        begun = self._begin(name, arguments, call_id, idempotent)
        if begun.settled is None:
            self._finish(begun, self._attempt(begun, lambda: function(**arguments)))
            self._maybe_checkpoint("tool_call")
        return self._outcome(begun)

    async def astep(self, name: str, function: Callable[..., Awaitable[Any]], /, *args: Json, **kwargs: Json) -> Any:
        """`step` with an async function, which runs on the caller's loop."""
        given = {"args": [*args], "kwargs": kwargs}
        begun = await asyncio.to_thread(self._begin, name, given, None, True)
        if begun.settled is None:
            answer = await self._aattempt(begun, lambda: function(*args, **kwargs))
            await asyncio.to_thread(self._finish, begun, answer)
            await asyncio.to_thread(self._maybe_checkpoint, "model_response")
        return self._outcome(begun)

    async def atool(
        self,
        name: str,
        function: Callable[..., Awaitable[Any]],
        /,
        *,
        call_id: str | None = None,
        idempotent: bool = False,
        **arguments: Json,
    ) -> Any:
        """`tool` with an async function, which runs on the caller's loop."""
        begun = await asyncio.to_thread(self._begin, name, arguments, call_id, idempotent)
        if begun.settled is None:
            result = await self._aattempt(begun, lambda: function(**arguments))
            await asyncio.to_thread(self._finish, begun, result)
            await asyncio.to_thread(self._maybe_checkpoint, "tool_call")
        return self._outcome(begun)

    async def aappend(self, *messages: Message | dict[str, Any]) -> list[Message]:
        """`append`, awaited."""
        return await asyncio.to_thread(self.append, *messages)

    def stream(self, text: str) -> None:
        """Keep what a streaming answer says so far; the answer itself is appended once, whole."""
        if self._replay.done:
            self._write("partial", value=text)

    def iteration(self) -> int:
        """Say that the loop goes round once more; returns how often it has, counted from 1."""
        self._iteration += 1
        self._maybe_checkpoint("iteration")
        return self._iteration

    def checkpoint(
        self,
        *,
        step: int | None = None,
        extra: Json = None,
        partial_results: Sequence[Json] = (),
        name: str | None = None,
    ) -> Checkpoint:
        """A checkpoint of the session that belongs to this run."""
        made = self._checkpoints.create(
            session_id=self._run.session_id,
            kind="automatic" if name is None else "manual",
            step=step,
            status="in_progress",
            extra=extra,
            partial_results=partial_results,
            name=name,
            run_id=self.id,
            replace=step is not None,
        )
        self._write("checkpoint", value=made.id)
        return made

    def _maybe_checkpoint(self, event: LoopEvent) -> None:
        if self._strategy.due(event, self._iteration) and self._replay.done:
            self.checkpoint(extra={"iteration": self._iteration})

    # calls

    def _begin(self, name: str, arguments: Json, call_id: str | None, idempotent: bool) -> Begun:
        codec.check_json(arguments, f"the arguments of {name!r}")
        digest = digest_of(arguments)
        known = self._replay.match("begun", name, digest, call_id)
        if known is None:
            call = call_id or new_id()
            self._write("begun", call=call, name=name, digest=digest, value=arguments)
            return Begun(call, name)
        assert known.call is not None
        begun = Begun(known.call, name, known.end)
        if begun.settled is None and not idempotent:
            self._decide(begun, InFlight(call=known.call, name=name, arguments=arguments))
        return begun

    def _decide(self, begun: Begun, call: InFlight) -> None:
        """What to do about a call that may or may not have had its effect."""
        decision = self._in_flight(call) if callable(self._in_flight) else self._in_flight
        if decision == "skip":
            begun.settled = self._write("done", call=begun.call, name=begun.name, value={"value": None})
        elif decision == "fail":
            reason = "it was in flight when the run was interrupted"
            begun.settled = self._write("failed", call=begun.call, name=begun.name, value=reason)
        elif decision != "retry":
            raise InFlightCall(
                f"{call.name!r} was in flight when the run was interrupted: it may have had its effect."
                " Decide with in_flight='retry', 'skip' or 'fail', or declare it idempotent=True",
                call,
            )

    def _attempt(self, begun: Begun, call: Callable[[], Any]) -> Any:
        try:
            result = call()
        except Exception as cause:
            # A tool may raise anything; it goes on record as failed, and to the caller as it was.
            self._write("failed", call=begun.call, name=begun.name, value=f"{type(cause).__name__}: {cause}")
            raise
        if inspect.isawaitable(result):
            raise InvalidInput(f"{begun.name!r} is async; use atool or astep")
        return result

    async def _aattempt(self, begun: Begun, call: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await call()
        except Exception as cause:
            # As above: on record as failed, to the caller as it was.
            said = f"{type(cause).__name__}: {cause}"
            await asyncio.to_thread(self._write, "failed", call=begun.call, name=begun.name, value=said)
            raise

    def _finish(self, begun: Begun, result: Any) -> None:
        try:
            value = _to_json(result, begun.name)
        except InvalidInput as cause:
            self._write("failed", call=begun.call, name=begun.name, value=f"its result cannot be kept: {cause}")
            raise
        begun.settled = self._write("done", call=begun.call, name=begun.name, value=value)

    def _outcome(self, begun: Begun) -> Any:
        event = begun.settled
        assert event is not None
        if event.kind == "failed":
            raise ToolFailed(f"{begun.name!r} failed: {event.value}")
        return _from_json(event.value)

    # the record

    def _write(self, kind: EventKind, also: Callable[[Reader], list[Write]] | None = None, **said: Any) -> StoredEvent:
        """Put an event on record, with other writes in the same commit; Conflict if the hold was lost."""
        written: list[tuple[StoredRun, StoredEvent]] = []

        def place(reader: Reader) -> list[Write]:
            run, digest = self._mine(reader)
            now = replace(run, events=run.events + 1)
            event = StoredEvent(run_id=run.id, seq=now.events, kind=kind, at=moment(self._ground.stamps.next()), **said)
            written[:] = [(now, event)]
            extra = [] if also is None else also(reader)
            return [Put(records.run_record(now), digest), Insert(records.event_record(now, event)), *extra]

        commit(self._store, place)
        self._run = written[-1][0]
        return written[-1][1]

    def _mine(self, reader: Reader) -> tuple[StoredRun, bytes]:
        """The run as it is, if this process may still write to it."""
        record = get(reader, RUNS, self._run.owner, self._run.number)
        held = get(reader, HOLDS, self._run.owner)
        run = None if record is None else records.read_run(record)
        hold = None if held is None else records.read_hold(held)
        if record is None or run is None or run.status != "running":
            raise Conflict(
                f"run {self.id!r} has ended ({'deleted' if run is None else run.status}); nothing was written"
            )
        if hold is None or (hold.run_id, hold.epoch, hold.released) != (self.id, self._run.epoch, False):
            raise Conflict(f"run {self.id!r} lost its hold on session {run.session_id!r}; nothing was written")
        return run, record.digest

    def _keep(self) -> None:
        """Renew the lease until the run ends or somebody else has it."""
        while not self._ended.wait(self._lease_s / 3):
            try:
                commit(self._store, self._renewal)
            except HoldfastError:
                return

    def _renewal(self, reader: Reader) -> list[Write]:
        held = get(reader, HOLDS, self._run.owner)
        self._mine(reader)
        if held is None:
            return []
        until = store_now(self._store) + int(self._lease_s * 1_000_000)
        return [Put(records.hold_record(replace(records.read_hold(held), until=until)), held.digest)]

    # the end

    def complete(self) -> Run:
        """End the run as completed."""
        return self._end("completed", None)

    def fail(self, reason: str) -> Run:
        """End the run as failed; the same key re-enters it."""
        return self._end("failed", reason)

    def halt(self, reason: str) -> Run:
        """End the run as halted; the same key re-enters it."""
        return self._end("halted", reason)

    def _end(self, status: Ending, reason: str | None) -> Run:
        if self._ended.is_set() or self._run.status != "running":
            return self.record
        ended: list[StoredRun] = []

        def place(reader: Reader) -> list[Write]:
            run, _ = self._mine(reader)
            writes, after = records.end_writes(reader, run, status, reason, moment(self._ground.stamps.next()))
            ended[:] = [after]
            return writes

        self._ended.set()
        commit(self._store, place)
        self._run = ended[-1]
        return self.record

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended.is_set() or self._run.status != "running":
            return
        if error is None:
            self.complete()
        else:
            try:
                self.fail(f"{type(error).__name__}: {error}")
            except Conflict:
                self._ended.set()  # the hold was lost, which the error on its way says already

    async def __aenter__(self) -> Driver:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


def _to_json(result: Any, name: str) -> Json:
    if isinstance(result, Message):
        return {"message": msgspec.to_builtins(result)}
    codec.check_json(result, f"the result of {name!r}")
    return {"value": result}


def _from_json(value: Json) -> Any:
    if "message" in value:
        return msgspec.convert(value["message"], Message)
    return value["value"]
