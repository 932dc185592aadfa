"""Rows in memory beside the plainest way to answer a query: look at all of them, and sort."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.backends._paging import order_of
from holdfast.backends._rows import Rows
from holdfast.contracts import Key, Query, Record
from holdfast.filters import Filter, matches
from holdfast.kinds import CHECKPOINTS
from holdfast.testing.records import record

NAMES, NUMBERS = st.sampled_from("abc"), st.integers(0, 3)
IDS = st.none() | st.integers(0, 9).map(str)
STEPS = st.none() | NUMBERS
KEYS = st.tuples(NAMES, NUMBERS)
FILTERS = st.one_of(
    st.builds(Filter, st.just("id"), st.sampled_from(["=", "!="]), IDS),
    st.builds(Filter, st.sampled_from(["step", "at"]), st.just("="), NUMBERS),
    st.builds(Filter, st.just("at"), st.sampled_from([">=", "<"]), NUMBERS),
)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    order = draw(st.sampled_from([None, "at"]))
    prefix = draw(st.sampled_from([(), ("a",), ("b",)]))
    bounds = [draw(st.none() | NUMBERS) if prefix else None for _ in range(2)]
    after = draw(st.none() | KEYS)
    return Query(
        kind=CHECKPOINTS,
        prefix=prefix,
        low=bounds[0],
        high=bounds[1],
        where=tuple(draw(st.lists(FILTERS, max_size=2))),
        order=order,
        reverse=draw(st.booleans()),
        after=after if after is None or order is None else (after[1], *after),
        limit=draw(st.none() | st.integers(0, 4)),
    )


def expected(found: list[Record], query: Query) -> list[Record]:
    depth, low, high = len(query.prefix), query.low, query.high
    kept = [
        one
        for one in sorted(found, key=lambda one: order_of(one, query), reverse=query.reverse)
        if one.key[:depth] == query.prefix
        and (low is None or int(one.key[depth]) >= low)
        and (high is None or int(one.key[depth]) <= high)
        and matches(one.values(), query.where)
        and (query.after is None or _behind(order_of(one, query), query.after, query.reverse))
    ]
    return kept[: query.limit]


def _behind(order: tuple[object, ...], after: tuple[object, ...], reverse: bool) -> bool:
    return order < after if reverse else order > after


@given(st.dictionaries(KEYS, st.tuples(IDS, STEPS), max_size=12), st.sets(KEYS), st.lists(queries(), max_size=6))
def test_rows_are_found_as_by_looking_at_all(
    given: dict[Key, tuple[str | None, int | None]], gone: set[Key], asked: list[Query]
) -> None:
    rows, kept = Rows(CHECKPOINTS), dict[Key, Record]()
    for key, (id, step) in given.items():
        if id not in {one.fields[0] for one in kept.values()} - {None}:
            kept[key] = record(CHECKPOINTS, key, b"body", id=id, step=step, at=-int(key[1]))
            rows.keep(key, kept[key])
    for query in asked[:1]:
        list(rows.match(query))  # so that what is kept for an order is there when rows go
    before = {key: kept.pop(key, None) for key in gone}
    for key in gone:
        rows.keep(key, None)
    for query in asked:
        assert list(rows.match(query)) == expected([*kept.values()], query)
    rows.mend(before.items())
    kept |= {key: row for key, row in before.items() if row is not None}
    for query in asked:
        assert list(rows.match(query)) == expected([*kept.values()], query)
