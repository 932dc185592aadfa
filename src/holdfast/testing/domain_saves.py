"""Saving a conversation whole: again, longer, shorter, edited, and on top of another."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.contracts import MAX_BYTES
from holdfast.errors import Busy, Conflict, InvalidInput
from holdfast.model import Compaction, Message, Text
from holdfast.testing.driving import NOON, Again, HoldfastKit, texts, users
from holdfast.testing.planting import detach

ASKED = {"role": "user", "content": "Find a ryokan"}
ANSWERED = {"role": "assistant", "content": "Two look good."}


def branches(hf: Holdfast, session_id: str) -> int:
    return len(hf.sessions.tree(session_id).branches)


class SaveTests(HoldfastKit):
    """`hf.sessions.save`."""

    def test_a_new_session_is_made_with_all_that_is_given(self, hf: Holdfast, again: Again) -> None:
        fields = {"id": "s", "title": "Kyoto", "tags": ["travel"], "status": "idle", "created_at": NOON.isoformat()}
        hf.sessions.save(fields, [ASKED, ANSWERED])
        found = again().sessions.get("s")
        assert found is not None
        assert (found.title, found.tags, found.status, found.created_at) == ("Kyoto", ["travel"], "idle", NOON)
        assert texts(again(), "s") == ["Find a ryokan", "Two look good."]

    def test_saving_the_same_again_changes_nothing(self, hf: Holdfast) -> None:
        saved = hf.sessions.save({"id": "s", "metadata": {"n": 42}}, [ASKED, ANSWERED])
        assert hf.sessions.save({"id": "s", "metadata": {"n": 42}}, [ASKED, ANSWERED]) == saved
        assert hf.sessions.save(saved, list(hf.sessions.messages("s"))) == saved

    def test_only_the_fields_given_change(self, hf: Holdfast) -> None:
        hf.sessions.save({"id": "s", "title": "Kyoto", "metadata": {"n": 42}}, [ASKED])
        saved = hf.sessions.save({"id": "s", "metadata": {"n": 42.0}}, [ASKED])
        assert (saved.title, repr(saved.metadata)) == ("Kyoto", "{'n': 42.0}")

    def test_more_messages_go_on_the_same_branch(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.save({"id": "s"}, [ASKED])
        hf.sessions.save({"id": "s"}, [ASKED, ANSWERED])
        assert (texts(again(), "s"), branches(again(), "s")) == (["Find a ryokan", "Two look good."], 1)

    def test_the_rest_that_differs_becomes_a_branch(self, hf: Holdfast, again: Again) -> None:
        first, *_ = hf.sessions.append(hf.sessions.create(id="s").id, *users("one", "two", "three"))
        hf.sessions.save({"id": "s"}, [first, *users("other", "end")])
        hf = again()
        assert (texts(hf, "s"), texts(hf, "s", branch=1)) == (["one", "other", "end"], ["one", "two", "three"])
        assert hf.sessions.tree("s").branch_points == [first.id]

    def test_another_first_message_is_a_branch_too(self, hf: Holdfast) -> None:
        hf.sessions.save({"id": "s"}, users("one", "two"))
        hf.sessions.save({"id": "s"}, users("other"))
        assert (texts(hf, "s"), texts(hf, "s", branch=1)) == (["other"], ["one", "two"])

    def test_a_message_edited_in_place_keeps_the_old_one(self, hf: Holdfast) -> None:
        first, second, third = hf.sessions.append(hf.sessions.create(id="s").id, *users("one", "two", "three"))
        edited = [first, replace(second, content=[Text(text="2")]), third]
        for _ in range(2):
            hf.sessions.save({"id": "s"}, edited)
        assert (texts(hf, "s"), texts(hf, "s", branch=1)) == (["one", "2", "three"], ["one", "two", "three"])
        assert branches(hf, "s") == 2

    def test_saving_what_was_there_before_goes_back_to_it(self, hf: Holdfast) -> None:
        before, after = users("one", "two"), users("other", "end")
        for messages in (before, after, before, after):
            hf.sessions.save({"id": "s"}, messages)
            assert texts(hf, "s") == [message.text for message in messages]
        assert branches(hf, "s") == 2

    def test_fewer_messages_move_the_head_back(self, hf: Holdfast) -> None:
        first, *_ = hf.sessions.append(hf.sessions.create(id="s").id, *users("one", "two", "three"))
        hf.sessions.save({"id": "s"}, [first])
        assert texts(hf, "s") == ["one"]
        hf.sessions.append("s", *users("other"))
        assert (texts(hf, "s"), texts(hf, "s", branch=1)) == (["one", "other"], ["one", "two", "three"])
        hf.sessions.save({"id": "s"}, [])
        assert texts(hf, "s") == []

    def test_a_new_id_is_followed_by_what_refers_to_it(self, hf: Holdfast) -> None:
        tail, marker = Message.user("two"), Message.user("…")
        hf.sessions.save({"id": "s"}, [Message.user("one"), tail])
        told = Message.user("compact", is_compaction=True, compaction=Compaction(tail_start_id=tail.id))
        hf.sessions.save({"id": "s"}, [marker, tail, told])
        _, moved, kept = hf.sessions.messages("s")
        assert kept.compaction is not None
        assert (kept.compaction.tail_start_id, moved.id != tail.id) == (moved.id, True)

    def test_a_conversation_longer_than_a_commit_is_saved(self, hf: Holdfast, again: Again) -> None:
        said = [f"{number}" for number in range(2_100)]
        hf.sessions.save({"id": "s"}, [{"role": "user", "content": text} for text in said])
        assert (texts(again(), "s"), branches(again(), "s")) == (said, 1)

    def test_a_redacted_message_is_recognized(self, hf: Holdfast) -> None:
        first, second = hf.sessions.append(hf.sessions.create(id="s").id, *users("secret", "two"))
        hf.sessions.redact("s", first.id, "asked for")
        hf.sessions.save({"id": "s"}, list(hf.sessions.messages("s")))
        hf.sessions.save({"id": "s"}, [first, second])
        assert branches(hf, "s") == 1

    def test_a_fork_does_not_see_what_its_origin_said_later(self, hf: Holdfast) -> None:
        hf.sessions.save({"id": "s"}, [first := Message.user("one")])
        hf.sessions.fork("s", id="f")
        hf.sessions.append("s", second := Message.user("two"))
        hf.sessions.save({"id": "f"}, [first, second])
        assert (texts(hf, "f"), texts(hf, "s")) == (["one", "two"], ["one", "two"])
        hf.sessions.delete("s")
        assert texts(hf, "f") == ["one", "two"]

    def test_a_run_lets_it_go_on_and_not_turn_off(self, hf: Holdfast) -> None:
        hf.sessions.save({"id": "s"}, [ASKED])
        run = hf.runs.start("s")
        assert hf.sessions.save({"id": "s"}, [ASKED, ANSWERED]).head.seq == 2
        for other in ([ANSWERED], [ASKED]):
            with pytest.raises(Busy):
                hf.sessions.save({"id": "s"}, other)
        run.complete()

    def test_a_save_that_is_refused_changes_no_field(self, hf: Holdfast) -> None:
        before = hf.sessions.save({"id": "s", "title": "Kyoto"}, [ASKED])
        with hf.runs.start("s"), pytest.raises(Busy):
            hf.sessions.save({"id": "s", "title": "Osaka"}, [ANSWERED])
        for wrong in ({"status": "lost"}, {"agent_id": ""}, {"tags": 1}):
            with pytest.raises(InvalidInput):
                hf.sessions.save({"id": "s", "title": "Osaka", **wrong}, [ASKED, ANSWERED])
        found = hf.sessions.get("s")
        assert found is not None
        assert (found.title, found.head) == (before.title, before.head)

    def test_a_message_that_no_commit_takes_is_refused_before_anything_is_written(self, hf: Holdfast) -> None:
        hf.sessions.save({"id": "s", "title": "Kyoto"}, [ASKED])
        large = {"role": "user", "content": "x" * MAX_BYTES}
        for session in ("s", "new"):
            with pytest.raises(InvalidInput, match="store large parts as artifacts"):
                hf.sessions.save({"id": session, "title": "Osaka"}, [ASKED, large])
        assert [(one.id, one.title, one.head.seq) for one in hf.sessions.list()] == [("s", "Kyoto", 1)]

    def test_a_detached_session_is_not_saved_to(self, hf: Holdfast, store: Any) -> None:
        hf.sessions.save({"id": "s"}, [ASKED])
        detach(store, "s")
        with pytest.raises(Conflict):
            hf.sessions.save({"id": "s"}, [ANSWERED])

    @pytest.mark.parametrize(
        ("session", "messages"),
        [
            ({"id": "s", "colour": "red"}, []),
            ({"id": "s", "created_at": "yesterday"}, []),
            ({"id": ""}, [{"role": "nobody", "content": "x"}]),
            ([], []),
            ({"id": "s"}, [Message.user("x", id="m"), Message.user("y", id="m")]),
        ],
    )
    def test_what_is_no_conversation_is_refused(self, hf: Holdfast, session: Any, messages: Any) -> None:
        with pytest.raises(InvalidInput):
            hf.sessions.save(session, messages)
        assert list(hf.sessions.list()) == []
