"""Who may drive a session: one run at a time, in any process, as long as its lease lasts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.contracts import Put, Query, RecordStore
from holdfast.driver import Driver
from holdfast.errors import Busy, Conflict, InvalidInput, NotFound
from holdfast.kinds import EVENTS, EXECUTIONS, HOLDS, RUNS
from holdfast.model import Agent, Message
from holdfast.run_records import Hold, hold_record, read_hold
from holdfast.testing.driving import Again, HoldfastKit, texts, users
from holdfast.testing.records import dump
from holdfast.testing.run_programs import Hand, StoreClock, begin, drive, events, parallel, until_killed

WRITES: list[Callable[[Driver], Any]] = [
    lambda run: run.append(Message.user("late")),
    lambda run: run.step("model", lambda: "late"),
    lambda run: run.tool("look", lambda: "late"),
    lambda run: run.checkpoint(),
    lambda run: run.stream("late"),
    lambda run: run.complete(),
    lambda run: run.fail("late"),
]


ENDS = [("complete", "completed", None), ("fail", "failed", "because"), ("halt", "halted", "because")]


def hold(store: RecordStore) -> Hold:
    """The only hold there is."""
    (record,) = store.scan(Query(kind=HOLDS))
    return read_hold(record)


def plant(store: RecordStore, **changes: Any) -> None:
    """Let the only hold be somebody else's."""
    store.commit([Put(hold_record(replace(hold(store), **changes)))])


def dead_pid() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


class RunHoldTests(HoldfastKit):
    """Holding a session, losing it, and what that keeps others from."""

    # one at a time

    def test_a_second_run_is_busy_at_once_and_is_told_who_has_the_session(self, hf: Holdfast) -> None:
        begin(hf)
        run = hf.runs.start("s", key="k")
        for key in (None, "other", "k"):
            with pytest.raises(Busy, match=run.id):
                hf.runs.start("s", key=key)
        assert [one.status for one in hf.runs.list("s")] == ["running"]

    def test_another_client_is_busy_too(self, hf: Holdfast, store: RecordStore) -> None:
        begin(hf)
        hf.runs.start("s", key="k")
        with pytest.raises(Busy):
            Holdfast(store).runs.start("s", key="k")

    def test_a_run_keeps_nobody_from_appending_or_from_other_sessions(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        begin(hf, "other")
        run = hf.runs.start("s")
        run.append(Message.user("mine"))
        hf.sessions.append("s", *users("theirs"))
        run.append(Message.user("mine again"))
        hf.runs.start("other").complete()
        run.complete()
        assert texts(again(), "s") == ["be brief", "mine", "theirs", "mine again"]

    @pytest.mark.parametrize("end", ["complete", "fail", "halt"])
    def test_the_end_of_a_run_frees_its_session_and_says_why(self, hf: Holdfast, again: Again, end: str) -> None:
        begin(hf)
        run = hf.runs.start("s", key="k")
        ended = run.complete() if end == "complete" else getattr(run, end)("because")
        assert (end, ended.status, ended.reason) in ENDS
        assert again().runs.get(run.id) == ended
        again().runs.start("s", key="other").complete()

    def test_an_exception_ends_a_run_as_failed_and_goes_on(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        with pytest.raises(ValueError, match="no good"), hf.runs.start("s") as run:
            raise ValueError("no good \ud800")
        found = again().runs.get(run.id)
        assert found is not None
        assert (found.status, found.reason) == ("failed", "ValueError: no good ?")

    def test_an_interrupt_ends_a_run_as_halted(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        with pytest.raises(KeyboardInterrupt), hf.runs.start("s") as run:
            raise KeyboardInterrupt
        found = again().runs.get(run.id)
        assert found is not None
        assert (found.status, found.reason) == ("halted", "KeyboardInterrupt: ")

    def test_switching_deleting_and_restoring_wait_for_the_end(self, hf: Holdfast) -> None:
        hf.agents.save(Agent(id="scout", name=""))
        begin(hf, agent_id="scout")
        made = [hf.checkpoints.create("scout"), hf.checkpoints.create(session_id="s")]
        run = hf.runs.start("s")
        attempts: list[Callable[[], Any]] = [
            lambda: hf.sessions.switch("s", 1),
            lambda: hf.checkpoints.restore(made[0].id),
            lambda: hf.checkpoints.restore(made[1].id),
            lambda: hf.sessions.delete("s"),
            lambda: hf.agents.delete("scout"),
        ]
        for attempt in attempts:
            with pytest.raises(Busy, match=run.id):
                attempt()
        run.complete()
        for attempt in attempts:
            attempt()

    # the lease

    @pytest.mark.parametrize("write", WRITES)
    def test_who_has_lost_the_session_to_another_writes_nothing(
        self, hf: Holdfast, store: RecordStore, write: Callable[[Driver], Any]
    ) -> None:
        begin(hf)
        clock = StoreClock(store)
        late = hf.runs.start("s", key="k")
        clock.pass_s(31)
        with hf.runs.start("s", key="other"):
            before = dump(store)
            with pytest.raises(Conflict):
                write(late)
            assert dump(store) == before
        found = hf.runs.get(late.id)
        assert found is not None
        assert (found.status, found.reason) == ("halted", "lapsed: its holder died")

    @pytest.mark.parametrize("write", WRITES)
    def test_who_has_outlived_the_lease_writes_nothing(
        self, hf: Holdfast, store: RecordStore, write: Callable[[Driver], Any]
    ) -> None:
        begin(hf)
        clock = StoreClock(store)
        late = hf.runs.start("s", key="k", lease_s=5)
        clock.pass_s(6)
        before = dump(store)
        with pytest.raises(Conflict):
            write(late)
        assert dump(store) == before

    def test_a_lease_that_is_renewed_does_not_lapse(self, hf: Holdfast, store: RecordStore) -> None:
        begin(hf)
        clock = StoreClock(store)
        run = hf.runs.start("s")
        for _ in range(3):
            clock.pass_s(20)
            assert run._recorder.renew()
            with pytest.raises(Busy):
                hf.runs.start("s")
        run.complete()
        clock.pass_s(31)
        assert not run._recorder.renew()

    def test_a_run_in_another_process_of_this_host_lapses_when_that_dies(
        self, hf: Holdfast, store: RecordStore
    ) -> None:
        begin(hf)
        first = hf.runs.start("s", key="k")
        plant(store, pid=dead_pid())
        second = hf.runs.start("s", key="k")
        assert (second.id, second.record.epoch) == (first.id, first.record.epoch + 1)

    def test_a_process_that_has_the_number_of_a_dead_one_holds_nothing(self, hf: Holdfast, store: RecordStore) -> None:
        begin(hf)
        hf.runs.start("s", key="k")
        plant(store, born="1")
        hf.runs.start("s", key="k").complete()

    def test_a_run_on_another_host_lapses_when_its_lease_does(self, hf: Holdfast, store: RecordStore) -> None:
        begin(hf)
        clock = StoreClock(store)
        hf.runs.start("s", key="k")
        plant(store, host="elsewhere", pid=dead_pid())
        clock.pass_s(29)
        with pytest.raises(Busy):
            hf.runs.start("s", key="k")
        clock.pass_s(1)
        hf.runs.start("s", key="k").complete()

    def test_closing_lets_go_of_the_session_and_not_of_the_run(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        run = hf.runs.start("s", key="k")
        hf = again()
        assert [one.status for one in hf.runs.list("s")] == ["running"]
        assert hf.runs.start("s", key="k").complete().id == run.id

    # ended from outside

    def test_a_run_that_is_halted_from_outside_can_be_entered_again(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        run = hf.runs.start("s", key="k")
        halted = hf.runs.halt(run.id, "enough")
        assert (halted.status, halted.reason) == ("halted", "enough")
        assert hf.runs.halt(run.id, "again") == halted
        with pytest.raises(Conflict):
            run.append(Message.user("late"))
        assert again().runs.start("s", key="k").complete().id == run.id

    def test_a_restore_waits_for_a_run_and_can_be_undone(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        made = hf.checkpoints.create(session_id="s")
        run = hf.runs.start("s", key="k")
        run.append(Message.user("more"))
        with pytest.raises(Busy, match=run.id):
            hf.checkpoints.restore(made.id)
        run.complete()
        restored = hf.checkpoints.restore(made.id)
        assert texts(hf, "s") == ["be brief"]
        again().checkpoints.restore(restored.recovery.id)
        assert texts(again(), "s") == ["be brief", "more"]

    def test_a_restore_by_force_revokes_the_runs_it_meets(self, hf: Holdfast, again: Again) -> None:
        hf.agents.save(Agent(id="scout", name=""))
        begin(hf, agent_id="scout")
        made = hf.checkpoints.create("scout")
        begin(hf, "newer", agent_id="scout")
        held = [hf.runs.start(id, key="k") for id in ("s", "newer")]
        held[0].append(Message.user("more"))
        restored = hf.checkpoints.restore(made.id, force=True)
        assert [(one.status, one.reason) for one in (hf.runs.list("s") + hf.runs.list("newer"))] == [  # type: ignore[operator]
            ("halted", "revoked")
        ] * 2
        for run in held:
            with pytest.raises(Conflict):
                run.append(Message.user("late"))
        assert (texts(hf, "s"), restored.detached) == (["be brief"], ["newer"])
        again().checkpoints.restore(restored.recovery.id)
        assert texts(again(), "s") == ["be brief", "more"]

    # what goes with a session

    def test_deleting_a_session_takes_its_runs_with_it(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="kept")
        before = dump(store)
        begin(hf)
        drive(hf, parallel(Hand()))
        run_id = until_killed(hf, parallel(Hand(1)), key="unfinished")
        hf.runs.halt(run_id)
        assert {record.kind for record in dump(store)} >= {RUNS, EVENTS, HOLDS, EXECUTIONS}
        hf.sessions.delete("s")
        assert hf.runs.get(run_id) is None
        assert dump(store) == before

    # bad input

    @pytest.mark.parametrize(
        "given",
        [
            {"mode": "rewind"},
            {"in_flight": "hope"},
            {"lease_s": 0},
            {"lease_s": float("inf")},
            {"lease_s": "long"},
            {"key": ""},
            {"timeout": -1},
        ],
    )
    def test_a_run_that_makes_no_sense_is_refused(self, hf: Holdfast, given: dict[str, Any]) -> None:
        begin(hf)
        with pytest.raises(InvalidInput):
            hf.runs.start("s", **given)
        assert hf.runs.list("s") == []

    def test_what_is_not_there_cannot_be_driven_halted_or_followed(self, hf: Holdfast) -> None:
        attempts: list[Callable[[], Any]] = [
            lambda: hf.runs.start("nowhere"),
            lambda: hf.runs.halt("nothing"),
            lambda: list(hf.runs.events("nothing")),
            lambda: list(hf.runs.follow("nothing")),
        ]
        for attempt in attempts:
            with pytest.raises(NotFound):
                attempt()
        assert (hf.runs.get("nothing"), list(hf.runs.list("nowhere"))) == (None, [])

    def test_runs_are_listed_the_newest_first(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        made = [hf.runs.start("s", key=str(number)).complete() for number in range(5)]
        assert list(again().runs.list("s", limit=2, offset=1)) == made[3:1:-1]
        assert events(again(), made[0].id) == [("started", None), ("ended", "completed")]
