"""Checkpoints on a timer: what it does is waited for, with a limit; what it must not do is seen once it has stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.automatic import Automatic
from holdfast.client import Holdfast
from holdfast.errors import InvalidInput, NotFound
from holdfast.testing.domain_checkpoints import begin, ids
from holdfast.testing.driving import Again, HoldfastKit, users

LIMIT_S = 10


def eventually(condition: Callable[[], object]) -> None:
    """Wait for something that another thread brings about."""
    until = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.002)


def schedulers() -> int:
    """How many timers are at work in this process."""
    return sum(thread.name == "holdfast-automatic" for thread in threading.enumerate())


class AutomaticKit(HoldfastKit):
    """Subclass it as `TestMyTimers` and say how to `open` the store; never override a test."""

    def test_a_timer_makes_its_first_checkpoint_promptly(self, hf: Holdfast) -> None:
        begin(hf, "a")
        with hf.checkpoints.automatic("scout") as timer:
            eventually(lambda: timer.taken)
        assert [one.kind for one in hf.checkpoints.list("scout")] == ["automatic"]

    def test_a_timer_makes_none_while_nothing_changes(self, hf: Holdfast) -> None:
        for agent in ("scout", "busy"):
            begin(hf, agent=agent)
        with _timer(hf, "scout") as still, _timer(hf, "busy") as busy:
            for number in range(10):
                hf.agents.set_state("busy", "n", number)
                eventually(lambda seen=number: busy.taken > seen and still.taken)  # type: ignore[misc]
        assert still.taken == 1

    def test_a_timer_sees_every_sort_of_change(self, hf: Holdfast) -> None:
        begin(hf, "a", "b")
        changes: list[Callable[[], object]] = [
            lambda: hf.agents.set_state("scout", "n", 2),
            lambda: hf.sessions.append("a", *users("more")),
            lambda: hf.sessions.create(id="c", agent_id="scout"),
            lambda: hf.sessions.delete("b"),
            lambda: hf.checkpoints.delete(hf.checkpoints.list("scout")[0].id),
        ]
        with _timer(hf, "scout", keep=100) as timer:
            for number, change in enumerate(changes):
                eventually(lambda taken=number: timer.taken > taken)  # type: ignore[misc]
                change()
            eventually(lambda: timer.taken > len(changes))

    def test_a_timers_retention_touches_automatic_ones_only(self, hf: Holdfast) -> None:
        begin(hf)
        kept = [hf.checkpoints.create("scout", kind=kind) for kind in ("manual", "pre_operation", "recovery")]
        hf.agents.set_state("scout", "n", 0)
        with _timer(hf, "scout", keep=2) as timer:
            for number in range(1, 6):
                eventually(lambda taken=number: timer.taken >= taken)  # type: ignore[misc]
                hf.agents.set_state("scout", "n", number)
        found = hf.checkpoints.list("scout")
        assert len([one for one in found if one.kind == "automatic"]) == 2
        assert ids(found)[-3:] == ids(reversed(kept))

    def test_starting_twice_is_one_scheduler(self, hf: Holdfast) -> None:
        begin(hf)
        before = schedulers()
        timer = hf.checkpoints.automatic("scout").start()
        assert timer.start() is hf.checkpoints.automatic("scout", every_s=1).start() is timer
        assert schedulers() == before + 1
        eventually(lambda: timer.taken)
        timer.stop()
        assert (schedulers(), len(hf.checkpoints.list("scout"))) == (before, 1)

    def test_a_timer_makes_none_after_stop_and_none_before_start(self, hf: Holdfast) -> None:
        begin(hf)
        before = schedulers()
        timer = _timer(hf, "scout")
        assert (schedulers(), timer.running) == (before, False)
        timer.start()
        eventually(lambda: timer.taken)
        timer.stop()
        assert (schedulers(), timer.running) == (before, False)
        timer.stop()

    def test_a_timer_that_is_not_enabled_does_not_start(self, hf: Holdfast) -> None:
        begin(hf)
        before = schedulers()
        with hf.checkpoints.automatic("scout", enabled=False) as timer:
            assert (timer.running, schedulers()) == (False, before)

    def test_what_goes_wrong_in_a_timer_is_raised_when_it_stops(self, hf: Holdfast) -> None:
        begin(hf)
        timer = _timer(hf, "scout").start()
        eventually(lambda: timer.taken)
        hf.agents.delete("scout")
        eventually(lambda: timer.error)
        with pytest.raises(NotFound, match="scout"):
            timer.stop()
        timer.stop()

    def test_closing_stops_every_timer(self, hf: Holdfast, again: Again) -> None:
        for agent in ("scout", "other"):
            begin(hf, agent=agent)
        before = schedulers()
        for agent in ("scout", "other"):
            hf.checkpoints.automatic(agent).start()
        assert schedulers() == before + 2
        again()
        eventually(lambda: schedulers() == before)

    @pytest.mark.parametrize("wrong", [{"every_s": 0}, {"every_s": -1}, {"keep": 0}, {"every_s": "often"}])
    def test_a_timer_that_makes_no_sense_is_refused(self, hf: Holdfast, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            hf.checkpoints.automatic("scout", **wrong)


def _timer(hf: Holdfast, agent: str, keep: int = 10) -> Automatic:
    return hf.checkpoints.automatic(agent, every_s=0.005, keep=keep)
