"""Threads of LangGraph as sessions: a thread is one, and each checkpoint_ns in it a child that shares its history."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from holdfast import history
from holdfast.checkpoint_records import StoredCheckpoint, find, newest_first, read_stored
from holdfast.client import Holdfast
from holdfast.commits import get
from holdfast.contracts import Query, Reader, Record
from holdfast.errors import AlreadyExists, InvalidId
from holdfast.filters import Filter
from holdfast.history import Seen
from holdfast.ids import MAX_ID, check_id
from holdfast.kinds import CHECKPOINTS, SESSIONS
from holdfast.session_records import Stored
from holdfast.session_records import read_stored as read_session

from ._langgraph_payloads import Payload, from_text

MARK = "langgraph"  # under which a session's metadata says whose thread it is, and a checkpoint's extra what it holds


class Thread(Struct, frozen=True):
    """A thread of LangGraph's, or one namespace in it."""

    id: str
    ns: str = ""

    @property
    def session_id(self) -> str:
        """The id of its session: the thread's own, and for a namespace both, so that no two meet."""
        root = self.id.replace("%", "%25").replace("|", "%7C")
        if not self.ns:
            return check_id(root, "thread_id")
        name = f"{root}|{self.ns}"
        if len(name) <= MAX_ID:
            return check_id(name, "checkpoint_ns")
        return f"{root[:128]}|{hashlib.sha256(name.encode()).hexdigest()}"

    @property
    def root(self) -> Thread:
        """The thread that a namespace is part of."""
        return Thread(self.id)


class Entry(Struct, frozen=True):
    """A checkpoint of LangGraph's as it is stored."""

    record: Record
    stored: StoredCheckpoint
    payload: Payload

    @property
    def id(self) -> str:
        """The id that LangGraph knows it by."""
        return self.payload.id or self.stored.id

    @property
    def parent(self) -> str | None:
        """LangGraph's id of the one before."""
        return self.payload.parent or self.stored.parent_id

    def has(self, channel: str) -> bool:
        """Whether a channel has a value."""
        return channel == self.payload.log or channel in self.payload.lists or self.holder(channel) is not None

    def holder(self, channel: str) -> int | None:
        """The number of the checkpoint that holds a channel's value; None if it has none."""
        return self.stored.number if channel in self.payload.values else self.payload.held.get(channel)


def thread_of(value: object, ns: object) -> Thread:
    """The thread that a config names."""
    if not isinstance(value, str | int) or not isinstance(ns, str):
        raise InvalidId(f"thread_id and checkpoint_ns are strings, not {value!r} and {ns!r}")
    return Thread(str(value), ns)


# sessions


def look_up(reader: Reader, thread: Thread) -> Seen | None:
    """The head of a thread's session, or None; a namespace that has outlived its thread is not one of a new thread."""
    seen = history.look_up(reader, thread.session_id)
    if seen is None or not thread.ns:
        return seen
    root = history.look_up(reader, thread.root.session_id)
    return seen if root is not None and root.pointer.history == seen.pointer.history else None


def ensure(hf: Holdfast, thread: Thread, agent_id: str | None) -> Seen:
    """The head of a thread's session, which is made if it is not there; a namespace joins its thread's history."""
    store, name = hf._ground.store, thread.session_id
    seen = look_up(store, thread)
    if seen is None:
        _make(hf, thread, agent_id)
        seen = history.must_see(store, name)
    record = get(store, SESSIONS, name) if thread.ns else None
    session = None if record is None else read_session(record)
    if session is not None and _marked(session) != thread:  # a fork begins with its origin's metadata
        hf.sessions.update(name, metadata={**(session.metadata or {}), **_metadata(thread)})
        seen = history.must_see(store, name)
    return seen


def _make(hf: Holdfast, thread: Thread, agent_id: str | None) -> None:
    name = thread.session_id
    try:
        if not thread.ns:
            hf.sessions.create(id=name, agent_id=agent_id, metadata=_metadata(thread))
        else:
            root, stale = ensure(hf, thread.root, agent_id), history.look_up(hf._ground.store, name)
            if stale is not None and stale.pointer.history != root.pointer.history:
                hf.sessions.delete(name)
            title = thread.ns.rpartition("|")[2].partition(":")[0]
            hf.sessions._fork(thread.root.session_id, name, lambda _, pointer: pointer, title=title or None)
    except AlreadyExists:
        return  # another writer was first


def _metadata(thread: Thread) -> dict[str, Any]:
    return {MARK: {"thread": thread.id, "ns": thread.ns}}


def _marked(session: Stored) -> Thread | None:
    """The thread that a session's metadata says it is; None for others' sessions, and for forks made by others."""
    told = (session.metadata or {}).get(MARK)
    if not isinstance(told, dict) or not isinstance(told.get("thread"), str):
        return None
    thread = Thread(told["thread"], str(told.get("ns", "")))
    return thread if thread.session_id == session.id else None


def named(reader: Reader, session: Stored) -> Thread | None:
    """The thread that a session is: its metadata says so, or, since that is the user's, its checkpoints do."""
    marked = _marked(session)
    if marked is not None:
        return marked
    root, _, ns = session.id.partition("|")
    thread = Thread(root.replace("%7C", "|").replace("%25", "%"), ns)
    seen = history.look_up(reader, session.id) if thread.session_id == session.id else None
    return None if seen is None or next(entries(reader, seen.pointer.uid), None) is None else thread


def threads(reader: Reader, thread_id: str | None = None) -> Iterator[Thread]:
    """All threads and their namespaces, or those of one thread, the thread itself first."""
    query = Query(kind=SESSIONS)
    if thread_id is not None:
        root = get(reader, SESSIONS, Thread(thread_id).session_id)
        if root is None:
            return
        query = Query(kind=SESSIONS, where=(Filter("history", "=", root.fields[1]),))
    found = (named(reader, read_session(record)) for record in reader.scan(query))
    mine = (one for one in found if one is not None and thread_id in (None, one.id))
    yield from sorted(mine, key=lambda one: (one.id, one.ns))


# checkpoints


def read_entry(record: Record | None) -> Entry | None:
    """What is stored of a checkpoint of LangGraph's; None for those that Holdfast's users make."""
    if record is None:
        return None
    stored = read_stored(record)
    if not isinstance(stored.extra, dict) or not isinstance(stored.extra.get(MARK), str):
        return None
    payload = from_text(stored.extra[MARK], Payload, f"checkpoint {stored.id!r}")
    return Entry(record, stored, payload)


def entry_at(reader: Reader, owner: str, number: int) -> Entry | None:
    """The checkpoint of this number."""
    return read_entry(get(reader, CHECKPOINTS, owner, number))


def own_id(checkpoint_id: str, owner: str) -> str:
    """Holdfast's id for a checkpoint whose own is another thread's already."""
    return check_id(f"{checkpoint_id}@{owner}", "checkpoint_id")


def entry_of(reader: Reader, owner: str, checkpoint_id: str) -> Entry | None:
    """A thread's checkpoint by LangGraph's id."""
    for name in (check_id(checkpoint_id, "checkpoint_id"), own_id(checkpoint_id, owner)):
        record = find(reader, name)
        if record is not None and record.key[0] == owner:
            return read_entry(record)
    return None


def entries(reader: Reader, owner: str) -> Iterator[Entry]:
    """All checkpoints of a thread, the last written first."""
    return (entry for entry in map(read_entry, newest_first(reader, owner)) if entry is not None)


def latest(reader: Reader, seen: Seen) -> Entry | None:
    """The checkpoint with the greatest id: the last written one knows which that is, unless it was deleted."""
    owner = seen.pointer.uid
    last = entry_at(reader, owner, seen.pointer.checkpoints) if seen.pointer.checkpoints else None
    if last is not None:
        top = last if last.payload.top is None else entry_of(reader, owner, last.payload.top)
        if top is not None:
            return top
    return max(entries(reader, owner), key=lambda entry: entry.id, default=None)
