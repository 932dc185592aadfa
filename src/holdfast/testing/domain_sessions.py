"""Sessions: made, changed, listed, found by what they say, and absent when they are not there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from holdfast.kinds import HEADS, SESSIONS, Kind
from holdfast.model import Head, Message, Usage
from holdfast.testing.driving import NOON, Again, Clock, Door, HoldfastKit, exact, users
from holdfast.testing.planting import add_fields, detach, envelope, stored
from holdfast.testing.records import dump

FIELDS: dict[str, Any] = {
    "agent_id": "scout",
    "user_id": "ann",
    "title": "Kyoto",
    "model": "gpt-5",
    "metadata": {"plan": {"days": 3}},
    "tags": ["travel", "japan"],
    "status": "idle",
    "archived": True,
    "max_context_tokens": 100_000,
}
CHANGES: dict[str, Any] = {
    "agent_id": "other",
    "user_id": None,
    "title": None,
    "model": "gpt-6",
    "metadata": {},
    "tags": [],
    "status": "ended",
    "archived": False,
    "max_context_tokens": None,
}


class SessionTests(HoldfastKit):
    """`hf.sessions` without its messages."""

    def test_what_does_not_fit_is_told_in_words_of_python(self, hf: Holdfast) -> None:
        with pytest.raises(InvalidInput, match=r"metadata should be dict \| None, not list"):
            hf.sessions.create(metadata=[1])  # type: ignore[arg-type]

    def test_all_records_of_a_session_that_the_store_has_named_begin_with_its_name(self, door: Door) -> None:
        session = door.hf.sessions.create(title="Kyoto").id
        door.hf.sessions.append(session, *users("hello"))
        door.hf.checkpoints.create(session_id=session, messages=users("again"))
        assert {record.key[0] for record in dump(door.store)} == {session}

    # what is not there

    def test_an_unknown_session_reads_as_nothing(self, hf: Holdfast) -> None:
        assert hf.sessions.get("none") is None
        assert hf.sessions.message("none", "m") is None
        assert list(hf.sessions.messages("none")) == []
        assert list(hf.sessions.page("none")) == []
        assert list(hf.sessions.list(agent_id="none")) == []

    def test_deleting_an_unknown_session_succeeds(self, hf: Holdfast) -> None:
        hf.sessions.delete("none")
        hf.sessions.delete(user_id="nobody")
        assert hf.sessions.get("none") is None

    @pytest.mark.parametrize(
        "change",
        [
            lambda hf: hf.sessions.append("none", Message.user("hi")),
            lambda hf: hf.sessions.update("none", title="x"),
            lambda hf: hf.sessions.attach("none"),
            lambda hf: hf.sessions.switch("none", 1),
            lambda hf: hf.sessions.fork("none"),
            lambda hf: hf.sessions.tree("none"),
            lambda hf: hf.sessions.redact("none", "m", "why"),
            lambda hf: hf.sessions.update_usage("none", "m", Usage(input=1)),
        ],
    )
    def test_changing_an_unknown_session_is_not_found(self, hf: Holdfast, change: Any) -> None:
        with pytest.raises(NotFound):
            change(hf)
        assert list(hf.sessions.list()) == []

    # creating

    def test_every_field_comes_back(self, hf: Holdfast, again: Again) -> None:
        made = hf.sessions.create(id="s", **FIELDS)
        found = again().sessions.get("s")
        assert found == made
        assert {name: getattr(found, name) for name in FIELDS} == FIELDS
        assert made.head == Head(branch=1, seq=0)
        assert (made.updated_at, made.last_message_at) == (made.created_at, None)

    def test_a_new_id_is_a_uuid_of_version_7(self, hf: Holdfast) -> None:
        made = [hf.sessions.create().id for _ in range(3)]
        assert [UUID(id).version for id in made] == [7, 7, 7]
        assert made == sorted(set(made))

    @pytest.mark.parametrize("metadata", [None, {}, {"n": 42}, {"n": 42.0}, {"n": "42"}, {"n": None}, {"": [[]]}])
    def test_metadata_comes_back_as_it_was(self, hf: Holdfast, again: Again, metadata: dict[str, Any] | None) -> None:
        hf.sessions.create(id="s", metadata=metadata)
        found = again().sessions.get("s")
        assert found is not None
        assert exact(found.metadata) == exact(metadata)

    def test_creating_the_same_session_again_succeeds(self, hf: Holdfast, again: Again) -> None:
        made = hf.sessions.create(id="s", **FIELDS)
        hf.sessions.append("s", *users("hi"))
        again().sessions.create(id="s", **FIELDS)
        found = again().sessions.get("s")
        assert found is not None
        assert (found.created_at, found.head.seq) == (made.created_at, 1)

    def test_creating_another_session_of_that_id_is_refused(self, hf: Holdfast) -> None:
        made = hf.sessions.create(id="s", title="first")
        with pytest.raises(AlreadyExists):
            hf.sessions.create(id="s", title="second")
        assert hf.sessions.get("s") == made

    # updating

    @pytest.mark.parametrize("field", FIELDS)
    def test_an_update_changes_only_the_field_given(self, hf: Holdfast, again: Again, field: str) -> None:
        hf.sessions.create(id="s", **FIELDS)
        changed = hf.sessions.update("s", **{field: CHANGES[field]})
        found = again().sessions.get("s")
        assert found == changed
        assert {name: getattr(found, name) for name in FIELDS} == {**FIELDS, field: CHANGES[field]}

    def test_an_update_leaves_the_messages(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        said = hf.sessions.append("s", *users("one", "two"))
        hf.sessions.update("s", title="new")
        assert list(again().sessions.messages("s")) == said

    @pytest.mark.parametrize("kind", [SESSIONS, HEADS])
    def test_fields_of_a_later_version_survive(self, door: Door, kind: Kind) -> None:
        door.hf.sessions.create(id="s")
        add_fields(door.store, kind, "s", mood={"value": 42.0})
        hf = door.reopen()
        hf.sessions.update("s", title="new", status="idle")
        hf.sessions.append("s", *users("one"))
        hf.sessions.append("s", *users("two"), parent="")
        hf.sessions.switch("s", 1)
        assert exact(envelope(stored(door.store, kind, "s"))["mood"]) == exact({"value": 42.0})

    # times

    def test_every_write_is_later_than_the_one_before(self, hf: Holdfast, clock: Clock) -> None:
        made = hf.sessions.create(id="s")
        clock.now -= timedelta(days=1)
        hf.sessions.append("s", *users("one"))
        first = hf.sessions.get("s")
        second = hf.sessions.update("s", title="x")
        assert first is not None
        assert made.created_at == second.created_at
        assert made.updated_at < first.updated_at < second.updated_at

    def test_the_last_message_dates_the_session(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        later = Message.user("said first", created_at=NOON + timedelta(days=2))
        hf.sessions.append("s", later, Message.user("said last", created_at=NOON))
        found = again().sessions.get("s")
        assert found is not None
        assert found.last_message_at == NOON

    # detached

    def test_a_detached_session_is_not_listed_but_reachable(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s", agent_id="a")
        said = hf.sessions.append("s", *users("hi"))
        detach(store, "s")
        assert list(hf.sessions.list()) == []
        assert hf.stats().sessions == 0
        assert list(hf.sessions.messages("s")) == said
        with pytest.raises(Conflict):
            hf.sessions.append("s", *users("more"))

    def test_an_attached_session_goes_on(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        detach(store, "s")
        assert hf.sessions.attach("s").detached_by is None
        hf.sessions.append("s", *users("more"))
        assert [session.id for session in hf.sessions.list()] == ["s"]
