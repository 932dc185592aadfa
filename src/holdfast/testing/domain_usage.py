"""Usage: what model calls took, each use counted once, by whom and at what price."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.errors import AlreadyExists, InvalidInput, NotFound
from holdfast.model import Agent, Message, Price, SessionStats, Usage, UsageTotal
from holdfast.testing.driving import NOON, Again, HoldfastKit, users
from holdfast.testing.records import dump


def used(input: int, **fields: Any) -> Message:
    """An answer that took so many tokens."""
    return Message.assistant("hi", usage=Usage(input=input, created_at=NOON, **fields))


def inputs(totals: list[UsageTotal]) -> dict[str | None, int]:
    """The input tokens of totals by their key."""
    return {one.key: one.input for one in totals}


class UsageKit(HoldfastKit):
    """Subclass it as `TestMyUsage` and say how to `open` the store; never override a test."""

    # recording

    def test_a_use_of_no_message_is_recorded_once(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        usage = Usage(id="u", provider="p", model="m", input=1, output=2, total=3, cost=0.5)
        recorded = hf.usage.record("s", usage)
        assert (recorded.session_id, recorded.message_id) == ("s", None)
        assert again().usage.record("s", usage) == recorded
        assert again().usage.list("s") == [recorded]

    def test_a_use_with_the_id_of_another_is_refused(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        recorded = hf.usage.record("s", Usage(id="u", input=1))
        with pytest.raises(AlreadyExists):
            hf.usage.record("s", Usage(id="u", input=2))
        assert again().usage.list("s") == [recorded]

    def test_uses_are_listed_in_append_order_whatever_their_clock(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        first, *_ = hf.sessions.append("s", used(1), *users("no use"), used(2))
        hf.usage.record("s", Usage(input=3, created_at=NOON - timedelta(days=3)))
        hf.usage.record("s", Usage(input=4, created_at=NOON - timedelta(days=4)))
        hf.sessions.append("s", used(5), parent=first.id)
        hf.usage.record("s", Usage(input=6))
        hf.sessions.switch("s", 1)
        hf.sessions.append("s", used(7))
        found = again().usage.list("s")
        assert [one.input for one in found] == [1, 2, 3, 4, 5, 6, 7]
        assert [one.message_id is None for one in found] == [False, False, True, True, False, True, False]
        assert found[0].message_id == first.id

    def test_uses_that_cannot_be_kept_are_refused(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        before = dump(store)
        for usage in (5, Usage(input="5"), Usage(id=""), Usage(message_id="m"), Usage(session_id="other")):  # type: ignore[arg-type]
            with pytest.raises(InvalidInput):
                hf.usage.record("s", usage)  # type: ignore[arg-type]
        assert dump(store) == before

    def test_what_is_not_there_is_nothing_zero_or_not_found(self, hf: Holdfast) -> None:
        assert hf.usage.list("none") == []
        assert hf.usage.totals(session_id="none") == [UsageTotal()]
        assert (hf.usage.totals(), hf.usage.totals(by="agent")) == ([UsageTotal()], [])
        with pytest.raises(NotFound):
            hf.usage.record("none", Usage(input=1))

    # totals

    def test_totals_sum_messages_and_other_uses(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        (message,) = hf.sessions.append("s", used(100, output=50))
        hf.sessions.update_usage("s", message.id, Usage(input=200, output=80, cache_read=7, cost=0.25))
        hf.usage.record("s", Usage(input=10, output=5, total=20, cache_write=3, cost=0.5))
        assert again().usage.totals() == [
            UsageTotal(uses=2, input=210, output=85, total=300, cache_read=7, cache_write=3, cost=0.75)
        ]

    def test_totals_are_by_agent_user_model_and_day(self, hf: Holdfast, again: Again) -> None:
        for number, (agent, user) in enumerate([("a", "u"), ("a", "v"), ("b", "u"), (None, None)]):
            hf.sessions.create(id=str(number), agent_id=agent, user_id=user)
            at = NOON + timedelta(days=number // 2)
            hf.usage.record(str(number), Usage(input=10**number, model="xy"[number % 2], created_at=at))
        hf = again()
        assert inputs(hf.usage.totals(by="agent")) == {"a": 11, "b": 100, None: 1000}
        assert inputs(hf.usage.totals(by="user")) == {"u": 101, "v": 10, None: 1000}
        assert inputs(hf.usage.totals(by="model")) == {"x": 101, "y": 1010}
        assert inputs(hf.usage.totals(by="day")) == {"2026-01-01": 11, "2026-01-02": 1100}
        assert [one.key for one in hf.usage.totals(by="agent")] == ["a", "b", None]

    def test_totals_are_of_what_the_filters_leave(self, hf: Holdfast, again: Again) -> None:
        for number, (agent, user) in enumerate([("a", "u"), ("a", "v"), ("b", "u")]):
            hf.sessions.create(id=str(number), agent_id=agent, user_id=user)
            at = NOON + timedelta(hours=number)
            hf.sessions.append(
                str(number), Message.user("x", usage=Usage(input=10**number, model=agent, created_at=at))
            )
        hf, hour = again(), timedelta(hours=1)
        cases: list[tuple[dict[str, Any], int]] = [
            ({"agent_id": "a"}, 11),
            ({"user_id": "u"}, 101),
            ({"agent_id": "a", "user_id": "u"}, 1),
            ({"session_id": "2"}, 100),
            ({"session_id": "2", "agent_id": "a"}, 0),
            ({"model": "b"}, 100),
            ({"since": NOON + hour}, 110),
            ({"until": NOON + hour}, 1),
            ({"since": NOON + hour, "until": NOON + 2 * hour}, 10),
            ({"agent_id": "none"}, 0),
        ]
        for chosen, expected in cases:
            assert inputs(hf.usage.totals(**chosen)) == {None: expected}

    def test_totals_of_nonsense_are_refused(self, hf: Holdfast) -> None:
        cases: list[dict[str, Any]] = [{"by": "week"}, {"model": 5}, {"since": datetime(2026, 1, 1)}, {"agent_id": ""}]
        for nonsense in cases:
            with pytest.raises(InvalidInput):
                hf.usage.totals(**nonsense)

    # sharing

    def test_a_message_that_a_fork_shares_counts_once_in_all_and_once_in_each(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s", agent_id="a", user_id="u")
        _, second = hf.sessions.append("s", used(1), used(10))
        hf.sessions.append("s", used(100))
        hf.sessions.fork("s", id="f", at=second.id)
        hf.sessions.update("f", agent_id="b", user_id="v")
        hf.sessions.append("f", used(1000))
        hf = again()
        assert inputs(hf.usage.totals()) == {None: 1111}
        assert inputs(hf.usage.totals(by="agent")) == {"a": 111, "b": 1000}
        assert inputs(hf.usage.totals(user_id="v")) == {None: 1000}
        assert [inputs(hf.usage.totals(session_id=id)) for id in ("s", "f")] == [{None: 111}, {None: 1011}]
        assert [hf.sessions.stats(id).input_tokens for id in ("s", "f")] == [111, 1011]

    def test_what_a_fork_shares_counts_for_it_when_its_source_is_gone(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s", agent_id="a")
        _, second = hf.sessions.append("s", used(1), used(10))
        hf.sessions.append("s", used(100))
        for id in ("f", "g"):
            hf.sessions.fork("s", id=id, at=second.id)
            hf.sessions.update(id, agent_id=id)
        hf.sessions.delete("s")
        assert inputs(again().usage.totals(by="agent")) == {"f": 11}

    def test_answers_on_other_branches_were_paid_for(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        first, _ = hf.sessions.append("s", used(1), used(10))
        hf.sessions.append("s", used(100), parent=first.id)
        assert inputs(hf.usage.totals()) == {None: 111}

    def test_detached_sessions_count_only_by_their_id(self, hf: Holdfast) -> None:
        hf.agents.save(Agent(id="a", name=""))
        point = hf.checkpoints.create("a")
        hf.sessions.create(id="s", agent_id="a")
        hf.sessions.append("s", used(1))
        hf.usage.record("s", Usage(input=10))
        hf.checkpoints.restore(point.id)
        assert inputs(hf.usage.totals()) == {None: 0}
        assert inputs(hf.usage.totals(session_id="s")) == {None: 11}

    def test_what_a_detached_session_shares_counts_for_the_fork(self, hf: Holdfast) -> None:
        hf.agents.save(Agent(id="a", name=""))
        point = hf.checkpoints.create("a")
        hf.sessions.create(id="s", agent_id="a")
        (first,) = hf.sessions.append("s", used(1))
        hf.sessions.append("s", used(10))
        hf.sessions.fork("s", id="f", at=first.id)
        hf.sessions.update("f", agent_id="b")
        hf.checkpoints.restore(point.id)
        assert inputs(hf.usage.totals(by="agent")) == {"b": 1}

    # figures

    def test_the_figures_of_a_session_add_up(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", *users(*"12345678"))
        for input, output in ((100, 50), (200, 80)):
            hf.sessions.append("s", Message.assistant("hi", usage=Usage(input=input, output=output)))
        for ms in (100, 200):
            hf.executions.finish(hf.executions.start("s", "t").id, duration_ms=ms)
        hf.executions.fail(hf.executions.start("s", "t").id, "why", duration_ms=300)
        assert again().sessions.stats("s") == SessionStats(
            messages=10,
            tool_calls=3,
            succeeded=2,
            failed=1,
            input_tokens=300,
            output_tokens=130,
            total_tokens=430,
            average_tool_ms=200,
        )

    def test_the_average_is_cut_and_leaves_out_what_still_runs(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        for ms in (1, 2):
            hf.executions.finish(hf.executions.start("s", "t").id, duration_ms=ms)
        hf.executions.start("s", "t")
        found = hf.sessions.stats("s")
        assert (found.tool_calls, found.succeeded, found.failed, found.average_tool_ms) == (3, 2, 0, 1)

    def test_the_figures_of_an_unknown_session_are_zeros(self, hf: Holdfast) -> None:
        assert hf.sessions.stats("none") == SessionStats()

    def test_figures_are_of_all_branches_and_of_what_a_fork_shares(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        said = hf.sessions.append("s", *users("1", "2", "3"))
        hf.sessions.append("s", *users("4"), parent=said[0].id)
        hf.sessions.fork("s", id="f", at=said[1].id)
        hf.sessions.append("f", *users("5"))
        assert [hf.sessions.stats(id).messages for id in ("s", "f")] == [4, 3]

    # prices

    def test_a_use_costs_what_it_says_or_what_its_model_costs(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        million = 1_000_000
        hf.usage.record("s", Usage(model="m", input=million, output=2 * million, cache_read=million // 2))
        hf.usage.record("s", Usage(model="m", input=million, cost=0.5))
        hf.usage.record("s", Usage(model="other", input=5))
        priced = Holdfast(store, prices={"m": Price(input=1, output=10, cache_read=0.5)})
        found = priced.usage.totals(by="model")
        assert [(one.key, one.cost, one.unpriced) for one in found] == [("m", 21.75, 0), ("other", 0.0, 1)]
        assert hf.usage.totals()[0].cost == 0.5

    @pytest.mark.parametrize("prices", [5, {"m": 5}, {5: Price()}, {"m": Price(input=-1)}, {"m": Price(output="1")}])  # type: ignore[arg-type]
    def test_a_price_is_a_number_from_zero(self, store: RecordStore, prices: Any) -> None:
        with pytest.raises(InvalidInput):
            Holdfast(store, prices=prices)
