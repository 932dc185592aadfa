"""Checkpoints as they are found, by id, by order of writing and by step, and when one of them is damaged."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import codec
from holdfast.client import Holdfast
from holdfast.contracts import Put
from holdfast.errors import ConnectionFailed, CorruptData, IntegrityError, InvalidInput
from holdfast.finding import DamagedCheckpoint
from holdfast.kinds import CHECKPOINTS
from holdfast.testing.damage import spoilt
from holdfast.testing.domain_checkpoints import begin, ids
from holdfast.testing.driving import NOON, Again, Door, HoldfastKit, users
from holdfast.testing.planting import BreaksOff
from holdfast.testing.records import dump


class LookupKit(HoldfastKit):
    """Subclass it as `TestMyLookups` and say how to `open` the store; never override a test."""

    # finding

    def test_what_is_not_there_reads_as_nothing(self, hf: Holdfast) -> None:
        assert hf.checkpoints.get("none") is None
        assert not hf.checkpoints.has("none")
        assert hf.checkpoints.latest("none") is None
        assert list(hf.checkpoints.list(session_id="none")) == []
        assert hf.checkpoints.prune("none", keep=1).count == 0
        hf.checkpoints.delete("none")

    def test_a_checkpoint_is_found_by_its_id_alone(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        made = [hf.checkpoints.create("scout", id="of agent"), hf.checkpoints.create(session_id="a")]
        hf = again()
        assert [hf.checkpoints.get(one.id) for one in made] == made
        assert all(hf.checkpoints.has(one.id) for one in made)
        hf.checkpoints.delete(made[0].id)
        assert [hf.checkpoints.has(one.id) for one in made] == [False, True]

    def test_the_latest_is_the_last_written_or_by_request_the_last_step(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        made = {step: hf.checkpoints.create(session_id="a", step=step) for step in (3, 1, 2)}
        hf = again()
        assert hf.checkpoints.latest(session_id="a") == made[2]
        assert hf.checkpoints.latest(session_id="a", order="step") == made[3]
        assert hf.checkpoints.latest("scout") is None

    def test_ten_in_one_millisecond_keep_their_order(self, door: Door) -> None:
        begin(door.hf, "a")
        made = []
        for _ in range(10):
            made.append(Holdfast(door.store, clock=lambda: NOON).checkpoints.create(session_id="a"))
        hf = door.reopen()
        assert hf.checkpoints.latest(session_id="a") == made[9]
        assert hf.checkpoints.prune(session_id="a", keep=3).count == 7
        assert list(door.reopen().checkpoints.list(session_id="a")) == [made[9], made[8], made[7]]

    def test_checkpoints_list_newest_first_or_by_step(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a", "b")
        for step in (2, 9, 10, 1):
            hf.checkpoints.create(session_id="a", step=step)
        hf.checkpoints.create(session_id="b", step=3)
        hf = again()
        assert [one.step for one in hf.checkpoints.list(session_id="a")] == [1, 10, 9, 2]
        assert [one.step for one in hf.checkpoints.list(session_id="a", order="step")] == [1, 2, 9, 10]
        assert [one.step for one in hf.checkpoints.list()] == [3, 1, 10, 9, 2]

    @pytest.mark.parametrize("order", ["written", "step"])
    @pytest.mark.parametrize("owner", [{}, {"session_id": "a"}])
    def test_pages_repeat_nothing_and_skip_nothing(
        self, hf: Holdfast, again: Again, order: Any, owner: dict[str, Any]
    ) -> None:
        begin(hf, "a")
        made = [hf.checkpoints.create(session_id="a", step=step) for step in range(7)]
        page = hf.checkpoints.list(**owner, order=order, limit=3)
        found = ids(page)
        while page.cursor is not None:
            page = again().checkpoints.list(**owner, order=order, limit=3, cursor=page.cursor)
            found += ids(page)
        assert found == (ids(made) if order == "step" else ids(reversed(made)))

    def test_a_new_checkpoint_does_not_disturb_a_listing(self, hf: Holdfast) -> None:
        begin(hf)
        made = [hf.checkpoints.create("scout") for _ in range(4)]
        page = hf.checkpoints.list("scout", limit=2)
        hf.checkpoints.create("scout")
        rest = hf.checkpoints.list("scout", limit=5, cursor=page.cursor)
        assert ids([*page, *rest]) == ids(reversed(made))

    def test_a_list_has_a_hundred_unless_told_otherwise(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        made = [hf.checkpoints.create(session_id="s") for _ in range(101)]
        assert ids(hf.checkpoints.list(session_id="s")) == ids(reversed(made[1:]))
        assert ids(hf.checkpoints.list(session_id="s", offset=99)) == ids([made[1], made[0]])
        assert hf.stats().checkpoints == 101

    @pytest.mark.parametrize("owner", ["agent", "session"])
    def test_a_checkpoint_is_absent_from_the_first_commit_of_its_owners_delete(self, door: Door, owner: str) -> None:
        hf, breaking = door.hf, Holdfast(BreaksOff(door.store, 1))
        begin(hf, "a")
        made = [hf.checkpoints.create(session_id="a")]
        made += [hf.checkpoints.create("scout")] if owner == "agent" else []
        with pytest.raises(ConnectionFailed):
            breaking.agents.delete("scout") if owner == "agent" else breaking.sessions.delete("a")
        assert [hf.checkpoints.has(one.id) for one in made] == [False] * len(made)
        assert (list(hf.checkpoints.list()), hf.checkpoints.latest()) == ([], None)
        hf.gc()
        assert hf.stats().checkpoints == 0

    def test_a_checkpoint_is_the_same_however_it_is_found(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        own = hf.sessions.create(agent_id="scout").id  # which the store has named
        hf.sessions.append(own, *users("one"))
        forked = hf.sessions.fork(own).id
        of_sessions = [hf.checkpoints.create(session_id=one, step=1, ttl=60) for one in ("a", own, forked)]
        made = [*of_sessions, hf.checkpoints.create("scout", metadata={"of": "all"})]
        hf = again()
        assert [hf.checkpoints.get(one.id) for one in made] == made
        assert [*hf.checkpoints.list()] == made[::-1]
        assert [[*hf.checkpoints.list(session_id=str(one.session_id))] for one in of_sessions] == [
            [one] for one in of_sessions
        ]
        assert [hf.checkpoints.restore(one.id).checkpoint for one in made] == made
        assert hf.verify().ok

    def test_what_cannot_be_meant_is_refused(self, hf: Holdfast) -> None:
        begin(hf, "a")
        made = hf.checkpoints.create("scout")
        odd: Any = "bogus"
        for call in (
            lambda: hf.checkpoints.create("scout", kind=odd),
            lambda: hf.checkpoints.list("scout", kind=odd),
            lambda: hf.checkpoints.prune("scout", kind=odd, keep=0),
            lambda: hf.checkpoints.latest("scout", session_id="a"),
            lambda: hf.checkpoints.restore(made.id, sessions="a"),
            lambda: hf.checkpoints.fork(made.id, title="of an agent"),
        ):
            with pytest.raises(InvalidInput):
                call()
        assert [*hf.checkpoints.list()] == [made]

    # damage

    def test_a_checkpoint_that_lacks_its_time_is_damaged(self, door: Door) -> None:
        begin(door.hf, "a")
        made = door.hf.checkpoints.create(session_id="a")
        (row,) = (record for record in dump(door.store) if record.kind is CHECKPOINTS)
        said = codec.decode_envelope(row.body, "checkpoint")
        body = codec.encode({name: value for name, value in said.items() if name != "created_at"}, "checkpoint")
        door.store.commit([Put(replace(row, body=body, digest=codec.digest(body)), row.digest)])
        assert ["created_at" in (one.damaged or "") for one in door.hf.checkpoints.list(session_id="a")] == [True]
        for call in (door.hf.checkpoints.get, door.hf.checkpoints.restore):
            with pytest.raises(CorruptData, match="created_at"):
                call(made.id)
        assert ["created_at" in problem.what for problem in door.hf.verify().problems] == [True]
        door.store.commit([Put(row, codec.digest(body))])

    def test_a_damaged_newest_checkpoint_is_named_and_passed_over(self, door: Door) -> None:
        begin(door.hf)
        good, bad = (door.hf.checkpoints.create("scout") for _ in range(2))
        hf = door.reopen()
        newest = next(record for record in dump(door.store) if record.fields and record.fields[0] == bad.id)
        with spoilt(door.store, newest):
            assert [one.damaged is None for one in hf.checkpoints.list("scout")] == [False, True]
            assert [one.id for one in hf.checkpoints.list("scout", kind="automatic")] == [bad.id]
            assert hf.checkpoints.prune("scout", keep=0).count == 0
            with pytest.warns(DamagedCheckpoint, match=bad.id):
                assert hf.checkpoints.latest("scout") == good
            with pytest.raises(IntegrityError, match=bad.id):
                hf.checkpoints.latest("scout", strict=True)

    def test_a_damaged_checkpoint_is_never_served_as_sound(self, door: Door) -> None:
        begin(door.hf)
        made = door.hf.checkpoints.create("scout")
        (row,) = (record for record in dump(door.store) if record.kind is CHECKPOINTS)
        with spoilt(door.store, row):
            for call in (door.hf.checkpoints.get, door.hf.checkpoints.restore, door.hf.checkpoints.state):
                with pytest.raises(IntegrityError):
                    call(made.id)
            assert door.hf.checkpoints.has(made.id)
        assert door.hf.checkpoints.get(made.id) == made
