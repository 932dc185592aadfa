"""Going back to a checkpoint, undoing that, and looking at what was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.errors import AlreadyExists, Conflict, HoldfastError, IntegrityError, InvalidInput, NotFound
from holdfast.kinds import CAPTURES, MESSAGES, REVISIONS
from holdfast.model import Agent, Change, Checkpoint, Message
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

    # before a risky operation

    @pytest.mark.parametrize("owner", [{"agent_id": "scout"}, {"session_id": "a"}])
    def test_a_scope_takes_a_checkpoint_and_rolls_back_on_request(
        self, hf: Holdfast, again: Again, owner: dict[str, str]
    ) -> None:
        begin(hf, "a")
        with hf.checkpoints.before("deleting files", **owner) as scope:  # type: ignore[arg-type]
            hf.sessions.append("a", *users("risky"))
            first = scope.rollback()
            assert scope.rollback() == first
        hf = again()
        assert texts(hf, "a") == ["hello a"]
        assert (scope.checkpoint.kind, scope.checkpoint.description) == ("pre_operation", "deleting files")

    def test_a_scope_that_goes_well_keeps_what_was_done(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        with hf.checkpoints.before("tidying", session_id="a", rollback_on_error=True) as scope:
            hf.sessions.append("a", *users("tidy"))
        assert (texts(again(), "a"), scope.restored) == (["hello a", "tidy"], None)

    @pytest.mark.parametrize(("rolls_back", "left"), [(True, ["hello a"]), (False, ["hello a", "risky"])])
    def test_an_error_rolls_back_on_request_and_is_raised_all_the_same(
        self, hf: Holdfast, again: Again, rolls_back: bool, left: list[str]
    ) -> None:
        begin(hf, "a")

        def risk() -> None:
            with hf.checkpoints.before("dividing", session_id="a", rollback_on_error=rolls_back):
                hf.sessions.append("a", *users("risky"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            risk()
        assert texts(again(), "a") == left

    def test_a_scope_can_be_awaited(self, door: Door) -> None:
        begin(door.hf, "a")
        plain = Holdfast(door.store)

        async def risk() -> None:
            async with plain.checkpoints.before("risking", agent_id="scout") as scope:
                plain.sessions.append("a", *users("risky"))
                await scope.arollback()

        asyncio.run(risk())
        assert texts(door.reopen(), "a") == ["hello a"]

    def test_a_scope_of_what_is_not_there_never_begins(self, hf: Holdfast) -> None:
        begun = []
        with pytest.raises(NotFound):
            with hf.checkpoints.before("nothing", session_id="none"):
                begun.append(True)
        assert begun == []

    # forking

    @pytest.mark.parametrize("copy", [False, True])
    def test_a_sessions_checkpoint_forks_into_a_session(self, hf: Holdfast, again: Again, copy: bool) -> None:
        begin(hf, "a")
        made = hf.checkpoints.create(session_id="a")
        hf.sessions.append("a", *users("later"))
        hf.checkpoints.fork(made.id, id="f", title="other way", copy=copy)
        hf.sessions.append("f", *users("in f"))
        hf = again()
        assert (texts(hf, "a"), texts(hf, "f")) == (["hello a", "later"], ["hello a", "in f"])
        found = hf.sessions.get("f")
        assert found is not None
        assert (found.title, found.agent_id) == ("other way", "scout")

    @pytest.mark.parametrize("copy", [False, True])
    def test_an_agents_checkpoint_forks_into_an_agent_with_its_sessions(
        self, hf: Holdfast, again: Again, copy: bool
    ) -> None:
        made = move_on(hf)
        hf.checkpoints.fork(made.id, id="twin", copy=copy)
        hf = again()
        assert (state_of(hf, "twin"), state_of(hf)) == ({"n": 1}, {"n": 2})
        forks = hf.sessions.list(agent_id="twin")
        assert sorted(texts(hf, fork.id) for fork in forks) == [["hello a"], ["hello b"]]
        assert listed(hf) == ["a", "b", "c"]

    @pytest.mark.parametrize("copy", [False, True])
    def test_a_fork_reads_whole_when_what_it_came_from_is_deleted(self, hf: Holdfast, again: Again, copy: bool) -> None:
        made = move_on(hf)
        hf.checkpoints.fork(made.id, id="twin", copy=copy)
        hf.agents.delete("scout")
        again().gc()
        hf = again()
        assert sorted(texts(hf, fork.id) for fork in hf.sessions.list()) == [["hello a"], ["hello b"]]
        assert (state_of(hf, "twin"), hf.verify().problems) == ({"n": 1}, [])

    def test_a_fork_shares_storage_and_a_copy_does_not(self, hf: Holdfast) -> None:
        made = move_on(hf)
        sizes = [hf.stats().messages]
        for copy in (False, True):
            hf.checkpoints.fork(made.id, copy=copy)
            sizes.append(hf.stats().messages)
        assert sizes == [5, 5, 7]

    def test_a_fork_can_be_checkpointed_and_restored_by_itself(self, hf: Holdfast, again: Again) -> None:
        hf.checkpoints.fork(move_on(hf).id, id="twin")
        made = hf.checkpoints.create("twin")
        (one, _) = hf.sessions.list(agent_id="twin")
        hf.sessions.append(one.id, *users("in the twin"))
        before = everything(hf)
        hf.checkpoints.restore(made.id)
        hf = again()
        assert sorted(texts(hf, fork.id) for fork in hf.sessions.list(agent_id="twin")) == [["hello a"], ["hello b"]]
        assert everything(hf) == before

    @pytest.mark.parametrize("recreate", [False, True])
    def test_a_fork_leaves_out_sessions_deleted_since(self, hf: Holdfast, again: Again, recreate: bool) -> None:
        made = move_on(hf)
        hf.sessions.delete("a")
        if recreate:
            hf.sessions.create(id="a", agent_id="scout", title="new")
        hf.checkpoints.fork(made.id, id="twin")
        hf = again()
        assert [texts(hf, fork.id) for fork in hf.sessions.list(agent_id="twin")] == [["hello b"]]

    @pytest.mark.parametrize("copy", [False, True])
    def test_a_fork_under_a_taken_id_is_refused(self, hf: Holdfast, copy: bool) -> None:
        made = move_on(hf)
        of_session = hf.checkpoints.create(session_id="a")
        for checkpoint, id in ((made, "scout"), (of_session, "b")):
            with pytest.raises(AlreadyExists):
                hf.checkpoints.fork(checkpoint.id, id=id, copy=copy)
        assert (listed(hf), ids(hf.agents.list())) == (["a", "b", "c"], ["scout"])

    # what was, and what changed

    def test_a_diff_says_what_changed_in_state_and_sessions(self, hf: Holdfast, again: Again) -> None:
        before = move_on(hf)
        hf.sessions.delete("b")
        after = hf.checkpoints.create("scout")
        hf = again()
        found = hf.checkpoints.diff(before.id, after.id)
        assert found.agent == [Change(path=("state", "n"), kind="changed", before=1, after=2)]
        changes = {one.session_id: (one.kind, one.common, _texts(one.added)) for one in found.sessions}
        assert changes == {"a": ("changed", 1, ["later a"]), "b": ("removed", 0, []), "c": ("added", 0, ["hello c"])}

    def test_a_diff_across_branches_says_what_was_left_and_what_came(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        start = hf.checkpoints.create(session_id="a")
        hf.sessions.append("a", *users("one way"))
        before = hf.checkpoints.create(session_id="a")
        hf.checkpoints.restore(start.id)
        hf.sessions.append("a", *users("other", "way"))
        after = hf.checkpoints.create(session_id="a")
        (found,) = again().checkpoints.diff(before.id, after.id).sessions
        assert (found.common, _texts(found.removed), _texts(found.added)) == (1, ["one way"], ["other", "way"])

    def test_a_diff_can_leave_the_messages_out(self, hf: Holdfast) -> None:
        before = move_on(hf)
        after = hf.checkpoints.create("scout")
        found = hf.checkpoints.diff(before.id, after.id, messages=False).sessions
        assert [(one.session_id, one.added) for one in found] == [("a", []), ("b", []), ("c", [])]

    def test_a_checkpoint_does_not_differ_from_itself_or_its_like(self, hf: Holdfast) -> None:
        begin(hf, "a")
        one, other = (hf.checkpoints.create("scout") for _ in range(2))
        for found in (hf.checkpoints.diff(one.id, one.id), hf.checkpoints.diff(one.id, other.id)):
            assert (found.agent, found.sessions) == ([], [])

    def test_a_sessions_checkpoint_has_no_state_and_an_agents_needs_a_session(self, hf: Holdfast) -> None:
        begin(hf, "a")
        of_agent, of_session = hf.checkpoints.create("scout"), hf.checkpoints.create(session_id="a")
        with pytest.raises(InvalidInput):
            hf.checkpoints.state(of_session.id)
        with pytest.raises(InvalidInput):
            said(hf, of_agent)
        with pytest.raises(NotFound):
            said(hf, of_agent, "none")

    def test_a_transcript_as_of_a_checkpoint_has_its_places(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        hf.sessions.append("a", Message.assistant("yes?"))
        live = list(hf.sessions.messages("a"))
        made = hf.checkpoints.create("scout")
        hf.sessions.append("a", *users("later"))
        assert list(again().checkpoints.messages(made.id, "a")) == live

    def test_a_restore_that_fails_leaves_no_recovery_checkpoint(self, hf: Holdfast) -> None:
        made = move_on(hf)
        with pytest.raises(HoldfastError):
            hf.checkpoints.restore(made.id, sessions=["none"])
        assert list(hf.checkpoints.list("scout")) == [made]


def _get(hf: Holdfast) -> Agent:
    found = hf.agents.get("scout")
    assert found is not None
    return found


def _texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]
