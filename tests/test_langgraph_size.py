"""What a thread costs on disk: a text is stored once, and a checkpoint costs the same at turn 400 as at turn 4."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver

TURNS = 400
LENGTH = 1_000


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def test_400_turns_take_at_most_three_times_their_text_on_disk(tmp_path: Path) -> None:
    chance = random.Random(7)
    config: Any = {"configurable": {"thread_id": str(uuid4())}}

    def text() -> str:
        return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz     ", k=LENGTH))

    graph: Any = StateGraph(Chat)
    graph.add_node("chat", lambda _: {"messages": [AIMessage(text())]})
    graph.add_edge(START, "chat")
    graph.add_edge("chat", END)
    with holdfast.open(f"sqlite:///{tmp_path}/graphs.db") as hf:
        app = graph.compile(checkpointer=HoldfastSaver(hf))
        for _ in range(TURNS):
            app.invoke({"messages": [HumanMessage(text())]}, config)
        assert hf.stats().checkpoints == 3 * TURNS
        assert len(app.get_state(config).values["messages"]) == 2 * TURNS
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert size <= 3 * 2 * TURNS * LENGTH, f"{size / (2 * TURNS * LENGTH):.2f} times the text"
