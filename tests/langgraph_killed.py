"""A process that runs a graph and is killed, again and again; then what LangGraph's own saver makes of the same puts.

Run by test_langgraph_kills.py as a process of its own, which forks the ones that are killed: so each begins at once.
"""

from __future__ import annotations

import operator
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver

T: Any = {"configurable": {"thread_id": "t"}}
LONGEST_S = 0.06  # that one is let live after it has opened the store


def gather(state: list[str], writes: Any) -> list[str]:
    return state + [item for write in writes for item in write]


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    steps: Annotated[list[str], operator.add]
    delta: Annotated[list[str], DeltaChannel(gather, snapshot_frequency=5)]


def build(saver: Any) -> Any:
    """A graph with two nodes side by side, then one that joins them."""
    graph: Any = StateGraph(State)
    graph.add_node("left", lambda _: {"steps": ["left"], "delta": ["left"]})
    graph.add_node("right", lambda _: {"steps": ["right"], "delta": ["right"]})
    graph.add_node("join", lambda state: {"messages": [AIMessage(f"to: {state['messages'][-1].content}")]})
    for before, after in ((START, "left"), (START, "right"), ("left", "join"), ("right", "join"), ("join", END)):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=saver)


class Journal(HoldfastSaver):
    """A saver that writes down what it is asked to put before it does, and that it was done after."""

    def __init__(self, hf: Any, path: Path) -> None:
        super().__init__(hf)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.ftruncate(self._file, sum(4 + len(body) for body in _entries(path)))
        self._one = threading.Lock()

    def _note(self, what: Any) -> Any:
        """Write it down, and return it as it was at that moment: reducers give messages their ids meanwhile."""
        kind, body = self.serde.dumps_typed(what)
        os.write(self._file, len(body).to_bytes(4) + body)
        return self.serde.loads_typed((kind, body))

    def _noted(self, name: str, call: Any, given: tuple[Any, ...]) -> Any:
        with self._one:
            _, *noted = self._note((name, *given))
            result = call(*noted)
            self._note(("done",))
        return result

    def put(self, *given: Any) -> Any:
        return self._noted("put", super().put, _bare(given))

    def put_writes(self, *given: Any) -> None:
        self._noted("put_writes", super().put_writes, _bare(given))


def _entries(path: Path) -> Iterator[bytes]:
    """What a journal has whole: a kill may tear its last entry at the end of a page."""
    whole, at = path.read_bytes(), 0
    while at + 4 <= len(whole) and (end := at + 4 + int.from_bytes(whole[at : at + 4])) <= len(whole):
        yield whole[at + 4 : end]
        at = end


def _bare(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The config without what LangGraph's loop hangs on to it."""
    config = given[0]["configurable"]
    kept = {name: config[name] for name in ("thread_id", "checkpoint_ns", "checkpoint_id") if name in config}
    return ({"configurable": kept}, *given[1:])


def run(folder: Path, turns: int) -> None:
    """Go on where the thread stands, until it has so many turns."""
    with holdfast.open(f"sqlite:///{folder}/graphs.db") as hf:
        graph = build(Journal(hf, folder / "journal"))
        os.write(1, b".")
        while True:
            state = graph.get_state(T)
            done = sum(isinstance(one, HumanMessage) for one in state.values.get("messages", []))
            if state.tasks:  # some may be done already, so that `next` does not name them
                graph.invoke(None, T)
            elif done < turns:
                graph.invoke({"messages": [HumanMessage(f"turn {done} " * 8)], "steps": [], "delta": []}, T)
            else:
                return


def kill_once(folder: Path, chance: random.Random) -> None:
    """Fork one that runs the graph, and kill it some time after it has begun."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writer, 1)
        run(folder, 10**9)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    time.sleep(chance.random() * LONGEST_S)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def replayed(folder: Path, saver: HoldfastSaver) -> InMemorySaver:
    """LangGraph's saver with the puts that were acknowledged, and those that were done though nobody was told."""
    entries = [JsonPlusSerializer().loads_typed(("msgpack", body)) for body in _entries(folder / "journal")]
    other = InMemorySaver()
    for entry, then in zip(entries, [*entries[1:], ("",)], strict=True):
        if entry[0] != "done" and (then[0] == "done" or _is_there(saver, entry)):
            getattr(other, entry[0])(*entry[1:])
    return other


def _is_there(saver: HoldfastSaver, entry: Any) -> bool:
    name, config = entry[0], entry[1]["configurable"]
    if name == "put":
        return saver.get_tuple({"configurable": {**config, "checkpoint_id": entry[2]["id"]}}) is not None
    found = saver.get_tuple(entry[1])
    pending = () if found is None else found.pending_writes or ()
    kept = [(name, value) for task, name, value in pending if task == entry[3]]
    # Of the same task a later process may have written the same, but with other ids.
    return bool(kept) and all((name, value) in kept for name, value in entry[2])


def main(folder: Path, kills: int, seed: int) -> None:
    """Kill so many, let one finish, and compare."""
    chance = random.Random(seed)
    for _ in range(kills):
        kill_once(folder, chance)
    with holdfast.open(f"sqlite:///{folder}/graphs.db") as hf:
        saver = HoldfastSaver(hf)
        values = build(saver).get_state(T).values
        reached = sum(isinstance(one, HumanMessage) for one in values.get("messages", []))
    run(folder, reached + 2)
    with holdfast.open(f"sqlite:///{folder}/graphs.db") as hf:
        saver = HoldfastSaver(hf)
        ours, theirs = build(saver), build(replayed(folder, saver))
        assert ours.get_state(T) == theirs.get_state(T)
        assert list(ours.get_state_history(T)) == list(theirs.get_state_history(T))
        said = [one.text for one in hf.sessions.messages("t")]
        asked = [f"turn {n} " * 8 for n in range(reached + 2)]
        assert said == [text for one in asked for text in (one, f"to: {one}")]
        assert len(ours.get_state(T).values["delta"]) == 2 * len(asked)
        assert hf.verify().ok
    print(f"{kills} kills, {reached} turns before the last one, all the same")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
