"""Putting a checkpoint: one commit with the new messages, the values that changed, and the step before made whole.

What the tasks of that step have written then moves into the checkpoint it began at, without the texts that the new
messages have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from msgspec import Struct
from msgspec.structs import replace

from holdfast import checkpoint_records as records
from holdfast import history
from holdfast.appends import ROOT
from holdfast.checkpoint_records import StoredCheckpoint
from holdfast.commits import commit
from holdfast.contracts import Delete, Insert, Put, Query, Reader, Write
from holdfast.errors import Conflict
from holdfast.history import Seen
from holdfast.ids import check_id
from holdfast.kinds import PENDING
from holdfast.nouns import Ground

from ._langgraph_lists import common as common_items
from ._langgraph_lists import encoded, load_list, segments
from ._langgraph_lists import name_of as name_of_segment
from ._langgraph_payloads import Packed, Payload, to_text
from ._langgraph_threads import MARK, Entry, entries, entry_at, entry_of, own_id
from ._langgraph_transcripts import Known, Memory, Place, Telling, Told, common, extended, is_transcript, load
from ._langgraph_writes import lighten, make_whole, written

_SHORT_LIST = 200  # bytes of a list that is not worth segments
_ASIDE = {"v", "id", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels"}


class Given(Struct, frozen=True):
    """A checkpoint as LangGraph hands it over."""

    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]
    versions: Mapping[str, Any]  # of the channels that have changed
    parent: str | None

    @property
    def id(self) -> str:
        """LangGraph's id of it."""
        return str(self.checkpoint["id"])


class Log(Struct, frozen=True):
    """The channel whose value is the transcript; without messages it is as it was at the checkpoint before."""

    channel: str
    snapshot: bool
    messages: list[Any] | None


class Held(Struct, frozen=True):
    """The values that a checkpoint holds, who holds the others, and where the segments of lists begin."""

    values: dict[str, Packed]
    held: dict[str, int]
    lists: dict[str, list[int]]

    def inherit(self, name: str, parent: Entry) -> None:
        """Name whoever held a value for the checkpoint before."""
        at = parent.holder(name)
        if at is not None:
            self.held[name] = at
        elif name in parent.payload.lists:
            self.lists[name] = parent.payload.lists[name]
            for begin in parent.payload.lists[name]:
                self.inherit(name_of_segment(name, begin), parent)


def pack(serde: SerializerProtocol, value: object) -> Packed:
    """A value as LangGraph encodes it."""
    kind, body = serde.dumps_typed(value)
    return Packed(kind, [bytes(body)] if body else [])


class Putting:
    """One checkpoint on its way into the session with this head."""

    def __init__(
        self, ground: Ground, serde: SerializerProtocol, memory: Memory, given: Given, seen: Seen, plain: bool
    ) -> None:
        self._ground = ground
        self._seen = seen
        self._owner = seen.pointer.uid
        self._serde = serde
        self._memory = memory
        self._given = given
        self._plain = plain

    def run(self) -> None:
        """Commit it."""
        seen, owner = self._seen, self._owner
        parent = self._parent(owner)
        log = _log(self._given, parent) if self._plain else None
        messages = None if log is None else log.messages
        known = Known([], []) if log is not None and messages is None else self._known(seen, parent)
        count = 0 if messages is None else common(messages, known)
        telling = None
        if messages is not None:
            telling = self._telling(messages[count:], known.ids[count - 1] if count else ROOT)
            telling.send_ahead(seen.pointer.session_id)
        told = self._commit(seen, self._payload(parent, log), parent, telling)
        if parent is not None:
            self._memory.follow(owner, parent.id, parent.stored.at, told.texts)
            if log is not None and messages is None:
                known = self._memory.get(owner, parent.id) or known
        if messages is not None:
            known = extended(known, count, messages, told.ids)
        if log is None or messages is not None or known.states:
            self._memory.put(owner, self._given.id, known)

    def _telling(self, messages: Sequence[Any], behind: str) -> Telling:
        return Telling(self._ground, self._serde, messages, behind, self._moment())

    def _commit(self, seen: Seen, payload: Payload, parent: Entry | None, telling: Telling | None) -> Told:
        session_id, owner = seen.pointer.session_id, seen.pointer.uid
        told: list[Told] = []

        def place(reader: Reader) -> list[Write]:
            now_seen = history.must_see(reader, session_id)
            if now_seen.pointer.uid != owner:
                raise Conflict(f"thread {session_id!r} was deleted meanwhile; put the checkpoint again")
            return self._place(reader, now_seen, payload, parent, telling, told)

        commit(self._ground.store, place)
        self._ground.remember(told[-1].seen)
        return told[-1]

    def _moment(self) -> datetime:
        try:
            at = datetime.fromisoformat(str(self._given.checkpoint["ts"]))
        except ValueError:
            return datetime.fromtimestamp(self._ground.stamps.next() / 1e6, UTC)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)

    def _parent(self, owner: str) -> Entry | None:
        return None if self._given.parent is None else entry_of(self._ground.store, owner, self._given.parent)

    def _known(self, seen: Seen, parent: Entry | None) -> Known:
        """The messages that the list is compared with: those of the checkpoint before, or what the session has."""
        known = None if parent is None else self._memory.get(seen.pointer.uid, parent.id)
        at = history.position_of(seen.pointer) if parent is None else parent.stored.position
        if known is not None or at is None or at.seq == 0:
            return known or Known([], [])
        return load(self._ground, at, self._serde)[1]

    # what is in it

    def _payload(self, parent: Entry | None, log: Log | None) -> Payload:
        given, checkpoint = self._given, self._given.checkpoint
        held = self._hold(parent, None if log is None else log.channel)
        rest = {name: value for name, value in checkpoint.items() if name not in _ASIDE}
        return Payload(
            v=checkpoint["v"],
            versions=dict(checkpoint["channel_versions"]),
            seen={node: dict(versions) for node, versions in checkpoint["versions_seen"].items()},
            ts=None if self._moment().isoformat() == checkpoint["ts"] else str(checkpoint["ts"]),
            metadata=None if plain_metadata(name_of(given.metadata)) == given.metadata else self._pack(given.metadata),
            values=held.values,
            held=held.held,
            lists=held.lists,
            log=None if log is None else log.channel,
            snapshot=log is not None and log.snapshot,
            updated=checkpoint.get("updated_channels"),
            rest=self._pack(rest) if rest else None,
        )

    def _pack(self, value: Mapping[str, Any]) -> Packed:
        return pack(self._serde, dict(value))

    def _hold(self, parent: Entry | None, log: str | None) -> Held:
        """The values to be held here, and where those are that have not changed."""
        given, held = self._given.checkpoint["channel_values"], Held({}, {}, {})
        for channel in [*given, *(name for name in self._given.checkpoint["channel_versions"] if name not in given)]:
            if channel == log:
                continue
            if parent is not None and parent.has(channel) and _has_stayed(self._given, channel, parent):
                held.inherit(channel, parent)
            elif channel in given and self._plain and type(given[channel]) is list:
                self._hold_list(held, channel, given[channel], parent)
            elif channel in given:
                held.values[channel] = pack(self._serde, given[channel])
        return held

    def _hold_list(self, held: Held, channel: str, value: list[Any], parent: Entry | None) -> None:
        """Hold what is new in a list, and name those that hold the rest; a short one is held like other values."""
        items = encoded(self._serde, value)
        if sum(map(len, items)) < _SHORT_LIST:
            held.values[channel] = pack(self._serde, value)
            return
        before = self._items(parent, channel)
        begins = [] if parent is None else parent.payload.lists.get(channel, [])
        kept, first = segments(begins, len(before), common_items(items, before), len(items))
        for begin in kept:
            assert parent is not None
            held.inherit(name_of_segment(channel, begin), parent)
        if first is not None:
            held.values[name_of_segment(channel, first)] = pack(self._serde, value[first:])
        held.lists[channel] = kept if first is None else [*kept, first]
        self._memory.put_items(self._owner, self._given.id, channel, items)

    def _items(self, parent: Entry | None, channel: str) -> Sequence[bytes]:
        """The items of a list at the checkpoint before, as LangGraph encodes each."""
        if parent is None or channel not in parent.payload.lists:
            return []
        known = self._memory.items(self._owner, parent.id, channel)
        return known or encoded(self._serde, load_list(self._ground.store, self._serde, parent, channel))

    # the commit

    def _place(
        self,
        reader: Reader,
        seen: Seen,
        payload: Payload,
        parent: Entry | None,
        telling: Telling | None,
        told: list[Told],
    ) -> list[Write]:
        pointer, given = seen.pointer, self._given
        owner, name = pointer.uid, check_id(given.id, "checkpoint_id")
        rival = records.find(reader, name)
        if rival is not None and rival.key[0] != owner:
            name = own_id(given.id, owner)
            rival = records.find(reader, name)
        at = int(rival.key[1]) if rival is not None else self._ground.stamps.next(after=pointer.checkpointed_at)
        top = self._top(reader, seen)
        if rival is None:
            pointer = replace(pointer, checkpointed_at=at, checkpoint_id=name)
        told[:] = [self._tell(reader, Seen(pointer, seen.digest, seen.later), payload, parent, telling)]
        payload = replace(
            payload,
            id=None if name == given.id else given.id,
            parent=given.parent if parent is not None and parent.stored.id != given.parent else None,
            top=top if top is not None and top > given.id else None,
        )
        payload, texts = lighten(payload, [], told[-1].texts)
        stored = StoredCheckpoint(
            id=name,
            owner=owner,
            at=at,
            created_at=self._moment(),
            agent_id=pointer.agent_id,
            session_id=pointer.session_id,
            name=name_of(given.metadata),
            extra={MARK: to_text(payload)},
            texts=texts,
            parent_id=given.parent if parent is None else parent.stored.id,
            position=told[-1].position,
        )
        record = records.checkpoint_record(stored)
        own = Insert(record) if rival is None else Put(record, rival.digest)
        return [*told[-1].writes, own, *self._whole(reader, parent, told[-1].texts)]

    def _top(self, reader: Reader, seen: Seen) -> str | None:
        """The greatest id that the thread has so far."""
        at = seen.pointer.checkpointed_at
        last = entry_at(reader, seen.pointer.uid, at) if at else None
        if last is not None:
            return last.payload.top or last.id
        return max((entry.id for entry in entries(reader, seen.pointer.uid)), default=None) if at else None

    def _tell(
        self, reader: Reader, seen: Seen, payload: Payload, parent: Entry | None, telling: Telling | None
    ) -> Told:
        if telling is None and payload.log is not None and parent is not None:
            assert parent.stored.position is not None
            telling = self._telling([], parent.stored.position.message_id or ROOT)
        if telling is None:
            now_seen, writes = history.move(seen, seen.pointer)
            return Told(now_seen, writes, [], [])
        return telling.place(reader, seen)

    def _whole(self, reader: Reader, parent: Entry | None, texts: Sequence[tuple[bytes, Place]]) -> list[Write]:
        """The writes that move what was pending at the checkpoint before into it."""
        if parent is None:
            return []
        pending = list(reader.scan(Query(kind=PENDING, prefix=(parent.stored.owner, parent.id))))
        whole = make_whole(reader, parent.stored.owner, parent.stored.at, written(pending), texts)
        return [*whole, *(Delete(PENDING, one.key, over=one.digest) for one in pending if whole)]


def _has_stayed(given: Given, channel: str, parent: Entry | None) -> bool:
    """Whether a channel is as it was at the checkpoint before."""
    if parent is None or channel in given.versions or channel not in given.checkpoint["channel_versions"]:
        return False
    return bool(parent.payload.versions.get(channel) == given.checkpoint["channel_versions"][channel])


def _log(given: Given, parent: Entry | None) -> Log | None:
    """Which channel is the transcript: the one that was, else `messages`, else the first list of messages."""
    values = given.checkpoint["channel_values"]
    before = None if parent is None else parent.payload.log
    if parent is not None and before is not None and before in values and _has_stayed(given, before, parent):
        return Log(before, parent.payload.snapshot, None)
    plain = {name: value.value if isinstance(value, _DeltaSnapshot) else value for name, value in values.items()}
    first = [name for name in (before, "messages") if name in plain]
    for name in [*first, *sorted(plain)]:
        if is_transcript(plain[name]) or (name == before and plain[name] == [] and type(plain[name]) is list):
            return Log(name, isinstance(values[name], _DeltaSnapshot), plain[name])
    return None


def name_of(metadata: Mapping[str, Any]) -> str:
    """What people see; a name also keeps retention away, which knows nothing of how these hang together."""
    return f"{metadata.get('source', 'checkpoint')} {metadata.get('step', '')}".strip()[:100]


def plain_metadata(name: str) -> dict[str, Any] | None:
    """The metadata that most checkpoints of this name have."""
    source, _, step = name.partition(" ")
    return {"source": source, "step": int(step), "parents": {}} if step.removeprefix("-").isdigit() else None
