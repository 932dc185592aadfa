"""A LangGraph agent with a tool, whose process ends while it waits for a person; another takes the thread up again.

The model is scripted, so this runs offline: python examples/langgraph_agent.py
"""

from __future__ import annotations

import sys
import tempfile
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver

CONFIG: Any = {"configurable": {"thread_id": "kyoto"}}


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def model(state: State) -> State:
    """Ask for the tool first, then answer with what it found; a real model would go here."""
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"Booked: {last.content}.")]}
    usage: Any = {"input_tokens": 12, "output_tokens": 7, "total_tokens": 19}
    call = {"name": "book", "args": {"room": 7}, "id": "call-1", "type": "tool_call"}
    return {"messages": [AIMessage("Room 7 looks good.", tool_calls=[call], usage_metadata=usage)]}


def tools(state: State) -> State:
    """Book what the model chose, once a person agrees."""
    asked = state["messages"][-1]
    assert isinstance(asked, AIMessage)
    call = asked.tool_calls[0]
    agreed = interrupt(f"Book room {call['args']['room']}?")
    found = f"room {call['args']['room']}" if agreed == "yes" else "nothing"
    return {"messages": [ToolMessage(found, tool_call_id=call["id"], name=call["name"])]}


def build(hf: holdfast.Holdfast) -> Any:
    """The graph; the checkpointer is the one line that Holdfast needs."""
    graph: Any = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=HoldfastSaver(hf))


def main(url: str) -> None:
    """Ask, end, and go on from what is stored."""
    with holdfast.open(url) as hf:
        paused = build(hf).invoke({"messages": [HumanMessage("Find me a room in Kyoto")]}, CONFIG)
        print("waits:", paused["__interrupt__"][0].value)
    with holdfast.open(url) as hf:  # another process, another day
        build(hf).invoke(Command(resume="yes"), CONFIG)
        for message in hf.sessions.messages("kyoto"):
            print(f"{message.role}: {message.text}")
        print("found:", [one.message.role for one in hf.search("room", session_id="kyoto")])
        print("tokens:", hf.sessions.stats("kyoto").total_tokens, "checkpoints:", hf.stats().checkpoints)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"sqlite:///{folder}/agents.db")
