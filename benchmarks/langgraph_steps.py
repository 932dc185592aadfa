"""What HoldfastSaver takes for a step at turn 10 and at turn 400 of an unmodified graph.

A turn puts three checkpoints and two tasks' writes, each a step here. Loading the thread when a turn begins is no part
of it: that builds every message anew. Run: python benchmarks/langgraph_steps.py
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver

TURNS = 410
AROUND = 10  # turns of which the median is taken
TEXT = "All work and no play makes Jack a dull boy. " * 22


class Conversation(TypedDict):
    messages: Annotated[list[Any], add_messages]


class Timed(HoldfastSaver):
    """A saver that notes what its puts take."""

    spent_s = 0.0

    def put(self, *given: Any) -> Any:
        return self._timed(super().put, *given)

    def put_writes(self, *given: Any) -> None:
        self._timed(super().put_writes, *given)

    def _timed(self, call: Callable[..., Any], *given: Any) -> Any:
        begun = time.perf_counter()
        try:
            return call(*given)
        finally:
            self.spent_s += time.perf_counter() - begun


def _graph(saver: HoldfastSaver) -> Any:
    graph = StateGraph(Conversation)
    graph.add_node("chat", lambda _: {"messages": [AIMessage(TEXT)]})
    graph.add_edge(START, "chat")
    graph.add_edge("chat", END)
    return graph.compile(checkpointer=saver)


def main() -> None:
    """Print the median of a step's cost around turn 10 and around turn 400."""
    with tempfile.TemporaryDirectory() as folder, holdfast.open(f"sqlite:///{folder}/graphs.db") as hf:
        saver = Timed(hf)
        graph, config = _graph(saver), {"configurable": {"thread_id": "t"}}
        turns: list[float] = []
        for _ in range(TURNS):
            saver.spent_s = 0.0
            graph.invoke({"messages": [HumanMessage(TEXT)]}, config, durability="sync")
            turns.append(saver.spent_s / 5)
    early, late = (statistics.median(turns[at - AROUND // 2 : at + AROUND // 2]) for at in (10, 400))
    print(f"a step at turn 10: {early * 1e3:.2f} ms, at turn 400: {late * 1e3:.2f} ms, {late / early:.2f} times")


if __name__ == "__main__":
    main()
