"""Graphs that LangGraph itself runs on HoldfastSaver: each says what LangGraph's own saver says of the same puts."""

from __future__ import annotations

import asyncio
import operator
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.messages.chat import ChatMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite, Send, interrupt
from langgraph_twins import Twins

import holdfast
from holdfast import Holdfast
from holdfast.adapters._langgraph_lists import segments
from holdfast.adapters.langgraph import HoldfastSaver
from holdfast.arrivals import Arrival
from holdfast.contracts import Delete, Query
from holdfast.cuts import Cut, take
from holdfast.errors import InvalidId, InvalidInput
from holdfast.kinds import MESSAGES
from holdfast.shipments import Shipments

T: Any = {"configurable": {"thread_id": "t"}}


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


@pytest.fixture
def hf(tmp_path: Path) -> Iterator[Holdfast]:
    with holdfast.open(f"sqlite:///{tmp_path}/graphs.db") as opened:
        yield opened


def _answer(state: Any) -> Any:
    return {"messages": [AIMessage(f"answer to: {state['messages'][-1].content}")]}


def _chain(state: type, **nodes: Any) -> StateGraph[Any]:
    graph: StateGraph[Any] = StateGraph(state)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for before, after in zip([START, *nodes], [*nodes, END], strict=True):
        graph.add_edge(before, after)
    return graph


def _say(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


# the session behind a thread


def test_a_thread_is_a_session_whose_transcript_is_the_messages_channel(hf: Holdfast) -> None:
    saver = Twins(hf)
    graph = _chain(Chat, chat=_answer).compile(checkpointer=saver)
    for text in ("Find a ryokan", "and a tea house"):
        graph.invoke(_say(text), T)
    said = [(one.role, one.text) for one in hf.sessions.messages("t")]
    assert said[0] == ("user", "Find a ryokan")
    assert said[-1] == ("assistant", "answer to: and a tea house")
    assert hf.sessions.get("t").title == "Find a ryokan"  # type: ignore[union-attr]
    assert [found.message.text for found in hf.search("tea house", session_id="t")][0:1] != []
    assert len(hf.checkpoints.list(session_id="t")) == saver.check("t") == 6


def test_tool_calls_and_usage_are_the_sessions(hf: Holdfast) -> None:
    call = {"name": "look", "args": {"at": 1.0}, "id": "c1", "type": "tool_call"}
    usage: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_token_details": {"cache_read": 3}}
    saver = Twins(hf)
    graph = _chain(
        Chat,
        ask=lambda _: {
            "messages": [
                AIMessage("", tool_calls=[call], usage_metadata=usage, response_metadata={"model_name": "m", "z": 1})
            ]
        },
        look=lambda _: {"messages": [ToolMessage("two", tool_call_id="c1", name="look", artifact={"raw": [1, 2]})]},
    ).compile(checkpointer=saver)
    graph.invoke(_say("where?"), T)
    _, asked, answer = hf.sessions.messages("t")
    assert (asked.tool_calls[0].name, asked.tool_calls[0].arguments) == ("look", {"at": 1.0})
    assert (answer.role, answer.tool_call_id, answer.tool_name, answer.text) == ("tool", "c1", "look", "two")
    assert (asked.usage.input, asked.usage.cache_read, asked.usage.model) == (10, 3, "m")  # type: ignore[union-attr]
    assert hf.sessions.stats("t").total_tokens == 15
    saver.check("t")


def test_messages_of_any_kind_come_back_as_they_were(hf: Holdfast) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}}
    messages = [
        HumanMessage([{"type": "text", "text": "see " * 40}, picture, "bare", {"type": "odd", "n": 1.0}]),
        HumanMessage("kept", additional_kwargs={"n": 42, "x": 42.0, "t": True}, name="ann"),
        ChatMessage(content="by a role of its own " * 5, role="judge"),
        AIMessage("tuples " * 20, additional_kwargs={"pair": (1, 2)}),
        AIMessage("not JSON", response_metadata={"raw": b"\0\1"}),
        AIMessage([]),
        HumanMessage(""),
    ]
    saver = Twins(hf)
    graph = _chain(Chat, chat=_answer).compile(checkpointer=saver)
    graph.invoke({"messages": messages}, T)
    saver.check("t")
    assert next(iter(hf.sessions.messages("t"))).content[1].data == b"\0\1\2"  # type: ignore[union-attr]


def test_a_message_replaced_or_removed_by_its_id_makes_a_branch(hf: Holdfast) -> None:
    saver = Twins(hf)
    graph = _chain(Chat, chat=_answer).compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage("one", id="1"), HumanMessage("two", id="2")]}, T)
    graph.update_state(T, {"messages": [HumanMessage("ONE", id="1")]})
    graph.update_state(T, {"messages": [RemoveMessage(id="2")]})
    graph.invoke(_say("three"), T)
    texts = [one.text for one in hf.sessions.messages("t")]
    assert texts == ["ONE", "answer to: two", "three", "answer to: three"]
    assert len(hf.sessions.tree("t").branches) == 3
    saver.check("t")


def test_a_message_changed_in_place_is_not_taken_for_the_old_one(hf: Holdfast) -> None:
    def shout(state: Any) -> Any:
        state["messages"][0].content = "changed"
        state["messages"][0].additional_kwargs["n"] = 1
        return {"messages": [AIMessage("done")]}

    graph = _chain(Chat, chat=_answer, shout=shout).compile(checkpointer=HoldfastSaver(hf))
    graph.invoke(_say("first"), T, durability="sync")
    assert [one.text for one in hf.sessions.messages("t")] == ["changed", "answer to: first", "done"]
    assert graph.get_state(T).values["messages"][0].additional_kwargs == {"n": 1}


def test_a_channel_of_another_name_is_the_transcript_too(hf: Holdfast) -> None:
    class State(TypedDict):
        talk: Annotated[list[AnyMessage], add_messages]
        notes: Annotated[list[str], operator.add]

    saver = Twins(hf)
    graph = _chain(State, chat=lambda _: {"talk": [AIMessage("hi")], "notes": ["a"]}).compile(checkpointer=saver)
    graph.invoke({"talk": [HumanMessage("hello")], "notes": []}, T)
    graph.invoke({"talk": [HumanMessage("again")], "notes": ["b"]}, T)
    assert [one.text for one in hf.sessions.messages("t")] == ["hello", "hi", "again", "hi"]
    saver.check("t")


# other lists that grow


class Notes(TypedDict):
    notes: Annotated[list[Any], operator.add]


def _notes(saver: HoldfastSaver) -> Any:
    def add(state: Notes) -> Any:
        return {"notes": [f"note {len(state['notes'])} " * 10, None, b""]}

    return _chain(Notes, add=add).compile(checkpointer=saver)


def test_a_list_that_grows_is_stored_as_it_grows(hf: Holdfast) -> None:
    saver = HoldfastSaver(hf)
    graph = _notes(saver)
    words = random.Random(3)
    for n in range(60):
        graph.invoke({"notes": [f"turn {n} {words.randbytes(400).hex()}"]}, T)
    notes = _notes(HoldfastSaver(hf)).get_state(T).values["notes"]
    turns = [one for one in notes if one and one.startswith("turn")]
    assert [one.split()[1] for one in turns] == [str(n) for n in range(60)]
    assert hf.stats().bytes < 6 * sum(map(len, turns))  # with whole lists at every step it would be 60 times


def test_a_list_may_change_anywhere(hf: Holdfast) -> None:
    saver = Twins(hf)
    graph = _notes(saver)
    for n in range(12):
        graph.invoke({"notes": [f"turn {n} " * 10]}, T)
    past = list(graph.get_state_history(T))
    for one in past[3::7]:
        graph.invoke({"notes": ["another way " * 10]}, one.config)
    graph.update_state(T, {"notes": Overwrite(["short " * 50])})
    graph.update_state(T, {"notes": Overwrite([*past[10].values["notes"][:7], "new " * 30])})
    graph.invoke({"notes": ["more " * 20]}, T)
    assert saver.check("t") > 40


def test_lists_outlive_the_checkpoints_that_added_to_them(hf: Holdfast) -> None:
    saver = HoldfastSaver(hf)
    graph = _notes(saver)
    for n in range(12):
        graph.invoke({"notes": [f"turn {n} " * 10]}, {**T, "metadata": {"run_id": str(n)}})
    expected: dict[str, Any] = {one.checkpoint["id"]: one.checkpoint for one in saver.list(T)}
    saver.delete_for_runs(["0", "1", "5", "9"])
    left = list(HoldfastSaver(hf).list(T))
    assert len(left) == 24
    assert all(one.checkpoint == expected[one.checkpoint["id"]] for one in left)
    saver.prune(["t"])
    assert [one.checkpoint for one in saver.list(T)] == [expected[max(expected)]]
    assert hf.verify().ok


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=60))
def test_segments_make_up_the_list_whatever_is_done_to_it(steps: list[tuple[int, int]]) -> None:
    begins: list[int] = []
    length = 0
    for kept_share, added in steps:
        same = kept_share * length // 40
        kept, first = segments(begins, length, same, same + added)
        begins, length = (kept if first is None else [*kept, first]), same + added
        assert begins == sorted(set(begins))
        assert not length or begins[0] == 0
        assert all(begin < length for begin in begins)
        assert len(begins) < 8 * 8


# what LangGraph can do


def test_an_interrupted_graph_goes_on_in_another_process_life(hf: Holdfast) -> None:
    def approve(_: Any) -> Any:
        return {"messages": [HumanMessage(interrupt("book it?"))]}

    saver = Twins(hf)
    graph = _chain(Chat, chat=_answer, approve=approve, book=_answer)
    paused = graph.compile(checkpointer=saver).invoke(_say("a room"), T)
    assert paused["__interrupt__"][0].value == "book it?"
    saver.check("t")
    again = graph.compile(checkpointer=HoldfastSaver(hf))
    assert again.get_state(T).next == ("approve",)
    result = again.invoke(Command(resume="yes"), T)
    assert [one.content for one in result["messages"]][-2:] == ["yes", "answer to: yes"]


def test_time_travel_forks_the_thread_and_keeps_both_ways(hf: Holdfast) -> None:
    saver = Twins(hf)
    graph = _chain(Chat, chat=_answer).compile(checkpointer=saver)
    graph.invoke(_say("one"), T)
    graph.invoke(_say("two"), T)
    before = next(one for one in graph.get_state_history(T) if len(one.values["messages"]) == 2 and not one.next)
    graph.invoke(_say("other"), before.config)
    assert [one.text for one in hf.sessions.messages("t")][2:] == ["other", "answer to: other"]
    assert len(hf.sessions.tree("t").branches) == 2
    replayed = graph.invoke(None, before.config)
    assert len(replayed["messages"]) == 2
    forked = graph.update_state(before.config, None, as_node="__copy__")
    assert len(graph.get_state(forked).values["messages"]) == 2
    saver.check("t")


def test_each_namespace_of_a_subgraph_is_a_child_session(hf: Holdfast) -> None:
    def ask(_: Any) -> Any:
        return {"messages": [AIMessage(f"asked: {interrupt('which?')}")]}

    inner = _chain(Chat, look=_answer, ask=ask).compile()
    saver = Twins(hf)
    graph = _chain(Chat, inner=inner, chat=_answer).compile(checkpointer=saver)
    graph.invoke(_say("hello " * 30), T)
    state = graph.get_state(T, subgraphs=True)
    assert state.tasks[0].state.values["messages"][-1].content.startswith("answer to: hello")  # type: ignore
    graph.invoke(Command(resume="this"), T)
    children = [one for one in hf.sessions.list() if one.id.startswith("t|inner:")]
    assert [one.title for one in children] == ["inner"]
    assert next(iter(hf.sessions.messages(children[0].id))).text == "hello " * 30
    assert saver.check("t") > 6


def test_a_subgraph_that_is_given_all_messages_stores_none_of_them_again(hf: Holdfast) -> None:
    chance = random.Random(5)
    inner = _chain(Chat, look=lambda _: {"messages": [AIMessage(chance.randbytes(500).hex())]}).compile()
    graph = _chain(Chat, inner=inner).compile(checkpointer=HoldfastSaver(hf))
    for _ in range(20):
        graph.invoke(_say(chance.randbytes(500).hex()), T)
    assert len(graph.get_state(T).values["messages"]) == 40
    assert hf.stats().bytes < 10 * 40 * 1_000
    assert hf.verify().ok


def test_writes_of_parallel_tasks_keep_the_order_of_their_paths(hf: Holdfast) -> None:
    class State(TypedDict):
        seen: Annotated[list[str], operator.add]

    def spread(_: Any) -> Any:
        return [Send("work", {"seen": [str(n)]}) for n in range(12)]

    graph: Any = StateGraph(State)
    graph.add_node("work", lambda state: {"seen": [f"did {state['seen'][0]}"]})
    graph.add_node("stop", lambda _: interrupt("stop"))
    graph.add_conditional_edges(START, spread)
    graph.add_edge("work", "stop")
    saver = Twins(hf)
    app = graph.compile(checkpointer=saver)
    app.invoke({"seen": []}, T)
    assert app.get_state(T).values["seen"] == [f"did {n}" for n in range(12)]
    saver.check("t")


def test_a_failed_step_leaves_what_its_other_tasks_wrote(hf: Holdfast) -> None:
    class State(TypedDict):
        seen: Annotated[list[str], operator.add]

    broken = [True]

    def fail(_: State) -> Any:
        if broken:
            raise RuntimeError("no")
        return {"seen": ["mended"]}

    graph: Any = StateGraph(State)
    graph.add_node("good", lambda _: {"seen": ["good"]})
    graph.add_node("bad", fail)
    graph.add_edge(START, "good")
    graph.add_edge(START, "bad")
    saver = Twins(hf)
    app = graph.compile(checkpointer=saver)
    with pytest.raises(RuntimeError, match="no"):
        app.invoke({"seen": []}, T)
    saver.check("t")
    broken.clear()
    assert sorted(app.invoke(None, T)["seen"]) == ["good", "mended"]
    saver.check("t")


def test_an_async_graph_runs_on_the_same_saver(hf: Holdfast) -> None:
    async def answer(state: Any) -> Any:
        return _answer(state)

    async def talk() -> list[CheckpointTuple]:
        graph = _chain(Chat, chat=answer).compile(checkpointer=saver)
        await graph.ainvoke(_say("hello"), T)
        return [one async for one in saver.alist(T)]

    saver = HoldfastSaver(hf)
    assert len(asyncio.run(talk())) == 3
    assert len(list(hf.sessions.messages("t"))) == 2


# delta channels


def _gather(state: list[Any], writes: Any) -> list[Any]:
    return state + [item for write in writes for item in write]


class Delta(TypedDict):
    items: Annotated[list[str], DeltaChannel(_gather, snapshot_frequency=4)]


def _delta(saver: HoldfastSaver, turns: int) -> Any:
    graph = _chain(Delta, add=lambda state: {"items": [f"{len(state['items'])} " * 20]}).compile(checkpointer=saver)
    for n in range(turns):
        graph.invoke({"items": [f"turn {n}"]}, T)
    return graph


def test_delta_channels_are_rebuilt_along_the_parents(hf: Holdfast) -> None:
    saver = Twins(hf)
    graph = _delta(saver, 5)
    expected = graph.get_state(T).values["items"]
    past = next(one for one in graph.get_state_history(T) if len(one.values.get("items", [])) == 4)
    graph.invoke({"items": ["on a fork"]}, past.config)
    assert len(expected) == 10
    assert graph.get_state(T).values["items"][:5] == [*expected[:4], "on a fork"]
    for found in saver.list(T):
        told = saver.get_delta_channel_history(config=found.config, channels=["items"])
        assert told == saver.other.get_delta_channel_history(config=found.config, channels=["items"])
    saver.check("t")


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 5])
def test_pruning_keeps_what_delta_channels_are_rebuilt_of(hf: Holdfast, turns: int) -> None:
    saver = HoldfastSaver(hf)
    graph = _delta(saver, turns)
    expected, before = graph.get_state(T).values, len(list(saver.list(T)))
    saver.prune(["t"])
    assert graph.get_state(T).values == expected
    assert len(list(saver.list(T))) < before or turns == 1
    assert graph.invoke({"items": ["more"]}, T)["items"][:-2] == expected["items"]


def test_a_copied_thread_is_whole_and_independent(hf: Holdfast) -> None:
    saver = HoldfastSaver(hf)
    graph = _delta(saver, 3)
    expected = graph.get_state(T).values
    other: Any = {"configurable": {"thread_id": "copy"}}
    saver.copy_thread("t", "copy")
    assert [one.checkpoint["id"] for one in saver.list(other)] == [one.checkpoint["id"] for one in saver.list(T)]
    saver.delete_thread("t")
    assert graph.get_state(other).values == expected
    assert graph.get_state(T).values == {}
    assert hf.verify().ok


def test_a_copy_of_messages_goes_on_by_itself(hf: Holdfast) -> None:
    saver = HoldfastSaver(hf)
    graph = _chain(Chat, chat=_answer).compile(checkpointer=saver)
    graph.invoke(_say("one " * 30), T)
    saver.copy_thread("t", "copy")
    other: Any = {"configurable": {"thread_id": "copy"}}
    graph.invoke(_say("two"), other)
    saver.delete_thread("t")
    assert [one.text for one in hf.sessions.messages("copy")][2:] == ["two", "answer to: two"]
    assert len(graph.get_state(other).values["messages"]) == 4
    assert graph.get_state(T).values == {}


def test_a_thread_of_more_messages_than_one_commit_takes_is_put_whole(hf: Holdfast) -> None:
    saver = Twins(hf)
    graph = _chain(Chat, chat=lambda _: {"messages": [AIMessage("done")]}).compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage(f"{n} " * 30, id=str(n)) for n in range(1_100)]}, T)
    assert len(list(hf.sessions.messages("t"))) == 1_101
    assert len(hf.sessions.tree("t").branches) == 1
    saver.check("t")


class Cutting(HoldfastSaver):
    """A saver at whose store somebody takes a copy just when an input was put, before the graph goes on."""

    cut: Cut | None = None

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        done = super().put(config, checkpoint, metadata, new_versions)
        if metadata["step"] == 2:
            self.cut = take(self._hf._store)
        return done


def test_a_thread_is_copied_as_of_one_moment_while_it_goes_on(hf: Holdfast, tmp_path: Path) -> None:
    saver = Cutting(hf)
    graph = _chain(Chat, chat=_answer).compile(checkpointer=saver)
    for text in ("the first words of it ", "the second words of it "):
        graph.invoke(_say(text * 5), T, durability="sync")
    assert saver.cut is not None
    with closing(saver.cut) as cut, holdfast.open(f"sqlite:///{tmp_path}/copy.db") as other:
        arrival = Arrival(other._store, other._ground.sweeps, Shipments(None, None, None), 30)
        arrival.begin(cut)
        arrival.bring(cut)
        arrival.publish(cut)
        assert other.verify().ok
        newest = next(iter(HoldfastSaver(other).list(T)))
        assert newest.checkpoint["channel_values"]["__start__"]["messages"][0].content == "the second words of it " * 5
        assert len(list(other.sessions.messages("t"))) == 2


def test_special_writes_are_replaced_and_others_are_not(hf: Holdfast) -> None:
    saver = HoldfastSaver(hf)
    graph = _chain(Chat, chat=_answer).compile(checkpointer=saver)
    graph.invoke(_say("hello"), T)
    for config in [one.config for one in saver.list(T)]:  # one has no successor yet, others have
        for n in (1, 2):
            saver.put_writes(config, [("x", n), (ERROR, f"error {n}"), (INTERRUPT, f"stop {n}")], "task", "path")
        found = saver.get_tuple(config)
        assert found is not None
        mine = {channel: value for task, channel, value in found.pending_writes or () if task == "task"}
        assert mine == {"x": 1, ERROR: "error 2", INTERRUPT: "stop 2"}


def test_verify_names_a_checkpoint_whose_text_is_gone(hf: Holdfast) -> None:
    graph = _chain(Chat, chat=_answer).compile(checkpointer=HoldfastSaver(hf))
    graph.invoke(_say("words that are stored once " * 5), T)
    first = next(iter(hf._store.scan(Query(kind=MESSAGES))))
    hf._store.commit([Delete(MESSAGES, first.key)])
    assert "checkpoints" in {problem.kind for problem in hf.verify().problems}


# deleting


def test_what_the_kept_checkpoints_need_stays_when_others_go(hf: Holdfast) -> None:
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        plan: str

    saver = HoldfastSaver(hf)
    graph = _chain(State, chat=_answer).compile(checkpointer=saver)
    graph.invoke({**_say("one"), "plan": "a long plan " * 20}, T)
    graph.invoke(_say("two"), T)
    expected = graph.get_state(T).values
    saver.prune(["t"])
    assert len(list(saver.list(T))) == 1
    assert graph.get_state(T).values == expected
    assert expected["plan"] == "a long plan " * 20
    assert hf.verify().ok


def test_a_value_moves_once_when_the_run_that_set_it_is_deleted(hf: Holdfast) -> None:
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        plan: bytes

    saver = HoldfastSaver(hf)
    graph = _chain(State, chat=_answer).compile(checkpointer=saver)
    plan = random.Random(1).randbytes(50_000)
    for n in range(6):
        config: Any = {**T, "metadata": {"run_id": str(n)}}
        graph.invoke(_say(str(n)) if n else {**_say("0"), "plan": plan}, config)
    saver.delete_for_runs(["0"])
    assert {one.checkpoint["channel_values"]["plan"] for one in saver.list(T)} == {plan}
    assert hf.stats().bytes < 2 * len(plan)
    saver.delete_for_runs(["1", "3"])
    assert {one.checkpoint["channel_values"]["plan"] for one in saver.list(T)} == {plan}


def test_a_run_is_deleted_with_its_checkpoints_only(hf: Holdfast) -> None:
    saver = HoldfastSaver(hf)
    graph = _chain(Chat, chat=_answer).compile(checkpointer=saver)
    for n in ("1", "2"):
        config: Any = {**T, "metadata": {"run_id": n}}
        graph.invoke(_say(n), config)
    saver.delete_for_runs(["1"])
    assert {one.metadata["run_id"] for one in saver.list(T)} == {"2"}
    assert len(graph.get_state(T).values["messages"]) == 4


def test_a_deleted_thread_leaves_nothing(hf: Holdfast) -> None:
    saver = HoldfastSaver(hf)
    inner = _chain(Chat, look=_answer).compile()
    graph = _chain(Chat, inner=inner).compile(checkpointer=saver)
    empty = hf.stats()
    graph.invoke(_say("hello"), T)
    saver.delete_thread("t")
    hf.gc(grace_s=0)
    assert list(saver.list(None)) == []
    assert hf.stats() == empty
    graph.invoke(_say("again"), T)
    assert len(list(hf.sessions.messages("t"))) == 2


def test_a_redacted_message_is_gone_from_every_checkpoint(hf: Holdfast) -> None:
    secret = "the secret word is mushroom " * 4
    saver = HoldfastSaver(hf)
    graph = _chain(Chat, chat=lambda _: {"messages": [AIMessage("fine")]}).compile(checkpointer=saver)
    graph.invoke(_say(secret), T)
    graph.invoke(_say("more"), T)
    hf.sessions.redact("t", next(iter(hf.sessions.messages("t"))).id, "asked to")
    assert all("mushroom" not in str(one) for one in saver.list(T))
    assert len(graph.invoke(_say("on"), T)["messages"]) == 6


# what is refused


def test_what_cannot_be_kept_is_refused_with_a_reason(hf: Holdfast) -> None:
    with pytest.raises(InvalidInput, match="pickle"):
        HoldfastSaver(hf, serde=JsonPlusSerializer(pickle_fallback=True))
    saver = HoldfastSaver(hf)
    with pytest.raises(InvalidInput, match="thread"):
        saver.get_tuple({"configurable": {}})
    with pytest.raises(InvalidId):
        saver.get_tuple({"configurable": {"thread_id": "a\nb"}})
    with pytest.raises(InvalidInput, match="strategy"):
        saver.prune(["t"], strategy="all")


def test_threads_and_namespaces_never_meet(hf: Holdfast) -> None:
    saver = HoldfastSaver(hf)
    graph = _chain(Chat, chat=_answer).compile(checkpointer=saver)
    names = ["a", "a|b", "a%7Cb", "a_b", "A"]
    for name in names:
        graph.invoke(_say(name), {"configurable": {"thread_id": name}})
    saver.delete_thread("a")
    left = {one.config["configurable"]["thread_id"] for one in saver.list(None)}
    assert left == {*names} - {"a"}
