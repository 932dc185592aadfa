"""Going back to a checkpoint, undoing that, and looking at what was."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.errors import Conflict, HoldfastError, IntegrityError, InvalidInput, NotFound
from holdfast.kinds import CAPTURES, MESSAGES, REVISIONS
from holdfast.model import Agent, Checkpoint
from holdfast.testing.damage import spoilt
from holdfast.testing.domain_checkpoints import begin, ids, said
from holdfast.testing.driving import Again, Door, HoldfastKit, exact, texts, users
from holdfast.testing.records import dump


def move_on(hf: Holdfast) -> Checkpoint:
    """A checkpoint of an agent with sessions a and b; then its state, a and b change, and c is new."""
    begin(hf, "a", "b")
    made = hf.checkpoints.create("scout")
    hf.agents.set_state("scout", "n", 2)
    for id in ("a", "b"):
        hf.sessions.append(id, *users(f"later {id}"))
    hf.sessions.create(id="c", agent_id="scout")
    hf.sessions.append("c", *users("hello c"))
    return made


def state_of(hf: Holdfast, agent: str = "scout") -> Any:
    """The present state of an agent."""
    found = hf.agents.get(agent)
    assert found is not None
    return found.state


def listed(hf: Holdfast) -> list[str]:
    """The sessions that an agent shows."""
    return sorted(ids(hf.sessions.list(agent_id="scout")))


def everything(hf: Holdfast) -> list[Any]:
    """What an agent and its sessions say."""
    return [state_of(hf), [(id, texts(hf, id)) for id in listed(hf)]]


class RestoreKit(HoldfastKit):
    """Subclass it as `TestMyRestores` and say how to `open` the store; never override a test."""

    # an agent's checkpoint

    def test_a_restore_brings_back_state_and_sessions(self, hf: Holdfast, again: Again) -> None:
        made = move_on(hf)
        result = hf.checkpoints.restore(made.id)
        hf = again()
        assert everything(hf) == [{"n": 1}, [("a", ["hello a"]), ("b", ["hello b"])]]
        assert (sorted(result.sessions), result.detached, result.missing) == (["a", "b"], ["c"], [])
        assert result.agent == replace(_get(hf), active_sessions=0)

    def test_a_restore_names_sessions_by_their_ids_order(self, hf: Holdfast) -> None:
        begin(hf, "c", "a", "b")
        made = hf.checkpoints.create("scout")
        assert hf.checkpoints.restore(made.id).sessions == ["a", "b", "c"]

    def test_a_restore_writes_a_new_revision_with_the_old_content(self, hf: Holdfast, again: Again) -> None:
        made = move_on(hf)
        hf.checkpoints.restore(made.id)
        revisions = again().agents.revisions("scout")
        assert [(one.revision, one.state) for one in revisions] == [(3, {"n": 1}), (2, {"n": 2}), (1, {"n": 1})]

    def test_maps_with_fifty_keys_come_back_whole(self, hf: Holdfast, again: Again) -> None:
        state = {f"key {number}": {"value": [number, float(number), str(number)]} for number in range(50)}
        hf.agents.save(Agent(id="scout", name="", state=state, config=state, metadata=state))
        made = hf.checkpoints.create("scout", metadata=state, extra=state)
        hf.agents.save(Agent(id="scout", name=""))
        again().checkpoints.restore(made.id)
        found = _get(again())
        assert exact([found.state, found.config, found.metadata]) == exact([state, state, state])

    def test_the_first_append_after_a_restore_opens_a_branch(self, hf: Holdfast, again: Again) -> None:
        made = move_on(hf)
        hf.checkpoints.restore(made.id)
        hf.sessions.append("a", *users("another way"))
        hf.sessions.append("a", *users("and on"))
        hf = again()
        assert texts(hf, "a") == ["hello a", "another way", "and on"]
        assert texts(hf, "a", branch=1) == ["hello a", "later a"]
        assert len(hf.sessions.tree("a").branches) == 2

    def test_restoring_where_everything_stands_opens_no_branch(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        hf.checkpoints.restore(hf.checkpoints.create("scout").id)
        hf.sessions.append("a", *users("more"))
        hf = again()
        assert texts(hf, "a") == ["hello a", "more"]
        assert len(hf.sessions.tree("a").branches) == 1

    def test_any_of_many_checkpoints_can_be_restored_in_any_order(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a", "b")
        made = []
        for number in range(6):
            hf.sessions.append("a" if number % 2 else "b", *users(f"{number}"))
            hf.agents.set_state("scout", "n", number)
            made.append((hf.checkpoints.create("scout"), everything(hf)))
        for at in (3, 0, 5, 1, 4, 2):
            hf.checkpoints.restore(made[at][0].id)
            assert everything(again()) == made[at][1]
            hf = again()

    def test_a_head_on_another_branch_is_restored(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        first = hf.checkpoints.heads(hf.checkpoints.create("scout").id)["a"].message_id
        hf.sessions.append("a", *users("one way"))
        hf.sessions.append("a", *users("other way"), parent=first)
        made = hf.checkpoints.create("scout")
        hf.sessions.switch("a", 1)
        hf.checkpoints.restore(made.id)
        assert texts(again(), "a") == ["hello a", "other way"]

    # sessions that came or went since

    def test_a_session_created_since_is_detached(self, hf: Holdfast, again: Again) -> None:
        made = move_on(hf)
        result = hf.checkpoints.restore(made.id)
        hf = again()
        found = hf.sessions.get("c")
        assert found is not None
        assert (found.detached_by, texts(hf, "c")) == (result.recovery.id, ["hello c"])
        assert (listed(hf), hf.stats().sessions, _get(hf).active_sessions) == (["a", "b"], 2, 2)

    @pytest.mark.parametrize("reopened", [False, True])
    def test_appending_to_a_detached_session_is_a_conflict(self, hf: Holdfast, again: Again, reopened: bool) -> None:
        hf.checkpoints.restore(move_on(hf).id)
        hf = again() if reopened else hf
        with pytest.raises(Conflict):
            hf.sessions.append("c", *users("never"))
        with pytest.raises(Conflict):
            hf.checkpoints.create(session_id="c", messages=users("never"))
        with pytest.raises(Conflict):
            hf.runs.start("c")
        assert texts(again(), "c") == ["hello c"]

    def test_attaching_brings_a_detached_session_back(self, hf: Holdfast, again: Again) -> None:
        hf.checkpoints.restore(move_on(hf).id)
        assert hf.sessions.attach("c").detached_by is None
        hf.sessions.append("c", *users("more"))
        made = hf.checkpoints.create("scout")
        hf = again()
        assert (listed(hf), texts(hf, "c")) == (["a", "b", "c"], ["hello c", "more"])
        assert said(hf, made, "c") == ["hello c", "more"]

    def test_a_detached_session_is_not_in_the_next_checkpoint(self, hf: Holdfast, again: Again) -> None:
        hf.checkpoints.restore(move_on(hf).id)
        made = hf.checkpoints.create("scout")
        assert sorted(again().checkpoints.heads(made.id)) == ["a", "b"]

    @pytest.mark.parametrize("recreate", [False, True])
    def test_a_session_deleted_since_is_missing(self, hf: Holdfast, again: Again, recreate: bool) -> None:
        made = move_on(hf)
        hf.sessions.delete("a")
        if recreate:
            hf.sessions.create(id="a", agent_id="scout", title="new")
        result = hf.checkpoints.restore(made.id)
        hf = again()
        assert (result.missing, result.sessions) == (["a"], ["b"])
        assert everything(hf) == [{"n": 1}, [("b", ["hello b"])]]
        assert sorted(result.detached) == (["a", "c"] if recreate else ["c"])

    def test_a_session_given_to_another_agent_since_is_left_to_it(self, hf: Holdfast, again: Again) -> None:
        made = move_on(hf)
        begin(hf, agent="other")
        hf.sessions.update("a", agent_id="other")
        hf.checkpoints.create("other")
        result = hf.checkpoints.restore(made.id)
        after = hf.checkpoints.create("other")
        hf = again()
        assert (result.missing, texts(hf, "a")) == (["a"], ["hello a", "later a"])
        assert said(hf, after, "a") == ["hello a", "later a"]

    # a part

    def test_a_part_is_restored_without_the_state(self, hf: Holdfast, again: Again) -> None:
        made = move_on(hf)
        result = hf.checkpoints.restore(made.id, sessions=["a"])
        hf = again()
        assert everything(hf)[0] == {"n": 2}
        assert [texts(hf, id) for id in "abc"] == [["hello a"], ["hello b", "later b"], ["hello c"]]
        assert (result.sessions, result.detached, result.agent) == (["a"], [], None)

    def test_a_part_is_restored_with_the_state_on_request(self, hf: Holdfast, again: Again) -> None:
        made = move_on(hf)
        hf.checkpoints.restore(made.id, sessions=[], state=True)
        assert everything(again()) == [
            {"n": 1},
            [("a", ["hello a", "later a"]), ("b", ["hello b", "later b"]), ("c", ["hello c"])],
        ]

    def test_all_sessions_are_restored_without_the_state_on_request(self, hf: Holdfast, again: Again) -> None:
        made = move_on(hf)
        hf.checkpoints.restore(made.id, state=False)
        assert everything(again()) == [{"n": 2}, [("a", ["hello a"]), ("b", ["hello b"])]]

    def test_a_session_that_the_checkpoint_does_not_have_is_not_found(self, hf: Holdfast) -> None:
        made = move_on(hf)
        before = everything(hf)
        with pytest.raises(NotFound):
            hf.checkpoints.restore(made.id, sessions=["a", "c"])
        assert everything(hf) == before

    # a session's checkpoint

    def test_restoring_a_sessions_checkpoint_touches_nothing_else(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a", "b")
        made = hf.checkpoints.create(session_id="a")
        for id in ("a", "b"):
            hf.sessions.append(id, *users("later"))
        hf.agents.set_state("scout", "n", 2)
        result = hf.checkpoints.restore(made.id)
        assert everything(again()) == [{"n": 2}, [("a", ["hello a"]), ("b", ["hello b", "later"])]]
        assert (result.sessions, result.agent, result.recovery.session_id) == (["a"], None, "a")

    def test_an_agents_next_checkpoint_sees_a_restored_session(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        first = hf.checkpoints.create(session_id="a")
        hf.sessions.append("a", *users("later"))
        hf.checkpoints.create("scout")
        hf.checkpoints.restore(first.id)
        made = hf.checkpoints.create("scout")
        assert said(again(), made, "a") == ["hello a"]

    # undoing

    def test_undoing_a_restore_brings_everything_back(self, hf: Holdfast, again: Again) -> None:
        made = move_on(hf)
        before = everything(hf)
        recovery = hf.checkpoints.restore(made.id).recovery
        assert (recovery.kind, everything(again()) == before) == ("recovery", False)
        hf = again()
        result = hf.checkpoints.restore(recovery.id)
        assert everything(again()) == before
        assert (sorted(result.sessions), result.detached) == (["a", "b", "c"], [])

    def test_an_undo_can_be_undone(self, hf: Holdfast, again: Again) -> None:
        made = move_on(hf)
        first = hf.checkpoints.restore(made.id).recovery
        restored = everything(hf)
        second = hf.checkpoints.restore(first.id).recovery
        hf.checkpoints.restore(second.id)
        assert everything(again()) == restored

    def test_undoing_keeps_what_was_said_after_the_restore_on_a_branch(self, hf: Holdfast, again: Again) -> None:
        made = move_on(hf)
        recovery = hf.checkpoints.restore(made.id).recovery
        hf.sessions.append("a", *users("another way"))
        hf.checkpoints.restore(recovery.id)
        hf = again()
        assert texts(hf, "a") == ["hello a", "later a"]
        assert texts(hf, "a", branch=2) == ["hello a", "another way"]
        hf.sessions.append("a", *users("and on"))
        assert texts(again(), "a") == ["hello a", "later a", "and on"]

    def test_undoing_a_sessions_restore_brings_it_back(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        made = hf.checkpoints.create(session_id="s")
        hf.sessions.append("s", *users("one", "two"))
        recovery = hf.checkpoints.restore(made.id).recovery
        assert texts(hf, "s") == []
        again().checkpoints.restore(recovery.id)
        assert texts(again(), "s") == ["one", "two"]

    # what is checked first

    @pytest.mark.parametrize("kind", [MESSAGES, REVISIONS, CAPTURES])
    def test_a_flipped_byte_stops_a_restore_and_changes_nothing(self, door: Door, kind: Any) -> None:
        made = move_on(door.hf)
        hf = door.reopen()
        before = everything(hf)
        row = next(record for record in dump(door.store) if record.kind is kind)
        with spoilt(door.store, row):
            with pytest.raises(IntegrityError):
                hf.checkpoints.restore(made.id)
        assert everything(door.reopen()) == before

    def test_pointers_alone_can_be_checked(self, door: Door) -> None:
        hf = door.hf
        hf.sessions.create(id="s")
        hf.sessions.append("s", *users("one", "two"))
        made = hf.checkpoints.create(session_id="s")
        first, second = (record for record in dump(door.store) if record.kind is MESSAGES)
        with spoilt(door.store, first):
            hf.checkpoints.restore(made.id, verify="pointers")
        with spoilt(door.store, second):
            with pytest.raises(IntegrityError):
                hf.checkpoints.restore(made.id, verify="pointers")

    def test_damage_elsewhere_does_not_stop_a_restore(self, door: Door) -> None:
        made = move_on(door.hf)
        later = [record for record in dump(door.store) if record.kind is MESSAGES and b"later" in record.body]
        with spoilt(door.store, later[0]):
            door.hf.checkpoints.restore(made.id)
        assert texts(door.reopen(), "a") == ["hello a"]

    def test_a_way_of_verifying_that_is_not_known_is_refused(self, hf: Holdfast) -> None:
        made = move_on(hf)
        with pytest.raises(InvalidInput):
            hf.checkpoints.restore(made.id, verify="nothing")  # type: ignore[arg-type]
        assert texts(hf, "a") == ["hello a", "later a"]

    @pytest.mark.parametrize("call", ["restore", "fork", "state", "heads"])
    def test_going_back_to_what_is_not_there_is_not_found(self, hf: Holdfast, call: str) -> None:
        begin(hf, "a")
        with pytest.raises(NotFound):
            getattr(hf.checkpoints, call)("none")

    def test_a_restore_that_fails_leaves_no_recovery_checkpoint(self, hf: Holdfast) -> None:
        made = move_on(hf)
        with pytest.raises(HoldfastError):
            hf.checkpoints.restore(made.id, sessions=["none"])
        assert list(hf.checkpoints.list("scout")) == [made]


def _get(hf: Holdfast) -> Agent:
    found = hf.agents.get("scout")
    assert found is not None
    return found
