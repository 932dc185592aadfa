"""Coming back after a crash: what is on record is not done twice, and what may have happened is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.client import Holdfast
from holdfast.driver import Driver
from holdfast.errors import InFlightCall, InvalidInput, ToolFailed
from holdfast.model import InFlight, Message
from holdfast.testing.driving import Again, HoldfastKit, exact, texts
from holdfast.testing.run_programs import ASK, Hand, Killed, begin, die, drive, events, parallel, refuse, until_killed

WHOLE = ["be brief", "Find two", "I look both up", "{'found': 1}", "{'found': 2}", "Both found"]
VALUES: list[Any] = [None, 42, 42.0, "42", [1, [2]], {"a": {"b": None}}, "", 0, False, "\u0000 中文"]


def _giving(value: Any) -> Callable[[Driver], Any]:
    return lambda run: run.tool("give", lambda: value)


def _looking(look: Callable[..., Any]) -> Callable[[Driver], Any]:
    return lambda run: run.tool("look", look, at=1)


class RunReplayTests(HoldfastKit):
    """The same lines again."""

    # what is on record

    def test_a_run_that_was_not_interrupted_is_what_it_says(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        assert drive(hf, parallel(Hand())) == [{"found": 1}, {"found": 2}]
        assert texts(again(), "s") == WHOLE

    @pytest.mark.parametrize("place", range(7))
    def test_wherever_a_run_is_killed_it_goes_on_from_there(self, hf: Holdfast, again: Again, place: int) -> None:
        begin(hf)
        look = Hand()

        def program(run: Driver) -> None:
            steps: list[Callable[[], Any]] = [
                lambda: run.append(Message.user("Find two")),
                lambda: run.append(run.step("model", lambda: ASK)),
                lambda: run.tool("look", look, call_id="c1", at=1),
                lambda: run.tool("look", look, call_id="c2", at=2),
                lambda: run.append(*(Message.tool_result(f"c{at}", f"{{'found': {at}}}") for at in (1, 2))),
                lambda: run.append(Message.assistant("Both found")),
            ]
            for number, step in enumerate(steps):
                if number == limit:
                    raise Killed
                step()

        limit = place
        if place < 6:
            until_killed(hf, program)
            limit, hf = 99, again()
        drive(hf, program)
        assert (texts(again(), "s"), look.effects) == (WHOLE, [1, 2])

    def test_one_of_two_parallel_results_is_lost_and_known_to_be_in_flight(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        look = Hand(2)
        run_id = until_killed(hf, parallel(look))
        hf, asked = again(), list[InFlight]()

        def decide(call: InFlight) -> Any:
            asked.append(call)
            return "fail" if call.error is None else "raise"

        with hf.runs.start("s", key="k", in_flight=decide) as run:
            assert [(one.call, one.arguments) for one in run.pending()] == [("c2", {"at": 2})]
            run.append(Message.user("Find two"))
            run.append(run.step("model", die))
            assert run.tool("look", look, call_id="c1", at=1) == {"found": 1}
            with pytest.raises(ToolFailed, match="in flight"):
                run.tool("look", look, call_id="c2", at=2)
            run.append(Message.tool_result("c1", "1"), Message.tool_result("c2", "lost"))
        assert ([(one.call, one.name) for one in asked], look.effects) == ([("c2", "look")], [1, 2])
        said = list(again().sessions.messages("s"))
        assert [(one.role, one.tool_call_id) for one in said[-2:]] == [("tool", "c1"), ("tool", "c2")]
        assert events(again(), run_id)[-3:-1] == [("failed", "look"), ("append", "append")]

    @pytest.mark.parametrize("value", VALUES)
    def test_a_result_comes_back_as_it_was(self, hf: Holdfast, again: Again, value: Any) -> None:
        begin(hf)
        until_killed(hf, lambda run: (run.tool("give", lambda: value), run.step("think", lambda: value), die()))
        found = drive(again(), lambda run: [run.tool("give", die), run.step("think", die)])
        assert exact(found) == exact([value, value])

    def test_a_result_is_the_same_at_once_and_later(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        first = drive(hf, lambda run: run.tool("give", lambda: {"a": (1, 2)}))
        assert first == {"a": [1, 2]} == drive(again(), lambda run: run.tool("give", die))

    def test_a_message_is_an_answer_with_everything_it_has(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        first = drive(hf, lambda run: run.step("model", lambda: ASK))
        assert exact(first) == exact(drive(again(), lambda run: run.step("model", die))) == exact(ASK)

    def test_a_result_that_cannot_be_kept_is_refused_and_on_record(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        for number, odd in enumerate((object(), float("nan"), "\ud800", {1: 2}, "x" * 9_000_000)):
            for _ in range(2):
                with pytest.raises(ToolFailed, match="cannot be kept") as caught:
                    drive(hf, _giving(odd), key=str(number))
                assert caught.value.kind == "InvalidInput"
                hf = again()
        for run in hf.runs.list("s"):
            assert events(hf, run.id)[-4:-2] == [("failed", "give"), ("ended", "failed")]

    def test_a_call_whose_result_cannot_be_kept_is_made_again_only_if_somebody_has_looked(
        self, hf: Holdfast, again: Again
    ) -> None:
        begin(hf)
        results, done = [object(), "paid"], list[object]()

        def pay() -> object:
            done.append(results[len(done)])
            return done[-1]

        def program(run: Driver) -> object:
            return run.tool("pay", pay)

        for given in ({}, {"in_flight": "retry"}):
            with pytest.raises(ToolFailed, match="cannot be kept"):
                drive(again(), program, **given)
        assert len(done) == 1
        assert drive(again(), program, in_flight=lambda call: "retry" if call.error else "raise") == "paid"

    def test_a_tool_that_only_says_so_is_made_again(self, hf: Holdfast, again: Again) -> None:
        begin(hf)

        def refuse() -> None:
            raise InvalidInput("its result cannot be kept: says the tool")

        with pytest.raises(ToolFailed, match="cannot be kept"):
            drive(hf, lambda run: run.tool("look", refuse))
        assert drive(again(), lambda run: run.tool("look", lambda: "found"), in_flight="retry") == "found"

    def test_a_result_that_cannot_be_kept_settles_nothing(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        until_killed(hf, lambda run: run.tool("look", Hand(1), call_id="c1", at=1))
        run = again().runs.start("s", key="k")
        with pytest.raises(InvalidInput):
            run.settle("c1", object())
        assert [one.call for one in run.pending()] == ["c1"]
        run.settle("c1", "found")
        assert run.tool("look", die, call_id="c1", at=1) == "found"

    def test_appended_dicts_are_not_appended_twice(self, hf: Holdfast, again: Again) -> None:
        begin(hf)

        def program(run: Driver) -> list[Message]:
            return run.append({"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"})

        until_killed(hf, lambda run: (program(run), die()))
        assert [message.seq for message in drive(again(), program)] == [2, 3]
        assert texts(again(), "s") == ["be brief", "hello", "hi"]

    # in flight

    @pytest.mark.parametrize("given", [{}, {"in_flight": "raise"}, {"in_flight": lambda _: "raise"}])
    def test_a_call_in_flight_is_raised_and_stays_so(self, hf: Holdfast, again: Again, given: Any) -> None:
        begin(hf)
        look = Hand(1)
        until_killed(hf, lambda run: run.tool("look", look, at=1))
        for _ in range(2):
            hf = again()
            with pytest.raises(InFlightCall) as caught:
                drive(hf, lambda run: run.tool("look", look, at=1), **given)
            assert isinstance(caught.value.call, InFlight)
            assert (caught.value.call.name, caught.value.call.arguments) == ("look", {"at": 1})
        assert look.effects == [1]

    @pytest.mark.parametrize("named", [{}, {"call_id": "c1"}])
    def test_a_call_in_flight_stays_so_within_one_run(self, hf: Holdfast, again: Again, named: dict[str, Any]) -> None:
        begin(hf)
        look = Hand(1)
        until_killed(hf, lambda run: run.tool("look", look, **named, at=1))

        def insist(run: Driver) -> list[str]:
            for _ in range(2):
                with pytest.raises(InFlightCall):
                    run.tool("look", look, **named, at=1)
            run.settle(run.pending()[0].call, "found out")
            return [run.tool("look", look, **named, at=1)]

        assert drive(again(), insist) == ["found out"]
        assert look.effects == [1]

    @pytest.mark.parametrize(
        ("decision", "effects", "found"),
        [("retry", [1, 1], {"found": 1}), ("skip", [1], None), ("fail", [1], "InFlight")],
    )
    @pytest.mark.parametrize("by_callable", [False, True])
    def test_a_call_in_flight_is_decided_once(
        self, hf: Holdfast, again: Again, decision: Any, effects: list[int], found: Any, by_callable: bool
    ) -> None:
        begin(hf)
        look = Hand(1)

        def program(run: Driver) -> Any:
            try:
                return run.tool("look", look, at=1)
            except ToolFailed as failure:
                return failure.kind

        until_killed(hf, program)
        look.fatal = ()
        assert drive(again(), program, in_flight=(lambda _: decision) if by_callable else decision) == found
        assert drive(again(), program) == found
        assert look.effects == effects

    def test_an_idempotent_tool_and_a_model_are_asked_again(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        look = Hand(1)
        until_killed(hf, lambda run: run.tool("look", look, at=1, idempotent=True))
        until_killed(again(), lambda run: run.step("model", die), key="other")
        hf, look.fatal = again(), ()
        assert drive(hf, lambda run: run.tool("look", look, at=1, idempotent=True)) == {"found": 1}
        assert drive(hf, lambda run: run.step("model", lambda: "yes"), key="other") == "yes"
        assert look.effects == [1, 1]

    def test_a_retry_is_on_record(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        run_id = until_killed(hf, lambda run: run.tool("look", Hand(1), at=1))
        drive(again(), lambda run: run.tool("look", Hand(), at=1), in_flight="retry")
        kinds = [kind for kind, _ in events(again(), run_id)]
        assert kinds == ["started", "begun", "resumed", "retried", "done", "checkpoint", "ended"]

    def test_who_finds_out_how_a_call_ended_says_so(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        look = Hand(1)
        until_killed(hf, lambda run: run.tool("look", look, at=1))

        def program(run: Driver) -> Any:
            for call in run.pending():
                run.settle(call.call, {"seen": 1})
            assert run.pending() == []
            return run.tool("look", look, at=1)

        assert [drive(again(), program) for _ in range(2)] == [{"seen": 1}] * 2
        assert look.effects == [1]

    # failures

    def test_a_failure_is_the_same_at_once_and_later(self, hf: Holdfast, again: Again) -> None:
        begin(hf)

        def program(run: Driver) -> list[str]:
            try:
                run.tool("look", refuse, at=1)
            except ToolFailed as failure:
                run.append(Message.user(str(failure)))
                return [failure.kind, str(failure)]
            return []

        first = drive(hf, program)
        assert first == ["TimeoutError", "'look' failed: TimeoutError: no answer at 1"] == drive(again(), program)

    def test_a_model_whose_failure_ended_the_run_is_asked_again(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        with pytest.raises(ToolFailed) as caught:
            drive(hf, lambda run: run.step("model", refuse, 1))
        assert isinstance(caught.value.__cause__, TimeoutError)
        assert drive(again(), lambda run: run.step("model", lambda at: at, 1)) == 1

    def test_a_tool_whose_failure_ended_the_run_fails_again_unless_decided_otherwise(
        self, hf: Holdfast, again: Again
    ) -> None:
        begin(hf)
        look = Hand()
        for use in (refuse, look):
            with pytest.raises(ToolFailed, match="no answer"):
                drive(hf, _looking(use))
            hf = again()
        assert drive(hf, lambda run: run.tool("look", look, at=1), in_flight="retry") == {"found": 1}
        assert (drive(again(), lambda run: run.tool("look", look, at=1)), look.effects) == ({"found": 1}, [1])
