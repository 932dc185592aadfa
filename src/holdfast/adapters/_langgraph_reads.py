"""Reading a checkpoint back as LangGraph knows it, and deleting some without taking what others need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any

from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from msgspec.structs import replace

from holdfast import checkpoint_records as records
from holdfast.checkpoint_texts import texts_of
from holdfast.contracts import Delete, Put, Query, Require, Write
from holdfast.errors import CorruptData
from holdfast.history import Seen
from holdfast.kinds import CHECKPOINTS, HEADS, PENDING
from holdfast.nouns import Ground

from ._langgraph_lists import is_segment, load_list
from ._langgraph_payloads import Packed, filled, to_text
from ._langgraph_payloads import Write as Written
from ._langgraph_puts import plain_metadata
from ._langgraph_threads import MARK, Entry, entry_of, read_entry
from ._langgraph_transcripts import Memory, Reel, load
from ._langgraph_writes import merged, written

COUNTERS = "counters_since_delta_snapshot"  # in the metadata of every checkpoint of a thread with delta channels
_BATCH = 200


class Reading:
    """Turns stored checkpoints into values."""

    def __init__(self, ground: Ground, serde: SerializerProtocol, memory: Memory) -> None:
        self._ground = ground
        self._store = ground.store
        self._serde = serde
        self._memory = memory

    def checkpoint(self, entry: Entry, reel: Reel | None = None) -> dict[str, Any]:
        """The checkpoint with all its values; with a reel, its messages are those of the one before and some more."""
        payload = entry.payload
        rest = {} if payload.rest is None else self._value(payload.rest, [])
        values = self.values(entry, reel)
        return {
            "v": payload.v,
            "id": entry.id,
            "ts": payload.ts or entry.stored.created_at.astimezone(UTC).isoformat(),
            "channel_values": values,
            "channel_versions": payload.versions,
            "versions_seen": payload.seen,
            "updated_channels": payload.updated,
            **rest,
        }

    def metadata(self, entry: Entry) -> dict[str, Any]:
        """What LangGraph says of the checkpoint."""
        packed = entry.payload.metadata
        found: dict[str, Any] | None = (
            plain_metadata(entry.stored.name or "") if packed is None else self._value(packed, [])
        )
        return found or {}

    def values(self, entry: Entry, reel: Reel | None = None) -> dict[str, Any]:
        """The value of each channel that has one, in the order of the channels' versions."""
        names = [name for name in entry.payload.versions if entry.has(name)]
        others = [*entry.payload.lists, *(name for name in entry.payload.values if not is_segment(name))]
        names += [name for name in others if name not in names]
        held = self._holders(entry)
        return {name: self._channel(entry, name, held, reel) for name in names}

    def _holders(self, entry: Entry) -> dict[int, tuple[Entry, list[bytes]]]:
        """The checkpoints that hold values of this one, with the texts they leave out."""
        numbers = sorted({*entry.payload.held.values()})
        rows = self._store.get(CHECKPOINTS, [(entry.stored.owner, number) for number in numbers]) if numbers else []
        found = [one for one in [entry, *map(read_entry, rows)] if one is not None]
        return {one.stored.number: (one, texts_of(self._store, one.stored)) for one in found}

    def _channel(
        self, entry: Entry, name: str, held: Mapping[int, tuple[Entry, list[bytes]]], reel: Reel | None = None
    ) -> Any:
        if name == entry.payload.log:
            return self._transcript(entry, reel)
        if name in entry.payload.lists:
            return load_list(self._store, self._serde, entry, name)
        at = entry.holder(name)
        if at is None or at not in held or name not in held[at][0].payload.values:
            raise CorruptData(
                f"the value of channel {name!r} at checkpoint {entry.id!r} is gone: its holder was deleted"
            )
        holder, texts = held[at]
        return self._value(holder.payload.values[name], texts)

    def _transcript(self, entry: Entry, reel: Reel | None) -> Any:
        position = entry.stored.position
        if position is None:
            raise CorruptData(f"checkpoint {entry.id!r} does not say where its messages end")
        if reel is not None:
            messages = reel.to(position)
        else:
            messages, known = load(self._ground, position, self._serde)
            self._memory.put(entry.stored.owner, entry.id, known)
        return _DeltaSnapshot(messages) if entry.payload.snapshot else messages

    def _value(self, packed: Packed, texts: Sequence[bytes]) -> Any:
        return self._serde.loads_typed((packed.type, filled(packed.pieces, texts)))

    # what tasks have written

    def stored_writes(self, entry: Entry) -> tuple[list[Written], list[bytes]]:
        """The writes of the step that began at a checkpoint, in order, and the texts they leave out."""
        pending = list(self._store.scan(Query(kind=PENDING, prefix=(entry.stored.owner, entry.id))))
        return merged(entry.payload.writes, written(pending)), texts_of(self._store, entry.stored)

    def whole_writes(self, entry: Entry) -> list[Written]:
        """The writes as they were put, with no text left out."""
        found, texts = self.stored_writes(entry)
        return [replace(one, value=Packed(one.value.type, [filled(one.value.pieces, texts)])) for one in found]

    def writes(self, entry: Entry, channels: Iterable[str] | None = None) -> list[PendingWrite]:
        """The same as LangGraph wants them, or those to some channels."""
        found, texts = self.stored_writes(entry)
        wanted = None if channels is None else set(channels)
        some = (one for one in found if wanted is None or one.channel in wanted)
        return [(one.task, one.channel, self._value(one.value, texts)) for one in some]

    def delta(self, entry: Entry, channels: Sequence[str]) -> dict[str, DeltaChannelHistory]:
        """What each channel is rebuilt of: the nearest value on the way back to the root, and the writes since."""
        found: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        missing = set(channels)
        for one in self.ancestors(entry):
            if not missing:
                break
            for write in reversed(self.writes(one, missing)):
                found[write[1]]["writes"].append(write)
            values = self._some(one, missing)
            for name, value in values.items():
                found[name]["seed"] = value
            missing -= values.keys()
        for told in found.values():
            told["writes"].reverse()
        return found

    def _some(self, entry: Entry, names: Iterable[str]) -> dict[str, Any]:
        there = [name for name in names if entry.has(name)]
        held = self._holders(entry) if there else {}
        return {name: self._channel(entry, name, held) for name in there}

    def ancestors(self, entry: Entry) -> Iterator[Entry]:
        """The checkpoints that a checkpoint came from, the nearest first."""
        seen = {entry.id}
        while (parent := entry.parent) is not None and parent not in seen:
            found = entry_of(self._store, entry.stored.owner, parent)
            if found is None:
                return
            seen.add(parent)
            entry = found
            yield entry

    # deleting

    def needed(self, entry: Entry) -> set[str]:
        """The ids of the ancestors without which delta channels of a checkpoint could not be rebuilt."""
        counters = self.metadata(entry).get(COUNTERS) or {}
        missing = {name for name in counters if name in entry.payload.versions and not entry.has(name)}
        needed: set[str] = set()
        for one in self.ancestors(entry):
            if not missing:
                break
            needed.add(one.id)
            missing = {name for name in missing if not one.has(name)}
        return needed

    def delete(self, kept: Sequence[Entry], gone: Sequence[Entry], seen: Seen) -> None:
        """Remove some checkpoints of a session; a value that others name moves to the oldest of these first.

        Moved if the session has changed since it was seen; what was removed until then nobody needs.
        """
        leaving = {one.stored.number: one for one in gone}
        holders: dict[tuple[str, int], int] = {}
        ordered = sorted(kept, key=lambda one: one.stored.number)
        moved = [_taken_in(one, leaving, holders) for one in ordered if _refers(one, leaving)]
        doomed = [write for one in sorted(gone, key=lambda one: -one.stored.number) for write in _removal(one)]
        still = Require(HEADS, (seen.pointer.session_id,), seen.digest)
        for writes in (moved, doomed):
            for start in range(0, len(writes), _BATCH):
                self._store.commit([still, *writes[start : start + _BATCH]])


def _taken_in(entry: Entry, leaving: Mapping[int, Entry], holders: dict[tuple[str, int], int]) -> Write:
    """A checkpoint that holds what it named in those that leave, or names who holds it now."""
    values, held, texts = dict(entry.payload.values), dict(entry.payload.held), list(entry.stored.texts)
    for name, at in entry.payload.held.items():
        if at not in leaving or name not in leaving[at].payload.values:
            continue
        holder = holders.setdefault((name, at), entry.stored.number)
        if holder != entry.stored.number:
            held[name] = holder
            continue
        packed, before = leaving[at].payload.values[name], len(texts)
        pieces = [piece if isinstance(piece, bytes) else piece + before for piece in packed.pieces]
        texts += leaving[at].stored.texts
        values[name] = Packed(packed.type, pieces)
        del held[name]
    payload = replace(entry.payload, values=values, held=held)
    stored = replace(entry.stored, extra={MARK: to_text(payload)}, texts=texts)
    return Put(records.checkpoint_record(stored), entry.record.digest)


def _removal(entry: Entry) -> list[Write]:
    return [Delete(CHECKPOINTS, entry.record.key), Delete(PENDING, (entry.stored.owner, entry.id))]


def _refers(entry: Entry, gone: Mapping[int, Entry]) -> bool:
    return any(at in gone for at in entry.payload.held.values())
