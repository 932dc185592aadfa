"""Calls of tools and models in a run: begun on record, called, ended on record; and settled from it after a crash."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Literal

from holdfast import codec
from holdfast.contracts import Reader, Write
from holdfast.errors import InFlightCall, InvalidInput, NotFound
from holdfast.ids import check_id, moment, new_id
from holdfast.model import InFlight, Json
from holdfast.nouns import Ground
from holdfast.outcomes import (
    Begun,
    InFlightPolicy,
    check_policy,
    end_execution,
    failure,
    outcome,
    reason_of,
    start_execution,
    to_json,
)
from holdfast.recorder import Recorder
from holdfast.replays import Call, Replay, digest_of
from holdfast.run_records import StoredEvent
from holdfast.strategies import Event as LoopEvent
from holdfast.threads import to_thread

_inside: ContextVar[str | None] = ContextVar("holdfast_call", default=None)


class Calls:
    """What a run calls."""

    def __init__(self, ground: Ground, recorder: Recorder, replay: Replay, in_flight: InFlightPolicy) -> None:
        self._ground = ground
        self._recorder = recorder
        self._replay = replay
        self._in_flight = in_flight

    def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, call_id: str | None = None, **kwargs: Any
    ) -> Any:
        """Call a model, or give its answer on record; interrupted ones are simply asked again.

        The answer is JSON or a Message. ToolFailed if it fails, now or on record.
        """
        _check_plain(function)
        begun = self._begin_step(name, args, kwargs, call_id)
        if begun.settled is None:
            self._attempt(begun, lambda: function(*args, **kwargs))
            self._reached("model_response")
        return outcome(begun)

    def tool(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *,
        call_id: str | None = None,
        idempotent: bool = False,
        arguments: Mapping[str, Json] | None = None,
        **named: Json,
    ) -> Any:
        """Call a tool and keep its result, or give the result on record without calling it again.

        One that was in flight when the process died is the caller's to decide, unless it is idempotent. Parallel
        calls are told apart by `call_id`. `arguments` takes those whose names this call has a use for itself.
        ToolFailed if it fails, now or on record.
        """
        _check_plain(function)
        given = _together(arguments, named)
        begun = self._begin_tool(name, given, call_id, idempotent)
        if begun.settled is None:
            self._attempt(begun, lambda: function(**given))
            self._reached("tool_call")
        return outcome(begun)

    async def astep(
        self, name: str, function: Callable[..., Any], /, *args: Any, call_id: str | None = None, **kwargs: Any
    ) -> Any:
        """`step` with an async function, which runs on the caller's loop."""
        _check_callable(function)
        begun = await to_thread(self._begin_step, name, args, kwargs, call_id)
        if begun.settled is None:
            await self._aattempt(begun, lambda: function(*args, **kwargs))
            await to_thread(self._reached, "model_response")
        return outcome(begun)

    async def atool(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *,
        call_id: str | None = None,
        idempotent: bool = False,
        arguments: Mapping[str, Json] | None = None,
        **named: Json,
    ) -> Any:
        """`tool` with an async function, which runs on the caller's loop."""
        _check_callable(function)
        given = _together(arguments, named)
        begun = await to_thread(self._begin_tool, name, given, call_id, idempotent)
        if begun.settled is None:
            await self._aattempt(begun, lambda: function(**given))
            await to_thread(self._reached, "tool_call")
        return outcome(begun)

    def pending(self) -> list[InFlight]:
        """Tools whose beginning was on record when the run was entered, and whose end is not."""
        return [InFlight(call=str(one.call), name=one.name, arguments=one.value) for one in self._replay.open_calls()]

    def settle(self, call: str, result: Json = None, *, error: str | None = None) -> None:
        """Say how a pending call ended, as its caller has found out; NotFound if none is pending under this id."""
        known = next((one for one in self._replay.open_calls() if one.call == call), None)
        if known is None:
            raise NotFound(f"no call {call!r} is pending in run {self._recorder.run.id!r}")
        begun = Begun(str(known.call), known.name, known.execution, known=known)
        if error is None:
            to_json(result, known.name)  # so that what cannot be kept settles nothing
            self._done(begun, result)
        else:
            self._failed(begun, error)

    def _reached(self, event: LoopEvent) -> None:
        """What a run does when its loop has come so far."""
        raise NotImplementedError

    # beginning

    def _begin_step(self, name: str, args: Any, kwargs: Any, call_id: str | None) -> Begun:
        # Of a model call only the digest is kept: what it is asked is the conversation, which is on record already.
        digest = digest_of([args, kwargs])
        known = self._match("step", name, digest, call_id)
        if known is None:
            return self._begin("step", name, digest, call_id, None)
        begun = Begun(str(known.call), name, None, known.end, known)
        if known.end is None or known.fatal:
            self._retry(begun)
        return begun

    def _begin_tool(self, name: str, arguments: dict[str, Json], call_id: str | None, idempotent: bool) -> Begun:
        if not isinstance(idempotent, bool):
            raise InvalidInput(
                "idempotent is True or False; a tool's own argument of that name goes into arguments={…}"
            )
        codec.check_json(arguments, f"the arguments of {name!r}")
        digest = digest_of(arguments)
        known = self._match("tool", name, digest, call_id, arguments)
        if known is None:
            return self._begin("tool", name, digest, call_id, arguments)
        begun = Begun(str(known.call), name, known.execution, known.end, known)
        if known.end is None or known.fatal:
            try:
                self._retry(begun) if idempotent else self._decide(begun, known, arguments)
            except BaseException:
                self._replay.give_back(known)
                raise
        return begun

    def _match(
        self, what: Literal["tool", "step"], name: str, digest: str, call_id: str | None, given: Json = None
    ) -> Call | None:
        check_id(name, "name of a call")
        return self._replay.match(what, name, digest, None if call_id is None else check_id(call_id, "call id"), given)

    def _begin(
        self, what: Literal["tool", "step"], name: str, digest: str, call_id: str | None, arguments: Json
    ) -> Begun:
        begun = Begun(call_id or new_id(), name, new_id() if what == "tool" else None)
        self._recorder.write(
            "begun",
            lambda reader: self._start_execution(reader, begun, arguments),
            call=begun.call,
            name=name,
            digest=digest,
            value=arguments,
            what=what,
            by_id=call_id is not None,
            within=_inside.get(),
            execution=begun.execution,
        )
        begun.began = time.perf_counter()
        return begun

    def _start_execution(self, reader: Reader, begun: Begun, arguments: Json) -> list[Write]:
        now = moment(self._ground.stamps.next())
        asked_by = self._replay.asked.get(begun.call)
        return start_execution(reader, self._recorder.run.session_id, begun, arguments, asked_by, now)

    # what is on record without a good end

    def _decide(self, begun: Begun, known: Call, arguments: Json) -> None:
        """What to do about a call that may or may not have had its effect."""
        error = None if known.end is None else str(known.end.value)
        call = InFlight(call=begun.call, name=begun.name, arguments=arguments, error=error)
        decision = self._in_flight(call) if callable(self._in_flight) else self._in_flight
        check_policy(decision)
        if decision == "retry" and known.end is not None and known.end.returned and not callable(self._in_flight):
            return  # it has had its effect: who has not looked at it may not have it done again
        if decision == "retry":
            self._retry(begun, arguments)
        elif decision == "skip":
            begun.settled = self._end(begun, "done", {"value": None}, error="skipped: it may have had its effect")
        elif error is None and decision == "fail":
            self._failed(begun, "InFlight: it was in flight when the run was interrupted")
        elif error is None:
            raise InFlightCall(
                f"{call.name!r} was in flight when the run was interrupted: it may have had its effect."
                " Decide with in_flight='retry', 'skip' or 'fail', or declare it idempotent=True",
                call,
            )

    def _retry(self, begun: Begun, arguments: Json = None) -> None:
        """Say on record that the call is made once more, and let it be live."""
        again = begun.settled is not None and begun.execution is not None
        if again:
            begun.execution = new_id()
        begun.settled = None
        self._recorder.write(
            "retried",
            lambda reader: self._start_execution(reader, begun, arguments) if again else [],
            call=begun.call,
            name=begun.name,
            execution=begun.execution,
        )
        begun.began = time.perf_counter()

    # calling

    def _attempt(self, begun: Begun, call: Callable[[], Any]) -> None:
        token = _inside.set(begun.call)
        try:
            result = call()
            if inspect.iscoroutine(result):
                result.close()
                raise InvalidInput(f"{begun.name!r} is async; use atool or astep")
        except InFlightCall:
            raise  # of a call made from this one, which is then in flight, too
        except Exception as cause:
            # A tool may raise anything; what it was goes on record and to the caller, now and in a replay.
            self._failed(begun, reason_of(cause))
            raise failure(begun) from cause
        finally:
            _inside.reset(token)
        self._done(begun, result)

    async def _aattempt(self, begun: Begun, call: Callable[[], Any]) -> None:
        token = _inside.set(begun.call)
        try:
            result = call()
            if isinstance(result, Awaitable):
                result = await result
        except InFlightCall:
            raise
        except Exception as cause:
            # As above.
            await to_thread(self._failed, begun, reason_of(cause))
            raise failure(begun) from cause
        finally:
            _inside.reset(token)
        await to_thread(self._done, begun, result)

    # ending

    def _done(self, begun: Begun, result: Any) -> None:
        try:
            begun.settled = self._end(begun, "done", to_json(result, begun.name))
        except InvalidInput as cause:
            self._failed(begun, f"InvalidInput: its result cannot be kept: {cause}", returned=True)
            raise failure(begun) from cause

    def _failed(self, begun: Begun, reason: str, *, returned: bool = False) -> None:
        begun.settled = self._end(begun, "failed", reason, error=reason, returned=returned)

    def _end(
        self,
        begun: Begun,
        kind: Literal["done", "failed"],
        value: Json,
        *,
        error: str | None = None,
        returned: bool = False,
    ) -> StoredEvent:
        took = int((time.perf_counter() - begun.began) * 1000) if begun.began else None
        event = self._recorder.write(
            kind,
            lambda reader: end_execution(reader, begun, value, error, took, moment(self._ground.stamps.next())),
            call=begun.call,
            name=begun.name,
            value=value,
            returned=returned,
        )
        if begun.known is not None:
            begun.known.end, begun.known.fatal = event, False
        return event


def inside() -> str | None:
    """The call that this is said from, None outside of any."""
    return _inside.get()


def _together(arguments: Mapping[str, Json] | None, named: dict[str, Json]) -> dict[str, Json]:
    """All arguments of a tool; InvalidInput where one is given twice."""
    if arguments is not None and not isinstance(arguments, Mapping):
        raise InvalidInput(f"arguments is a dict of a tool's arguments, not {type(arguments).__name__}")
    twice = sorted(named.keys() & (arguments or {}).keys())
    if twice:
        raise InvalidInput(f"{', '.join(twice)} is given by name and in arguments; give it once")
    return {**(arguments or {}), **named}


def _check_callable(function: Callable[..., Any]) -> None:
    if not callable(function):
        raise InvalidInput(f"what is called is a function, not {type(function).__name__}; arguments are given by name")


def _check_plain(function: Callable[..., Any]) -> None:
    _check_callable(function)
    if inspect.iscoroutinefunction(function):
        raise InvalidInput("the function is async; use atool or astep")
