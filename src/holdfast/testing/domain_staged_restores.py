"""Restores of more sessions than one commit can move: old or new for everybody, at every commit and in between."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from holdfast.backends.memory import MemoryStore
from holdfast.client import Holdfast, copy
from holdfast.errors import Busy, Conflict, ConnectionFailed
from holdfast.kinds import HEADS, RESTORES
from holdfast.model import Checkpoint, Usage
from holdfast.testing.domain_checkpoints import begin, said
from holdfast.testing.driving import Clock, Door, HoldfastKit, texts, users
from holdfast.testing.planting import BreaksOff, Meddles, crowd, small_commits
from holdfast.testing.records import dump

CROWD = 21  # sessions that are detached: two writes each, more than one small commit takes
MOST_COMMITS = 30


def settle_in(door: Door, count: int = CROWD) -> Checkpoint:
    """A checkpoint of an agent with sessions a and b; then both go on, and a crowd is new."""
    begin(door.hf, "a", "b")
    made = door.hf.checkpoints.create("scout")
    door.hf.agents.set_state("scout", "n", 2)
    for id in ("a", "b"):
        door.hf.sessions.append(id, *users(f"later {id}"))
    crowd(door.store, count)
    return made


def look(hf: Holdfast) -> list[Any]:
    """What the agent, its lists, its counts and its sessions a and b say."""
    agent = hf.agents.get("scout")
    assert agent is not None
    shown = [one.id for one in hf.sessions.list(agent_id="scout", order="created", limit=2000)]
    counts = (agent.active_sessions, hf.stats().sessions, len(shown))
    return [agent.state, sorted(shown), counts, texts(hf, "a"), texts(hf, "b")]


NEW = [{"n": 1}, ["a", "b"], (2, 2, 2), ["hello a"], ["hello b"]]


def left(door: Door) -> list[Any]:
    """What is left of restores under way."""
    return [one for one in dump(door.store) if one.kind is RESTORES or (one.kind is HEADS and b"pending" in one.body)]


def break_off_published(door: Door, made: Checkpoint) -> Holdfast:
    """Restore with a connection that breaks off ever later, until the restore counts and is not settled."""
    old = look(door.hf)
    for commits in range(MOST_COMMITS):
        with pytest.raises(ConnectionFailed):
            Holdfast(BreaksOff(door.store, commits)).checkpoints.restore(made.id)
        hf = door.reopen()
        assert hf.verify().problems == []
        if look(hf) != old:
            return hf
    raise AssertionError("the restore never came to count")


class StagedRestoreKit(HoldfastKit):
    """Subclass it as `TestMyStagedRestores` and say how to `open` the store; never override a test."""

    @pytest.fixture(autouse=True)
    def _commits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        small_commits(monkeypatch)

    def test_more_sessions_than_a_commit_takes_are_moved_and_detached_and_back(self, door: Door) -> None:
        begin(door.hf)
        old = crowd(door.store, CROWD)
        made = door.hf.checkpoints.create("scout")
        for name in old:
            door.hf.sessions.append(name, *users(f"later {name}"))
        new = crowd(door.store, CROWD, "new")
        result = door.hf.checkpoints.restore(made.id)
        assert (sorted(result.sessions), sorted(result.detached), result.missing) == (old, new, [])
        hf = door.reopen()
        assert (hf.stats().sessions, left(door)) == (CROWD, [])
        assert {len(texts(hf, name)) for name in old} == {0}
        undone = hf.checkpoints.restore(result.recovery.id)
        assert (len(undone.sessions), undone.detached) == (2 * CROWD, [])
        hf = door.reopen()
        assert (hf.stats().sessions, left(door)) == (2 * CROWD, [])
        assert [texts(hf, name) for name in old] == [[f"later {name}"] for name in old]

    def test_a_copy_of_what_is_not_settled_is_as_if_it_were(self, door: Door) -> None:
        break_off_published(door, settle_in(door))
        other = Holdfast(MemoryStore())
        copy(Holdfast(door.store), other)
        assert (look(other), other.verify().problems) == (NEW, [])
        assert len(other.checkpoints.heads(other.checkpoints.create("scout").id)) == 2

    def test_a_large_restore_that_breaks_off_is_old_or_new(self, door: Door) -> None:
        made = settle_in(door)
        hf = break_off_published(door, made)
        assert look(hf) == NEW
        hf.gc()
        assert (look(door.reopen()), left(door)) == (NEW, [])

    def test_what_is_published_counts_for_every_reader(self, door: Door) -> None:
        made = settle_in(door)
        for name in ("s0001", "a"):
            door.hf.sessions.append(name, *users(f"found in {name}"))
        hf = break_off_published(door, made)
        gone = hf.sessions.get("s0001")
        assert gone is not None
        assert (gone.detached_by is not None, len(left(door)) > 1) == (True, True)
        assert [hit.message.text for hit in hf.search("found")] == ["found in a"]
        assert hf.checkpoints.changed("scout")

    def test_what_is_published_is_listed_page_by_page(self, door: Door) -> None:
        hf = break_off_published(door, settle_in(door))
        first = hf.sessions.list(limit=1)
        second = hf.sessions.list(limit=1, cursor=first.cursor)
        assert (sorted([first[0].id, second[0].id]), second.cursor) == (["a", "b"], None)
        assert first[0].updated_at > second[0].updated_at

    def test_what_is_published_counts_for_every_writer(self, door: Door) -> None:
        hf = break_off_published(door, settle_in(door))
        with pytest.raises(Conflict):
            hf.sessions.append("s0001", *users("never"))
        hf.sessions.append("a", *users("another way"))
        hf.sessions.update("b", title="other")
        hf.checkpoints.create(session_id="b", messages=users("and here"))
        assert hf.sessions.attach("s0002").detached_by is None
        hf = door.reopen()
        assert (texts(hf, "a"), texts(hf, "b")) == (["hello a", "another way"], ["hello b", "and here"])
        assert (texts(hf, "a", branch=1), hf.stats().sessions) == (["hello a", "later a"], 3)

    def test_a_checkpoint_of_what_is_published_is_of_the_new_state(self, door: Door) -> None:
        hf = break_off_published(door, settle_in(door))
        hf.sessions.update("b", title="other")
        made = hf.checkpoints.create("scout")
        hf = door.reopen()
        assert (sorted(hf.checkpoints.heads(made.id)), said(hf, made, "a"), said(hf, made, "b")) == (
            ["a", "b"],
            ["hello a"],
            ["hello b"],
        )
        assert left(door) == []

    def test_what_is_published_can_be_undone_before_it_is_settled(self, door: Door) -> None:
        made = settle_in(door)
        before = look(door.hf)
        hf = break_off_published(door, made)
        recovery = hf.checkpoints.latest("scout")
        assert recovery is not None
        with pytest.raises(Conflict):
            hf.checkpoints.delete(recovery.id)
        hf.checkpoints.restore(recovery.id)
        assert (look(door.reopen()), left(door)) == (before, [])

    def test_deleting_an_agent_leaves_nothing_of_a_published_restore(self, door: Door) -> None:
        hf = break_off_published(door, settle_in(door))
        hf.agents.delete("scout")
        assert (door.reopen().verify().problems, dump(door.store)) == ([], [])

    def test_gc_takes_back_what_was_staged_a_day_ago(self, door: Door, clock: Clock) -> None:
        made = settle_in(door)
        before = look(door.hf)
        with pytest.raises(ConnectionFailed):
            Holdfast(BreaksOff(door.store, 6), clock=clock).checkpoints.restore(made.id)
        door.hf.gc()
        assert len(left(door)) > 1
        clock.now += timedelta(days=2)
        door.hf.gc()
        assert (look(door.reopen()), left(door), door.hf.checkpoints.changed("scout")) == (before, [], True)

    @pytest.mark.parametrize("commits", range(12))
    def test_sessions_that_move_meanwhile_are_restored_with_the_rest(self, door: Door, commits: int) -> None:
        made = settle_in(door)

        def meddle() -> None:
            other = Holdfast(door.store)
            other.sessions.append("s0001", *users("meanwhile"))
            other.sessions.update("s0002", title="meanwhile")
            other.sessions.delete("s0003")
            other.checkpoints.create(session_id="s0004")

        breaking = Meddles(door.store, commits, _unless_detached(meddle))
        result = Holdfast(breaking).checkpoints.restore(made.id)
        assert (look(door.reopen()), left(door)) == (NEW, [])
        undone = door.hf.checkpoints.restore(result.recovery.id)
        assert (len(undone.sessions) >= CROWD + 1, texts(door.hf, "a")) == (True, ["hello a", "later a"])

    @pytest.mark.parametrize("commits", [0, 3, 5, 6, 7, 8])
    def test_a_run_that_begins_meanwhile_stops_the_restore_and_nothing_is_left(self, door: Door, commits: int) -> None:
        made = settle_in(door)
        before = look(door.hf)
        runs = Holdfast(door.store)
        with pytest.raises(Busy, match="holds session"):
            Holdfast(Meddles(door.store, commits, lambda: runs.runs.start(session_id="s0001"))).checkpoints.restore(
                made.id
            )
        runs.runs._close()
        assert (look(door.hf), left(door)) == (before, [])

    @pytest.mark.parametrize("commits", [5, 6, 7, 8])
    def test_of_two_restores_at_a_time_one_is_done(self, door: Door, commits: int) -> None:
        made = settle_in(door)
        rival = Holdfast(door.store)
        with pytest.raises(Busy):
            Holdfast(Meddles(door.store, commits, lambda: rival.checkpoints.restore(made.id))).checkpoints.restore(
                made.id
            )
        assert (look(door.reopen()), left(door)) == (NEW, [])

    def test_what_was_used_counts_for_the_sessions_that_are_shown(self, door: Door) -> None:
        made = settle_in(door)
        for name in ("a", "s0001"):
            message = door.hf.sessions.append(name, *users("costly"))[0]
            door.hf.sessions.update_usage(name, message.id, Usage(input=10))
        hf = break_off_published(door, made)
        assert [total.input for total in hf.usage.totals()] == [10]


def _unless_detached(deed: Callable[[], None]) -> Callable[[], None]:
    """The deed, which comes too late once the restore counts."""

    def do() -> None:
        with contextlib.suppress(Conflict):
            deed()

    return do
