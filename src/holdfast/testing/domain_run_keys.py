"""Entering a run again: by its key, with the program that it had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.client import Holdfast
from holdfast.driver import Driver
from holdfast.errors import Conflict, InvalidInput
from holdfast.model import Message
from holdfast.testing.domain_run_replays import WHOLE
from holdfast.testing.driving import Again, HoldfastKit, texts, users
from holdfast.testing.run_programs import Hand, begin, die, drive, parallel, until_killed


class RunKeyTests(HoldfastKit):
    """Keys, and programs that are no longer what they were."""

    # programs that have changed

    @pytest.mark.parametrize(
        ("changed", "shown"),
        [
            (lambda run: run.tool("seek", die, at=1), "tool 'look' with {.at.:1}, now it asks for tool 'seek'"),
            (lambda run: run.tool("look", die, at=2), "with {.at.:1}, now it asks for tool 'look' with {.at.:2}"),
            (lambda run: run.step("look", die, at=1), "tool 'look' with {.at.:1}, now it asks for step 'look'"),
            (lambda run: run.tool("look", die, at=1, call_id="c9"), "next was tool 'look'"),
            (lambda run: run.append(Message.user("x")), "{.at.:1}, now it asks for an append saying ..x.."),
            (
                lambda run: (run.tool("look", die, at=1), run.append(Message.user("y"))),
                "now .* an append saying ..y..",
            ),
            (lambda run: run.tool("look", die, at=1), "next was an append"),
            (lambda _: None, "next was tool 'look'"),
        ],
    )
    def test_a_program_that_has_changed_is_shown_the_first_difference(
        self, hf: Holdfast, again: Again, changed: Callable[[Driver], Any], shown: str
    ) -> None:
        begin(hf)
        until_killed(hf, lambda run: (run.tool("look", Hand(), at=1), run.append(Message.user("x")), die()))
        hf = again()
        with pytest.raises(Conflict, match=shown):
            drive(hf, changed)
        assert texts(again(), "s") == ["be brief", "x"]

    def test_a_tool_may_have_arguments_whose_names_a_call_uses_itself(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        given: dict[str, Any] = {"call_id": "theirs", "idempotent": 1, "arguments": [2]}
        drive(hf, lambda run: run.tool("look", dict, arguments=given, at=1))
        (kept,) = again().executions.list("s")
        assert kept.result == kept.arguments == {**given, "at": 1}

    @pytest.mark.parametrize(
        "call",
        [
            lambda run: run.tool("look", 5),
            lambda run: run.tool("look", dict, idempotent="yes"),
            lambda run: run.tool("look", dict, arguments=[1]),
            lambda run: run.tool("look", dict, arguments={"at": 1}, at=1),
        ],
    )
    def test_a_tool_that_cannot_be_called_so_leaves_nothing_on_record(
        self, hf: Holdfast, again: Again, call: Callable[[Driver], Any]
    ) -> None:
        begin(hf)
        with pytest.raises(InvalidInput):
            drive(hf, call)
        assert list(again().executions.list("s")) == []

    def test_a_tool_that_is_now_called_without_its_id_is_not_called_twice(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        until_killed(hf, lambda run: (run.tool("look", Hand(), call_id="c1", at=1), die()))
        hf = again()
        with pytest.raises(Conflict):
            drive(hf, lambda run: run.tool("look", die, at=1))

    # keys

    def test_the_key_of_a_completed_run_gives_its_record_and_no_more(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        look = Hand()
        drive(hf, parallel(look))
        (record,) = hf.runs.list("s")
        hf = again()
        assert hf.runs.start("s", key="k").record == record
        assert drive(hf, parallel(look)) == [{"found": 1}, {"found": 2}]
        with pytest.raises(Conflict, match="has ended"):
            drive(hf, lambda run: (parallel(look)(run), run.append(Message.user("more"))))
        assert (list(again().runs.list("s")), texts(again(), "s"), look.effects) == ([record], WHOLE, [1, 2])

    def test_a_completed_run_is_replayed_while_another_holds_the_session(self, hf: Holdfast) -> None:
        begin(hf)
        drive(hf, parallel(Hand()))
        with hf.runs.start("s", key="other"):
            assert drive(hf, parallel(Hand())) == [{"found": 1}, {"found": 2}]

    @pytest.mark.parametrize("status", ["failed", "halted"])
    def test_the_key_of_a_failed_or_halted_run_enters_it_again(self, hf: Holdfast, again: Again, status: str) -> None:
        begin(hf)
        look = Hand()
        run = hf.runs.start("s", key="k")
        run.tool("look", look, at=1)
        run.fail("later") if status == "failed" else run.halt("later")
        drive(again(), lambda run: (run.tool("look", look, at=1), run.append(Message.user("done"))))
        (found,) = again().runs.list("s")
        assert (found.id, found.status, found.reason, look.effects) == (run.id, "completed", None, [1])

    def test_a_key_is_a_sessions_own(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        begin(hf, "other")
        for id in ("s", "other"):
            with hf.runs.start(id, key="k") as run:
                run.append(Message.user(f"in {id}"))
        hf = again()
        assert hf.runs.start("s", key="k").id != hf.runs.start("other", key="k").id
        assert [len(hf.runs.list(id)) for id in ("s", "other")] == [1, 1]

    def test_a_run_without_a_key_is_another_each_time(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        for _ in range(2):
            drive(hf, lambda run: run.append(*users("hello")), key=None)
        assert texts(again(), "s") == ["be brief", "hello", "hello"]
