"""Branches and forks: nothing is replaced, everything said stays reachable."""

from __future__ import annotations

import pytest

from holdfast.appends import ROOT
from holdfast.client import Holdfast
from holdfast.errors import AlreadyExists, NotFound
from holdfast.model import Message, Session, Usage
from holdfast.testing.driving import Again, HoldfastKit, texts, users


def fork_in_the_road(hf: Holdfast) -> tuple[Message, Message, Message]:
    """A session "s" in which m1 is followed by m2, and by m3 on a branch of its own."""
    hf.sessions.create(id="s", agent_id="scout", user_id="ann", metadata={"n": 1}, tags=["x"])
    m1, m2 = hf.sessions.append("s", *users("m1", "m2"))
    (m3,) = hf.sessions.append("s", *users("m3"), parent=m1.id)
    return m1, m2, m3


class BranchTests(HoldfastKit):
    """Appending behind an older message, and moving between what came of it."""

    # branching

    def test_an_older_parent_opens_a_branch_that_becomes_the_active_one(self, hf: Holdfast, again: Again) -> None:
        m1, m2, m3 = fork_in_the_road(hf)
        hf = again()
        assert list(hf.sessions.messages("s")) == [m1, m3]
        assert hf.sessions.tree("s").branch_points == [m1.id]
        assert hf.sessions.message("s", m2.id) == m2
        assert (m3.seq, m3.parent_id, m3.branch) == (2, m1.id, 2)

    def test_the_branch_that_was_left_can_still_be_read(self, hf: Holdfast, again: Again) -> None:
        m1, m2, m3 = fork_in_the_road(hf)
        hf = again()
        assert list(hf.sessions.messages("s", branch=1)) == [m1, m2]
        assert list(hf.sessions.messages("s", branch=2)) == [m1, m3]
        assert list(hf.sessions.messages("s", branch=2, last=1)) == [m3]

    def test_all_that_was_said_comes_in_the_order_of_writing(self, hf: Holdfast, again: Again) -> None:
        m1, m2, m3 = fork_in_the_road(hf)
        hf.sessions.switch("s", 1)
        (m4,) = hf.sessions.append("s", *users("m4"))
        fork = hf.sessions.fork("s", at=m3.id)
        (own,) = hf.sessions.append(fork.id, *users("own"))
        hf = again()
        assert list(hf.sessions.written("s")) == [m1, m2, m3, m4]
        assert [one.id for one in hf.sessions.written(fork.id)] == [m1.id, m3.id, own.id]
        assert list(hf.sessions.written("none")) == []

    def test_a_branch_need_not_become_the_active_one(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        m1, _ = hf.sessions.append("s", *users("m1", "m2"))
        hf.sessions.append("s", *users("aside"), parent=m1.id, activate=False)
        hf.sessions.append("s", *users("m3"))
        hf = again()
        assert texts(hf, "s") == ["m1", "m2", "m3"]
        assert texts(hf, "s", branch=2) == ["m1", "aside"]

    def test_the_head_as_parent_opens_no_branch(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        (m1,) = hf.sessions.append("s", *users("m1"))
        hf.sessions.append("s", *users("m2"), parent=m1.id)
        tree = again().sessions.tree("s")
        assert [branch.id for branch in tree.branches] == [1]
        assert tree.branch_points == []

    def test_a_branch_may_begin_in_front_of_the_first_message(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", *users("first", "second"))
        (other,) = hf.sessions.append("s", *users("other first"), parent=ROOT)
        hf = again()
        assert texts(hf, "s") == ["other first"]
        assert (other.seq, other.parent_id) == (1, None)
        assert hf.sessions.tree("s").branch_points == [None]

    def test_branches_of_branches_keep_their_paths(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        a, b, _ = hf.sessions.append("s", *users("a", "b", "c"))
        d, _ = hf.sessions.append("s", *users("d", "e"), parent=b.id)
        hf.sessions.append("s", *users("f", "g"), parent=d.id)
        hf.sessions.append("s", *users("h"), parent=a.id)
        hf = again()
        paths = ["".join(texts(hf, "s", branch=branch)) for branch in (1, 2, 3, 4)]
        assert paths == ["abc", "abde", "abdfg", "ah"]
        assert sorted(map(str, hf.sessions.tree("s").branch_points)) == sorted([a.id, b.id, d.id])

    def test_the_tree_says_where_branches_part(self, hf: Holdfast, again: Again) -> None:
        m1, _, m3 = fork_in_the_road(hf)
        tree = again().sessions.tree("s")
        assert [(one.id, one.parent, one.fork_seq, one.seq, one.active) for one in tree.branches] == [
            (1, None, 0, 2, False),
            (2, 1, 1, 2, True),
        ]
        assert tree.branches[1].fork_message_id == m1.id
        assert (tree.head.branch, tree.head.seq, tree.head.message_id) == (2, 2, m3.id)

    def test_a_range_crosses_the_point_where_branches_part(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        _, b, _ = hf.sessions.append("s", *users("a", "b", "c"))
        hf.sessions.append("s", *users("d", "e"), parent=b.id)
        assert texts(hf, "s", start=2, stop=3) == ["b", "d"]
        assert texts(hf, "s", last=3) == ["b", "d", "e"]
        assert next(hf.sessions.messages("s", last=2)).parent_id == b.id

    @pytest.mark.parametrize("parent", ["none", "elsewhere"])
    def test_a_parent_that_the_session_does_not_have_is_not_found(self, hf: Holdfast, parent: str) -> None:
        hf.sessions.create(id="other")
        hf.sessions.append("other", Message.user("x", id="elsewhere"))
        hf.sessions.create(id="s")
        with pytest.raises(NotFound):
            hf.sessions.append("s", *users("a"), parent=parent)
        assert texts(hf, "s") == []

    # switching

    def test_switching_moves_the_head_back(self, hf: Holdfast, again: Again) -> None:
        m1, m2, _ = fork_in_the_road(hf)
        switched = hf.sessions.switch("s", 1)
        assert (switched.head.branch, switched.head.message_id) == (1, m2.id)
        hf = again()
        assert hf.sessions.get("s") == switched
        assert list(hf.sessions.messages("s")) == [m1, m2]

    def test_a_branch_goes_on_where_it_was_left(self, hf: Holdfast, again: Again) -> None:
        fork_in_the_road(hf)
        hf.sessions.switch("s", 1)
        hf.sessions.append("s", *users("m4"))
        hf.sessions.switch("s", 2)
        hf.sessions.append("s", *users("m5"))
        hf = again()
        assert [texts(hf, "s", branch=branch) for branch in (1, 2)] == [["m1", "m2", "m4"], ["m1", "m3", "m5"]]
        assert len(hf.sessions.tree("s").branches) == 2

    def test_the_head_can_stand_at_any_message(self, hf: Holdfast, again: Again) -> None:
        m1, m2, m3 = fork_in_the_road(hf)
        assert hf.sessions.switch("s", at=m1.id).head.message_id == m1.id
        hf.sessions.append("s", *users("m4"))
        hf.sessions.switch("s", at=m2.id)
        hf.sessions.append("s", *users("m5"))
        hf = again()
        assert texts(hf, "s") == ["m1", "m2", "m5"]
        assert [branch.seq for branch in hf.sessions.tree("s").branches] == [3, 2, 2]
        assert hf.sessions.tree("s").branch_points == [m1.id]
        assert hf.sessions.message("s", m3.id) == m3

    def test_the_head_can_stand_in_front_of_the_first_message(self, hf: Holdfast, again: Again) -> None:
        fork_in_the_road(hf)
        assert hf.sessions.switch("s", at=ROOT).head.message_id is None
        hf.sessions.append("s", *users("m4"))
        assert texts(again(), "s") == ["m4"]

    def test_switching_to_an_unknown_message_is_not_found(self, hf: Holdfast) -> None:
        fork_in_the_road(hf)
        with pytest.raises(NotFound):
            hf.sessions.switch("s", at="none")
        assert texts(hf, "s") == ["m1", "m3"]

    def test_switching_to_an_unknown_branch_is_not_found(self, hf: Holdfast) -> None:
        m1, _, m3 = fork_in_the_road(hf)
        with pytest.raises(NotFound):
            hf.sessions.switch("s", 3)
        assert list(hf.sessions.messages("s")) == [m1, m3]

    def test_reading_an_unknown_branch_is_not_found(self, hf: Holdfast) -> None:
        fork_in_the_road(hf)
        with pytest.raises(NotFound):
            list(hf.sessions.messages("s", branch=3))

    # forking

    @pytest.mark.parametrize("copy", [False, True])
    def test_a_fork_begins_with_the_messages_of_its_origin(self, hf: Holdfast, again: Again, copy: bool) -> None:
        fork_in_the_road(hf)
        fork = hf.sessions.fork("s", id="f", copy=copy)
        hf = again()
        assert texts(hf, "f") == ["m1", "m3"]
        assert [one.session_id for one in hf.sessions.messages("f")] == ["f", "f"]
        assert hf.sessions.get("f") == fork
        assert (fork.agent_id, fork.user_id, fork.metadata, fork.tags) == ("scout", "ann", {"n": 1}, ["x"])

    @pytest.mark.parametrize("copy", [False, True])
    def test_a_fork_may_begin_at_any_message(self, hf: Holdfast, again: Again, copy: bool) -> None:
        m1, m2, _ = fork_in_the_road(hf)
        hf.sessions.fork("s", id="f1", at=m1.id, copy=copy)
        hf.sessions.fork("s", id="f2", at=m2.id, copy=copy, title="other way")
        hf = again()
        assert [texts(hf, "f1"), texts(hf, "f2")] == [["m1"], ["m1", "m2"]]
        assert _title(hf.sessions.get("f2")) == "other way"

    @pytest.mark.parametrize("copy", [False, True])
    def test_a_fork_and_its_origin_go_on_apart(self, hf: Holdfast, again: Again, copy: bool) -> None:
        fork_in_the_road(hf)
        hf.sessions.fork("s", id="f", copy=copy)
        hf.sessions.append("s", *users("in s"))
        hf.sessions.append("f", *users("in f"))
        hf.sessions.append("s", *users("s again"))
        hf = again()
        assert texts(hf, "s") == ["m1", "m3", "in s", "s again"]
        assert texts(hf, "f") == ["m1", "m3", "in f"]

    def test_a_fork_does_not_reach_what_its_origin_says_later(self, hf: Holdfast) -> None:
        m1, m2, _ = fork_in_the_road(hf)
        hf.sessions.fork("s", id="f", at=m1.id)
        (later,) = hf.sessions.append("s", *users("later"))
        assert [hf.sessions.message("f", one.id) for one in (m2, later)] == [None, None]
        with pytest.raises(NotFound):
            hf.sessions.append("f", *users("behind"), parent=later.id)

    def test_a_message_id_of_the_origin_is_taken_in_its_fork(self, hf: Holdfast) -> None:
        m1, _, _ = fork_in_the_road(hf)
        hf.sessions.fork("s", id="f", at=m1.id)
        later = Message.user("later")
        hf.sessions.append("s", later)
        with pytest.raises(AlreadyExists):
            hf.sessions.append("f", later)
        assert texts(hf, "f") == ["m1"]

    def test_a_fork_shares_storage_and_a_copy_does_not(self, hf: Holdfast) -> None:
        fork_in_the_road(hf)
        before = hf.stats().messages
        hf.sessions.fork("s")
        shared = hf.stats().messages
        hf.sessions.fork("s", copy=True)
        assert (before, shared, hf.stats().messages) == (3, 3, 5)

    @pytest.mark.parametrize("copy", [False, True])
    def test_a_fork_has_the_usage_of_its_messages(self, hf: Holdfast, again: Again, copy: bool) -> None:
        hf.sessions.create(id="s")
        usage = Usage(input=1, output=2)
        hf.sessions.append("s", Message.assistant("a", usage=usage))
        hf.sessions.fork("s", id="f", copy=copy)
        (found,) = again().sessions.messages("f")
        assert found.usage == usage

    def test_a_fork_of_a_fork_reads_whole(self, hf: Holdfast, again: Again) -> None:
        fork_in_the_road(hf)
        hf.sessions.fork("s", id="f")
        hf.sessions.append("f", *users("in f"))
        hf.sessions.fork("f", id="g")
        hf.sessions.append("g", *users("in g"))
        hf = again()
        assert texts(hf, "g") == ["m1", "m3", "in f", "in g"]
        assert texts(hf, "f") == ["m1", "m3", "in f"]

    def test_a_fork_can_branch_in_front_of_its_beginning(self, hf: Holdfast, again: Again) -> None:
        m1, _, _ = fork_in_the_road(hf)
        hf.sessions.fork("s", id="f")
        hf.sessions.append("f", *users("other"), parent=m1.id)
        hf = again()
        assert (texts(hf, "f"), texts(hf, "s")) == (["m1", "other"], ["m1", "m3"])

    @pytest.mark.parametrize("copy", [False, True])
    def test_a_fork_of_an_empty_session_is_empty(self, hf: Holdfast, again: Again, copy: bool) -> None:
        hf.sessions.create(id="s")
        hf.sessions.fork("s", id="f", copy=copy)
        hf.sessions.append("f", *users("in f"))
        hf = again()
        assert (texts(hf, "s"), texts(hf, "f")) == ([], ["in f"])

    @pytest.mark.parametrize("copy", [False, True])
    def test_a_fork_under_a_taken_id_is_refused(self, hf: Holdfast, copy: bool) -> None:
        fork_in_the_road(hf)
        taken = hf.sessions.create(id="taken", title="mine")
        with pytest.raises(AlreadyExists):
            hf.sessions.fork("s", id="taken", copy=copy)
        assert hf.sessions.get("taken") == taken

    def test_forking_at_an_unknown_message_is_not_found(self, hf: Holdfast) -> None:
        fork_in_the_road(hf)
        with pytest.raises(NotFound):
            hf.sessions.fork("s", id="f", at="none")
        assert hf.sessions.get("f") is None


def _title(session: Session | None) -> str | None:
    assert session is not None
    return session.title
