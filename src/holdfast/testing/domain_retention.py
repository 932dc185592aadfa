"""Checkpoints that go, by retention and with their owners, and what must not go with them."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from holdfast.capturing import stage
from holdfast.client import Holdfast
from holdfast.contracts import Record, RecordStore
from holdfast.errors import Conflict, ConnectionFailed, InvalidInput
from holdfast.kinds import CAPTURES
from holdfast.retention import Retention
from holdfast.testing.damage import spoilt
from holdfast.testing.domain_checkpoints import begin, ids
from holdfast.testing.domain_deletes import fill
from holdfast.testing.domain_restores import move_on
from holdfast.testing.driving import Again, Clock, Door, HoldfastKit, texts, users
from holdfast.testing.planting import BreaksOff, crowd, envelope, small_commits
from holdfast.testing.records import dump

CROWD = 28  # sessions: more than one small commit captures


def heads(hf: Holdfast) -> dict[str, object]:
    """Where every session stood at each of an agent's checkpoints."""
    return {one.id: dict(hf.checkpoints.heads(one.id)) for one in hf.checkpoints.list("scout")}


def mentions(store: RecordStore, *names: str) -> list[Record]:
    """The records that name any of these, in their key, their fields or their body."""
    found = []
    for record in dump(store):
        columns = [str(value) for value in (*record.key, *record.fields)]
        if any(name in columns or name.encode() in record.body for name in names):
            found.append(record)
    return found


class RetentionKit(HoldfastKit):
    """Subclass it as `TestMyRetention` and say how to `open` the store; never override a test."""

    # pruning

    @pytest.mark.parametrize("owner", [{"agent_id": "scout"}, {"session_id": "a"}])
    def test_a_prune_keeps_the_last_ones_and_says_which_went(
        self, hf: Holdfast, again: Again, owner: dict[str, str]
    ) -> None:
        begin(hf, "a")
        made = [hf.checkpoints.create(**owner) for _ in range(5)]  # type: ignore[arg-type]
        other = hf.checkpoints.create(
            "scout" if "session_id" in owner else None, session_id=owner.get("agent_id") and "a"
        )
        pruned = hf.checkpoints.prune(**owner, keep=2)  # type: ignore[arg-type]
        hf = again()
        assert (ids(pruned.checkpoints), pruned.count) == (ids(reversed(made[:3])), 3)
        assert ids(hf.checkpoints.list()) == ids([other, *reversed(made[3:])])

    def test_a_dry_run_says_what_the_deed_then_does(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        made = [hf.checkpoints.create("scout", name="n" if number == 1 else None) for number in range(5)]
        dry = hf.checkpoints.prune("scout", keep=1, dry_run=True)
        assert (ids(hf.checkpoints.list("scout")), dry.dry_run) == (ids(reversed(made)), True)
        assert again().checkpoints.prune("scout", keep=1).checkpoints == dry.checkpoints
        assert ids(again().checkpoints.list("scout")) == [made[4].id, made[1].id]

    def test_named_and_protected_ones_survive_and_no_kind_does_by_itself(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        kept = [hf.checkpoints.create("scout", name="x"), hf.checkpoints.create("scout", protected=True)]
        for kind in ("automatic", "manual", "pre_operation", "recovery"):
            hf.checkpoints.create("scout", kind=kind)
        newest = hf.checkpoints.create("scout")
        assert hf.checkpoints.prune("scout", keep=0).count == 4
        assert ids(again().checkpoints.list("scout")) == ids([newest, *reversed(kept)])

    def test_a_prune_can_look_at_one_kind_only(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        made = [hf.checkpoints.create("scout", kind=kind) for kind in ("automatic", "manual") * 3]
        hf.checkpoints.prune("scout", keep=1, kind="automatic")
        assert ids(again().checkpoints.list("scout")) == ids([made[5], made[4], made[3], made[1]])

    def test_a_policy_keeps_so_many_of_each_kind(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        made = [hf.checkpoints.create("scout", kind=kind) for kind in ("automatic", "manual") * 3]
        hf.checkpoints.prune("scout", policy=Retention(per_kind={"automatic": 2, "manual": 1}))
        assert ids(again().checkpoints.list("scout")) == ids([made[5], made[4], made[2]])

    def test_expiry_makes_eligible_strictly_after_its_time(self, hf: Holdfast, clock: Clock) -> None:
        begin(hf)
        made = hf.checkpoints.create("scout", ttl=60)
        hf.checkpoints.create("scout")
        assert made.expires_at == made.created_at + timedelta(seconds=60)
        clock.now = made.expires_at - timedelta(milliseconds=1)  # the clock goes on by one when it is asked
        assert hf.checkpoints.prune("scout").count == 0
        assert ids(hf.checkpoints.prune("scout").checkpoints) == [made.id]

    def test_reads_never_look_at_the_clock(self, hf: Holdfast, clock: Clock, again: Again) -> None:
        begin(hf)
        made = hf.checkpoints.create("scout", ttl=0)
        clock.now += timedelta(days=1)
        hf = again()
        assert hf.checkpoints.get(made.id) == hf.checkpoints.latest("scout") == made
        assert hf.checkpoints.prune("scout").count == 0
        assert ids(hf.checkpoints.list("scout")) == [made.id]

    @pytest.mark.parametrize("wrong", [{"keep": -1}, {"keep": 1, "policy": Retention()}, {"session_id": "a"}])
    def test_a_prune_that_makes_no_sense_is_refused(self, hf: Holdfast, wrong: dict[str, object]) -> None:
        begin(hf, "a")
        made = [hf.checkpoints.create("scout") for _ in range(2)]
        with pytest.raises(InvalidInput):
            hf.checkpoints.prune("scout", **wrong)  # type: ignore[arg-type]
        assert ids(hf.checkpoints.list("scout")) == ids(reversed(made))

    def test_the_recovery_checkpoint_survives_while_something_is_detached_by_it(
        self, hf: Holdfast, again: Again
    ) -> None:
        recovery = hf.checkpoints.restore(move_on(hf).id).recovery
        hf.checkpoints.create("scout")
        hf.checkpoints.prune("scout", keep=0)
        with pytest.raises(Conflict):
            hf.checkpoints.delete(recovery.id)
        assert again().checkpoints.has(recovery.id)
        again().sessions.attach("c")
        assert ids(again().checkpoints.prune("scout", keep=0).checkpoints) == [recovery.id]

    # what a prune leaves

    def test_any_checkpoints_can_go_and_the_others_stay_as_they_were(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a", "b", "c")
        random = Random(0)
        for number in range(20):
            hf.sessions.append(random.choice("abc"), *users(f"{number}"))
            hf.checkpoints.create("scout")
        while (known := heads(hf)) and len(known) > 1:
            gone = random.choice(list(known))
            hf.checkpoints.delete(gone)
            hf.gc()
            assert heads(hf) == {id: found for id, found in known.items() if id != gone}
        (last,) = heads(again())
        again().checkpoints.restore(last)

    def test_gc_takes_the_captures_that_no_checkpoint_needs(self, door: Door) -> None:
        begin(door.hf, "a")
        for number in range(10):
            door.hf.sessions.append("a", *users(f"{number}"))
            door.hf.checkpoints.create("scout")
        door.hf.checkpoints.prune("scout", keep=1)
        assert door.hf.gc().captures == 9
        assert [record.key[2] for record in dump(door.store) if record.kind is CAPTURES] == [10]
        assert door.hf.gc().captures == 0

    def test_gc_takes_no_branch_of_a_living_session(self, hf: Holdfast, again: Again) -> None:
        hf.checkpoints.restore(move_on(hf).id)
        hf.sessions.append("a", *users("another way"))
        hf.checkpoints.prune("scout", keep=0)
        hf.gc()
        assert texts(again(), "a", branch=1) == ["hello a", "later a"]

    def test_gc_keeps_what_a_damaged_checkpoint_may_need(self, door: Door) -> None:
        begin(door.hf, "a")
        made = door.hf.checkpoints.create("scout")
        door.hf.sessions.append("a", *users("later"))
        door.hf.checkpoints.create("scout")
        damaged = next(record for record in dump(door.store) if record.fields and record.fields[0] == made.id)
        before = heads(door.hf)
        with spoilt(door.store, damaged):
            assert door.hf.gc().captures == 0
            assert door.hf.checkpoints.prune("scout", keep=0).count == 0
        assert heads(door.reopen()) == before

    # owners that go

    def test_deleting_a_session_takes_its_checkpoints(self, door: Door) -> None:
        begin(door.hf, "kept")
        door.hf.checkpoints.create(session_id="kept")
        before = dump(door.store)
        door.hf.sessions.create(id="gone")
        made = [door.hf.checkpoints.create(session_id="gone", messages=users(f"{n}")) for n in range(3)]
        door.hf.checkpoints.restore(made[0].id)
        door.hf.sessions.delete("gone")
        assert door.hf.checkpoints.get(made[0].id) is None
        assert dump(door.store) == before

    def test_deleting_an_agent_takes_its_checkpoints_and_its_sessions(self, door: Door) -> None:
        begin(door.hf, "kept", agent="other")
        door.hf.checkpoints.create("other")
        before = dump(door.store)
        door.hf.checkpoints.restore(move_on(door.hf).id)
        door.hf.checkpoints.create(session_id="a")
        door.hf.agents.delete("scout")
        door.hf.gc()
        assert dump(door.store) == before

    def test_a_deleted_session_leaves_its_agents_records_with_the_checkpoints_that_knew_it(self, door: Door) -> None:
        begin(door.hf, "kept", "gone")
        door.hf.checkpoints.create("scout")
        names = ["gone", str(_uid(door.store, "gone"))]
        door.hf.sessions.delete("gone")
        door.hf.checkpoints.create("scout")
        door.hf.checkpoints.prune("scout", keep=1)
        door.hf.gc()
        assert mentions(door.store, *names) == []

    def test_a_session_deleted_before_any_checkpoint_leaves_nothing(self, door: Door) -> None:
        begin(door.hf, "kept", "gone")
        names = ["gone", str(_uid(door.store, "gone"))]
        door.hf.sessions.delete("gone")
        door.hf.gc()
        assert mentions(door.store, *names) == []

    @pytest.mark.parametrize("commits", [1, 2, 3])
    @pytest.mark.parametrize("forked", [False, True])
    def test_an_unfinished_delete_is_no_damage(self, door: Door, commits: int, forked: bool) -> None:
        first, _ = fill(door.hf, "s", agent_id="scout")
        made = door.hf.checkpoints.create(session_id="s")
        if forked:
            door.hf.sessions.fork("s", id="f", at=first.id)
        with pytest.raises(ConnectionFailed):
            Holdfast(BreaksOff(door.store, commits)).sessions.delete("s")
        hf = door.reopen()
        assert (hf.verify().problems, hf.checkpoints.has(made.id)) == ([], False)
        assert texts(hf, "f") == (["s 0"] if forked else [])

    @pytest.mark.parametrize("commits", [1, 2])
    def test_an_unfinished_copy_is_no_damage(self, door: Door, commits: int) -> None:
        fill(door.hf, "s")
        door.hf.sessions.switch("s", 1)
        with pytest.raises(ConnectionFailed):
            Holdfast(BreaksOff(door.store, commits)).sessions.fork("s", id="f", copy=True)
        hf = door.reopen()
        assert (hf.verify().problems, hf.sessions.get("f")) == ([], None)

    # more than one commit holds

    def test_more_sessions_than_one_commit_holds_are_one_checkpoint(
        self, door: Door, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        small_commits(monkeypatch)
        begin(door.hf)
        names = crowd(door.store, CROWD)
        made = door.hf.checkpoints.create("scout")
        door.hf.sessions.append(names[0], *users("later"))
        hf = door.reopen()
        found = hf.checkpoints.heads(made.id)
        assert (sorted(found), {head.seq for head in found.values()}) == (names, {0})

    def test_a_crash_in_the_middle_of_staging_does_no_harm(self, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
        small_commits(monkeypatch)
        begin(door.hf)
        names = crowd(door.store, CROWD)
        door.store.commit(stage(door.store, "scout"))
        hf = door.reopen()
        assert (hf.verify().problems, hf.gc().captures, hf.checkpoints.changed("scout")) == ([], 0, True)
        hf.sessions.append(names[0], *users("meanwhile"))
        hf.sessions.delete(names[1])
        made = hf.checkpoints.create("scout")
        found = door.reopen().checkpoints.heads(made.id)
        assert (sorted(found), found[names[0]].seq) == ([names[0], *names[2:]], 1)


def _uid(store: RecordStore, session_id: str) -> object:
    return next(envelope(record)["uid"] for record in dump(store) if record.key == (session_id,))
