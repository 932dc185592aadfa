"""Conversations of pydantic-ai on Holdfast are those of its own store: the same calls, the same results."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import ApprovalRequired, UserError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import RunContext

import holdfast
from holdfast import Holdfast, Message
from holdfast.adapters.pydantic_ai import HoldfastConversationStore

pytest_plugins = ["adapter_stores"]


def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Books what it is asked to, and then says so."""
    part = messages[-1].parts[-1]
    if part.part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(f"Done: {part.content}")])
    return ModelResponse(parts=[ToolCallPart("book", {"room": str(part.content)})])


def book(ctx: RunContext[None], room: str) -> str:
    if room == "dear" and not ctx.tool_call_approved:
        raise ApprovalRequired
    return f"{room} booked"


def make_agent() -> Agent[None, Any]:
    return Agent(FunctionModel(scripted), output_type=[str, DeferredToolRequests], tools=[book])


async def talk(store: ConversationStore) -> list[Any]:
    """A scenario with every kind of call, and what it shows."""
    names = Names()
    seen: list[Any] = []
    agent = make_agent()
    chat = Conversation(conversation_id="chat")
    for room in ("one", "two", "three"):
        result = await agent.run(room, conversation=chat)
        saved = await store.save(result, scope="ada")
        seen.append(names.entries(saved))
        chat = await load(store, "chat")
        seen.append((texts(chat.messages), chat.usage.requests, chat.usage.tool_calls))
    seen.append(names.entries(await store.load_entries("chat") or []))
    seen.append(names.entries(await store.load_entries("chat", limit=3) or []))
    for limit in (0, 1, 5, 100):
        window = await store.load("chat", limit=limit)
        seen.append(None if window is None else texts(window.messages))
    seen += [await store.load("none"), await store.load("chat", scope="bob")]
    # a window that goes on, and a history that was rewritten
    window = await load(store, "chat", limit=2)
    await store.save(await agent.run("four", conversation=window))
    rewritten = await load(store, "chat")
    rewritten.messages[4] = ModelRequest.user_text_prompt("rewritten")
    await store.save(rewritten)
    seen.append(await whole(store, names, "chat"))
    # branches, back and forth
    entries = await store.load_entries("chat") or []
    branched = await store.branch("chat", at=4, expected_revision=(await load(store, "chat")).revision)
    await store.save(await agent.run("branch", conversation=branched))
    seen.append(await whole(store, names, "chat"))
    revision = (await load(store, "chat")).revision
    await store.branch("chat", from_entry=entries[7].id, expected_revision=revision, scope="ada")
    seen.append(await whole(store, names, "chat"))
    await store.branch("chat", at=0, expected_revision=(await load(store, "chat")).revision)
    seen.append(await whole(store, names, "chat"))
    await store.branch("chat", from_entry=entries[-1].id, expected_revision=(await load(store, "chat")).revision)
    seen.append(await whole(store, names, "chat"))
    # forks
    for name, point in (("f1", {}), ("f2", {"at": 4}), ("f3", {"from_entry": entries[3].id}), ("f4", {"at": 0})):
        fork = await store.fork("chat", new_conversation_id=name, **point)
        await store.save(await agent.run(name, conversation=fork))
        seen.append(await whole(store, names, name))
    deep = await store.fork("f2", new_conversation_id="deep", scope="bob", source_scope="ada")
    seen.append((texts(deep.messages), await whole(store, names, "deep"), await whole(store, names, "chat")))
    # who may do what
    seen.append(await refusals(store, agent))
    # a pause
    paused = await agent.run("dear", conversation=await load(store, "f1"))
    await store.save(paused)
    pending = (await load(store, "f1")).deferred_tool_requests
    assert pending is not None
    approved = pending.build_results(approve_all=True)
    await store.save(await agent.run(conversation=await load(store, "f1"), deferred_tool_results=approved))
    seen.append(await whole(store, names, "f1"))
    # lists and deletes
    seen.append([record.conversation_id for record in await store.list_conversations()])
    seen.append([record.conversation_id for record in await store.list_conversations(scope="ada", limit=2)])
    await store.delete("chat", scope="bob")
    await store.delete("chat", scope="ada")
    await store.delete("chat")
    for name in ("chat", "f1", "f2", "deep"):
        seen.append(await whole(store, names, name))
    seen.append([record.conversation_id for record in await store.list_conversations()])
    await store.save(await agent.run("anew", conversation=Conversation(conversation_id="chat")))
    seen.append(await whole(store, names, "chat"))
    return seen


async def refusals(store: ConversationStore, agent: Agent[None, Any]) -> list[str]:
    stale, fresh = await load(store, "f1"), await load(store, "f1")
    await store.save(await agent.run("first", conversation=fresh))
    later = await agent.run("second", conversation=stale)
    tries: list[Any] = [
        store.save(later),
        store.save(Conversation(conversation_id="f1")),
        store.save(await load(store, "f1"), scope="bob"),
        store.branch("f1", at=1, expected_revision=stale.revision),
        store.branch("none", at=1, expected_revision=None),
        store.branch("f2", at=99, expected_revision=(await load(store, "f2")).revision),
        store.branch("f2", from_entry="none", expected_revision=(await load(store, "f2")).revision),
        store.fork("f2", new_conversation_id="f1"),
        store.fork("none"),
        store.fork("f1", source_scope="bob"),
        store.load("f1", limit=-1),
        store.list_conversations(limit=-1),
        store.delete_record("f1", expected_revision=stale.revision or ""),
        store.write_record(
            ConversationRecord(conversation_id="new", head_id="gone", forked_from="f1"), expected_revision=None
        ),
    ]
    found = []
    for one in tries:
        with pytest.raises((UserError, ConversationConflict)) as error:
            await one
        found.append(type(error.value).__name__)
    return found


async def load(store: ConversationStore, name: str, **given: Any) -> Conversation:
    found = await store.load(name, **given)
    assert found is not None
    return found


async def whole(store: ConversationStore, names: Names, name: str) -> Any:
    record = await store.read_record(name)
    if record is None:
        return None
    entries = await store.load_entries(name) or []
    conversation = await load(store, name)
    left = [names[tip] for tip in record.branches]
    forked = (record.forked_from, names[record.forked_at])
    usage = (record.usage.requests, record.usage.tool_calls, record.deferred_tool_requests is None)
    return (
        names.entries(entries),
        names[record.head_id],
        left,
        forked,
        record.scope,
        usage,
        texts(conversation.messages),
    )


def texts(messages: list[ModelMessage]) -> list[Any]:
    return [[getattr(part, "content", None) or part.part_kind for part in message.parts] for message in messages]


class Names(dict[str | None, str]):
    """The ids of entries as they are met, so that those of two stores can be compared."""

    def __missing__(self, entry_id: str | None) -> str:
        self[entry_id] = f"entry {len(self)}"
        return self[entry_id]

    def entries(self, entries: Any) -> list[Any]:
        return [(self[entry.id], self[entry.parent_id], texts([entry.message])) for entry in entries]


def test_the_same_calls_have_the_same_results_as_with_its_own_store(hf: Holdfast) -> None:
    ours = asyncio.run(talk(HoldfastConversationStore(hf)))
    assert ours == asyncio.run(talk(InMemoryConversationStore()))


def test_an_awaited_store_does_the_same(tmp_path: Path) -> None:
    async def scenario() -> list[Any]:
        async with holdfast.aopen(f"sqlite:///{tmp_path}/awaited.db") as hf:
            return await talk(HoldfastConversationStore(hf, agent_id="planner"))

    assert asyncio.run(scenario()) == asyncio.run(talk(InMemoryConversationStore()))


# what Holdfast promises


def test_of_many_who_save_at_once_one_wins_and_the_others_are_told(hf: Holdfast) -> None:
    async def scenario() -> None:
        store = HoldfastConversationStore(hf)
        await store.save(Conversation(conversation_id="c", messages=[ModelRequest.user_text_prompt("Hello")]))
        copies = [await load(store, "c") for _ in range(8)]
        for number, copy in enumerate(copies):
            copy.messages.append(ModelResponse(parts=[TextPart(f"{number}")]))
        done = await asyncio.gather(*map(store.save, copies), return_exceptions=True)
        assert sorted(type(one).__name__ for one in done) == ["ConversationConflict"] * 7 + ["list"]
        assert len((await load(store, "c")).messages) == 2

    asyncio.run(scenario())


def test_a_fork_copies_nothing(hf: Holdfast) -> None:
    async def scenario() -> None:
        store = HoldfastConversationStore(hf)
        await store.save(await make_agent().run("one", conversation=Conversation(conversation_id="c")))
        before = hf.stats().messages
        for number in range(5):
            await store.fork("c", new_conversation_id=f"fork {number}")
        assert hf.stats().messages == before
        await store.delete("c")
        assert texts((await load(store, "fork 3")).messages)[-1] == ["Done: one booked"]
        for number in range(5):
            await store.delete(f"fork {number}")
        hf.gc()
        assert hf.stats().messages == 0

    asyncio.run(scenario())


def test_another_process_finds_everything_by_its_ids(hf: Holdfast) -> None:
    async def scenario() -> None:
        store = HoldfastConversationStore(hf)
        for name in ("a", "b"):
            await store.save(await make_agent().run(name, conversation=Conversation(conversation_id=name)))
        [*_, last] = await store.load_entries("b") or []
        fresh = HoldfastConversationStore(hf)
        assert await fresh.read_entry(last.id) == last
        assert (await fresh.read_history(last.id))[-1] == last
        with pytest.raises(LookupError):
            await fresh.read_entry("none")

    asyncio.run(scenario())


def test_a_conversation_is_a_session_with_its_words_calls_and_usage(hf: Holdfast) -> None:
    async def scenario() -> None:
        store = HoldfastConversationStore(hf, agent_id="planner")
        await store.save(
            await make_agent().run("a ryokan", conversation=Conversation(conversation_id="c")), scope="ada"
        )

    asyncio.run(scenario())
    session = hf.sessions.get("c")
    assert session is not None
    assert (session.agent_id, session.user_id, session.title) == ("planner", "ada", "a ryokan")
    assert [message.role for message in hf.sessions.messages("c")] == ["user", "assistant", "tool", "assistant"]
    assert {found.message.role for found in hf.search("ryokan", agent_id="planner")} == {"user", "tool", "assistant"}
    assert hf.sessions.stats("c").total_tokens > 0
    assert hf.sessions.stats("c").tool_calls in (0, 1)


def test_a_save_after_a_restore_is_a_conflict(hf: Holdfast) -> None:
    async def scenario() -> None:
        store, agent = HoldfastConversationStore(hf), make_agent()
        await store.save(await agent.run("one", conversation=Conversation(conversation_id="c")))
        point = hf.checkpoints.create(session_id="c")
        held = await agent.run("two", conversation=await load(store, "c"))
        await store.save(held)
        held = await agent.run("three", conversation=await load(store, "c"))
        hf.checkpoints.restore(point.id)
        with pytest.raises(ConversationConflict):
            await store.save(held)
        again = await load(store, "c")
        assert texts(again.messages)[-1] == ["Done: one booked"]
        await store.save(await agent.run("other", conversation=again))
        assert len(hf.sessions.tree("c").branches) == 2

    asyncio.run(scenario())


def test_sessions_and_forks_that_came_another_way_go_on(hf: Holdfast) -> None:
    hf.sessions.create(id="plain")
    hf.sessions.append("plain", Message.user("Hello"), Message.assistant("Hi"))

    async def scenario() -> None:
        store, agent = HoldfastConversationStore(hf), make_agent()
        await store.save(await agent.run("one", conversation=await load(store, "plain")))
        assert len((await load(store, "plain")).messages) == 6
        hf.sessions.fork("plain", id="fork")
        record = await store.read_record("fork")
        assert record is not None
        assert record.forked_from == "plain"
        await store.save(await agent.run("two", conversation=await load(store, "fork")))
        assert len((await load(store, "fork")).messages) == 10
        assert len((await load(store, "plain")).messages) == 6

    asyncio.run(scenario())


def test_large_pictures_are_kept_as_artifacts_and_come_back(hf: Holdfast) -> None:
    async def scenario() -> None:
        store = HoldfastConversationStore(hf)
        picture = BinaryContent(data=bytes(range(256)) * 2_000, media_type="image/png")
        asked = ModelRequest(parts=[UserPromptPart(["See", picture])])
        await store.save(Conversation(conversation_id="c", messages=[asked]))
        [found] = (await load(store, "c")).messages
        assert found.parts[0].content[1].data == picture.data

    asyncio.run(scenario())
