"""When to compact, what to keep and what a model sees: the pure functions, on any conversation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.compaction import choose_tail, count_tokens, estimate_tokens, should_compact, turn_starts, view
from holdfast.errors import InvalidInput
from holdfast.model import Attachment, Code, Compaction, Image, JsonPart, Message, ToolCall


def of_size(message: Message) -> int:
    return len(message.text)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """A turn: a question, then answers, calls and their results in any order, and words in between."""
    said = [Message.user("q" * draw(st.integers(0, 30)))]
    for _ in range(draw(st.integers(0, 3))):
        ids = [f"c{draw(st.integers(0, 3))}" for _ in range(draw(st.integers(0, 3)))]
        calls = [ToolCall(id=id, name="f") for id in dict.fromkeys(ids)]
        said.append(Message.assistant("a" * draw(st.integers(0, 30)), tool_calls=calls))
        results = [Message.tool_result(call.id, "r" * draw(st.integers(0, 30))) for call in calls]
        words = [Message.user("w") for _ in range(draw(st.integers(0, 1)))] if results else []
        said += draw(st.permutations([*results, *words]))
    return said


conversations = st.lists(turns(), min_size=0, max_size=6).map(lambda parts: [one for part in parts for one in part])
limits = st.one_of(st.none(), st.integers(0, 200))


@given(conversations, limits, st.one_of(st.none(), st.integers(0, 6)))
def test_a_tail_never_begins_inside_a_turn(said: list[Message], tokens: int | None, count: int | None) -> None:
    tail = choose_tail(said, keep_tokens=tokens, keep_turns=count, count=of_size)
    assert tail == 0 or said[tail].role == "user"


@given(conversations, limits, st.one_of(st.none(), st.integers(0, 6)))
def test_a_tail_never_parts_a_call_from_its_results(said: list[Message], tokens: int | None, count: int | None) -> None:
    tail = choose_tail(said, keep_tokens=tokens, keep_turns=count, count=of_size)
    asked: set[str] = set()
    for message in said[tail:]:
        assert message.tool_call_id is None or message.tool_call_id in asked
        asked |= {call.id for call in message.tool_calls}


@given(conversations, limits, st.one_of(st.none(), st.integers(0, 6)))
def test_a_tail_is_within_its_limits_or_the_last_turn_alone(
    said: list[Message], tokens: int | None, count: int | None
) -> None:
    tail = choose_tail(said, keep_tokens=tokens, keep_turns=count, count=of_size)
    starts = turn_starts(said)
    fits = tokens is None or count_tokens(said[tail:], of_size) <= tokens
    few = count is None or len([start for start in starts if start >= tail]) <= count
    assert (fits and few) or tail == starts[-1]


@given(conversations, limits, st.one_of(st.none(), st.integers(1, 6)))
def test_a_tail_is_as_long_as_its_limits_allow(said: list[Message], tokens: int | None, count: int | None) -> None:
    tail = choose_tail(said, keep_tokens=tokens, keep_turns=count, count=of_size)
    longer = [start for start in turn_starts(said) if start < tail]
    if longer:
        turns_kept = len([start for start in turn_starts(said) if start >= longer[-1]])
        too_big = tokens is not None and count_tokens(said[longer[-1] :], of_size) > tokens
        assert too_big or (count is not None and turns_kept > count)


@given(conversations)
def test_without_limits_everything_is_kept(said: list[Message]) -> None:
    assert choose_tail(said) == 0


def test_a_user_who_speaks_while_a_tool_runs_begins_no_turn() -> None:
    call = Message.assistant(tool_calls=[ToolCall(id="c", name="f")])
    said = [Message.user("1"), call, Message.user("2"), Message.tool_result("c", "x"), Message.user("3")]
    assert turn_starts(said) == [0, 4]


def test_a_call_id_that_is_used_again_belongs_to_the_newest_call() -> None:
    call, result = Message.assistant(tool_calls=[ToolCall(id="c", name="f")]), Message.tool_result("c", "x")
    assert turn_starts([Message.user("1"), call, result, Message.user("2"), call, result]) == [0, 3]


# when


@given(conversations)
def test_an_estimate_grows_with_what_is_said(said: list[Message]) -> None:
    assert count_tokens(said) >= sum(map(of_size, said)) / 4


def test_every_kind_of_content_weighs_something() -> None:
    empty = estimate_tokens(Message.user())
    for message in (
        Message.user("hello there"),
        Message.user("京都"),
        Message.user(Code(code="print()")),
        Message.user(JsonPart(value={"a": 1})),
        Message.user(Image(url="https://example.com/a.png")),
        Message.user(attachments=[Attachment(type="code", name="a", content="x = 1")]),
        Message.user(attachments=[Attachment(type="image", name="a", data=b"x")]),
        Message.assistant(tool_calls=[ToolCall(id="c", name="f", arguments={"a": 1})]),
        Message.assistant(reasoning="hm, let me see"),
    ):
        assert estimate_tokens(message) > empty


@pytest.mark.parametrize(
    ("limit", "threshold", "due"),
    [(100, 0.8, True), (125, 0.8, True), (126, 0.8, False), (100, 1.0, True), (101, 1.0, False), (None, 0.8, False)],
)
def test_compaction_is_due_near_the_limit(limit: int | None, threshold: float, due: bool) -> None:
    said = [Message.user("x")] * 10
    assert should_compact(said, limit, threshold=threshold, count=lambda _: 10) is due


@pytest.mark.parametrize("threshold", [0, -1, 1.5, True, "x", float("nan")])
def test_a_threshold_is_a_share(threshold: float) -> None:
    with pytest.raises(InvalidInput):
        should_compact([], 100, threshold=threshold)


@pytest.mark.parametrize("limit", [-1, 1.5, True, "x"])
def test_a_limit_is_a_whole_number(limit: int) -> None:
    with pytest.raises(InvalidInput):
        choose_tail([], keep_tokens=limit)
    with pytest.raises(InvalidInput):
        choose_tail([], keep_turns=limit)


# what a model sees


@given(conversations, st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=4))
def test_the_view_is_the_last_summary_and_everything_from_its_tail_on(
    said: list[Message], compactions: list[tuple[int, bool]]
) -> None:
    path = list[Message]()
    expected: tuple[Message | None, list[Message]] = (None, said)
    for at, message in enumerate(said):
        path.append(message)
        for tail, summarised in [one for place, one in enumerate(compactions) if place == at]:
            start = said[tail % (at + 1)]
            path.append(Message(role="user", is_compaction=True, compaction=Compaction(tail_start_id=start.id)))
            if summarised:
                path.append(Message.assistant("short", is_summary=True))
                expected = (path[-1], said[tail % (at + 1) :])
    found = view(path)
    assert (found.summary, found.live) == expected
