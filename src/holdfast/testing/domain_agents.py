"""Agents: every save a revision, none of them lost."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.errors import Conflict, MigrationError, NotFound
from holdfast.kinds import AGENTS, REVISIONS
from holdfast.model import Agent, Change
from holdfast.testing.driving import Again, Door, HoldfastKit, exact
from holdfast.testing.planting import add_fields, envelope, stored

SCOUT = Agent(
    id="scout",
    name="Scout",
    kind="gpt-5",
    system_prompt="Be kind.",
    capabilities=["search", "book"],
    config={"temperature": 0.5, "stop": None},
    state={"n": 42, "f": 42.0, "s": "42", "none": None, "list": [1, {"deep": []}]},
    metadata={"owner": "ann"},
    schema_version=3,
)
FILLED_IN = ("created_at", "modified_at", "revision")


def states(agents: Sequence[Agent]) -> list[object]:
    """What each revision has under the key "n"."""
    return [agent.state.get("n") for agent in agents]


class AgentTests(HoldfastKit):
    """`hf.agents`."""

    def test_an_unknown_agent_reads_as_nothing(self, hf: Holdfast) -> None:
        assert hf.agents.get("none") is None
        assert hf.agents.get("none", revision=1) is None
        assert hf.agents.revisions("none") == []
        hf.agents.delete("none")
        assert list(hf.agents.list()) == []

    @pytest.mark.parametrize(
        "change",
        [
            lambda hf: hf.agents.set_state("none", "key", 1),
            lambda hf: hf.agents.delete_state("none", "key"),
            lambda hf: hf.agents.restore("none", 1),
            lambda hf: hf.agents.diff("none", 1, 2),
        ],
    )
    def test_changing_an_unknown_agent_is_not_found(self, hf: Holdfast, change: Any) -> None:
        with pytest.raises(NotFound):
            change(hf)
        assert list(hf.agents.list()) == []

    def test_every_field_of_an_agent_comes_back(self, hf: Holdfast, again: Again) -> None:
        saved = hf.agents.save(SCOUT)
        found = again().agents.get("scout")
        assert found == saved
        assert exact(found) == exact(replace(SCOUT, **{name: getattr(saved, name) for name in FILLED_IN}))
        assert (saved.revision, saved.created_at) == (1, saved.modified_at)

    @pytest.mark.parametrize("metadata", [None, {}, {"n": None}])
    def test_agent_metadata_comes_back_as_it_was(
        self, hf: Holdfast, again: Again, metadata: dict[str, Any] | None
    ) -> None:
        hf.agents.save(replace(SCOUT, metadata=metadata))
        found = again().agents.get("scout")
        assert found is not None
        assert found.metadata == metadata

    def test_a_state_of_fifty_keys_comes_back(self, hf: Holdfast, again: Again) -> None:
        state = {f"key {number}": {"value": [number, float(number), str(number)]} for number in range(50)}
        hf.agents.save(replace(SCOUT, state=state))
        found = again().agents.get("scout")
        assert found is not None
        assert exact(found.state) == exact(state)

    # saving again

    def test_saving_again_is_one_entry_with_the_newest_content(self, hf: Holdfast, again: Again) -> None:
        first = hf.agents.save(SCOUT)
        second = hf.agents.save(replace(SCOUT, name="Renamed", state={}))
        hf = again()
        assert list(hf.agents.list()) == [second]
        assert (second.revision, second.name, second.state) == (2, "Renamed", {})
        assert second.created_at == first.created_at
        assert second.modified_at is not None
        assert second.modified_at > second.created_at  # type: ignore[operator]

    def test_every_revision_is_kept(self, hf: Holdfast, again: Again) -> None:
        saved = [hf.agents.save(replace(SCOUT, state={"n": number})) for number in (1, 2, 3)]
        hf = again()
        assert hf.agents.revisions("scout") == saved[::-1]
        assert [hf.agents.get("scout", revision=number) for number in (1, 2, 3)] == saved
        assert states(hf.agents.revisions("scout", limit=1, offset=1)) == [2]

    @pytest.mark.parametrize("revision", [0, 2, 2**63 - 1])
    def test_a_revision_that_is_not_there_reads_as_nothing(self, hf: Holdfast, revision: int) -> None:
        hf.agents.save(SCOUT)
        assert hf.agents.get("scout", revision=revision) is None

    def test_saving_over_the_revision_that_was_read_succeeds(self, hf: Holdfast, again: Again) -> None:
        saved = hf.agents.save(SCOUT)
        hf.agents.save(replace(saved, state={"n": 2}))
        assert states(again().agents.revisions("scout")) == [2, 42]

    @pytest.mark.parametrize("revision", [1, 3, 0])
    def test_saving_over_another_revision_is_a_conflict(self, hf: Holdfast, again: Again, revision: int) -> None:
        for number in (1, 2):
            hf.agents.save(replace(SCOUT, state={"n": number}))
        with pytest.raises(Conflict):
            hf.agents.save(replace(SCOUT, revision=revision, state={"n": "lost"}))
        assert states(again().agents.revisions("scout")) == [2, 1]

    def test_saving_over_a_revision_of_nothing_is_a_conflict(self, hf: Holdfast) -> None:
        with pytest.raises(Conflict):
            hf.agents.save(replace(SCOUT, revision=1))
        assert hf.agents.get("scout") is None

    def test_of_writers_that_read_the_same_revision_one_wins(self, hf: Holdfast, store: RecordStore) -> None:
        read = hf.agents.save(SCOUT)

        def save(number: int) -> bool:
            try:
                Holdfast(store).agents.save(replace(read, state={"n": number}))
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(save, range(8))) == 1

    def test_threads_that_set_keys_of_one_state_lose_none(self, hf: Holdfast, store: RecordStore) -> None:
        hf.agents.save(replace(SCOUT, state={}))
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: Holdfast(store).agents.set_state("scout", str(n), n), range(40)))
        found = hf.agents.get("scout")
        assert found is not None
        assert (found.state, found.revision) == ({str(n): n for n in range(40)}, 41)

    # state

    def test_one_key_of_the_state_can_be_set_and_removed(self, hf: Holdfast, again: Again) -> None:
        hf.agents.save(replace(SCOUT, state={"a": 1, "b": 2}))
        hf.agents.set_state("scout", "c", {"deep": [3.0]})
        last = hf.agents.delete_state("scout", "a")
        assert again().agents.get("scout") == last
        assert (last.state, last.revision, last.name) == ({"b": 2, "c": {"deep": [3.0]}}, 3, "Scout")

    # going back

    def test_a_diff_says_what_changed(self, hf: Holdfast, again: Again) -> None:
        hf.agents.save(replace(SCOUT, state={"same": 1, "old": [1], "n": 42}))
        hf.agents.save(replace(SCOUT, name="New", state={"same": 1, "n": 42.0, "new": {"a": 1}}))
        assert again().agents.diff("scout", 1, 2) == [
            Change(path=("name",), kind="changed", before="Scout", after="New"),
            Change(path=("state", "n"), kind="changed", before=42, after=42.0),
            Change(path=("state", "new"), kind="added", after={"a": 1}),
            Change(path=("state", "old"), kind="removed", before=[1]),
        ]

    def test_revisions_with_the_same_content_do_not_differ(self, hf: Holdfast) -> None:
        for _ in range(2):
            hf.agents.save(SCOUT)
        assert hf.agents.diff("scout", 1, 2) == []

    def test_restoring_saves_the_old_content_as_a_new_revision(self, hf: Holdfast, again: Again) -> None:
        for number in (1, 2):
            hf.agents.save(replace(SCOUT, state={"n": number}))
        restored = hf.agents.restore("scout", 1)
        hf = again()
        assert hf.agents.get("scout") == restored
        assert states(hf.agents.revisions("scout")) == [1, 2, 1]

    def test_restoring_a_revision_that_is_not_there_is_not_found(self, hf: Holdfast) -> None:
        hf.agents.save(SCOUT)
        with pytest.raises(NotFound):
            hf.agents.restore("scout", 2)
        assert len(hf.agents.revisions("scout")) == 1

    def test_fields_of_a_later_version_survive_a_save(self, door: Door) -> None:
        door.hf.agents.save(SCOUT)
        hf = door.reopen()
        add_fields(door.store, AGENTS, "scout", mood={"value": 42.0})
        hf.agents.set_state("scout", "n", 2)
        assert exact(envelope(stored(door.store, AGENTS, "scout"))["mood"]) == exact({"value": 42.0})

    def test_a_later_versions_agent_fields_are_carried_into_new_revisions(self, store: RecordStore) -> None:
        hf = Holdfast(store)
        hf.agents.save(SCOUT)
        uid = envelope(stored(store, AGENTS, "scout"))["uid"]
        add_fields(store, REVISIONS, uid, 1, mood={"value": 42.0})
        hf.agents.save(replace(SCOUT, name="Renamed"))
        assert exact(envelope(stored(store, REVISIONS, uid, 2))["mood"]) == exact({"value": 42.0})

    # migrations

    def test_migrations_are_applied_on_read(self, store: RecordStore) -> None:
        steps = {1: lambda state: {**state, "two": True}, 2: lambda state: {**state, "three": state["two"]}}
        Holdfast(store).agents.save(Agent(id="old", name="", state={"n": 1}))
        found = Holdfast(store, migrations=steps).agents.get("old")
        plain = Holdfast(store).agents.get("old")
        assert found is not None
        assert (found.schema_version, found.state) == (3, {"n": 1, "two": True, "three": True})
        assert plain is not None
        assert (plain.schema_version, plain.state) == (1, {"n": 1})

    def test_a_migrated_agent_is_saved_under_its_new_version(self, store: RecordStore) -> None:
        Holdfast(store).agents.save(Agent(id="old", name="", state={"n": 1}))
        new = Holdfast(store, migrations={1: lambda state: {"m": state["n"]}})
        new.agents.set_state("old", "k", 2)
        found = Holdfast(store).agents.get("old")
        assert found is not None
        assert (found.schema_version, found.state) == (2, {"m": 1, "k": 2})

    @pytest.mark.parametrize("step", [lambda state: state["missing"], lambda _: {"bad": {1, 2}}])
    def test_a_migration_that_fails_says_so(self, store: RecordStore, step: Any) -> None:
        Holdfast(store).agents.save(SCOUT)
        with pytest.raises(MigrationError, match="scout"):
            Holdfast(store, migrations={3: step}).agents.get("scout")

    # listing and counting

    def test_agents_are_listed_by_id_page_by_page(self, hf: Holdfast, again: Again) -> None:
        for id in ("b", "a", "C", "é", "d"):
            hf.agents.save(replace(SCOUT, id=id))
        page = hf.agents.list(limit=2)
        found = [agent.id for agent in page]
        while page.cursor is not None:
            page = again().agents.list(limit=2, cursor=page.cursor)
            found += [agent.id for agent in page]
        assert found == ["C", "a", "b", "d", "é"]

    def test_the_active_sessions_of_an_agent_are_counted_on_read(self, hf: Holdfast, again: Again) -> None:
        saved = hf.agents.save(replace(SCOUT, active_sessions=7))
        for status in ("active", "idle", "active", "ended"):
            hf.sessions.create(agent_id="scout", status=status)
        hf.sessions.create(agent_id="other")
        found = again().agents.get("scout")
        assert found is not None
        assert (saved.active_sessions, found.active_sessions) == (0, 2)

    def test_an_agent_deleted_and_saved_again_begins_anew(self, hf: Holdfast, again: Again) -> None:
        for number in (1, 2):
            hf.agents.save(replace(SCOUT, state={"n": number}))
        hf.agents.delete("scout")
        assert hf.agents.get("scout") is None
        assert hf.agents.revisions("scout") == []
        again().agents.save(replace(SCOUT, state={"n": 3}))
        assert states(again().agents.revisions("scout")) == [3]
