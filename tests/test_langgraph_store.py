"""HoldfastStore keeps what LangGraph's stores promise: items, filters, namespaces, vectors, a time to live."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore, GetOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import holdfast
from holdfast import Holdfast
from holdfast.adapters.langgraph import HoldfastSaver, HoldfastStore
from holdfast.errors import InvalidInput

WORDS = ("tea", "rail", "snow")


class Clock:
    """A clock that stands still until it is told."""

    now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def hf(tmp_path: Path, clock: Clock) -> Iterator[Holdfast]:
    with holdfast.open(f"sqlite:///{tmp_path}/memory.db", clock=clock) as opened:
        yield opened


def _embed(texts: list[str]) -> list[list[float]]:
    return [[float(text.count(word)) + 0.01 for word in WORDS] for text in texts]


INDEX: Any = {"dims": 3, "embed": _embed, "fields": ["text"]}


def _fill(store: BaseStore) -> None:
    store.put(("people", "ann"), "1", {"text": "likes tea", "n": 1, "deep": {"x": [1, 2]}})
    store.put(("people", "ann"), "2", {"text": "goes by rail rail", "n": 2})
    store.put(("people", "bob"), "1", {"text": "snow and tea", "n": 3})
    store.put(("places",), "kyoto", {"text": "tea tea tea", "n": 4})
    store.put(("people", "ann"), "2", {"text": "goes by rail", "n": 5})


ASKED: list[dict[str, Any]] = [
    {},
    {"filter": {"n": 5}},
    {"filter": {"n": {"$gt": 1, "$lte": 3}}},
    {"filter": {"deep": {"x": [1, 2]}}},
    {"filter": {"n": {"$ne": 3}}},
    {"query": "tea"},
    {"query": "rail", "filter": {"n": {"$gte": 3}}},
    {"query": "snow", "limit": 1, "offset": 1},
]


@pytest.mark.parametrize("prefix", [("people",), ("people", "ann"), ("places",), (), ("peo",)], ids=str)
def test_a_search_finds_what_langgraphs_own_store_finds(hf: Holdfast, prefix: tuple[str, ...]) -> None:
    ours, theirs = HoldfastStore(hf, index=INDEX), InMemoryStore(index=INDEX)
    for store in (ours, theirs):
        _fill(store)
    for asked in ASKED:
        _same(ours, theirs, prefix, asked)


def _same(ours: BaseStore, theirs: BaseStore, prefix: tuple[str, ...], asked: dict[str, Any]) -> None:
    found, expected = (store.search(prefix, **asked) for store in (ours, theirs))
    shown = [[(one.namespace, one.key, one.value) for one in some] for some in (found, expected)]
    if "query" in asked:
        assert shown[0] == shown[1]
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)
    else:
        assert sorted(shown[0], key=str) == sorted(shown[1], key=str)


def test_namespaces_are_listed_as_langgraphs_own_store_lists_them(hf: Holdfast) -> None:
    ours, theirs = HoldfastStore(hf), InMemoryStore()
    for store in (ours, theirs):
        _fill(store)
    for asked in ({}, {"prefix": ("people",)}, {"suffix": ("ann",)}, {"max_depth": 1}, {"prefix": ("*", "ann")}):
        assert ours.list_namespaces(**asked) == theirs.list_namespaces(**asked)


def test_an_item_is_replaced_deleted_and_found_again_after_reopening(tmp_path: Path) -> None:
    with holdfast.open(f"sqlite:///{tmp_path}/a.db") as hf:
        _fill(HoldfastStore(hf, index=INDEX))
        assert hf.verify().ok
    with holdfast.open(f"sqlite:///{tmp_path}/a.db") as hf:
        store = HoldfastStore(hf, index=INDEX)
        item = store.get(("people", "ann"), "2")
        assert item is not None
        assert (item.value["n"], item.created_at < item.updated_at) == (5, True)
        store.delete(("people", "ann"), "2")
        assert store.get(("people", "ann"), "2") is None
        assert [one.key for one in store.search(("people",), query="rail", limit=9)] == ["1", "1"]
        assert len(list(hf.embeddings.list())) == 3


def test_an_item_is_absent_once_its_time_is_over(hf: Holdfast, clock: Clock) -> None:
    store = HoldfastStore(hf, index=INDEX, ttl={"default_ttl": 10, "refresh_on_read": False})
    store.put(("a",), "short", {"text": "tea"}, ttl=1)
    store.put(("a",), "usual", {"text": "tea"})
    store.put(("a",), "ever", {"text": "tea"}, ttl=None)
    clock.now += timedelta(minutes=2)
    assert store.get(("a",), "short") is None
    assert {one.key for one in store.search(("a",), query="tea")} == {"usual", "ever"}
    assert store.sweep_ttl() == 1
    clock.now += timedelta(minutes=9)
    assert {one.key for one in store.search(("a",))} == {"ever"}
    assert store.sweep_ttl() == 1
    assert len(list(hf.embeddings.list())) == 1


def test_reading_an_item_lets_its_time_begin_anew(hf: Holdfast, clock: Clock) -> None:
    store = HoldfastStore(hf)
    store.put(("a",), "x", {}, ttl=2)
    for _ in range(3):
        clock.now += timedelta(minutes=1)
        assert store.get(("a",), "x", refresh_ttl=True) is not None
    clock.now += timedelta(minutes=1)
    assert store.get(("a",), "x", refresh_ttl=False) is not None
    clock.now += timedelta(minutes=1)
    assert store.get(("a",), "x") is None


def test_a_batch_reads_before_it_writes(hf: Holdfast) -> None:
    store = HoldfastStore(hf)
    told = store.batch(
        [PutOp(("a",), "x", {"n": 1}), GetOp(("a",), "x"), SearchOp(("a",)), PutOp(("a",), "x", {"n": 2})]
    )
    assert told == [None, None, [], None]
    assert store.get(("a",), "x").value == {"n": 2}  # type: ignore[union-attr]


def test_a_graph_remembers_across_threads_and_event_loops(hf: Holdfast) -> None:
    class State(TypedDict):
        said: str

    async def learn(state: State, *, store: BaseStore) -> dict[str, str]:
        await store.aput(("facts",), state["said"], {"text": state["said"]})
        return {"said": ", ".join(sorted(one.key for one in await store.asearch(("facts",), query="tea")))}

    graph: Any = StateGraph(State)
    graph.add_node("learn", learn)
    graph.add_edge(START, "learn")
    graph.add_edge("learn", END)
    app = graph.compile(checkpointer=HoldfastSaver(hf), store=HoldfastStore(hf, index=INDEX))
    for n, said in enumerate(("tea", "snow")):
        result = asyncio.run(app.ainvoke({"said": said}, {"configurable": {"thread_id": str(n)}}))
    assert result == {"said": "snow, tea"}


def test_what_cannot_be_kept_is_refused_with_a_reason(hf: Holdfast) -> None:
    store = HoldfastStore(hf)
    with pytest.raises(InvalidInput, match="object"):
        store.put(("a",), "x", {"n": object()})
    with pytest.raises(InvalidInput, match="dots"):
        store.batch([PutOp(("a.b",), "x", {})])
    store.put(("a",), "x", {"n": 1})
    with pytest.raises(InvalidInput, match="compares"):
        store.search(("a",), filter={"n": {"$near": 1}})


def test_items_go_with_a_copy(hf: Holdfast, tmp_path: Path) -> None:
    _fill(HoldfastStore(hf, index=INDEX))
    with holdfast.open(f"sqlite:///{tmp_path}/copy.db") as other:
        holdfast.copy(hf, other)
        assert other.verify().ok
        found = HoldfastStore(other, index=INDEX).search(("people",), query="tea", limit=1)
        assert found[0].value["text"] == "likes tea"
