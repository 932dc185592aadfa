"""A strategy says when a loop checkpoints."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from holdfast.errors import InvalidInput
from holdfast.strategies import Event, Strategy

EVENTS: tuple[Event, ...] = get_args(Event)


def due(strategy: Strategy, iterations: int = 6) -> list[tuple[int, Event]]:
    """When a strategy says yes in a loop in which every iteration has every event."""
    seen = product(range(1, iterations + 1), EVENTS)
    return [(iteration, event) for iteration, event in seen if strategy.due(event, iteration)]


def test_a_loop_checkpoints_after_each_tool_call_unless_told_otherwise() -> None:
    assert due(Strategy(), 2) == due(Strategy.after_tool_calls(), 2) == [(1, "tool_call"), (2, "tool_call")]


def test_two_tool_calls_of_one_iteration_are_two_checkpoints() -> None:
    strategy = Strategy.after_tool_calls()
    assert [strategy.due("tool_call", 1) for _ in range(2)] == [True, True]


def test_a_loop_can_checkpoint_after_each_response_of_the_model() -> None:
    assert due(Strategy.after_responses(), 2) == [(1, "model_response"), (2, "model_response")]


def test_a_loop_can_checkpoint_never() -> None:
    assert due(Strategy.never()) == []


@pytest.mark.parametrize(("every", "iterations"), [(1, [1, 2, 3, 4, 5, 6]), (2, [2, 4, 6]), (4, [4]), (7, [])])
def test_a_loop_can_checkpoint_every_so_many_iterations(every: int, iterations: list[int]) -> None:
    assert due(Strategy.every_iterations(every)) == [(iteration, "iteration") for iteration in iterations]


def test_an_iteration_that_matches_is_due_once() -> None:
    strategy = Strategy.every_iterations(2)
    assert [strategy.due("iteration", number) for number in (1, 2, 2, 2, 3, 4, 4)] == [
        *(False, True, False, False, False),
        *(True, False),
    ]


def test_iterations_count_from_one() -> None:
    assert not Strategy.every_iterations(1).due("iteration", 0)


@pytest.mark.parametrize("every", [0, -1, 1.5, True, "2", None])
def test_every_no_iterations_is_refused(every: int) -> None:
    with pytest.raises(InvalidInput):
        Strategy.every_iterations(every)


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(InvalidInput):
        Strategy("sunrise")  # type: ignore[arg-type]
