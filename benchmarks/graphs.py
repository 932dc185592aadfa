"""LangGraph's savers under a graph whose one node adds a message: each superstep is one checkpoint.

A step is timed twice: whole, as somebody who uses the graph has it, and the part of it inside the saver's `put` and
`put_writes`, since its loop is more than a record need have.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from rounds import TEXT

THREAD: dict[str, Any] = {"configurable": {"thread_id": "t"}, "recursion_limit": 1_000_000}


class Stopwatch:
    """The seconds that the calls of a saver took, wherever they came from."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, saver: Any, *names: str) -> None:
        for name in names:
            setattr(saver, name, self._timed(getattr(saver, name)))

    def _timed(self, call: Any) -> Any:
        def timed(*args: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*args, **named)
            finally:
                self.seconds += time.perf_counter() - start

        return timed

    def taken(self) -> float:
        """Since the last time it was asked."""
        taken, self.seconds = self.seconds, 0.0
        return taken


class Graph:
    """One thread of a graph that goes on for ever, a superstep at a time; it may be given messages to begin with."""

    def __init__(self, saver: Any, delta: bool, first: int = 0) -> None:
        graphs, self._people = import_module("langgraph.graph"), import_module("langchain_core.messages")
        self.saver, self._watch = saver, Stopwatch()
        self._watch.watch(saver, "put", "put_writes")
        made: Any = graphs.StateGraph(_state(delta))
        made.add_node("speak", lambda _state: {"messages": [self._people.HumanMessage(TEXT)]})
        made.add_edge(graphs.START, "speak")
        made.add_conditional_edges("speak", lambda _state: "speak")
        graph = made.compile(checkpointer=saver)
        said = [self._people.HumanMessage(TEXT) for _ in range(first)]
        self._steps = graph.stream({"messages": said}, THREAD, stream_mode="updates", durability="sync")

    def step(self) -> None:
        next(self._steps)

    def inside_saver(self) -> float:
        """The seconds that the saver has taken since this was last asked."""
        return self._watch.taken()

    def close(self) -> None:
        self._steps.close()


def _state(delta: bool) -> Any:
    messages, typing = import_module("langgraph.graph.message"), import_module("typing")
    reducer: Any = messages.add_messages
    if delta:
        reducer = import_module("langgraph.channels").DeltaChannel(messages._messages_delta_reducer)
    return typing.TypedDict("State", {"messages": typing.Annotated[list, reducer]})


@contextmanager
def on_sqlite(path: Path, delta: bool, first: int = 0) -> Iterator[Graph]:
    savers: Any = import_module("langgraph.checkpoint.sqlite")
    with closing(sqlite3.connect(path, check_same_thread=False)) as con:
        with closing(Graph(savers.SqliteSaver(con), delta, first)) as graph:
            yield graph


@contextmanager
def on_postgres(url: str, delta: bool) -> Iterator[Graph]:
    savers: Any = import_module("langgraph.checkpoint.postgres")
    with savers.PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        with closing(Graph(saver, delta)) as graph:
            yield graph
