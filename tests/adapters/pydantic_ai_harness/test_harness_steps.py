"""The harness's steps on Holdfast are those of its own stores: the same calls, the same results."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from adapter_kills import findings_of
from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import RunContext
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    InMemoryStepStore,
    RunRecord,
    SqliteStepStore,
    StepEvent,
    StepPersistence,
    StepStore,
    ToolEffectRecord,
    continue_run,
)

from holdfast import Holdfast
from holdfast.adapters.pydantic_ai_harness import HoldfastStepStore
from holdfast.errors import AlreadyExists, InvalidInput

pytest_plugins = ["adapter_stores"]

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
PICTURE = BinaryContent(data=b"\xff\x00", media_type="image/png")
SAID: list[ModelMessage] = [
    ModelRequest(
        parts=[UserPromptPart(["See", BinaryContent(data=b"\xff\x00", media_type="image/png")], timestamp=AT)]
    ),
    ModelResponse(parts=[ToolCallPart("look", {"x": 1}, "c1"), ToolCallPart("look", {}, "c2")], timestamp=AT),
    ModelRequest(
        parts=[ToolReturnPart("look", "a", "c1", timestamp=AT), ToolReturnPart("look", "b", "c2", timestamp=AT)]
    ),
    ModelResponse(parts=[TextPart("Done")], timestamp=AT),
]
OTHER = [*SAID[:1], ModelResponse(parts=[TextPart("Rewritten")], timestamp=AT), ModelRequest(parts=[])]


def run(name: str, minutes: int, **given: Any) -> RunRecord:
    return RunRecord(run_id=name, started_at=AT + timedelta(minutes=minutes), **given)


def snapshot(messages: list[ModelMessage], **given: Any) -> ContinuableSnapshot:
    return ContinuableSnapshot(run_id="a", step_index=len(messages), messages=messages, timestamp=AT, **given)


def event(kind: Any, **given: Any) -> StepEvent:
    return StepEvent(run_id="a", kind=kind, step_index=1, timestamp=AT, **given)


def effect(call: str, status: Any, **given: Any) -> ToolEffectRecord:
    return ToolEffectRecord(tool_call_id=call, tool_name="look", run_id="a", status=status, started_at=AT, **given)


async def steps(store: Any) -> list[Any]:
    """A scenario with every kind of call, and what it shows."""
    await store.register_run(run("b", 2, conversation_id="c", parent_run_id="a", metadata={"k": "v"}))
    await store.register_run(run("a", 1, conversation_id="c", agent_name="planner"))
    await store.register_run(run("d", 3, parent_run_id="a"))
    seen: list[Any] = [await store.get_run(run_id=name) for name in ("a", "b", "none")]
    for asked in ({}, {"conversation_id": "c"}, {"parent_run_id": "a"}, {"conversation_id": "c", "parent_run_id": "a"}):
        seen.append(await store.list_runs(**asked))
    await store.append_event(event("run_started"))
    await store.append_event(event("tool_call_started", tool_call_id="c1", idempotency_key="k"))
    await store.append_event(event("run_failed", error="x"))
    await store.append_event(event("run_completed", idempotency_key="k"))
    seen += [await store.list_events(run_id=name) for name in ("a", "none")]
    for one in (effect("c1", "started"), effect("c2", "started"), effect("c1", "started", effect_summary="s")):
        await store.record_tool_effect(one)
    seen.append(await store.list_unresolved_tool_effects(run_id="a"))
    await store.record_tool_effect(effect("c1", "completed", ended_at=AT, idempotency_key="i"))
    seen.append(await store.list_unresolved_tool_effects(run_id="a"))
    seen += [await store.get_tool_effect(run_id="a", tool_call_id=call) for call in ("c1", "c2", "none")]
    seen += [await latest(store)]
    for count, state in ((1, "complete"), (2, "interrupted"), (4, "complete"), (3, "complete"), (2, "interrupted")):
        await store.save_snapshot(snapshot(SAID[:count], state=state))
        seen.append(await latest(store))
    await store.save_snapshot(snapshot(OTHER, conversation_id="c", idempotency_key="1:x"))
    await store.save_snapshot(snapshot(SAID, idempotency_key="1:x"))
    await store.save_snapshot(snapshot([]))
    seen.append(await latest(store))
    for every in (True, False):
        seen.append([shown(one) for one in await store.list_snapshots(run_id="a", include_interrupted=every)])
    return seen


async def latest(store: Any) -> list[Any]:
    return [shown(await store.latest_snapshot(run_id="a", include_interrupted=every)) for every in (True, False)]


def shown(one: ContinuableSnapshot | None) -> Any:
    if one is None:
        return None
    messages = ModelMessagesTypeAdapter.dump_json(one.messages)
    return (one.run_id, one.step_index, one.conversation_id, one.timestamp, one.state, one.idempotency_key, messages)


@pytest.mark.parametrize("most", [None, 1, 2])
def test_the_same_calls_have_the_same_results_as_with_its_own_stores(most: int | None, hf: Holdfast) -> None:
    ours = asyncio.run(steps(HoldfastStepStore(hf, max_snapshots_per_run=most)))
    assert ours == asyncio.run(steps(InMemoryStepStore(max_snapshots_per_run=most)))


def test_it_is_a_step_store_to_the_harness(hf: Holdfast) -> None:
    assert isinstance(HoldfastStepStore(hf), StepStore)


def test_each_message_is_stored_once_however_many_snapshots_have_it(hf: Holdfast) -> None:
    async def scenario() -> None:
        store = HoldfastStepStore(hf)
        long: list[ModelMessage] = [
            ModelResponse(parts=[TextPart(f"number {number}")], timestamp=AT) for number in range(30)
        ]
        for count in range(1, 31):
            await store.save_snapshot(snapshot(long[:count]))
        assert hf.stats().messages == 30
        assert hf.stats().checkpoints == 30

    asyncio.run(scenario())


def test_a_run_id_is_used_once(hf: Holdfast) -> None:
    async def scenario() -> None:
        store = HoldfastStepStore(hf)
        await store.append_event(event("run_started"))
        await store.save_snapshot(snapshot(SAID))
        assert await store.get_run(run_id="a") is None
        for _ in range(2):
            await store.register_run(run("a", 1))
        with pytest.raises(AlreadyExists):
            await store.register_run(run("a", 2))
        assert shown(await store.latest_snapshot(run_id="a")) == shown(snapshot(SAID))

    asyncio.run(scenario())


def test_a_bound_below_one_is_refused(hf: Holdfast) -> None:
    for most in (0, -1, 1.5):
        with pytest.raises((ValueError, InvalidInput)):
            HoldfastStepStore(hf, max_snapshots_per_run=most)  # type: ignore[arg-type]


# an agent that the harness runs


def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    answers = sum(part.part_kind == "tool-return" for message in messages for part in message.parts)
    if answers == 3:
        return ModelResponse(parts=[TextPart("All are booked")])
    return ModelResponse(parts=[ToolCallPart("book", {"room": answers})])


async def book(ctx: RunContext[list[int]], room: int) -> str:
    if room == 2 and room not in ctx.deps:
        ctx.deps.append(room)
        raise ConnectionError("the line is dead")
    return f"{room} is booked"


def make_agent(store: Any, run_id: str) -> Any:
    steps = StepPersistence(store=store, run_id=run_id)
    return Agent(FunctionModel(scripted), deps_type=list, tools=[book], capabilities=[steps])


async def persist(store: Any) -> list[Any]:
    deps: list[int] = []
    with pytest.raises(ConnectionError):
        await make_agent(store, "a").run("Book all", deps=deps)
    history = await continue_run(store, run_id="a")
    unresolved = await store.list_unresolved_tool_effects(run_id="a")
    events = [(one.kind, one.step_index) for one in await store.list_events(run_id="a")]
    result = await make_agent(store, "b").run(message_history=history, deps=deps)
    done = await store.latest_snapshot(run_id="b")
    return [len(history), unresolved, events, result.output, len(done.messages), len(await store.list_runs())]


def test_a_run_that_failed_goes_on_from_its_last_snapshot(hf: Holdfast, tmp_path: Path) -> None:
    ours = asyncio.run(persist(HoldfastStepStore(hf, agent_id="planner")))
    assert ours == asyncio.run(persist(InMemoryStepStore()))
    assert ours == asyncio.run(persist(SqliteStepStore(database=tmp_path / "steps.db")))
    assert [found.session_id for found in hf.search("0 booked", agent_id="planner", role="tool")]


def test_a_killed_agent_goes_on_and_has_lost_nothing(tmp_path: Path) -> None:
    assert findings_of(Path(__file__).parent / "killed_booker.py", tmp_path) == []
