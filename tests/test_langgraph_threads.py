"""Threads of LangGraph beside what people do with their sessions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
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
