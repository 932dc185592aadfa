"""Transcripts: messages in the order in which they were written, once each, whole or in part."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.client import Holdfast
from holdfast.errors import AlreadyExists, InvalidInput, NotFound
from holdfast.model import Message, Usage
from holdfast.testing.domain_messages import RICH
from holdfast.testing.driving import NOON, Again, Door, HoldfastKit, texts, users


class TranscriptTests(HoldfastKit):
    """Appending, repeating an append, and reading."""

    # order and place

    def test_a_thousand_messages_of_one_instant_keep_their_order(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        said = [Message.user(str(number), created_at=NOON) for number in range(1000)]
        for start in range(0, 1000, 125):
            hf.sessions.append("s", *said[start : start + 125])
        found = list(again().sessions.messages("s"))
        assert [message.id for message in found] == [message.id for message in said]
        assert [message.seq for message in found] == list(range(1, 1001))

    def test_messages_stay_in_append_order_whatever_their_clock(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        for day in (3, 1, 2):
            hf.sessions.append("s", Message.user(str(day), created_at=datetime(2026, 1, day, tzinfo=UTC)))
        assert texts(again(), "s") == ["3", "1", "2"]

    def test_a_message_knows_its_place(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        first, second = hf.sessions.append("s", *users("one", "two"))
        (third,) = hf.sessions.append("s", *users("three"))
        assert [(one.session_id, one.branch, one.seq) for one in (first, second, third)] == [
            ("s", 1, 1),
            ("s", 1, 2),
            ("s", 1, 3),
        ]
        assert [first.parent_id, second.parent_id, third.parent_id] == [None, first.id, second.id]
        assert list(again().sessions.messages("s")) == [first, second, third]

    # repeating an append

    def test_appending_a_message_again_adds_nothing(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        said = [RICH, *users("two")]
        first = hf.sessions.append("s", *said)
        hf.sessions.append("s", *users("three"))
        assert again().sessions.append("s", *said) == first
        assert texts(again(), "s")[1:] == ["two", "three"]

    def test_an_append_of_which_a_part_is_there_adds_the_rest(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        said = users("one", "two", "three")
        hf.sessions.append("s", *said[:2])
        appended = again().sessions.append("s", *said)
        assert list(again().sessions.messages("s")) == appended
        assert texts(again(), "s") == ["one", "two", "three"]

    def test_an_id_with_other_content_is_refused_whole(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.user("one", id="m"))
        with pytest.raises(AlreadyExists):
            hf.sessions.append("s", Message.user("new"), Message.user("other", id="m"))
        assert texts(again(), "s") == ["one"]

    def test_two_sessions_may_have_the_same_message_id(self, hf: Holdfast, again: Again) -> None:
        for id in ("a", "b"):
            hf.sessions.create(id=id)
            hf.sessions.append(id, Message.user(f"in {id}", id="m"))
        hf = again()
        assert [texts(hf, "a"), texts(hf, "b")] == [["in a"], ["in b"]]

    def test_a_dict_without_an_id_is_appended_each_time(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        for _ in range(2):
            hf.sessions.append("s", {"role": "user", "content": "hi"})
        assert texts(again(), "s") == ["hi", "hi"]

    def test_an_append_with_one_bad_message_adds_none(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        with pytest.raises(InvalidInput):
            hf.sessions.append("s", *users("one"), {"role": "robot", "content": "two"})
        assert texts(again(), "s") == []

    def test_appending_nothing_changes_nothing(self, hf: Holdfast) -> None:
        made = hf.sessions.create(id="s")
        assert hf.sessions.append("s") == []
        assert hf.sessions.get("s") == made

    def test_a_client_that_was_overtaken_appends_behind(self, hf: Holdfast, door: Door) -> None:
        hf.sessions.create(id="s", title="t")
        hf.sessions.append("s", *users("one"))
        Holdfast(door.store).sessions.append("s", *users("two"))
        hf.sessions.append("s", *users("three"))
        assert texts(door.reopen(), "s") == ["one", "two", "three"]

    def test_appending_to_a_session_that_another_deleted_is_not_found(self, hf: Holdfast, door: Door) -> None:
        hf.sessions.create(id="s", title="t")
        hf.sessions.append("s", *users("one"))
        Holdfast(door.store).sessions.delete("s")
        with pytest.raises(NotFound):
            hf.sessions.append("s", *users("two"))

    # usage

    def test_usage_can_be_set_later_and_again(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        (message,) = hf.sessions.append("s", Message.assistant("hi", usage=Usage(input=1)))
        usage = Usage(provider="p", input=100, output=50, total=150, cost=0.5)
        for _ in range(2):
            assert hf.sessions.update_usage("s", message.id, usage).usage == usage
        (found,) = again().sessions.messages("s")
        assert found.usage == usage

    def test_a_repeated_append_does_not_take_usage_back(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        said = Message.assistant("hi", usage=Usage(input=1))
        hf.sessions.append("s", said)
        newer = hf.sessions.update_usage("s", said.id, Usage(input=2))
        again().sessions.append("s", said)
        assert list(again().sessions.messages("s")) == [newer]

    def test_usage_of_an_unknown_message_is_not_found(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        with pytest.raises(NotFound):
            hf.sessions.update_usage("s", "none", Usage(input=1))

    # reading a part

    @pytest.mark.parametrize(
        ("chosen", "expected"),
        [
            ({}, "123456789"),
            ({"last": 3}, "789"),
            ({"last": 0}, ""),
            ({"last": 99}, "123456789"),
            ({"start": 7}, "789"),
            ({"stop": 3}, "123"),
            ({"start": 4, "stop": 6}, "456"),
            ({"start": 6, "stop": 4}, ""),
            ({"start": 10}, ""),
            ({"branch": 1}, "123456789"),
        ],
    )
    def test_a_part_of_the_path_can_be_read(self, hf: Holdfast, chosen: dict[str, Any], expected: str) -> None:
        hf.sessions.create(id="s")
        said = hf.sessions.append("s", *users(*"123456789"))
        found = list(hf.sessions.messages("s", **chosen))
        assert found == [message for message in said if message.text in [*expected]]

    def test_one_message_can_be_read(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        said = hf.sessions.append("s", *users("one", "two"))
        hf = again()
        assert [hf.sessions.message("s", one.id) for one in said] == said
        assert hf.sessions.message("s", "none") is None

    def test_pages_of_messages_go_through_the_whole_path(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        said = hf.sessions.append("s", *users(*"1234567"))
        page = hf.sessions.page("s", limit=3)
        found = list(page)
        while page.cursor is not None:
            page = again().sessions.page("s", limit=3, cursor=page.cursor)
            found += page
        assert found == said

    def test_a_message_cursor_keeps_to_the_path_it_began_on(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        said = hf.sessions.append("s", *users("one", "two", "three"))
        page = hf.sessions.page("s", limit=1)
        hf.sessions.append("s", *users("four"))
        hf.sessions.append("s", *users("other"), parent=said[0].id)
        rest = hf.sessions.page("s", cursor=page.cursor)
        assert [*page, *rest] == said
        assert rest.cursor is None
