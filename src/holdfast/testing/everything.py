"""A store with every kind of record in it, and all that it holds."""

from __future__ import annotations

from holdfast.client import Holdfast
from holdfast.contracts import Insert, Put, Reader, Record
from holdfast.item_records import StoredItem, item_record
from holdfast.kinds import HOLDS, KINDS, RESTORES, SWEEPS
from holdfast.model import (
    Agent,
    Attachment,
    Embedding,
    Image,
    JsonPart,
    Message,
    Text,
    ToolCall,
    ToolExecution,
    Usage,
)
from holdfast.pending_records import StoredPending, pending_record
from holdfast.testing.records import dump

LARGE = bytes(range(256)) * 2048
DATA = tuple(kind for kind in KINDS if kind not in (HOLDS, RESTORES, SWEEPS))
"""What is moved from store to store: all but who holds what just now, and what is being deleted."""


def fill(hf: Holdfast, name: str = "kyoto") -> None:
    """Put something of every kind into a store, under ids that begin with the name."""
    scout, chat = f"{name}-scout", f"{name}-chat"
    hf.agents.save(Agent(id=scout, name="Scout", kind="model", state={"n": 1, "x": 42.0, "é": [None, "中"]}))
    hf.agents.set_state(scout, "n", 2)
    hf.sessions.create(id=chat, agent_id=scout, user_id=f"{name}-ann", tags=["a"], metadata={})
    _talk(hf, chat)
    _branch(hf, chat)
    _work(hf, chat)
    _keep(hf, chat, name)
    _checkpoint(hf, scout, chat)


def _talk(hf: Holdfast, chat: str) -> None:
    asked = Message.assistant("I look", tool_calls=[ToolCall(id="c1", name="look", arguments={"at": 1.0})])
    hf.sessions.append(
        chat,
        Message.user("Find a ryokan", id="first"),
        asked,
        Message.tool_result("c1", "Two " * 2000, tool_name="look", id="answer"),
        Message.assistant("Two look good", usage=Usage(input=10, output=5, model="m"), id="offer"),
    )
    hf.sessions.prune_tool_outputs(chat, keep_last=0, min_tokens=1)
    hf.sessions.append(chat, Message.user(Text(text="see"), Image(data=LARGE, mime_type="image/png"), id="photo"))
    secret = Attachment(type="file", name="key", data=LARGE[::-1])
    hf.sessions.append(chat, Message.user("secret", attachments=[secret], id="secret"))
    hf.sessions.redact(chat, "secret", "asked to")
    hf.sessions.append(chat, Message.user(JsonPart(value={"1": 1.0, "big": 2**53 + 1}), id="json"))


def _branch(hf: Holdfast, chat: str) -> None:
    hf.sessions.append(chat, Message.user("or a hotel"), parent="first")
    hf.sessions.append(chat, Message.user("or a tent", id="tent"), parent="first", activate=False)
    hf.sessions.fork(chat, id=f"{chat}-fork")
    hf.sessions.append(f"{chat}-fork", Message.user("on the fork"))
    hf.sessions.fork(chat, id=f"{chat}-copy", copy=True)
    hf.sessions.create(id=f"{chat}-empty", title="Nothing yet")


def _work(hf: Holdfast, chat: str) -> None:
    with hf.runs.start(chat, key="done") as run:
        run.append(Message.user("book"))
        run.tool("book", lambda room: {"room": room}, room=7)
        run.checkpoint(step=1)
    left = hf.runs.start(chat, key="left")
    left.append(Message.user("half done"))
    hf.executions.record(chat, ToolExecution(id=f"{chat}-x", tool_name="look", status="success", duration_ms=5))
    hf.usage.record(chat, Usage(id=f"{chat}-u", input=1, output=2, model="m"))
    hf.sessions.append(f"{chat}-fork", *[Message.user(f"turn {n}") for n in range(8)])
    hf.sessions.compact(f"{chat}-fork", lambda *_: Message.assistant("so far"), force=True)


def _keep(hf: Holdfast, chat: str, name: str) -> None:
    for content in (b"one", LARGE):
        hf.artifacts.put(content, name="map", session_id=chat, metadata={"n": 1})
    item = StoredItem(space=f"{name}.facts", key="ann", value={"likes": "tea", "n": 1.0}, created_at=1, updated_at=2)
    hf._ground.store.commit([Put(item_record(item))])
    hf.artifacts.put(b"of nobody", name=f"{name}-shared")
    hf.embeddings.upsert(Embedding(id=f"{name}-v", vector=[1.0, 0.5], session_id=chat, model=f"{name}-m"))
    hf.embeddings.upsert(f"{name}-w", [0.25, -1.0], model=f"{name}-m", metadata={"n": 1})


def _checkpoint(hf: Holdfast, scout: str, chat: str) -> None:
    hf.checkpoints.create(session_id=chat, id=f"{chat}-at", step=9, extra={"n": 1}, ttl=10**6)
    owner = hf._ground.heads[chat].pointer.uid
    waits = StoredPending(owner=owner, checkpoint=f"{chat}-at", task=7, said={"n": 1})
    hf._ground.store.commit([Insert(pending_record(waits))])
    hf.checkpoints.create(agent_id=scout, id=f"{scout}-one", name="before")
    hf.sessions.create(id=f"{chat}-later", agent_id=scout)
    hf.sessions.delete(f"{chat}-copy")
    hf.checkpoints.create(agent_id=scout, id=f"{scout}-two")
    hf.checkpoints.restore(f"{scout}-one", force=True)
    hf.sessions.fork(f"{chat}-fork", id=f"{chat}-copy", copy=True)


def held(reader: Reader) -> list[Record]:
    """All that is moved when a store is copied."""
    return [record for record in dump(reader) if record.kind in DATA]
