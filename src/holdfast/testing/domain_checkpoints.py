"""Checkpoints as they are made, described and found."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import history
from holdfast.checkpoint_records import checkpoint_record, read_stored
from holdfast.client import Holdfast
from holdfast.contracts import Delete, Insert, Put, Query, RecordStore
from holdfast.errors import AlreadyExists, InvalidInput, NotFound
from holdfast.kinds import CAPTURES, CHECKPOINTS
from holdfast.model import Agent, Checkpoint, CheckpointKind, CheckpointStatus, Message, ToolCall
from holdfast.testing.driving import Again, Clock, Door, HoldfastKit, exact, texts, users
from holdfast.testing.planting import BreaksOff
from holdfast.testing.records import dump

CALLS = [
    ToolCall(id="c1", name="book", arguments={"room": 7, "price": 42.0, "name": "42"}),
    ToolCall(id="c2", name="odd", arguments="{no json"),
]
EVERYTHING: dict[str, Any] = {
    "kind": "automatic",
    "step": 3,
    "status": "failed",
    "reason": "the tool gave up",
    "name": "before booking",
    "protected": True,
    "description": "three nights",
    "metadata": {"n": 42, "f": 42.0, "s": "42", "none": None},
    "partial_results": [1, 1.0, "1", None, {"deep": [[]]}],
    "tool_calls": CALLS,
    "extra": {"plan": ["find", {"then": "book"}]},
    "run_id": "run-1",
}


def begin(hf: Holdfast, *sessions: str, agent: str = "scout") -> None:
    """An agent with the state {"n": 1} whose sessions each have said hello."""
    hf.agents.save(Agent(id=agent, name="Scout", state={"n": 1}))
    for id in sessions:
        hf.sessions.create(id=id, agent_id=agent)
        hf.sessions.append(id, *users(f"hello {id}"))


def ids(found: Any) -> list[str]:
    """The ids of what a listing found."""
    return [one.id for one in found]


def said(hf: Holdfast, checkpoint: Checkpoint, session_id: str | None = None) -> list[str]:
    """The texts of a session as of a checkpoint."""
    return [message.text for message in hf.checkpoints.messages(checkpoint.id, session_id)]


def check_refused(hf: Holdfast, *steps: int) -> None:
    """Session a has checkpoints of these steps already, and takes no others."""
    for step in steps:
        with pytest.raises(AlreadyExists):
            hf.checkpoints.create(session_id="a", step=step, extra="other")


def say_of_steps(store: RecordStore, greatest: int | None) -> None:
    """Let the head of session a say this of the steps that its checkpoints have."""
    seen = history.must_see(store, "a")
    store.commit([Put(history.pointer_record(replace(seen.pointer, checkpoint_step=greatest), {}), seen.digest)])


class CheckpointKit(HoldfastKit):
    """Subclass it as `TestMyCheckpoints` and say how to `open` the store; never override a test."""

    # of an agent

    def test_an_agents_checkpoint_has_its_state_and_all_its_sessions(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a", "b")
        made = hf.checkpoints.create("scout")
        hf.agents.set_state("scout", "n", 2)
        hf.sessions.append("a", *users("later"))
        hf = again()
        assert hf.checkpoints.state(made.id).state == {"n": 1}
        assert [said(hf, made, id) for id in ("a", "b")] == [["hello a"], ["hello b"]]
        assert (made.agent_id, made.session_id, made.revision) == ("scout", None, 1)

    def test_a_checkpoint_tells_its_makers_time_whatever_time_came_before(
        self, hf: Holdfast, clock: Clock, again: Again
    ) -> None:
        begin(hf, "a")
        clock.now += timedelta(days=30)
        early = [hf.checkpoints.create(session_id="a"), hf.checkpoints.create("scout")]
        clock.now -= timedelta(days=30)
        hf, present = again(), clock.now
        made = [
            hf.checkpoints.create(session_id="a"),
            hf.checkpoints.create("scout"),
            hf.checkpoints.create(session_id="a", ttl=60),
            hf.checkpoints.restore(early[0].id).recovery,
        ]
        assert all(present < one.created_at <= clock.now for one in made)
        assert [hf.checkpoints.get(one.id) for one in made] == made
        assert ids(hf.checkpoints.list(session_id="a")) == ids([made[3], made[2], made[0], early[0]])
        assert ids(hf.checkpoints.list("scout")) == ids([made[1], early[1]])

    def test_a_list_of_all_keeps_each_owners_order_of_writing_whatever_the_clock_says(
        self, hf: Holdfast, clock: Clock
    ) -> None:
        begin(hf, "a", "b")
        made: dict[str, list[str]] = {"a": [], "b": [], "scout": []}
        for days in (30, -20, -5, 40):
            clock.now += timedelta(days=days)
            made["a"].append(hf.checkpoints.create(session_id="a").id)
            made["scout"].append(hf.checkpoints.create("scout").id)
            made["b"].append(hf.checkpoints.create(session_id="b", messages=users("more")).id)
        everything = ids(hf.checkpoints.list())
        assert sorted(everything) == sorted(id for owner in made.values() for id in owner)
        for owner in made.values():
            assert [id for id in everything if id in owner] == owner[::-1]
        page = hf.checkpoints.list(limit=5)
        paged = ids(page)
        while page.cursor is not None:
            page = hf.checkpoints.list(limit=5, cursor=page.cursor)
            paged += ids(page)
        assert paged == everything

    def test_a_checkpoint_whose_place_is_no_time_is_listed_and_verify_names_it(self, door: Door) -> None:
        hf = door.hf
        begin(hf, "a")
        made = hf.checkpoints.create(session_id="a")
        (record,) = door.store.scan(Query(kind=CHECKPOINTS))
        odd = replace(read_stored(record), id="odd", number=2, at=2**62)
        door.store.commit([Insert(checkpoint_record(odd))])
        found = hf.checkpoints.list(session_id="a")
        assert [(one.id, one.created_at) for one in found] == [("odd", made.created_at), (made.id, made.created_at)]
        assert ["is no time" in problem.what for problem in hf.verify().problems] == [True]
        door.store.commit([Delete(CHECKPOINTS, (odd.owner, odd.number))])

    def test_every_session_keeps_the_place_it_had_at_each_checkpoint(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a", "b")
        made = []
        for number in range(4):
            hf.sessions.append("a" if number % 2 else "b", *users(f"{number}"))
            made.append(hf.checkpoints.create("scout"))
        hf = again()
        places = [{id: head.seq for id, head in hf.checkpoints.heads(one.id).items()} for one in made]
        assert places == [{"a": 1, "b": 2}, {"a": 2, "b": 2}, {"a": 2, "b": 3}, {"a": 3, "b": 3}]

    def test_an_agents_checkpoint_pays_for_the_sessions_that_changed(self, door: Door) -> None:
        hf = door.hf
        begin(hf, *(f"s{number}" for number in range(20)))
        hf.checkpoints.create("scout")
        for id in ("s3", "s5", "s8"):
            hf.sessions.append(id, *users("more"))
        before = door.store.count(Query(kind=CAPTURES))
        made = hf.checkpoints.create("scout")
        assert (before, door.store.count(Query(kind=CAPTURES))) == (20, 23)
        assert len(hf.checkpoints.heads(made.id)) == 20

    def test_an_agents_checkpoint_is_one_instant(self, door: Door) -> None:
        hf = door.hf
        begin(hf, "a", "b")
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(_talk, Holdfast(door.store))
            made = [hf.checkpoints.create("scout")]
            while not writing.done():
                made.append(hf.checkpoints.create("scout"))
        for one in made:
            heads = hf.checkpoints.heads(one.id)
            assert heads["a"].seq - heads["b"].seq in (0, 1)

    def test_an_agents_checkpoint_leaves_out_what_is_no_longer_its_own(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "deleted", "moved", "kept")
        before = hf.checkpoints.create("scout")
        hf.sessions.delete("deleted")
        hf.sessions.update("moved", agent_id="other")
        after = hf.checkpoints.create("scout")
        hf = again()
        assert sorted(hf.checkpoints.heads(after.id)) == ["kept"]
        assert {"moved", "kept"} <= set(hf.checkpoints.heads(before.id))

    def test_an_agent_without_sessions_can_be_checkpointed(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        made = hf.checkpoints.create("scout")
        hf = again()
        assert hf.checkpoints.get(made.id) == made
        assert dict(hf.checkpoints.heads(made.id)) == {}

    # of a session

    def test_a_sessions_checkpoint_knows_where_the_session_stood(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        made = hf.checkpoints.create(session_id="a", step=1)
        hf.sessions.append("a", *users("later"))
        hf = again()
        assert said(hf, made) == ["hello a"]
        assert (made.session_id, made.agent_id, made.revision) == ("a", "scout", None)
        assert made.head is not None
        assert (made.head.branch, made.head.seq) == (1, 1)

    def test_an_empty_session_can_be_checkpointed(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        made = hf.checkpoints.create(session_id="s")
        hf.sessions.append("s", *users("later"))
        assert said(again(), made) == []

    def test_messages_and_checkpoint_are_one_commit(self, door: Door) -> None:
        hf = door.hf
        hf.sessions.create(id="s", title="t")
        made = Holdfast(BreaksOff(door.store, 1)).checkpoints.create(session_id="s", messages=users("one", "two"))
        hf = door.reopen()
        assert texts(hf, "s") == said(hf, made) == ["one", "two"]

    def test_a_refused_checkpoint_appends_nothing(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        hf.checkpoints.create(session_id="s", step=1, extra="first")
        with pytest.raises(AlreadyExists):
            hf.checkpoints.create(session_id="s", step=1, extra="second", messages=users("never"))
        assert texts(again(), "s") == []

    def test_repeating_an_append_with_its_checkpoint_changes_nothing(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        step: dict[str, Any] = {"session_id": "s", "step": 1, "messages": users("one", "two")}
        made = hf.checkpoints.create(**step)
        hf.sessions.append("s", *users("three"))
        assert hf.checkpoints.create(**step) == made
        hf = again()
        assert (texts(hf, "s"), ids(hf.checkpoints.list())) == (["one", "two", "three"], [made.id])

    # what it says

    @pytest.mark.parametrize("owner", [{"agent_id": "scout"}, {"session_id": "a"}])
    def test_everything_a_checkpoint_says_comes_back(self, hf: Holdfast, again: Again, owner: dict[str, Any]) -> None:
        begin(hf, "a")
        made = hf.checkpoints.create(**owner, **EVERYTHING)
        found = again().checkpoints.get(made.id)
        assert found == made
        assert exact({name: getattr(found, name) for name in EVERYTHING}) == exact(EVERYTHING)

    @pytest.mark.parametrize("kind", ["automatic", "manual", "pre_operation", "recovery"])
    def test_every_kind_comes_back(self, hf: Holdfast, again: Again, kind: CheckpointKind) -> None:
        begin(hf)
        made = hf.checkpoints.create("scout", kind=kind)
        hf = again()
        assert [one.kind for one in hf.checkpoints.list("scout")] == [kind]
        assert ids(hf.checkpoints.list("scout", kind=kind)) == [made.id]

    @pytest.mark.parametrize("status", ["in_progress", "completed", "failed", "halted"])
    def test_every_status_comes_back_with_its_reason(
        self, hf: Holdfast, again: Again, status: CheckpointStatus
    ) -> None:
        begin(hf)
        hf.checkpoints.create("scout", status=status, reason="because")
        (found,) = again().checkpoints.list("scout")
        assert (found.status, found.reason) == (status, "because")

    @pytest.mark.parametrize("metadata", [None, {}, {"n": None}])
    def test_checkpoint_metadata_comes_back_as_it_was(
        self, hf: Holdfast, again: Again, metadata: dict[str, Any] | None
    ) -> None:
        begin(hf)
        hf.checkpoints.create("scout", metadata=metadata)
        (found,) = again().checkpoints.list("scout")
        assert found.metadata == metadata

    def test_a_checkpoint_says_its_size_its_checksum_and_the_one_before(self, door: Door) -> None:
        begin(door.hf)
        first = door.hf.checkpoints.create("scout")
        second = door.hf.checkpoints.create("scout")
        hf = door.reopen()
        rows = {record.fields[0]: record for record in dump(door.store) if record.kind is CHECKPOINTS}
        assert (first.parent_id, second.parent_id) == (None, first.id)
        for one in hf.checkpoints.list("scout"):
            assert (one.size_bytes, one.checksum) == (len(rows[one.id].body), rows[one.id].digest.hex())

    @pytest.mark.parametrize(
        "wrong",
        [
            {"extra": float("nan")},
            {"metadata": {"n": 2**64}},
            {"partial_results": [object()]},
            {"tool_calls": [ToolCall(id="c", name="f", arguments={1: 2})]},
            {"step": -1},
            {"ttl": -1},
            {"ttl": 10**11},
            {"name": ""},
            {"kind": "weekly"},
            {"status": "fine"},
            {"id": ""},
            {"messages": [Message.user("x")]},
            {"messages": Message.user("x"), "agent_id": None, "session_id": "a"},
            {"session_id": "a"},
            {"agent_id": None},
        ],
    )
    def test_a_checkpoint_that_cannot_be_kept_is_refused(self, hf: Holdfast, wrong: dict[str, Any]) -> None:
        begin(hf, "a")
        with pytest.raises(InvalidInput):
            hf.checkpoints.create(**{"agent_id": "scout", **wrong})
        assert (ids(hf.checkpoints.list()), texts(hf, "a")) == ([], ["hello a"])

    @pytest.mark.parametrize("owner", [{"agent_id": "none"}, {"session_id": "none"}])
    def test_checkpointing_what_is_not_there_is_not_found(self, door: Door, owner: dict[str, Any]) -> None:
        with pytest.raises(NotFound):
            door.hf.checkpoints.create(**owner)
        assert dump(door.store) == []

    # the same step, the same id

    def test_the_same_step_with_the_same_content_is_the_same_checkpoint(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a", "b")
        made = hf.checkpoints.create(session_id="a", step=1, extra=[1])
        assert hf.checkpoints.create(session_id="a", step=1, extra=[1]) == made
        hf.checkpoints.create(session_id="b", step=1, extra=[2])
        assert ids(again().checkpoints.list(session_id="a")) == [made.id]

    @pytest.mark.parametrize("other", [{"extra": 1.0}, {"status": "failed"}, {"name": "x"}, {"partial_results": [0]}])
    def test_the_same_step_with_other_content_is_refused(
        self, hf: Holdfast, again: Again, other: dict[str, Any]
    ) -> None:
        begin(hf, "a")
        made = hf.checkpoints.create(session_id="a", step=1, extra=1)
        with pytest.raises(AlreadyExists):
            hf.checkpoints.create(**{"session_id": "a", "step": 1, "extra": 1, **other})
        assert list(again().checkpoints.list(session_id="a")) == [made]

    def test_the_same_step_elsewhere_in_the_conversation_is_other_content(self, hf: Holdfast) -> None:
        begin(hf, "a")
        hf.checkpoints.create(session_id="a", step=1)
        hf.sessions.append("a", *users("later"))
        with pytest.raises(AlreadyExists):
            hf.checkpoints.create(session_id="a", step=1)
        with pytest.raises(AlreadyExists):
            hf.checkpoints.create(session_id="a", step=1, messages=users("more"))
        assert texts(hf, "a") == ["hello a", "later"]

    def test_steps_in_any_order_are_kept_once(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        for step in (5, 2, 9, 7):
            hf.checkpoints.create(session_id="a", step=step, messages=users(f"step {step}"))
        hf.checkpoints.create(session_id="a")
        hf.checkpoints.restore(hf.checkpoints.list(session_id="a", order="step")[1].id)
        check_refused(hf, 2, 5, 7, 9)
        later = again()
        check_refused(later, 2, 5, 7, 9)
        later.checkpoints.create(session_id="a", step=10)
        kept = [one.step for one in later.checkpoints.list(session_id="a", order="step")]
        assert [step for step in kept if step is not None] == [2, 5, 7, 9, 10]

    def test_an_older_head_that_knows_no_step_is_no_reason_to_repeat_one(self, door: Door) -> None:
        begin(door.hf, "a")
        for step in (1, 3):
            door.hf.checkpoints.create(session_id="a", step=step)
        say_of_steps(door.store, None)
        later = door.reopen()
        later.checkpoints.create(session_id="a", step=2)
        check_refused(later, 1, 2, 3)

    def test_verify_names_a_checkpoint_beyond_what_its_session_knows(self, door: Door) -> None:
        begin(door.hf, "a")
        door.hf.checkpoints.create(session_id="a", step=3)
        say_of_steps(door.store, 2)
        found = door.reopen().verify().problems
        say_of_steps(door.store, 3)
        assert [(problem.kind, "step 3" in problem.what) for problem in found] == [("checkpoints", True)]

    def test_a_step_can_be_replaced(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        hf.checkpoints.create(session_id="a", step=1, extra="old")
        hf.sessions.append("a", *users("later"))
        made = hf.checkpoints.create(session_id="a", step=1, extra="new", replace=True)
        hf = again()
        assert list(hf.checkpoints.list(session_id="a")) == [made]
        assert said(hf, made) == ["hello a", "later"]

    @pytest.mark.parametrize("owner", [{"agent_id": "scout"}, {"agent_id": "other"}, {"session_id": "b"}])
    def test_the_id_of_anothers_checkpoint_is_taken(self, hf: Holdfast, again: Again, owner: dict[str, Any]) -> None:
        begin(hf, "a", "b")
        begin(hf, agent="other")
        made = hf.checkpoints.create(session_id="a", id="c")
        for overwrite in (False, True):
            with pytest.raises(AlreadyExists):
                hf.checkpoints.create(**owner, id="c", replace=overwrite)
        assert list(again().checkpoints.list()) == [made]

    @pytest.mark.parametrize("owner", [{"agent_id": "scout"}, {"session_id": "b"}])
    def test_an_id_that_anothers_checkpoint_got_is_taken(
        self, hf: Holdfast, again: Again, owner: dict[str, Any]
    ) -> None:
        begin(hf, "a", "b")
        made = [hf.checkpoints.create(session_id=name) for name in "abab"]
        for one in made[::2]:
            for overwrite in (False, True):
                with pytest.raises(AlreadyExists):
                    hf.checkpoints.create(**owner, id=one.id, replace=overwrite)
        assert list(again().checkpoints.list()) == made[::-1]

    def test_a_checkpoint_is_repeated_by_the_id_it_got(self, hf: Holdfast, again: Again) -> None:
        begin(hf, "a")
        hf.checkpoints.create(session_id="a")
        later = users("later")
        made = hf.checkpoints.create(session_id="a", messages=later)
        assert hf.checkpoints.create(session_id="a", messages=later, id=made.id) == made
        with pytest.raises(AlreadyExists):
            hf.checkpoints.create(session_id="a", messages=users("another"), id=made.id)
        hf = again()
        assert hf.checkpoints.get(made.id) == made
        assert said(hf, made) == ["hello a", "later"]

    def test_the_id_of_another_agents_checkpoint_is_taken(self, hf: Holdfast, again: Again) -> None:
        begin(hf)
        begin(hf, agent="other")
        made = hf.checkpoints.create("scout", id="c")
        assert hf.checkpoints.create("scout", id="c") == made
        with pytest.raises(AlreadyExists):
            hf.checkpoints.create("other", id="c")
        assert list(again().checkpoints.list()) == [made]

    # what it costs

    def test_bytes_grow_linearly_with_a_growing_conversation(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s", title="t")
        sizes = [hf.stats().bytes]
        for half in range(2):
            for step in range(100, 350):
                hf.checkpoints.create(session_id="s", step=1000 * half + step, messages=users(f"message {step}"))
            sizes.append(hf.stats().bytes)
        first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
        assert second < 1.05 * first


def _talk(hf: Holdfast) -> None:
    """Say something in a, then in b, over and over."""
    for number in range(60):
        hf.sessions.append("b" if number % 2 else "a", *users(f"{number}"))
