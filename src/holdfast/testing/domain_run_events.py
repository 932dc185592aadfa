"""What happened in a run: every event once, in order, for whoever follows it; and nothing of what was redacted."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.aio import AsyncHoldfast
from holdfast.bridge import WORKERS
from holdfast.client import Holdfast
from holdfast.contracts import RecordStore, Wakes
from holdfast.driver import Driver
from holdfast.errors import Busy, InvalidInput, ToolFailed
from holdfast.model import Event, Message, ToolCall
from holdfast.testing.driving import Again, Clock, HoldfastKit, texts
from holdfast.testing.follower import COMMAND
from holdfast.testing.records import dump
from holdfast.testing.run_programs import Hand, StoreClock, begin, drive, parallel, refuse, until_killed
from holdfast.testing.writer import Job

SECRET = "xyzzy"
LONG_S = 60
PAUSE_S = 0.1


def follow(store: RecordStore, run_id: str, seen: list[Event], met: threading.Event) -> None:
    """Follow a run to its end, and say when the first event was seen."""
    for event in Holdfast(store).runs.follow(run_id):
        seen.append(event)
        met.set()


def _says(message: Message) -> bool:
    return SECRET in message.text or any(SECRET in str(call.arguments) for call in message.tool_calls)


def _say(run: Driver, *messages: Message) -> None:
    run.append(*messages)


def _answer(answer: Any) -> Callable[[Driver], None]:
    def program(run: Driver) -> None:
        found = run.step("model", lambda: answer)
        _say(run, found if isinstance(found, Message) else Message.assistant(found["text"]))

    return program


def _stream(run: Driver) -> None:
    def speak() -> Message:
        for piece in ("It ", f"is {SECRET}"):
            run.stream(piece)
        return Message.assistant(f"It is {SECRET}")

    _say(run, run.step("model", speak))


def _use(run: Driver) -> None:
    _say(run, Message.assistant(tool_calls=[ToolCall(id="c1", name="look")]))
    found = run.tool("look", lambda: f"It is {SECRET}", call_id="c1")
    _say(run, Message.tool_result("c1", found))


def _ask(run: Driver) -> None:
    call = ToolCall(id="c1", name="look", arguments={"at": SECRET})
    _say(run, run.step("model", lambda: Message.assistant(tool_calls=[call])))
    run.tool("look", lambda at: len(at), call_id="c1", at=SECRET)
    _say(run, Message.tool_result("c1", "5"))


def _judge(run: Driver) -> None:
    found = run.step("model", lambda: f"It is {SECRET}")
    run.step("judge", lambda: "fine")
    _say(run, Message.assistant(found))


def _use_without_id(run: Driver) -> None:
    found = run.tool("look", lambda: f"It is {SECRET}")
    _say(run, Message.assistant(tool_calls=[ToolCall(id="c1", name="look")]), Message.tool_result("c1", found))


def _fail(run: Driver) -> None:
    def stumble() -> None:
        raise TimeoutError(f"It is {SECRET}")

    try:
        run.tool("look", stumble)
    except ToolFailed as failed:
        _say(run, Message.assistant(str(failed)))
        run.fail(str(failed))


SECRETS: dict[str, Callable[[Driver], None]] = {
    "a user": lambda run: _say(run, Message.user(f"It is {SECRET}")),
    "a model": _answer(Message.assistant(f"It is {SECRET}")),
    "a model in JSON": _answer({"text": f"It is {SECRET}"}),
    "a stream": _stream,
    "a tool": _use,
    "a call": _ask,
    "a model before another": _judge,
    "a tool without an id": _use_without_id,
    "a failure": _fail,
}


def talk(run: Driver, pieces: int = 20) -> None:
    """A run with a number of events."""
    for number in range(pieces):
        run.stream(str(number))
    run.append(Message.user("done"))
    run.complete()


class RunEventTests(HoldfastKit):
    """Events and their followers."""

    def test_events_are_numbered_from_one_and_read_behind_a_position(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        with hf.runs.start("s") as run:
            run.append(Message.user("hello"))
        hf = again()
        assert [event.seq for event in hf.runs.events(run.id)] == [1, 2, 3]
        assert [event.seq for event in hf.runs.events(run.id, after=2)] == [3]
        assert list(hf.runs.events(run.id, after=3)) == []
        with pytest.raises(InvalidInput):
            list(hf.runs.events(run.id, after=-1))

    def test_two_who_append_never_share_a_number(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        run = hf.runs.start("s")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: run.stream(str(number)), range(40)))
        run.complete()
        found = list(again().runs.events(run.id))
        assert [event.seq for event in found] == list(range(1, 43))
        assert {event.value for event in found[1:-1]} == {str(number) for number in range(40)}

    # executions

    def test_what_tools_did_is_recorded_with_who_asked(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        drive(hf, parallel(Hand()))
        asked = next(one for one in again().sessions.messages("s") if one.tool_calls)
        found = again().executions.list("s", message_id=asked.id)
        assert [(one.call_id, one.tool_name, one.arguments, one.status, one.result) for one in found] == [
            ("c1", "look", {"at": 1}, "success", {"found": 1}),
            ("c2", "look", {"at": 2}, "success", {"found": 2}),
        ]
        assert all(one.duration_ms is not None for one in found)

    def test_an_execution_in_flight_runs_until_it_is_decided(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        until_killed(hf, lambda run: run.tool("look", Hand(1), at=1))
        hf = again()
        assert [one.status for one in hf.executions.list("s")] == ["running"]
        drive(hf, lambda run: run.tool("look", refuse, at=1), in_flight="skip")
        assert [(one.status, one.error) for one in again().executions.list("s")] == [
            ("failed", "skipped: it may have had its effect")
        ]

    def test_a_failure_that_is_retried_is_two_executions(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        with pytest.raises(Exception, match="no answer"):
            drive(hf, lambda run: run.tool("look", refuse, at=1))
        drive(again(), lambda run: run.tool("look", Hand(), at=1), in_flight="retry")
        assert [one.status for one in again().executions.list("s")] == ["failed", "success"]

    # following

    def test_following_a_run_that_has_ended_gives_what_is_on_record(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        drive(hf, parallel(Hand()))
        hf = again()
        run_id = hf.runs.list("s")[0].id
        assert list(hf.runs.follow(run_id)) == list(hf.runs.events(run_id))
        assert [event.kind for event in hf.runs.follow(run_id, after=len(list(hf.runs.events(run_id))) - 1)] == [
            "ended"
        ]

    def test_a_follower_in_another_thread_loses_nothing(self, hf: Holdfast, store: RecordStore) -> None:
        begin(hf)
        run, seen, met = hf.runs.start("s"), list[Event](), threading.Event()
        follower = threading.Thread(target=follow, args=(store, run.id, seen, met))
        follower.start()
        assert met.wait(LONG_S)
        talk(run)
        follower.join(LONG_S)
        assert seen == list(hf.runs.events(run.id))

    def test_a_follower_in_another_process_loses_nothing(
        self, hf: Holdfast, store: RecordStore, namespace: str
    ) -> None:
        if store.sharing != "processes":
            return
        begin(hf)
        run = hf.runs.start("s")
        job = Job.of(self, namespace, 0, 0)
        with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(pickle.dumps(job) + run.id.encode() + b"\n")
            process.stdin.flush()
            first = process.stdout.readline()
            talk(run)
            said = first + process.communicate(timeout=LONG_S)[0]
        assert said.decode().splitlines() == [f"{event.seq} {event.kind}" for event in hf.runs.events(run.id)]

    def test_whoever_waits_for_a_run_is_woken_where_the_store_has_word_of_it(
        self, hf: Holdfast, store: RecordStore
    ) -> None:
        if not isinstance(store, Wakes):
            return
        begin(hf)
        run, woken = hf.runs.start("s"), threading.Event()
        with store.wake(run._recorder.run.owner, woken.set):
            for _ in range(int(LONG_S / PAUSE_S)):  # one who begins to listen may miss the first
                run.stream("x")
                if woken.wait(PAUSE_S):
                    break
        assert woken.is_set()

    def test_a_follower_goes_on_behind_what_it_has_seen(self, hf: Holdfast, store: RecordStore) -> None:
        begin(hf)
        run = hf.runs.start("s")
        run.stream("one")
        seen: list[int] = []
        with pytest.raises(Busy, match="after=2"):
            seen.extend(event.seq for event in Holdfast(store).runs.follow(run.id, timeout=0))
        talk(run, 2)
        assert [*seen, *(event.seq for event in hf.runs.follow(run.id, after=2))] == [1, 2, 3, 4, 5, 6]

    def test_following_a_run_that_nobody_drives_any_more_ends_with_its_lease(
        self, hf: Holdfast, store: RecordStore
    ) -> None:
        begin(hf)
        clock = StoreClock(store)
        run = hf.runs.start("s")
        clock.pass_s(31)
        assert [event.kind for event in hf.runs.follow(run.id)] == ["started"]

    def test_many_followers_of_an_event_loop_hold_no_thread(self, store: RecordStore, clock: Clock) -> None:
        async def crowd() -> list[list[Event]]:
            async with AsyncHoldfast(Holdfast(store, clock=clock)) as hf:
                await hf.sessions.create(id="s")
                run = await hf.runs.start("s")
                seen: list[list[Event]] = [[] for _ in range(WORKERS + 10)]
                followers = [asyncio.create_task(_collect(hf, run.id, one)) for one in seen]
                while not all(seen):
                    await asyncio.sleep(0)
                await hf.sessions.append("s", Message.user("the pool is free"))
                await asyncio.to_thread(talk, run, 3)
                await asyncio.gather(*followers)
                return [*seen, [event async for event in hf.runs.events(run.id)]]

        found = asyncio.run(crowd())
        assert all(one == found[-1] for one in found)

    # what is redacted

    @pytest.mark.parametrize("what", SECRETS)
    def test_nothing_is_left_of_a_redacted_message(
        self, hf: Holdfast, again: Again, store: RecordStore, what: str
    ) -> None:
        begin(hf)
        drive(hf, SECRETS[what])
        (message,) = [one for one in hf.sessions.messages("s") if _says(one)]
        assert any(SECRET.encode() in record.body for record in dump(store))
        hf.sessions.redact("s", message.id, "asked to")
        assert [record.kind.name for record in dump(store) if SECRET.encode() in record.body] == []
        report = again().verify()
        assert (report.redacted, report.problems) == (1, [])

    def test_a_run_with_a_redacted_message_is_still_replayed(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        look = Hand()
        drive(hf, parallel(look))
        for message in list(hf.sessions.messages("s"))[1:4]:
            hf.sessions.redact("s", message.id, "asked to")
        run = again().runs.start("s", key="k")
        run.append(Message.user("Find two"))
        asked = run.append(run.step("model", lambda: None))
        assert asked[0].redacted is not None
        assert run.tool("look", look, call_id="c1", at=1) is None
        assert run.tool("look", look, call_id="c2", at=2) == {"found": 2}
        assert (texts(again(), "s")[4:], look.effects) == (["{'found': 2}", "Both found"], [1, 2])


async def _collect(hf: AsyncHoldfast, run_id: str, seen: list[Event]) -> None:
    async for event in hf.runs.follow(run_id):
        seen.append(event)
