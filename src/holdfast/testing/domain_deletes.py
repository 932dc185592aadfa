"""Deleting leaves nothing behind and touches no neighbour; redacting leaves the fact that something was said."""

from __future__ import annotations

import pytest

from holdfast.client import Holdfast
from holdfast.contracts import Record, RecordStore
from holdfast.errors import ConnectionFailed, NotFound
from holdfast.kinds import BRANCHES, MESSAGES, SWEEPS
from holdfast.model import Agent, Message, ToolCall, Usage
from holdfast.testing.driving import Again, HoldfastKit, texts, users
from holdfast.testing.planting import BreaksOff, Meanwhile
from holdfast.testing.records import dump

SECRET = "the secret word is xyzzy"


def fill(hf: Holdfast, id: str, **fields: str) -> list[Message]:
    """A session with two branches, usage and more messages than one batch of a sweep."""
    hf.sessions.create(id=id, **fields)  # type: ignore[arg-type]
    first, *_ = hf.sessions.append(id, Message.user(f"{id} 0", usage=Usage(input=1)), *users(*map(str, range(250))))
    return [first, *hf.sessions.append(id, *users("other"), parent=first.id)]


class DeleteTests(HoldfastKit):
    """Sessions, agents and people that go; messages that lose their content."""

    # sessions

    @pytest.mark.parametrize("owner", [{}, {"user_id": "ann"}, {"agent_id": "scout"}])
    def test_a_deleted_session_leaves_nothing(self, hf: Holdfast, store: RecordStore, owner: dict[str, str]) -> None:
        fill(hf, "kept", **owner)
        before = dump(store)
        fill(hf, "gone", **owner)
        hf.sessions.delete("gone")
        assert hf.sessions.get("gone") is None
        assert list(hf.sessions.messages("gone")) == []
        assert dump(store) == before

    def test_deleting_a_session_leaves_neighbours_with_similar_names(self, hf: Holdfast, again: Again) -> None:
        for id in ("a", "a_b", "latest-1", "a%", "A", "ab"):
            hf.sessions.create(id=id)
            hf.sessions.append(id, *users(f"in {id}"))
        hf.sessions.delete("a")
        hf = again()
        assert [session.id for session in hf.sessions.list()] == ["ab", "A", "a%", "latest-1", "a_b"]
        assert [texts(hf, id) for id in ("a_b", "latest-1", "A")] == [["in a_b"], ["in latest-1"], ["in A"]]

    def test_the_id_of_a_deleted_session_is_free_again(self, hf: Holdfast, again: Again) -> None:
        fill(hf, "s", user_id="ann")
        hf.sessions.delete("s")
        made = hf.sessions.create(id="s")
        hf.sessions.append("s", Message.user("new", id="m"))
        hf = again()
        assert texts(hf, "s") == ["new"]
        assert (made.user_id, [branch.id for branch in hf.sessions.tree("s").branches]) == (None, [1])

    def test_deleting_twice_is_fine(self, hf: Holdfast, store: RecordStore) -> None:
        fill(hf, "s")
        hf.sessions.delete("s")
        hf.sessions.delete("s")
        assert dump(store) == []

    # forks

    def test_a_fork_made_while_another_is_deleted_stays_whole(
        self, hf: Holdfast, store: RecordStore, again: Again
    ) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", *users("one"))
        hf.sessions.fork("s", id="f")

        def fork() -> None:
            hf.sessions.fork("s", id="new")
            hf.sessions.append("new", *users("kept"))

        Holdfast(Meanwhile(store, BRANCHES, fork)).sessions.delete("f")
        assert texts(again(), "new") == ["one", "kept"]

    def test_a_fork_reads_whole_when_its_source_is_deleted(self, hf: Holdfast, again: Again) -> None:
        fill(hf, "s")
        hf.sessions.append("s", *users("last"))
        hf.sessions.fork("s", id="f")
        hf.sessions.append("f", *users("in f"))
        before = list(hf.sessions.messages("f"))
        hf.sessions.delete("s")
        hf = again()
        assert list(hf.sessions.messages("f")) == before
        assert [message.text for message in before] == ["s 0", "other", "last", "in f"]

    def test_what_only_the_deleted_source_reached_is_gone(self, hf: Holdfast, store: RecordStore) -> None:
        first, *_ = fill(hf, "s")
        hf.sessions.fork("s", id="f", at=first.id)
        hf.sessions.delete("s")
        assert [record.key[2] for record in dump(store) if record.kind is MESSAGES] == [1]
        hf.sessions.delete("f")
        assert dump(store) == []

    def test_deleting_a_fork_leaves_its_source(self, hf: Holdfast, store: RecordStore) -> None:
        fill(hf, "s")
        before = _without_branches(store)
        hf.sessions.fork("s", id="f")
        hf.sessions.append("f", *users("in f"))
        hf.sessions.delete("f")
        assert _without_branches(store) == before

    def test_a_copy_is_independent_of_its_source(self, hf: Holdfast, store: RecordStore, again: Again) -> None:
        fill(hf, "s")
        hf.sessions.fork("s", id="f", copy=True)
        before = list(hf.sessions.messages("f"))
        hf.sessions.delete("s")
        assert len([record for record in dump(store) if record.kind is MESSAGES]) == len(before)
        assert list(again().sessions.messages("f")) == before

    # people

    def test_erasing_a_person_takes_forks_too(self, hf: Holdfast, store: RecordStore) -> None:
        fill(hf, "bobs", user_id="bob")
        before = dump(store)
        fill(hf, "s1", user_id="ann")
        fill(hf, "s2", user_id="ann")
        hf.sessions.fork("s1", id="f")
        hf.sessions.update("f", user_id="bob")
        hf.sessions.append("f", *users("in f"))
        hf.sessions.delete(user_id="ann")
        assert dump(store) == before

    @pytest.mark.parametrize("copy", [False, True])
    @pytest.mark.parametrize("source_goes", [False, True])
    def test_erasing_a_person_finds_what_has_changed_hands(
        self, hf: Holdfast, store: RecordStore, copy: bool, source_goes: bool
    ) -> None:
        fill(hf, "bobs", user_id="bob")
        before = dump(store)
        fill(hf, "s", user_id="ann")
        hf.sessions.fork("s", id="f", copy=copy)
        hf.sessions.update("f", user_id="bob")
        hf.sessions.fork("f", id="ff", copy=copy)
        if source_goes:
            hf.sessions.delete("s")
        hf.sessions.delete(user_id="ann")
        assert dump(store) == before

    def test_erasing_a_person_leaves_people_with_similar_names(self, hf: Holdfast) -> None:
        for user in ("ann", "anna", "Ann", "an%", "an_"):
            hf.sessions.create(id=f"of {user}", user_id=user)
        hf.sessions.delete(user_id="ann")
        hf.sessions.delete(user_id="an%")
        assert [session.user_id for session in hf.sessions.list()] == ["an_", "Ann", "anna"]

    # agents

    def test_a_deleted_agent_takes_its_sessions(self, hf: Holdfast, store: RecordStore) -> None:
        hf.agents.save(Agent(id="scout_2", name="Other"))
        fill(hf, "kept", agent_id="scout_2")
        before = dump(store)
        for name in ("one", "two"):
            hf.agents.save(Agent(id="scout", name=name))
            fill(hf, name, agent_id="scout")
        hf.agents.delete("scout")
        assert hf.agents.get("scout") is None
        assert dump(store) == before

    def test_a_session_moved_to_another_agent_survives(self, hf: Holdfast, again: Again) -> None:
        hf.agents.save(Agent(id="scout", name=""))
        hf.sessions.create(id="s", agent_id="scout")
        hf.sessions.update("s", agent_id="other")
        hf.agents.delete("scout")
        assert [session.id for session in again().sessions.list()] == ["s"]

    # interrupted

    @pytest.mark.parametrize("commits", [1, 2, 3, 5])
    def test_an_interrupted_delete_is_finished_by_gc(self, hf: Holdfast, store: RecordStore, commits: int) -> None:
        fill(hf, "s")
        with pytest.raises(ConnectionFailed):
            Holdfast(BreaksOff(store, commits)).sessions.delete("s")
        assert hf.sessions.get("s") is None
        assert list(hf.sessions.messages("s")) == []
        assert hf.stats().sessions == 0
        hf.gc()
        assert dump(store) == []

    @pytest.mark.parametrize("commits", [1, 2, 3, 5])
    def test_an_interrupted_delete_of_an_agent_is_finished_by_gc(
        self, hf: Holdfast, store: RecordStore, commits: int
    ) -> None:
        hf.agents.save(Agent(id="scout", name=""))
        fill(hf, "s", agent_id="scout")
        with pytest.raises(ConnectionFailed):
            Holdfast(BreaksOff(store, commits)).agents.delete("scout")
        assert (hf.agents.get("scout"), hf.sessions.get("s")) == (None, None)
        hf.gc()
        assert dump(store) == []

    @pytest.mark.parametrize("commits", [1, 2, 5])
    def test_an_id_is_free_even_while_its_delete_is_unfinished(
        self, hf: Holdfast, store: RecordStore, commits: int
    ) -> None:
        fill(hf, "s")
        with pytest.raises(ConnectionFailed):
            Holdfast(BreaksOff(store, commits)).sessions.delete("s")
        hf.sessions.create(id="s")
        hf.sessions.append("s", *users("new"))
        hf.gc()
        assert texts(hf, "s") == ["new"]
        assert [record.kind for record in dump(store) if record.kind in (MESSAGES, SWEEPS)] == [MESSAGES]

    def test_a_delete_that_wrote_nothing_changes_nothing(self, hf: Holdfast, store: RecordStore) -> None:
        fill(hf, "s")
        before = dump(store)
        with pytest.raises(ConnectionFailed):
            Holdfast(BreaksOff(store, 0)).sessions.delete("s")
        assert dump(store) == before

    # redacting

    def test_a_redacted_message_keeps_only_the_fact_that_it_was_said(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s", title="t")
        calls = [ToolCall(id="c1", name=SECRET, arguments={"x": SECRET})]
        said = Message.assistant(SECRET, reasoning=SECRET, tool_calls=calls, metadata={"x": SECRET})
        hf.sessions.append("s", *users("before"), said, *users("after"))
        found = hf.sessions.redact("s", said.id, "asked to")
        assert (found.id, found.role, found.created_at, found.seq) == (said.id, "assistant", said.created_at, 2)
        assert ([call.id for call in found.tool_calls], found.text) == (["c1"], "")
        assert found.redacted is not None
        assert found.redacted.reason == "asked to"
        assert not [record for record in dump(store) if b"xyzzy" in record.body]

    def test_verify_passes_and_says_redacted(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s", title="t")
        first, _ = hf.sessions.append("s", *users(SECRET, "after"))
        before = hf.verify().redacted
        hf.sessions.redact("s", first.id, "asked to")
        hf.sessions.append("s", *users("and on"))
        report = again().verify()
        assert (before, report.redacted, report.problems) == (0, 1, [])

    def test_a_redacted_tool_result_keeps_its_call_id(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s", title="t")
        said = Message.tool_result("c1", SECRET, tool_name="book")
        hf.sessions.append("s", said)
        redacted = hf.sessions.redact("s", said.id, "asked to")
        assert hf.sessions.redact("s", said.id, "asked again") == redacted
        assert list(again().sessions.messages("s")) == [redacted]
        assert (redacted.role, redacted.tool_call_id) == ("tool", "c1")

    def test_a_message_is_redacted_on_every_branch_and_fork(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s", title="t")
        secret, _ = hf.sessions.append("s", *users(SECRET, "one"))
        hf.sessions.append("s", *users("two"), parent=secret.id)
        hf.sessions.fork("s", id="f")
        hf.sessions.redact("f", secret.id, "asked to")
        hf = again()
        assert texts(hf, "s") == texts(hf, "f") == ["", "two"]
        assert texts(hf, "s", branch=1) == ["", "one"]

    def test_a_title_made_of_a_redacted_message_goes_too(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        (said,) = hf.sessions.append("s", *users(SECRET))
        hf.sessions.redact("s", said.id, "asked to")
        assert not [record for record in dump(store) if b"xyzzy" in record.body]

    def test_redacting_what_is_not_there_is_not_found(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        with pytest.raises(NotFound):
            hf.sessions.redact("s", "none", "asked to")


def _without_branches(store: RecordStore) -> list[Record]:
    """Everything but the numbers of branches, which stay taken while their history lives."""
    return [record for record in dump(store) if record.kind is not BRANCHES]
