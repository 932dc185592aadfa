"""LangGraph on Holdfast: `HoldfastSaver` keeps the checkpoints of its graphs, `HoldfastStore` what they remember.

A thread is a session, its messages are the session's transcript, and each checkpoint is one of the session's.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from holdfast.adapters._extras import needing

with needing("langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
        get_checkpoint_id,
        get_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from holdfast import history
from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.contracts import Moved
from holdfast.errors import Busy, InvalidInput
from holdfast.history import Seen

from ._langgraph_payloads import Write, task_key
from ._langgraph_puts import Putting
from ._langgraph_reads import Reading
from ._langgraph_store import HoldfastStore
from ._langgraph_threads import Entry, Thread, ensure, entries, entry_of, latest, look_up, thread_of, threads
from ._langgraph_transcripts import Memory, Reel
from ._langgraph_values import Given, pack
from ._langgraph_writes import put_writes

__all__ = ["HoldfastSaver", "HoldfastStore"]

P = ParamSpec("P")
R = TypeVar("R")

_CHUNK = 20
_ATTEMPTS = 100  # of a deletion that others' puts make begin anew
_TURNS = 64  # threads of LangGraph's that put at the same time, at most


class HoldfastSaver(BaseCheckpointSaver[int]):
    """Checkpoints of LangGraph's graphs in a Holdfast store, for sync and async graphs alike.

    Threads become sessions of the agent `agent_id`, if one is given. The store stays the caller's to close.
    """

    def __init__(
        self, hf: Holdfast | AsyncHoldfast, *, agent_id: str | None = None, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde)
        if getattr(self.serde, "pickle_fallback", False):
            raise InvalidInput("Holdfast stores no pickles; use JsonPlusSerializer(pickle_fallback=False)")
        self._hf = hf._noun if isinstance(hf, AsyncHoldfast) else hf
        self._agent_id = agent_id
        self._memory = Memory()
        self._turns = [threading.Lock() for _ in range(_TURNS)]

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The next number; in a thread brought over from a saver with versions in words, the next such word."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.{random.random():016}"
        return super().get_next_version(current, channel)

    # reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, or its thread's latest; None if there is none."""
        thread = _thread(config)
        with self._hf._within(None):
            seen = look_up(self._hf._store, thread)
            entry = None if seen is None else self._entry(seen, get_checkpoint_id(config))
            return None if entry is None else self._tuple(thread, entry)

    def _entry(self, seen: Seen, checkpoint_id: str | None) -> Entry | None:
        if checkpoint_id is None:
            return latest(self._hf._store, seen)
        return entry_of(self._hf._store, seen.pointer.uid, checkpoint_id)

    def _tuple(self, thread: Thread, entry: Entry) -> CheckpointTuple:
        reading = self._reading
        return CheckpointTuple(
            config=_config(thread, entry.id),
            checkpoint=reading.checkpoint(entry),  # type: ignore[arg-type]
            metadata=reading.metadata(entry),  # type: ignore[arg-type]
            parent_config=None if entry.parent is None else _config(thread, entry.parent),
            pending_writes=reading.writes(entry),
        )

    @property
    def _reading(self) -> Reading:
        return Reading(self._hf._ground, self.serde, self._memory)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints that match, the greatest id first: of one thread, one namespace in it, or all of them."""
        end = None if before is None else get_checkpoint_id(before)
        wanted = None if config is None else get_checkpoint_id(config)
        found: list[tuple[str, Thread, Entry]] = []
        with self._hf._within(None):
            for thread, seen in self._sessions(config):
                for entry in entries(self._hf._store, seen.pointer.uid):
                    if (end is None or entry.id < end) and wanted in (None, entry.id) and self._matches(entry, filter):
                        found.append((entry.id, thread, entry))
        found.sort(key=lambda one: one[0], reverse=True)
        for _, thread, entry in found if limit is None else found[: max(0, limit)]:
            with self._hf._within(None):
                yield self._tuple(thread, entry)

    def _sessions(self, config: RunnableConfig | None) -> Iterator[tuple[Thread, Seen]]:
        """The sessions of the threads and namespaces that a config names."""
        store = self._hf._store
        if config is None:
            named = list(threads(store))
        elif config["configurable"].get("checkpoint_ns") is None:
            named = list(threads(store, _thread(config).id))
        else:
            named = [_thread(config)]
        for thread in named:
            seen = look_up(store, thread)
            if seen is not None:
                yield thread, seen

    def _matches(self, entry: Entry, filter: dict[str, Any] | None) -> bool:
        if not filter:
            return True
        metadata = self._reading.metadata(entry)
        return all(name in metadata and metadata[name] == value for name, value in filter.items())

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What delta channels are rebuilt of, along the chain of parents."""
        thread = _thread(config)
        with self._hf._within(None):
            seen = look_up(self._hf._store, thread)
            entry = None if seen is None else self._entry(seen, get_checkpoint_id(config))
            return (
                {name: {"writes": []} for name in channels} if entry is None else self._reading.delta(entry, channels)
            )

    # writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with what is new in it, in one commit."""
        thread = _thread(config)
        given = Given(checkpoint, get_checkpoint_metadata(config, metadata), new_versions, get_checkpoint_id(config))
        plain = isinstance(self.serde, JsonPlusSerializer)  # another encoding may be there to hide the text
        with self._hf._within(None), self._turn(thread):
            seen = ensure(self._hf, thread, self._agent_id)
            Putting(self._hf._ground, self.serde, self._memory, given, seen, plain).run()
        return _config(thread, given.id)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task has written before its step is whole, in one commit."""
        thread, checkpoint_id = _thread(config), config["configurable"]["checkpoint_id"]
        new = [
            Write(task_key(task_id), WRITES_IDX_MAP.get(channel, n), task_path, channel, pack(self.serde, value))
            for n, (channel, value) in enumerate(writes)
        ]
        with self._hf._within(None), self._turn(thread):
            seen = ensure(self._hf, thread, self._agent_id)
            put_writes(self._hf._ground, self._memory, seen.pointer.uid, checkpoint_id, new)

    def _turn(self, thread: Thread) -> threading.Lock:
        """What keeps the puts of this process to one thread in their order."""
        return self._turns[hash(thread.id) % _TURNS]

    # deleting and copying

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread with all its namespaces, checkpoints and messages; fine if there is none."""
        with self._hf._within(None):
            for thread in reversed(list(threads(self._hf._store, str(thread_id)))):
                self._hf.sessions.delete(thread.session_id)
        self._memory.clear()

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that these runs have made, with their writes; what was said stays on record."""
        wanted = {str(one) for one in run_ids}
        if wanted:
            self._delete(None, lambda found: {one.id for one in found if self._run_of(one) not in wanted})

    def _run_of(self, entry: Entry) -> str:
        return str(self._reading.metadata(entry).get("run_id"))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the latest checkpoint of each namespace, with those that its delta channels are rebuilt of.

        `strategy="delete"` removes the threads.
        """
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInput(f"strategy is 'keep_latest' or 'delete', not {strategy!r}")
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                self._delete({"configurable": {"thread_id": thread_id}}, self._latest_of)

    def _latest_of(self, found: Sequence[Entry]) -> set[str]:
        newest = max(found, key=lambda one: one.id)
        return {newest.id, *self._reading.needed(newest)}

    def _delete(self, config: RunnableConfig | None, keep: Callable[[Sequence[Entry]], set[str]]) -> None:
        """Remove all checkpoints but those that `keep` names, session by session."""
        with self._hf._within(None):
            for thread, _ in self._sessions(config):
                with self._turn(thread):
                    self._delete_in(thread, keep)

    def _delete_in(self, thread: Thread, keep: Callable[[Sequence[Entry]], set[str]]) -> None:
        """Remove them from one session; a put of another process's meanwhile may need what was to go: begin anew."""
        for _ in range(_ATTEMPTS):
            seen = look_up(self._hf._store, thread)
            found = [] if seen is None else list(entries(self._hf._store, seen.pointer.uid))
            names = keep(found) if found else set()
            kept = [one for one in found if one.id in names]
            gone = [one for one in found if one.id not in names]
            try:
                if seen is not None and gone:
                    self._reading.delete(kept, gone, seen)
                return
            except Moved:
                continue
        raise Busy(f"thread {thread.id!r} is written to all the time; prune it when it rests")

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all its namespaces, checkpoints and writes to another, which shares nothing with it."""
        store, reading = self._hf._store, self._reading
        for thread, seen in list(self._sessions({"configurable": {"thread_id": source_thread_id}})):
            target = Thread(str(target_thread_id), thread.ns)
            reel = Reel(self._hf._ground, self.serde)
            for entry in reversed(list(entries(store, seen.pointer.uid))):
                self._copy(target, entry, reading, reel)

    def _copy(self, target: Thread, entry: Entry, reading: Reading, reel: Reel) -> None:
        new = {name: version for name, version in entry.payload.versions.items() if name in entry.payload.values}
        given = reading.checkpoint(entry, reel)
        self.put(_config(target, entry.parent), given, reading.metadata(entry), new)  # type: ignore[arg-type]
        owner = history.must_see(self._hf._store, target.session_id).pointer.uid
        for write in reading.whole_writes(entry):
            put_writes(self._hf._ground, self._memory, owner, entry.id, [write])

    # the same for an event loop

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return await _aside(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while some := await _aside(_some, found):
            for one in some:
                yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        return await _aside(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """As `put_writes`."""
        await _aside(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await _aside(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`."""
        await _aside(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`."""
        await _aside(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        await _aside(lambda: self.prune(thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `get_delta_channel_history`."""
        return await _aside(lambda: self.get_delta_channel_history(config=config, channels=channels))


async def _aside(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function on a thread, so that the loop goes on."""
    return await asyncio.to_thread(function, *args, **kwargs)


def _some(found: Iterator[CheckpointTuple]) -> list[CheckpointTuple]:
    return [one for _, one in zip(range(_CHUNK), found, strict=False)]


def _thread(config: RunnableConfig) -> Thread:
    told = config["configurable"]
    if "thread_id" not in told:
        raise InvalidInput("a config names its thread: {'configurable': {'thread_id': …}}")
    return thread_of(told["thread_id"], told.get("checkpoint_ns") or "")


def _config(thread: Thread, checkpoint_id: str | None) -> RunnableConfig:
    told = {"thread_id": thread.id, "checkpoint_ns": thread.ns}
    return {"configurable": told if checkpoint_id is None else {**told, "checkpoint_id": checkpoint_id}}
