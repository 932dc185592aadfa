"""A run as the loop drives it: what it does goes on record as it happens, and is replayed after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from types import TracebackType
from typing import Any, cast

from holdfast import appends, checkpoint_records, codec, history, run_checkpoints
from holdfast.calls import Calls, inside
from holdfast.checkpoint_records import StoredCheckpoint
from holdfast.contracts import Reader, Record, Write
from holdfast.deadlines import within
from holdfast.errors import Conflict, HoldfastError, InvalidInput, ToolFailed
from holdfast.ids import EPOCH, check_count, new_id
from holdfast.model import Checkpoint, Json, Message, Run
from holdfast.nouns import Ground, check_timeout
from holdfast.outcomes import InFlightPolicy, reason_of
from holdfast.recorder import Recorder
from holdfast.replays import Replay, digest_of
from holdfast.run_records import run_view
from holdfast.strategies import Event as LoopEvent
from holdfast.strategies import Strategy
from holdfast.threads import to_thread


class Driver(Calls):
    """`with hf.runs.start(session_id, key=…) as run:` completes at the end, fails with an exception.

    `extra` and `partial_results` go into every checkpoint of the run. A run that continues has them, and its
    iteration, from the last good one.
    """

    def __init__(
        self,
        ground: Ground,
        recorder: Recorder,
        replay: Replay,
        *,
        in_flight: InFlightPolicy,
        strategy: Strategy,
    ) -> None:
        super().__init__(ground, recorder, replay, in_flight)
        recorder.used_by(self)
        self._store = ground.store
        self._strategy = strategy
        self._iteration = 0
        self.extra: Json = None
        self.partial_results: list[Json] = []

    # what it is

    @property
    def id(self) -> str:
        """The run's id."""
        return self._recorder.run.id

    @property
    def record(self) -> Run:
        """The run as it stands on record, as this process last saw it."""
        return run_view(self._recorder.run)

    @property
    def replaying(self) -> bool:
        """Whether what comes next is still on record."""
        return not self._replay.done

    @property
    def partial(self) -> str:
        """The text of an answer that was streaming when the run was interrupted."""
        return self._replay.partial

    def last_checkpoint(self, *, timeout: float | None = None) -> Checkpoint | None:
        """The run's last good checkpoint, with its step, extra JSON and partial results; None if it has none."""
        with self._within(timeout):
            return run_checkpoints.last_good(self._store, self._recorder.run.owner, self.id)

    def _within(self, timeout: float | None) -> within:
        return within(self._ground.timeout if timeout is None else check_timeout(timeout))

    # what it says

    def append(self, *messages: Message | dict[str, Any], timeout: float | None = None) -> list[Message]:
        """Add messages to the session, or give those on record for this place of the program."""
        said = self._ground.say(messages)
        if not said:
            return []
        digest = digest_of([one.message for one in said])
        answer = said[0].message.tool_call_id if len(said) == 1 and said[0].message.role == "tool" else None
        with self._within(timeout):
            known = self._replay.match("append", "append", digest, answer, [one.message.text for one in said])
            added = self._append(said, digest, answer) if known is None else self._on_record(known.value)
        self._replay.asked.update(_asks(added))
        return added

    def _append(self, said: list[appends.Said], digest: str, answer: str | None) -> list[Message]:
        made: list[appends.Appended] = []

        def add(reader: Reader) -> list[Write]:
            seen = history.must_see(reader, self._recorder.run.session_id)
            at = self._ground.stamps.next(seen.pointer.updated_at)
            made[:] = [appends.settle(reader, seen, said, None, True, at)]
            return made[-1].writes

        messages = [one.message for one in said]
        answers = [one.tool_call_id for one in messages if one.role == "tool" and one.tool_call_id]
        self._recorder.write(
            "append",
            add,
            name="append",
            digest=digest,
            value=[one.id for one in messages],
            call=answer,
            by_id=answer is not None,
            within=inside(),
            asks=_asks(messages),
            answers=answers,
        )
        self._replay.answered(answers)
        self._ground.remember(made[-1].seen)
        return made[-1].messages

    def _on_record(self, message_ids: Sequence[str]) -> list[Message]:
        pointer = history.must_see(self._store, self._recorder.run.session_id).pointer
        together = self._up_to(pointer, message_ids[-1], len(message_ids))
        if [one.id for one in together] == [*message_ids]:
            return together
        # Some were there before they were said here, and so stand elsewhere.
        return [one for message_id in message_ids for one in self._up_to(pointer, message_id, 1)]

    def _up_to(self, pointer: history.Pointer, message_id: str, count: int) -> list[Message]:
        """A message and those right before it, so many in all."""
        _, branch, seq = history.find_reached(self._store, pointer, message_id).key
        path = history.segments(self._store, pointer.history, int(branch), int(seq))
        runs = (
            history.read(self._store, pointer.session_id, pointer.history, run) for run in history.last_of(path, count)
        )
        return [*chain.from_iterable(runs)]

    async def aappend(self, *messages: Message | dict[str, Any], timeout: float | None = None) -> list[Message]:
        """`append`, awaited."""
        return await to_thread(self.append, *messages, timeout=timeout)

    def stream(self, text: str, *, timeout: float | None = None) -> None:
        """Keep the next piece of a streaming answer, for followers and for `partial`; the answer is appended whole."""
        if not isinstance(text, str):
            raise InvalidInput(f"a piece of an answer is a string, not {type(text).__name__}")
        if inside() is not None or self._replay.done:
            with self._within(timeout):
                self._recorder.write("partial", value=text, call=inside())

    async def astream(self, text: str, *, timeout: float | None = None) -> None:
        """`stream`, awaited."""
        await to_thread(self.stream, text, timeout=timeout)

    # checkpoints

    def go_on(self) -> None:
        """Take up iteration, extra JSON and partial results from the last good checkpoint."""
        last = self.last_checkpoint()
        if last is not None:
            self._iteration, self.extra = last.step or 0, last.extra
            self.partial_results = [*last.partial_results]

    def iteration(self) -> int:
        """Say that the loop goes round once more; returns how often it has, counted from 1."""
        self._iteration += 1
        self._reached("iteration")
        return self._iteration

    async def aiteration(self) -> int:
        """`iteration`, awaited."""
        return await to_thread(self.iteration)

    def _reached(self, event: LoopEvent) -> None:
        if self._strategy.due(event, self._iteration) and self._replay.done:
            self._checkpoint("automatic", None, self._iteration or None)

    def checkpoint(
        self, *, step: int | None = None, name: str | None = None, timeout: float | None = None
    ) -> Checkpoint:
        """A checkpoint of the session that belongs to this run, with `extra` and `partial_results` as they are.

        The step is the iteration unless given. It takes the place of the run's last one of the same step.
        """
        if step is not None:
            check_count(step, "step")
        with self._within(timeout):
            return self._checkpoint("manual", name, self._iteration or None if step is None else step)

    async def acheckpoint(
        self, *, step: int | None = None, name: str | None = None, timeout: float | None = None
    ) -> Checkpoint:
        """`checkpoint`, awaited."""
        return await to_thread(self.checkpoint, step=step, name=name, timeout=timeout)

    def _checkpoint(self, kind: str, name: str | None, step: int | None) -> Checkpoint:
        draft = StoredCheckpoint(
            id=new_id(),
            created_at=EPOCH,
            kind=cast(Any, kind),
            status="in_progress",
            session_id=self._recorder.run.session_id,
            run_id=self.id,
            step=step,
            name=name,
            extra=self.extra,
            partial_results=[*self.partial_results],
        )
        for what, value in (("extra", self.extra), ("partial_results", self.partial_results)):
            codec.check_json(value, what)
        made: list[tuple[Record, history.Seen]] = []

        def take(reader: Reader) -> list[Write]:
            writes, record, seen = run_checkpoints.take(reader, self._ground.stamps, draft)
            made[:] = [(record, seen)]
            return writes

        self._recorder.write("checkpoint", take, value=draft.id)
        self._ground.remember(made[-1][1])
        return checkpoint_records.view(made[-1][0])

    # the end

    def complete(self, *, timeout: float | None = None) -> Run:
        """End the run as completed; Conflict if something on record has not been done again."""
        if self._recorder.is_open:
            self._replay.check_done()
        return self._finish("completed", None, None, timeout)

    def fail(self, reason: str, *, timeout: float | None = None) -> Run:
        """End the run as failed; the same key re-enters it."""
        return self._finish("failed", _checked(reason), None, timeout)

    def halt(self, reason: str, *, timeout: float | None = None) -> Run:
        """End the run as halted; the same key re-enters it."""
        return self._finish("halted", _checked(reason), None, timeout)

    def _finish(self, status: Any, reason: str | None, call: str | None, timeout: float | None) -> Run:
        with self._within(timeout):
            self._recorder.end(status, reason, call)
        return self.record

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._complete()
            return
        status = "failed" if isinstance(error, Exception) else "halted"
        call = error.call if isinstance(error, ToolFailed) else None
        try:
            self._finish(status, reason_of(error), call, None)
        except HoldfastError as cause:
            error.add_note(f"the run could not be ended: {cause}")

    def _complete(self) -> None:
        try:
            self.complete()
        except Conflict as difference:
            self.__exit__(type(difference), difference, None)
            raise

    async def __aenter__(self) -> Driver:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await to_thread(self.__exit__, kind, error, trace)


def _asks(messages: Sequence[Message]) -> dict[str, str]:
    """The calls that messages ask for, each with its message."""
    return {call.id: message.id for message in messages for call in message.tool_calls}


def _checked(reason: object) -> str:
    if not isinstance(reason, str):
        raise InvalidInput(f"reason is a string, not {type(reason).__name__}")
    return reason
