"""What else a checkpoint is good for: a way back from a risky operation, a fork, a look at what was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.client import Holdfast
from holdfast.errors import AlreadyExists, InvalidInput, NotFound
from holdfast.model import Change, Message
from holdfast.testing.domain_checkpoints import begin, ids, said
from holdfast.testing.domain_restores import everything, listed, move_on, state_of
from holdfast.testing.driving import Again, Door, HoldfastKit, texts, users


class TravelKit(HoldfastKit):
    """Subclass it as `TestMyTravels` and say how to `open` the store; never override a test."""

    def test_what_a_fork_keeps_of_a_deleted_session_is_the_forks_alone(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        first = hf.checkpoints.create("scout")
        hf.sessions.append("a", *users("more"))
        second = hf.checkpoints.create("scout")
        hf.sessions.fork("a", id="f")
        hf.sessions.delete("a")
        hf = again()
        with pytest.raises(NotFound):
            hf.checkpoints.messages(first.id, "a")
        (changed,) = hf.checkpoints.diff(first.id, second.id).sessions
        assert (changed.session_id, changed.added, changed.removed) == ("a", [], [])
        assert texts(hf, "f") == ["hello a", "more"]

    # before a risky operation

    @pytest.mark.parametrize("owner", [{"agent_id": "scout"}, {"session_id": "a"}])
    def test_a_scope_takes_a_checkpoint_and_rolls_back_on_request(
        self, hf: Holdfast, again: Again, owner: dict[str, Any]
    ) -> None:
        begin(hf, "a")
        with hf.checkpoints.before("deleting files", **owner) as scope:
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


def _texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]
