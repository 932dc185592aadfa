"""What must hold of a run that is killed again and again, judged from outside by its record and by its effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from holdfast.client import Holdfast
from holdfast.model import Event, Message, ToolCall
from holdfast.testing.providers import refusals
from holdfast.testing.run_agent import IDEMPOTENT, TURNS, asked, expected

SKIPPED = "None"
FAILED = "InFlight"


class Seen(Struct):
    """A call as its record shows it."""

    call: ToolCall
    end: Event | None = None
    retries: int = 0

    @property
    def result(self) -> str | None:
        """What it gave, or the name of what it failed with; None while it is in flight."""
        if self.end is None:
            return None
        return str(self.end.value["value"]) if self.end.kind == "done" else str(self.end.value).partition(":")[0]


class Watch:
    """One task: what is known of its calls from the kills before."""

    def __init__(self, task: int) -> None:
        self._calls = {call.id: call for turn in range(TURNS) for call in asked(task, turn)}
        self._session = f"task {task}"
        self._finished: dict[str, tuple[str | None, int]] = {}
        self._in_flight: set[str] = set()
        self._asked: Counter[str] = Counter()
        self.reported = 0

    def judge(self, hf: Holdfast, effects: Counter[str], heard: Counter[str]) -> Iterator[str]:
        """What is wrong after a life in which the agent was asked about these calls."""
        self._asked += heard
        self.reported += heard.total()
        seen = self._read(hf)
        for run in hf.runs.list(self._session):
            if [event.seq for event in hf.runs.events(run.id)] != [*range(1, run.events + 1)]:
                yield f"the events of {self._session} are not {run.events} in a row"
        yield from (f"{call} had an effect and is not on record" for call in effects if call not in seen)
        for id, one in seen.items():
            yield from self._judge_call(id, one, effects[id])
        self._finished.update({id: (one.result, effects[id]) for id, one in seen.items() if one.end is not None})
        self._in_flight = {id for id, one in seen.items() if one.end is None}

    def _read(self, hf: Holdfast) -> dict[str, Seen]:
        seen: dict[str, Seen] = {}
        for run in hf.runs.list(self._session):
            for event in hf.runs.events(run.id):
                self._take(seen, event)
        return seen

    def _take(self, seen: dict[str, Seen], event: Event) -> None:
        if event.call not in self._calls or event.kind == "append":
            return
        one = seen.setdefault(event.call, Seen(self._calls[event.call]))
        if event.kind == "retried":
            one.retries += 1
            one.end = None
        elif event.kind in ("done", "failed"):
            one.end = event

    def _judge_call(self, id: str, one: Seen, effects: int) -> Iterator[str]:
        if effects > 1 + one.retries:
            yield f"{id} ran {effects} times and was begun {1 + one.retries} times"
        if id in self._finished and self._finished[id] != (one.result, effects):
            yield f"{id} had finished as {self._finished[id]} and is now {(one.result, effects)}"
        right = [str(expected(one.call)), *([SKIPPED, FAILED] if self._asked[id] else [])]
        if one.end is not None and one.result not in right:
            yield f"{id} gave {one.result}, not {right}"
        if one.end is not None and one.result == str(expected(one.call)) and not effects:
            yield f"{id} has a result and had no effect"
        if one.call.name != IDEMPOTENT:
            if one.retries > self._asked[id]:
                yield f"{id} was retried {one.retries} times and asked about {self._asked[id]} times"
            if id in self._in_flight and one.end is not None and not self._asked[id]:
                yield f"{id} was in flight, and nobody was asked"

    def judge_end(self, hf: Holdfast) -> Iterator[str]:
        """What is wrong with the conversation of a task that has completed."""
        said = list(hf.sessions.messages(self._session))
        yield from refusals(said)
        results = {id: one.result for id, one in self._read(hf).items()}
        if any(id in self._in_flight or id not in results for id in self._calls):
            yield "the run has completed without all of its calls"
        if [_told(message) for message in said] != [*self._should_be(results)]:
            yield f"the conversation is not what it should be: {[_told(message) for message in said]}"
        recorded = Counter(one.call_id for one in hf.executions.list(self._session) if one.status != "running")
        if {*recorded} != {*self._calls}:
            yield f"the executions are of {[*recorded]}"

    def _should_be(self, results: dict[str, str | None]) -> Iterator[tuple[str, str | None]]:
        yield ("user", self._session.capitalize())
        turns = [call.id.rsplit("-", 1)[0] for call in self._calls.values()]
        for number, turn in enumerate(dict.fromkeys(turns)):
            yield ("assistant", f"I will do {number}")
            yield from (
                ("tool", results[call.id]) for call in self._calls.values() if call.id.rsplit("-", 1)[0] == turn
            )
        yield ("assistant", "All done")


def _told(message: Message) -> tuple[str, str]:
    return message.role, message.text
