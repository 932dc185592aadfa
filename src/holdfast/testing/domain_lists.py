"""Lists of sessions: their order, their filters, their pages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta, timezone
from typing import Any

import pytest

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.errors import InvalidInput
from holdfast.model import Session
from holdfast.testing.driving import NOON, Again, HoldfastKit, users


def names(found: Iterable[Session]) -> list[str]:
    """The ids of listed sessions."""
    return [session.id for session in found]


class ListTests(HoldfastKit):
    """`hf.sessions.list`."""

    # order and filters

    def test_the_session_written_last_is_listed_first(self, hf: Holdfast, again: Again) -> None:
        for id in "ABC":
            hf.sessions.create(id=id)
        hf.sessions.append("A", *users("again"))
        hf = again()
        assert names(hf.sessions.list()) == ["A", "C", "B"]
        assert names(hf.sessions.list(order="created")) == ["C", "B", "A"]

    def test_of_two_sessions_of_one_instant_the_later_written_is_first(self, store: RecordStore) -> None:
        hf = Holdfast(store, clock=lambda: NOON)
        for id in ("b", "a", "c"):
            hf.sessions.create(id=id)
        assert names(Holdfast(store).sessions.list()) == ["c", "a", "b"]
        assert names(Holdfast(store).sessions.list(order="created")) == ["c", "a", "b"]

    def test_a_list_is_a_hundred_long_unless_said_otherwise(self, hf: Holdfast) -> None:
        for number in range(103):
            hf.sessions.create(id=f"s{number:03}")
        newest = [f"s{number:03}" for number in reversed(range(103))]
        assert names(hf.sessions.list()) == newest[:100]
        assert names(hf.sessions.list(limit=2, offset=100)) == newest[100:102]
        assert names(hf.sessions.list(limit=500)) == newest
        assert names(hf.sessions.list(limit=0)) == []

    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            ({"agent_id": "scout"}, ["b", "a"]),
            ({"user_id": "ann"}, ["c", "a"]),
            ({"agent_id": "scout", "user_id": "ann"}, ["a"]),
            ({"status": "idle"}, ["b"]),
            ({"archived": True}, ["c"]),
            ({"archived": False}, ["d", "b", "a"]),
            ({"tag": "x"}, ["b", "a"]),
            ({"tag": "X"}, []),
            ({"agent_id": "scou"}, []),
            ({"user_id": "an%"}, []),
        ],
    )
    def test_a_list_can_be_filtered(self, hf: Holdfast, filters: dict[str, Any], expected: list[str]) -> None:
        hf.sessions.create(id="a", agent_id="scout", user_id="ann", tags=["x", "y"])
        hf.sessions.create(id="b", agent_id="scout", user_id="bob", tags=["x"], status="idle")
        hf.sessions.create(id="c", agent_id="other", user_id="ann", archived=True)
        hf.sessions.create(id="d")
        assert names(hf.sessions.list(**filters)) == expected

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({}, ["str", "float", "int", "null"]),
            ({"n": 42}, ["int"]),
            ({"n": 42.0}, ["float"]),
            ({"n": "42"}, ["str"]),
            ({"n": None}, ["null"]),
            ({"n": 42, "m": {"deep": [1]}}, ["int"]),
            ({"n": 42, "m": None}, []),
            ({"none": None}, []),
            ({"b": True}, ["str"]),
            ({"b": 1}, ["float"]),
        ],
    )
    def test_a_metadata_filter_matches_the_pairs_it_names(
        self, hf: Holdfast, wanted: dict[str, Any], expected: list[str]
    ) -> None:
        hf.sessions.create(id="none")
        hf.sessions.create(id="null", metadata={"n": None})
        hf.sessions.create(id="int", metadata={"n": 42, "m": {"deep": [1]}})
        hf.sessions.create(id="float", metadata={"n": 42.0, "b": 1})
        hf.sessions.create(id="str", metadata={"n": "42", "b": True})
        assert names(hf.sessions.list(metadata=wanted)) == expected

    def test_created_after_is_inclusive_and_before_exclusive(self, hf: Holdfast) -> None:
        first, second, third = (hf.sessions.create(id=id).created_at for id in "abc")
        elsewhere = second.astimezone(timezone(timedelta(hours=9)))
        assert names(hf.sessions.list(created_after=elsewhere)) == ["c", "b"]
        assert names(hf.sessions.list(created_before=elsewhere)) == ["a"]
        assert names(hf.sessions.list(created_after=first, created_before=third)) == ["b", "a"]

    # cursors

    @pytest.mark.parametrize("order", ["updated", "created"])
    def test_a_cursor_goes_through_the_whole_list(self, hf: Holdfast, again: Again, order: Any) -> None:
        for number in range(10):
            hf.sessions.create(id=f"s{number}", tags=["odd"] if number % 2 else [])
        page = hf.sessions.list(order=order, limit=2, tag="odd")
        found = names(page)
        while page.cursor is not None:
            page = again().sessions.list(order=order, limit=2, tag="odd", cursor=page.cursor)
            found += names(page)
        assert found == ["s9", "s7", "s5", "s3", "s1"]

    def test_in_created_order_a_cursor_never_repeats_or_skips(self, hf: Holdfast) -> None:
        for number in range(6):
            hf.sessions.create(id=f"s{number}")
        page = hf.sessions.list(order="created", limit=3)
        hf.sessions.update("s0", title="touched")
        hf.sessions.create(id="new")
        hf.sessions.delete("s3")
        rest = hf.sessions.list(order="created", limit=10, cursor=page.cursor)
        assert names(page) + names(rest) == ["s5", "s4", "s3", "s2", "s1", "s0"]

    def test_in_updated_order_a_touched_session_moves_to_the_front(self, hf: Holdfast) -> None:
        for number in range(6):
            hf.sessions.create(id=f"s{number}")
        page = hf.sessions.list(limit=3)
        hf.sessions.update("s4", title="touched")
        hf.sessions.update("s1", title="touched")
        rest = hf.sessions.list(limit=10, cursor=page.cursor)
        assert names(page) + names(rest) == ["s5", "s4", "s3", "s2", "s0"]
        assert names(hf.sessions.list(limit=2)) == ["s1", "s4"]

    def test_a_cursor_serves_only_its_own_filters(self, hf: Holdfast) -> None:
        for number in range(3):
            hf.sessions.create(id=f"s{number}", agent_id="a")
        cursor = hf.sessions.list(limit=1, agent_id="a").cursor
        others: list[dict[str, Any]] = [{"agent_id": "b"}, {}, {"agent_id": "a", "order": "created"}]
        for other in others:
            with pytest.raises(InvalidInput):
                hf.sessions.list(limit=1, cursor=cursor, **other)
