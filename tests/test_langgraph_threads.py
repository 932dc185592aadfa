"""Threads of LangGraph beside what people do with their sessions."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph

import holdfast
from holdfast import Holdfast
from holdfast.adapters.langgraph import HoldfastSaver

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def hf(tmp_path: Path) -> Iterator[Holdfast]:
    with holdfast.open(f"sqlite:///{tmp_path}/graphs.db") as hf:
        yield hf


def _graph(node: Any, saver: Any) -> Any:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=saver)


def _talk(saver: HoldfastSaver) -> Any:
    graph = _graph(lambda _: {"messages": [AIMessage("ok")]}, saver)
    graph.invoke({"messages": [HumanMessage("a secret")]}, CONFIG)
    return graph


def test_a_session_that_was_there_before_is_a_thread_in_every_way(hf: Holdfast) -> None:
    hf.sessions.create(id="t", metadata={"customer": 7})
    saver = HoldfastSaver(hf)
    _talk(saver)
    assert len(list(saver.list(CONFIG))) == len(list(saver.list(None))) == 3
    saver.delete_thread("t")
    assert (hf.sessions.get("t"), hf.search("secret")) == (None, [])


def test_metadata_of_ones_own_does_not_hide_a_thread(hf: Holdfast) -> None:
    saver = HoldfastSaver(hf)
    graph = _talk(saver)
    hf.sessions.update("t", metadata={"customer": 7})
    saver.copy_thread("t", "copy")
    saver.prune(["t"])
    assert len(list(graph.get_state_history(CONFIG))) == 1
    saver.delete_thread("t")
    assert [session.id for session in hf.sessions.list()] == ["copy"]


def test_metadata_of_a_namespace_stays(hf: Holdfast) -> None:
    inner = _graph(lambda _: {"messages": [AIMessage("inner")]}, True)
    saver = HoldfastSaver(hf)
    graph = _graph(inner, saver)
    graph.invoke({"messages": [HumanMessage("a")]}, CONFIG)
    hf.sessions.update("t|node", metadata={"customer": 7})
    graph.invoke({"messages": [HumanMessage("b")]}, CONFIG)
    assert (hf.sessions.get("t|node").metadata or {})["customer"] == 7  # type: ignore[union-attr]
    saver.delete_thread("t")
    assert hf.sessions.list() == []


def test_a_namespace_does_not_bring_a_deleted_thread_back(hf: Holdfast) -> None:
    inner = _graph(lambda _: {"messages": [AIMessage("inner")]}, True)
    graph = _graph(inner, HoldfastSaver(hf))
    graph.invoke({"messages": [HumanMessage("a secret")]}, CONFIG)
    hf.sessions.delete("t")
    graph.invoke({"messages": [HumanMessage("anew")]}, CONFIG)
    assert [one.content for one in graph.get_state(CONFIG).values["messages"]] == ["anew", "inner"]
    assert hf.search("secret") == []


def test_several_writers_may_begin_a_thread_at_once(hf: Holdfast) -> None:
    ready = threading.Barrier(4)

    def put(_: int) -> Any:
        ready.wait(10)
        return HoldfastSaver(hf).put(CONFIG, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, range(4)))
    assert len(list(HoldfastSaver(hf).list(CONFIG))) == 4


# deleting while others put


class Sum(TypedDict):
    document: str
    n: Annotated[int, operator.add]


def _counting(saver: HoldfastSaver) -> Any:
    builder: Any = StateGraph(Sum)
    builder.add_node("node", lambda _: {"n": 1})
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=saver)


class Meanwhile(JsonPlusSerializer):
    """LangGraph's serialiser, during whose next use something happens."""

    what: Any = None

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        what, self.what = self.what, None
        if what is not None:
            what()
        return super().dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        what, self.what = self.what, None
        if what is not None:
            what()
        return super().loads_typed(data)


def test_pruning_leaves_what_a_put_of_another_process_needs(hf: Holdfast) -> None:
    serde, config = Meanwhile(), {**CONFIG, "metadata": {"who": "ann"}}
    other = _counting(HoldfastSaver(hf))
    other.invoke({"document": "long", "n": 1}, config)
    serde.what = lambda: other.invoke({"n": 1}, config)
    HoldfastSaver(hf, serde=serde).prune(["t"])
    assert _counting(HoldfastSaver(hf)).get_state(CONFIG).values == {"document": "long", "n": 4}
    assert len(list(other.get_state_history(CONFIG))) == 1


def test_a_put_takes_along_what_another_process_prunes(hf: Holdfast) -> None:
    serde = Meanwhile()
    saver = HoldfastSaver(hf, serde=serde)
    graph = _counting(saver)
    graph.invoke({"document": "long", "n": 1}, CONFIG)
    graph.invoke({"n": 1}, CONFIG)
    older = [one for one in graph.get_state_history(CONFIG) if "document" in one.values][2]
    found: Any = saver.get_tuple(older.config)
    serde.what = lambda: HoldfastSaver(hf).prune(["t"])
    fresh = {**found.checkpoint, "id": empty_checkpoint()["id"]}
    saver.put(older.config, fresh, {"source": "fork", "step": 9, "parents": {}, "why": "test"}, {})  # type: ignore[arg-type, typeddict-unknown-key]
    assert _counting(HoldfastSaver(hf)).get_state(CONFIG).values["document"] == "long"
