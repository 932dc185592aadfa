"""Scans: which records, in which order, from where on and how many."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from msgspec.structs import replace

from holdfast.contracts import Delete, Key, Query, RecordStore
from holdfast.filters import Filter
from holdfast.kinds import AGENTS, BRANCHES, CHECKPOINTS, EXTRA_USAGES, HEADS, MESSAGES, REVISIONS, USAGES, Kind
from holdfast.testing.opening import StoreKit
from holdfast.testing.records import (
    HOSTILE,
    agent,
    branch,
    checkpoint,
    extra,
    head,
    ids,
    insert,
    keys,
    message,
    record,
    revision,
    usage,
)

MANY = 1_234
PLACES = [("g", 1, 9), ("h", 1, 1), ("h", 1, 2), ("h", 1, 10), ("h", 2, 2), ("h", 11, 1), ("i", 1, 1)]


class ScanTests(StoreKit):
    """What a Query finds, for plain kinds and for logs."""

    # order

    def test_text_keys_come_by_code_point(self, store: RecordStore) -> None:
        names = sorted([*HOSTILE, "a", "b", "B", "Z", "z", "ab", "0", "~"])
        insert(store, [agent(name) for name in reversed(names)])
        assert keys(store, Query(kind=AGENTS)) == [(name,) for name in names]
        assert keys(store, Query(kind=AGENTS, reverse=True)) == [(name,) for name in reversed(names)]

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("kind", [MESSAGES, USAGES])
    def test_numbers_in_keys_come_by_size(self, store: RecordStore, kind: Kind, reverse: bool) -> None:
        expected = _fill(store, kind)
        found = keys(store, Query(kind=kind, reverse=reverse))
        assert found == (expected[::-1] if reverse else expected)

    def test_records_come_by_a_field_and_then_by_key(self, store: RecordStore) -> None:
        insert(store, [head("c", 5), head("a", 7), head("b", 5), head("d", -1)])
        newest = Query(kind=HEADS, order="updated_at", reverse=True)
        assert keys(store, Query(kind=HEADS, order="updated_at")) == [("d",), ("b",), ("c",), ("a",)]
        assert keys(store, newest) == [("a",), ("c",), ("b",), ("d",)]

    @pytest.mark.parametrize("kind", [MESSAGES, HEADS])
    def test_records_may_be_asked_for_without_their_fields(self, store: RecordStore, kind: Kind) -> None:
        insert(store, [head("a", 1), head("b", 2), message("h", 1, 1, "m1", b"1"), message("h", 1, 2, "m2", b"2")])
        for prefix in {(), *(key[:1] for key in keys(store, Query(kind=kind)))}:
            whole = Query(kind=kind, prefix=prefix, reverse=True)
            lean = [*store.scan(replace(whole, bodies_only=True))]
            expected = [*store.scan(whole)]
            assert [(one.key, one.body, one.digest) for one in lean] == [(x.key, x.body, x.digest) for x in expected]
            assert [one.fields for one in lean] in ([() for _ in lean], [one.fields for one in expected])

    # prefix and range

    @pytest.mark.parametrize("kind", [MESSAGES, USAGES])
    @pytest.mark.parametrize("prefix", [(), ("h",), ("h", 1), ("h", 1, 2), ("h", 3), ("none",), ("none", 1, 1)])
    def test_a_prefix_fixes_leading_parts(self, store: RecordStore, kind: Kind, prefix: Key) -> None:
        expected = [key for key in _fill(store, kind) if key[: len(prefix)] == prefix]
        query = Query(kind=kind, prefix=prefix)
        assert keys(store, query) == expected
        assert store.count(query) == len(expected)

    @pytest.mark.parametrize("kind", [MESSAGES, USAGES])
    @pytest.mark.parametrize("prefix", [("h",), ("h", 1)])
    @pytest.mark.parametrize(("low", "high"), [(2, 10), (2, None), (None, 2), (3, 2), (0, 1), (2, 2)])
    def test_a_range_bounds_the_next_part(
        self, store: RecordStore, kind: Kind, prefix: Key, low: int | None, high: int | None
    ) -> None:
        expected = [key for key in _fill(store, kind) if key[: len(prefix)] == prefix and _in(key, prefix, low, high)]
        query = Query(kind=kind, prefix=prefix, low=low, high=high)
        assert keys(store, query) == expected
        assert keys(store, Query(kind=kind, prefix=prefix, low=low, high=high, reverse=True)) == expected[::-1]
        assert store.count(query) == len(expected)

    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_prefix_is_taken_literally(self, store: RecordStore, name: str) -> None:
        insert(store, [branch(other, 1) for other in (*HOSTILE, "a", "ab", "axb")])
        insert(store, [message(other, 1, 1) for other in (*HOSTILE, "a", "ab", "axb")])
        assert keys(store, Query(kind=BRANCHES, prefix=(name,))) == [(name, 1)]
        assert keys(store, Query(kind=MESSAGES, prefix=(name,))) == [(name, 1, 1)]

    # filters

    @pytest.mark.parametrize(
        ("one", "expected"),
        [
            (Filter("agent_id", "=", "x"), ["a", "c"]),
            (Filter("agent_id", "!=", "x"), ["b", "d", "e"]),
            (Filter("agent_id", "=", None), ["d"]),
            (Filter("agent_id", "!=", None), ["a", "b", "c", "e"]),
            (Filter("agent_id", "=", ""), ["e"]),
            (Filter("agent_id", ">=", "y"), ["b"]),
            (Filter("agent_id", "<", "y"), ["a", "c", "e"]),
            (Filter("updated_at", ">=", 2), ["b", "c", "d", "e"]),
            (Filter("updated_at", "<", 2), ["a"]),
            (Filter("session_id", "=", "b"), ["b"]),
        ],
    )
    def test_a_filter_compares_a_field(self, store: RecordStore, one: Filter, expected: list[str]) -> None:
        agents = {"a": "x", "b": "y", "c": "x", "d": None, "e": ""}
        insert(store, [head(id, number, agent_id=agents[id]) for number, id in enumerate(agents, 1)])
        assert ids(store, one) == expected
        assert store.count(Query(kind=HEADS, where=(one,))) == len(expected)

    def test_a_record_must_pass_every_filter(self, store: RecordStore) -> None:
        insert(store, [head("a", 1, agent_id="x"), head("b", 2, agent_id="x"), head("c", 2, agent_id="y")])
        assert ids(store, Filter("agent_id", "=", "x"), Filter("updated_at", ">=", 2)) == ["b"]

    def test_a_part_of_the_key_is_filtered_like_a_field(self, store: RecordStore) -> None:
        insert(store, [extra("s", 1, "a"), extra("s", 2, "b"), extra("t", 1, "c"), extra("t", 2, "d")])
        first, named = Filter("n", "=", 1), Filter("id", "=", "c")
        assert keys(store, Query(kind=EXTRA_USAGES, where=(first,))) == [("s", 1), ("t", 1)]
        assert keys(store, Query(kind=EXTRA_USAGES, where=(first, named))) == [("t", 1)]

    def test_records_are_found_by_what_they_lack_though_it_is_unique(self, store: RecordStore) -> None:
        insert(store, [checkpoint("s", 1, None), checkpoint("s", 2, "b"), checkpoint("t", 1, None)])
        lacking = (Filter("id", "=", None),)
        assert keys(store, Query(kind=CHECKPOINTS, where=lacking)) == [("s", 1), ("t", 1)]
        insert(store, [record(MESSAGES, ("h", 1, seq), b"message", id=id, n=seq) for seq, id in ((1, None), (2, "b"))])
        assert keys(store, Query(kind=MESSAGES, prefix=("h",), where=lacking)) == [("h", 1, 1)]

    @pytest.mark.parametrize("kind", [CHECKPOINTS, MESSAGES])
    def test_none_are_found_where_none_are_asked_for(self, store: RecordStore, kind: Kind) -> None:
        insert(store, [checkpoint("s", 1, "a"), message("s", 1, 1, "a")])
        for prefix in ((), ("s",)):
            assert keys(store, Query(kind=kind, prefix=prefix, where=(Filter("id", "=", "a"),), limit=0)) == []
            assert keys(store, Query(kind=kind, prefix=prefix, limit=0)) == []

    def test_a_whole_key_is_filtered_too(self, store: RecordStore) -> None:
        insert(store, [message("h", 1, 1, "a")])
        place, another = ("h", 1, 1), (Filter("id", "=", "b"),)
        assert keys(store, Query(kind=MESSAGES, prefix=place, where=another)) == []
        store.commit([Delete(MESSAGES, place, where=another)])
        assert keys(store, Query(kind=MESSAGES, prefix=place)) == [place]

    @pytest.mark.parametrize("value", HOSTILE)
    def test_a_filter_takes_its_value_literally(self, store: RecordStore, value: str) -> None:
        insert(store, [head(str(n), user_id=other) for n, other in enumerate((*HOSTILE, "a", "ab", "axb"))])
        assert ids(store, Filter("user_id", "=", value)) == [str(HOSTILE.index(value))]

    @pytest.mark.parametrize("prefix", [(), ("h",), ("h", 1)])
    def test_a_log_is_filtered_at_any_depth(self, store: RecordStore, prefix: Key) -> None:
        insert(store, [message("h", 1, seq, f"m{seq}", n=seq) for seq in range(1, 6)])
        insert(store, [message("i", 1, 1, "m4", n=0), message("h", 2, 1, "other", n=0)])
        late = Query(kind=MESSAGES, prefix=prefix, where=(Filter("n", ">=", 4),))
        one = Query(kind=MESSAGES, prefix=("h",), where=(Filter("id", "=", "m4"),))
        assert keys(store, late) == [("h", 1, 4), ("h", 1, 5)]
        assert keys(store, one) == [("h", 1, 4)]

    def test_a_log_is_filtered_within_a_range(self, store: RecordStore) -> None:
        insert(store, [message("h", number, 1, n=number % 2) for number in range(1, 7)])
        odd = (Filter("n", "=", 1),)
        query = Query(kind=MESSAGES, prefix=("h",), low=2, high=5, where=odd)
        assert keys(store, query) == [("h", 3, 1), ("h", 5, 1)]

    # from where on, and how many

    @pytest.mark.parametrize("limit", [0, 1, 3, 100])
    @pytest.mark.parametrize("kind", [MESSAGES, USAGES])
    def test_a_limit_ends_a_scan(self, store: RecordStore, kind: Kind, limit: int) -> None:
        expected = _fill(store, kind)
        assert keys(store, Query(kind=kind, limit=limit)) == expected[:limit]
        assert keys(store, Query(kind=kind, limit=limit, reverse=True)) == expected[::-1][:limit]

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("kind", [MESSAGES, USAGES])
    def test_a_scan_goes_on_behind_any_key(self, store: RecordStore, kind: Kind, reverse: bool) -> None:
        expected = _fill(store, kind)
        expected = expected[::-1] if reverse else expected
        for at, key in enumerate(expected):
            query = Query(kind=kind, after=key, reverse=reverse, limit=3)
            assert keys(store, query) == expected[at + 1 : at + 4]

    def test_a_scan_goes_on_behind_a_key_that_is_gone(self, store: RecordStore) -> None:
        insert(store, [revision("a", number) for number in (1, 2, 3)])
        store.commit([Delete(REVISIONS, ("a", 2))])
        assert keys(store, Query(kind=REVISIONS, prefix=("a",), after=("a", 2))) == [("a", 3)]
        assert keys(store, Query(kind=REVISIONS, prefix=("a",), after=("a", 2), reverse=True)) == [("a", 1)]

    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_scan_by_a_field_goes_on_among_equals(self, store: RecordStore, reverse: bool) -> None:
        insert(store, [head(f"s{number}", number // 3) for number in range(9)])
        query = Query(kind=HEADS, order="updated_at", reverse=reverse)
        found = list(store.scan(query))
        for at, one in enumerate(found):
            after = (one.values()["updated_at"], *one.key)
            rest = Query(kind=HEADS, order="updated_at", reverse=reverse, after=after)
            assert list(store.scan(rest)) == found[at + 1 :]

    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_scan_of_numbered_records_goes_on_among_equals(self, store: RecordStore, reverse: bool) -> None:
        places = [(7, "b", 2), (2, "a", 1), (-5, "c", 1), (7, "a", 2), (7, "a", 10), (1, "b", 1), (2, "c", 3)]
        insert(store, [checkpoint(owner, number, f"{owner}{number}", at=at) for at, owner, number in places])
        places.sort(reverse=reverse)
        assert keys(store, Query(kind=CHECKPOINTS, order="at", reverse=reverse)) == [place[1:] for place in places]
        for at, place in enumerate(places):
            query = Query(kind=CHECKPOINTS, order="at", reverse=reverse, after=place, limit=3)
            assert keys(store, query) == [one[1:] for one in places[at + 1 : at + 4]]

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("prefix", [(), ("h",), ("h", 1)])
    def test_a_filtered_scan_of_a_log_goes_on(self, store: RecordStore, prefix: Key, reverse: bool) -> None:
        insert(store, [message("h", 1, seq, n=seq % 2) for seq in range(1, 10)])
        query = Query(kind=MESSAGES, prefix=prefix, where=(Filter("n", "=", 1),), reverse=reverse)
        expected = keys(store, query)
        after = Query(kind=MESSAGES, prefix=prefix, where=query.where, reverse=reverse, after=expected[1], limit=2)
        assert keys(store, after) == expected[2:4]

    # long scans

    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_long_scan_finds_each_once(self, store: RecordStore, reverse: bool) -> None:
        insert(store, [head(f"s{number:05}", number % 7) for number in range(MANY)])
        by_key = keys(store, Query(kind=HEADS, reverse=reverse))
        by_field = keys(store, Query(kind=HEADS, order="updated_at", reverse=reverse))
        assert by_key == sorted(by_key, reverse=reverse)
        assert len(set(by_key)) == MANY
        assert by_field == sorted(by_key, key=lambda key: (int(str(key[0])[1:]) % 7, key), reverse=reverse)

    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_long_scan_of_numbered_records_by_a_field_finds_each_once(
        self, store: RecordStore, reverse: bool
    ) -> None:
        counts = Counter[str]()
        places: list[tuple[int, str, int]] = []
        for at in range(MANY):
            owner = "aaaaaaaabbbcd"[at % 13] if at < MANY // 2 else "d"
            counts[owner] += 1
            places.append((at // 3, owner, counts[owner]))
        insert(store, [checkpoint(owner, number, f"{owner}{number}", at=at) for at, owner, number in places])
        places.sort(reverse=reverse)
        assert keys(store, Query(kind=CHECKPOINTS, order="at", reverse=reverse)) == [place[1:] for place in places]
        for limit in (1, 7, 120):
            query = Query(kind=CHECKPOINTS, order="at", reverse=reverse, after=places[99], limit=limit)
            assert keys(store, query) == [place[1:] for place in places[100 : 100 + limit]]

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("seed", range(5))
    def test_a_scan_of_numbered_records_by_a_field_finds_each_once_in_whatever_order_they_are(
        self, store: RecordStore, seed: int, reverse: bool
    ) -> None:
        chance, counts, records = Random(seed), Counter[str](), []
        for owner in chance.choices("abc", k=150):
            counts[owner] += 1
            records.append(checkpoint(owner, counts[owner], f"{owner}{counts[owner]}", at=chance.randrange(-9, 9)))
        insert(store, records)
        everything = keys(store, Query(kind=CHECKPOINTS, order="at", reverse=reverse))
        assert sorted(everything) == sorted((owner, n) for owner in counts for n in range(1, counts[owner] + 1))
        for limit in (1, 7, 60):
            query, paged = Query(kind=CHECKPOINTS, order="at", reverse=reverse, limit=limit), list[Key]()
            while page := list(store.scan(query)):
                paged += [one.key for one in page]
                assert len(paged) <= len(everything)
                query = replace(query, after=(page[-1].values()["at"], *page[-1].key))
            assert paged == everything

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("prefix", [(), ("h",), ("h", 1)])
    def test_a_long_scan_of_a_log_finds_each_once(self, store: RecordStore, prefix: Key, reverse: bool) -> None:
        insert(store, [message("h", 1, seq, n=seq % 2) for seq in range(1, MANY + 1)])
        expected = [("h", 1, seq) for seq in range(1, MANY + 1)]
        odd = Query(kind=MESSAGES, prefix=prefix, where=(Filter("n", "=", 1),), reverse=reverse)
        assert sorted(keys(store, odd)) == expected[::2]
        every = Query(kind=MESSAGES, prefix=prefix, reverse=reverse)
        assert keys(store, every) == (expected[::-1] if reverse else expected)

    def test_a_scan_may_be_left_and_others_written_meanwhile(self, store: RecordStore) -> None:
        insert(store, [agent(f"a{number:05}") for number in range(MANY)])
        scan = store.scan(Query(kind=AGENTS))
        first = next(scan)
        insert(store, [agent(f"b{number:05}") for number in range(10)])
        rest = [one.key for one in scan if str(one.key[0]).startswith("a")]
        assert [first.key, *rest] == [(f"a{number:05}",) for number in range(MANY)]


def _fill(store: RecordStore, kind: Kind) -> list[Key]:
    """Records at some places, written in no order; returns their keys in order."""
    shuffled = [*PLACES[3:], *PLACES[:3]]
    if kind is MESSAGES:
        insert(store, [message(*place) for place in shuffled])
        return [*PLACES]
    insert(store, [usage(*place) for place in shuffled])
    return [*PLACES]


def _in(key: Key, prefix: Key, low: int | None, high: int | None) -> bool:
    part = int(key[len(prefix)])
    return (low is None or part >= low) and (high is None or part <= high)
