"""Compaction: what a model sees of a long session, while the session itself stays whole."""

from __future__ import annotations

import pytest

from holdfast.client import Holdfast
from holdfast.compaction import Summary
from holdfast.contracts import RecordStore
from holdfast.errors import Busy, Conflict, InvalidInput, NotFound
from holdfast.kinds import PRUNED
from holdfast.model import Compaction, Message, ToolCall, Usage
from holdfast.testing.driving import Again, Clock, Door, HoldfastKit, texts, users
from holdfast.testing.records import dump


def summarise(messages: list[Message], previous: str | None) -> str:
    """A summary that shows what it was made of."""
    return f"<{previous or ''}{''.join(message.text for message in messages)}>"


async def asummarise(messages: list[Message], previous: str | None) -> str:
    """The same, awaited."""
    return summarise(messages, previous)


def fail(messages: list[Message], previous: str | None) -> str:
    """A model that cannot be reached."""
    raise OSError(f"no answer for {len(messages)} messages after {previous!r}")


def hundred(_: Message) -> int:
    """A count of tokens to reckon with."""
    return 100


def seen(hf: Holdfast, session_id: str = "s") -> list[str]:
    """The texts of the model's view."""
    return [message.text for message in hf.sessions.context(session_id)]


def talk(hf: Holdfast, *texts: str) -> list[Message]:
    """Questions in lower case with their answers in upper case."""
    return [
        message
        for text in texts
        for message in hf.sessions.append("s", Message.user(text), Message.assistant(text.upper()))
    ]


def use_tool(hf: Holdfast, call_id: str, output: str) -> Message:
    """A question that takes one tool call; returns the result."""
    call = ToolCall(id=call_id, name="look")
    said = [Message.user("look"), Message.assistant(tool_calls=[call]), Message.tool_result(call_id, output)]
    return hf.sessions.append("s", *said)[2]


class CompactionKit(HoldfastKit):
    """Subclass it as `TestMyCompaction` and say how to `open` the store; never override a test."""

    # the view

    def test_the_view_of_a_session_that_was_never_compacted_is_its_path(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        talk(hf, *"abc")
        hf = again()
        assert hf.sessions.context("s") == list(hf.sessions.messages("s"))
        assert hf.sessions.context("none") == []

    def test_the_view_of_a_compacted_session_is_its_summary_and_what_came_after(
        self, hf: Holdfast, again: Again
    ) -> None:
        hf.sessions.create(id="s")
        talk(hf, *"abc")
        summary = hf.sessions.compact("s", summarise, keep_turns=1)
        talk(hf, "d")
        hf = again()
        assert seen(hf) == ["<aAbB>", "c", "C", "d", "D"]
        assert hf.sessions.context("s")[0] == summary
        assert texts(hf, "s") == ["a", "A", "b", "B", "c", "C", "", "<aAbB>", "d", "D"]

    def test_a_marker_and_its_summary_are_written_together(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        said = talk(hf, *"abc")
        hf.sessions.compact("s", summarise, keep_turns=1)
        marker, summary = list(again().sessions.messages("s", last=2))
        told = Compaction(tail_start_id=said[4].id)
        assert (marker.role, marker.is_compaction, marker.compaction) == ("user", True, told)
        assert (summary.role, summary.is_summary, summary.parent_id) == ("assistant", True, marker.id)

    def test_the_next_summary_is_made_of_the_one_before(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        talk(hf, *"abc")
        first = hf.sessions.compact("s", summarise, keep_turns=1)
        talk(hf, *"de")
        again().sessions.compact("s", summarise, keep_turns=1)
        hf = again()
        assert seen(hf) == ["<<aAbB>cCdD>", "e", "E"]
        assert first is not None
        marker, _ = hf.sessions.messages("s", last=2)
        assert marker.compaction is not None
        assert marker.compaction.previous_id == first.parent_id

    def test_a_summary_may_be_a_message_that_says_what_it_cost(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        talk(hf, *"ab")
        usage = Usage(input=9)
        hf.sessions.compact("s", lambda *_: Message.assistant("short", usage=usage), keep_turns=1)
        hf = again()
        assert hf.sessions.context("s")[0].usage == usage
        assert hf.sessions.stats("s").input_tokens == 9

    def test_a_marker_without_a_summary_is_ignored(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        said = talk(hf, *"abc")
        hf.sessions.compact("s", summarise, keep_turns=2)
        told = Compaction(tail_start_id=said[4].id)
        hf.sessions.append("s", Message(role="user", is_compaction=True, compaction=told))
        talk(hf, "d")
        assert seen(again()) == ["<aA>", "b", "B", "c", "C", "d", "D"]

    def test_a_compaction_whose_tail_is_not_on_the_path_is_ignored(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        talk(hf, "a")
        told = Compaction(tail_start_id="nowhere")
        marker = Message(role="user", is_compaction=True, compaction=told)
        hf.sessions.append("s", marker, Message.assistant("lost", is_summary=True))
        talk(hf, "b")
        assert seen(hf) == ["a", "A", "b", "B"]

    def test_a_branch_from_before_a_compaction_does_not_see_it(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        said = talk(hf, *"abc")
        hf.sessions.compact("s", summarise, keep_turns=1)
        hf.sessions.append("s", *users("other"), parent=said[3].id)
        hf = again()
        assert seen(hf) == ["a", "A", "b", "B", "other"]
        hf.sessions.switch("s", 1)
        assert seen(hf) == ["<aAbB>", "c", "C"]

    def test_a_fork_sees_the_compaction_it_shares(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        talk(hf, *"abc")
        hf.sessions.compact("s", summarise, keep_turns=1)
        hf.sessions.fork("s", id="f")
        hf.sessions.fork("s", id="g", copy=True)
        assert seen(hf, "f") == seen(hf, "g") == ["<aAbB>", "c", "C"]

    def test_a_long_session_is_compacted_again_and_again(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        for start in range(0, 600, 200):
            hf.sessions.append("s", *users(*(f"{number}," for number in range(start, start + 200))))
            hf.sessions.compact("s", lambda said, before: f"{before or 0}+{len(said)}", keep_turns=150)
        hf = again()
        assert seen(hf) == ["0+50+200+200", *(f"{number}," for number in range(450, 600))]
        assert len(list(hf.sessions.messages("s"))) == 606

    # when

    def test_a_session_with_room_left_is_not_compacted(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s", max_context_tokens=1000)
        talk(hf, *"abc")
        assert hf.sessions.compact("s", fail, keep_turns=1, count=hundred) is None
        talk(hf, "d")
        assert hf.sessions.compact("s", summarise, keep_turns=1, count=hundred) is not None
        assert hf.sessions.compact("s", fail, keep_turns=1, count=hundred) is None

    def test_force_compacts_a_session_with_room_left(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s", max_context_tokens=1_000_000)
        talk(hf, *"ab")
        assert hf.sessions.compact("s", summarise, keep_turns=1, force=True) is not None
        assert seen(hf) == ["<aA>", "b", "B"]

    def test_nothing_is_summarised_when_everything_is_kept(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        assert hf.sessions.compact("s", fail) is None
        talk(hf, *"ab")
        before = dump(store)
        assert hf.sessions.compact("s", fail, keep_turns=2, force=True) is None
        assert dump(store) == before

    def test_compacting_an_unknown_session_is_not_found(self, hf: Holdfast) -> None:
        with pytest.raises(NotFound):
            hf.sessions.compact("none", summarise)

    def test_a_summary_may_be_awaited(self, hf: Holdfast, way: str) -> None:
        hf.sessions.create(id="s")
        talk(hf, *"ab")
        if way == "async":
            hf.sessions.compact("s", asummarise, keep_turns=1)
            assert seen(hf) == ["<aA>", "b", "B"]
        else:
            with pytest.raises(InvalidInput):
                hf.sessions.compact("s", asummarise, keep_turns=1)

    # what goes wrong

    def test_what_was_said_meanwhile_stays_in_the_view(self, hf: Holdfast, door: Door) -> None:
        hf.sessions.create(id="s")
        talk(hf, *"ab")

        def slowly(messages: list[Message], previous: str | None) -> str:
            Holdfast(door.store).sessions.append("s", *users("meanwhile"))
            return summarise(messages, previous)

        hf.sessions.compact("s", slowly, keep_turns=1)
        assert seen(hf) == ["<aA>", "b", "B", "meanwhile"]

    def test_a_session_that_went_another_way_meanwhile_is_a_conflict(self, hf: Holdfast, door: Door) -> None:
        hf.sessions.create(id="s")
        said = talk(hf, *"ab")

        def slowly(messages: list[Message], previous: str | None) -> str:
            Holdfast(door.store).sessions.append("s", *users("instead"), parent=said[1].id)
            return summarise(messages, previous)

        with pytest.raises(Conflict):
            hf.sessions.compact("s", slowly, keep_turns=1)
        assert seen(hf) == ["a", "A", "instead"]

    def test_a_summary_that_fails_changes_nothing(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        talk(hf, *"ab")
        before = dump(store)
        answers: list[Summary] = ["", "  ", Message.assistant(), 5]  # type: ignore[list-item]
        for answer in answers:
            with pytest.raises(InvalidInput):
                hf.sessions.compact("s", lambda *_, said=answer: said, keep_turns=1, force=True)
        assert dump(store) == before

    def test_after_three_failures_in_a_row_the_model_is_left_alone_for_a_while(
        self, hf: Holdfast, clock: Clock
    ) -> None:
        hf.sessions.create(id="s")
        talk(hf, *"ab")
        for _ in range(3):
            with pytest.raises(OSError):
                hf.sessions.compact("s", fail, keep_turns=1)
        with pytest.raises(Busy):
            hf.sessions.compact("s", summarise, keep_turns=1)
        with pytest.raises(OSError):
            hf.sessions.compact("s", fail, keep_turns=1, retry_after_s=0)
        with pytest.raises(Busy):
            hf.sessions.compact("s", summarise, keep_turns=1, retry_after_s=30)
        clock.now = clock.now.replace(hour=13)
        assert hf.sessions.compact("s", summarise, keep_turns=1, retry_after_s=30) is not None

    def test_force_overrules_the_breaker_and_a_success_resets_it(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        talk(hf, *"abc")
        for _ in range(3):
            with pytest.raises(OSError):
                hf.sessions.compact("s", fail, keep_turns=2)
        assert hf.sessions.compact("s", summarise, keep_turns=2, force=True) is not None
        assert hf.sessions.compact("s", summarise, keep_turns=1) is not None

    # pruning

    def test_old_tool_outputs_leave_the_view_and_stay_in_the_history(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        old, small, recent = (use_tool(hf, *call) for call in (("1", "x" * 900), ("2", "y"), ("3", "z" * 900)))
        assert hf.sessions.prune_tool_outputs("s", keep_last=1, min_tokens=100) == [old.id]
        hf = again()
        view = {message.id: message for message in hf.sessions.context("s")}
        assert (view[old.id].text, view[old.id].pruned) == ("[output of the tool left out]", True)
        assert (view[old.id].tool_call_id, view[small.id].text, view[recent.id]) == ("1", "y", recent)
        whole = hf.sessions.message("s", old.id)
        assert whole is not None
        assert (whole.text, whole.pruned) == (old.text, True)
        assert hf.sessions.prune_tool_outputs("s", keep_last=1, min_tokens=100) == []

    def test_pruned_outputs_can_be_put_back(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        results = [use_tool(hf, call_id, "x" * 900) for call_id in "123"]
        before = dump(store)
        hf.sessions.prune_tool_outputs("s", keep_last=0)
        assert hf.sessions.unprune_tool_outputs("s", results[1].id) == [results[1].id]
        assert [hf.sessions.message("s", one.id).pruned for one in results] == [True, False, True]  # type: ignore[union-attr]
        assert hf.sessions.unprune_tool_outputs("s") == [results[0].id, results[2].id]
        assert dump(store) == before

    def test_a_copy_keeps_what_is_pruned_and_a_deleted_session_does_not(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        use_tool(hf, "1", "x" * 900)
        hf.sessions.prune_tool_outputs("s", keep_last=0)
        hf.sessions.fork("s", id="f", copy=True)
        assert seen(hf, "f") == seen(hf) == ["look", "", "[output of the tool left out]"]
        for id, left in (("s", 1), ("f", 0)):
            hf.sessions.delete(id)
            assert [record.kind for record in dump(store)].count(PRUNED) == left

    def test_pruning_nonsense_is_refused(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        with pytest.raises(InvalidInput):
            hf.sessions.prune_tool_outputs("s", keep_last=-1)
        with pytest.raises(NotFound):
            hf.sessions.prune_tool_outputs("none")
        with pytest.raises(NotFound):
            hf.sessions.unprune_tool_outputs("s", "none")
