"""What loops need of a run: parallel tools, streamed answers, checkpoints, and going on without a replay."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.driver import Driver
from holdfast.errors import InFlightCall, InvalidInput, NotFound
from holdfast.kinds import CHECKPOINTS
from holdfast.model import Agent, Message, ToolCall
from holdfast.strategies import Strategy
from holdfast.testing.damage import spoilt
from holdfast.testing.domain_run_replays import WHOLE
from holdfast.testing.driving import Again, HoldfastKit, texts
from holdfast.testing.records import dump
from holdfast.testing.run_programs import ASK, Hand, Killed, begin, die, drive, parallel, until_killed

CROWD = 8


class RunLoopTests(HoldfastKit):
    """Loops of many kinds."""

    # parallel tools

    def test_tools_in_threads_are_told_apart_by_their_ids(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        look = Hand()

        def program(run: Driver, order: int = 1) -> list[Any]:
            with ThreadPoolExecutor(CROWD) as pool:
                calls = range(CROWD)[::order]
                found = [pool.submit(run.tool, "look", look, call_id=f"c{at}", at=at) for at in calls]
                return [one.result()["found"] for one in found][::order]

        def answers(run: Driver) -> list[Any]:
            found = program(run, order)
            for at in found[::order]:
                run.append(Message.tool_result(f"c{at}", str(at)))
            return found

        order = 1
        until_killed(hf, lambda run: (answers(run), die()))
        hf, order = again(), -1
        assert drive(hf, answers) == sorted(look.effects) == list(range(CROWD))
        assert sorted(texts(again(), "s")[1:]) == [str(at) for at in range(CROWD)]

    def test_tools_of_an_event_loop_run_together_on_it(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        effects: list[int] = []

        async def program(run: Driver, fatal: bool) -> list[Any]:
            met = asyncio.Barrier(CROWD)

            async def look(at: int) -> int:
                effects.append(at)
                await met.wait()
                return at

            async with run:
                await run.aappend(Message.user("All of them"))
                found = [run.atool("look", look, call_id=f"c{at}", at=at) for at in range(CROWD)]
                answer = [*await asyncio.gather(*found), await run.astep("model", look_up)]
                if fatal:
                    raise Killed
                return answer

        async def look_up() -> str:
            return "done"

        with pytest.raises(Killed):
            asyncio.run(program(hf.runs.start("s", key="k"), True))
        assert asyncio.run(program(again().runs.start("s", key="k"), False)) == [*range(CROWD), "done"]
        assert sorted(effects) == list(range(CROWD))

    def test_a_call_id_that_a_model_uses_again_is_another_call(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        look = Hand(3)

        def program(run: Driver) -> list[Any]:
            found = []
            for turn in (1, 2, 3):
                run.append(Message.assistant(tool_calls=[ToolCall(id="call_0", name="look")]))
                found.append(run.tool("look", look, call_id="call_0", at=turn)["found"])
                run.append(Message.tool_result("call_0", str(turn)))
            return found

        until_killed(hf, program)
        look.fatal = ()
        assert drive(again(), program, in_flight="retry") == [1, 2, 3]
        assert look.effects == [1, 2, 3, 3]

    def test_a_tool_may_call_others(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        look = Hand()

        def program(run: Driver) -> Any:
            def plan(at: int) -> Any:
                found = [run.tool("look", look, at=at + one) for one in (1, 2)]
                return plan_ends(found)

            found = run.tool("plan", plan, at=10)
            run.append(Message.user(str(found)))
            return run.tool("look", look, at=1)

        plan_ends: Any = die
        until_killed(hf, program)
        plan_ends = len
        assert drive(again(), program, in_flight="retry") == {"found": 1}
        assert drive(again(), program) == {"found": 1}
        assert look.effects == [11, 12, 1]

    # streamed answers

    def test_a_streamed_answer_is_kept_in_pieces_and_appended_whole(self, hf: Holdfast, again: Again) -> None:
        begin(hf)

        def program(run: Driver) -> None:
            def speak() -> Message:
                for piece in ("Two ", "look ", "good"):
                    run.stream(piece)
                    if piece == fatal:
                        raise Killed
                return Message.assistant("Two look good")

            run.append(run.step("model", speak))

        fatal = "look "
        run_id = until_killed(hf, program)
        hf, fatal = again(), ""
        with hf.runs.start("s", key="k") as run:
            assert (run.partial, texts(hf, "s")) == ("Two look ", ["be brief"])
            program(run)
        hf = again()
        assert texts(hf, "s") == ["be brief", "Two look good"]
        assert [event.value for event in hf.runs.events(run_id) if event.kind == "partial"] == [
            *("Two ", "look "),
            *("Two ", "look ", "good"),
        ]
        assert again().runs.start("s", key="k").partial == ""

    def test_a_piece_of_an_answer_is_text(self, hf: Holdfast) -> None:
        begin(hf)
        run = hf.runs.start("s")
        for odd in (5, None, b"x", "\ud800"):
            with pytest.raises(InvalidInput):
                run.stream(odd)  # type: ignore[arg-type]

    # checkpoints

    @pytest.mark.parametrize(
        ("strategy", "steps"),
        [
            (None, [1, 2, 3, 4]),
            (Strategy.after_responses, [1, 2, 3, 4]),
            (lambda: Strategy.every_iterations(2), [2, 4]),
            (Strategy.never, []),
        ],
    )
    def test_a_run_checkpoints_by_its_strategy(
        self, hf: Holdfast, again: Again, strategy: Any, steps: list[int]
    ) -> None:
        begin(hf)

        def program(run: Driver) -> None:
            for _ in range(4):
                turn = run.iteration()
                run.append(Message.user(str(run.step("model", lambda turn=turn: turn))))
                run.tool("look", Hand(), at=turn)
                run.tool("look", Hand(), at=turn)

        for _ in range(2):  # the second time everything is on record
            drive(hf, program, strategy=None if strategy is None else strategy())
            hf = again()
        (run,) = hf.runs.list("s")
        found = hf.checkpoints.list(session_id="s", order="step")
        assert [one.step for one in found] == steps
        assert all((one.run_id, one.kind, one.status) == (run.id, "automatic", "in_progress") for one in found)

    def test_the_last_good_checkpoint_says_how_far_a_run_has_come(self, hf: Holdfast, store: RecordStore) -> None:
        begin(hf)
        run = hf.runs.start("s", key="k")
        assert run.last_checkpoint() is None
        for turn in (1, 2, 3):
            run.iteration()
            run.extra, run.partial_results = {"cursor": turn}, [*run.partial_results, turn]
            run.checkpoint(name=f"turn {turn}")
        newest = [row for row in dump(store) if row.kind is CHECKPOINTS][-1]
        with spoilt(store, newest):
            found = run.last_checkpoint()
        assert found is not None
        assert (found.step, found.extra, found.partial_results) == (2, {"cursor": 2}, [1, 2])

    def test_a_step_that_is_another_runs_stays_so(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        for key in ("k", "other"):
            drive(hf, lambda run: (run.iteration(), run.checkpoint(), run.checkpoint()), key=key)
        found = again().checkpoints.list(session_id="s")
        assert [one.step for one in found] == [None, None, 1]

    def test_the_last_good_checkpoint_of_an_unfinished_run_survives_a_prune(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        until_killed(hf, lambda run: (run.checkpoint(), run.checkpoint(), die()))
        hf = again()
        mine = hf.checkpoints.list(session_id="s")[0]
        for _ in range(3):
            hf.checkpoints.create(session_id="s")
        hf.checkpoints.prune(session_id="s", keep=1)
        assert mine in list(hf.checkpoints.list(session_id="s"))
        drive(hf, lambda _: None)
        hf.checkpoints.prune(session_id="s", keep=1)
        assert mine not in list(again().checkpoints.list(session_id="s"))

    @pytest.mark.parametrize("owner", [{"session_id": "s"}, {"agent_id": "scout"}])
    def test_a_failed_checkpoint_is_no_good_one(self, hf: Holdfast, again: Again, owner: dict[str, Any]) -> None:
        hf.agents.save(Agent(id="scout", name="Scout"))
        begin(hf)
        run = hf.runs.start("s", key="k")
        good = hf.checkpoints.create(**owner, run_id=run.id, step=1)
        hf.checkpoints.create(**owner, run_id=run.id, step=2, status="failed", reason="no room")
        hf.checkpoints.create(**owner)
        hf.checkpoints.prune(**owner, keep=0)
        assert good in list(again().checkpoints.list(**owner))

    # going on from where things stand

    def test_a_run_that_continues_takes_up_what_the_last_checkpoint_says(self, hf: Holdfast, again: Again) -> None:
        begin(hf)

        def program(run: Driver) -> None:
            run.extra, run.partial_results = {"cursor": 7}, ["half"]
            run.iteration()
            run.iteration()
            run.tool("look", Hand(), at=1)
            raise Killed

        until_killed(hf, program)
        with again().runs.start("s", key="k", mode="continue") as run:
            assert (run.extra, run.partial_results, run.replaying) == ({"cursor": 7}, ["half"], False)
            assert run.iteration() == 3
            run.append(Message.user("and on"))
        assert texts(again(), "s") == ["be brief", "and on"]

    def test_a_run_that_continues_knows_what_is_in_flight_and_what_was_found(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        look = Hand(2)
        until_killed(hf, parallel(look))
        hf = again()
        with hf.runs.start("s", key="k", mode="continue") as run:
            asked = list(hf.sessions.messages("s"))[-1]
            assert asked.tool_calls == ASK.tool_calls
            assert [(one.call, one.arguments) for one in run.pending()] == [("c2", {"at": 2})]
            with pytest.raises(InFlightCall):
                run.tool("look", look, call_id="c2", at=2)
            run.settle("c2", error="nobody knows")
            with pytest.raises(NotFound):
                run.settle("c2", 2)
            found = run.tool("look", look, call_id="c1", at=1)
            run.append(Message.tool_result("c1", str(found)), Message.tool_result("c2", "nobody knows"))
            assert run.tool("look", look, call_id="c1", at=3) == {"found": 3}
        assert (look.effects, run.pending()) == ([1, 2, 3], [])

    # long ones

    def test_a_run_of_a_thousand_messages_and_a_hundred_tools_goes_on(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        look = Hand(99)

        def program(run: Driver) -> None:
            for turn in range(100):
                run.append(*(Message.user(f"{turn} {number}") for number in range(9)))
                found = run.tool("look", look, at=turn)
                run.append(Message.assistant(str(found["found"])))

        until_killed(hf, program, strategy=Strategy.every_iterations(10))
        look.fatal = ()
        drive(again(), program, in_flight="retry", strategy=Strategy.never())
        assert (len(texts(again(), "s")), look.effects) == (1001, [*range(100), 99])

    def test_a_whole_conversation_is_the_same_with_and_without_crashes(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        for fatal in ((1,), (2,), ()):
            try:
                drive(hf, parallel(Hand(*fatal)), in_flight="retry")
            except Killed:
                hf = again()
        assert texts(again(), "s") == WHOLE
