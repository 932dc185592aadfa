"""What of a checkpoint's values is stored with it: what has changed, and for the rest who holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from msgspec import Struct

from holdfast.contracts import Reader
from holdfast.errors import InvalidInput

from ._langgraph_lists import common, encoded, load_list, name_of, segments
from ._langgraph_payloads import Packed
from ._langgraph_threads import Entry
from ._langgraph_transcripts import Memory, is_transcript

_SHORT_LIST = 200  # bytes of a list that is not worth segments


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
                self.inherit(name_of(name, begin), parent)


def pack(serde: SerializerProtocol, value: object) -> Packed:
    """A value as LangGraph encodes it; InvalidInput for a pickle, encrypted or not."""
    kind, body = serde.dumps_typed(value)
    if kind.partition("+")[0] == "pickle":
        raise InvalidInput(f"Holdfast stores no pickles; give a {type(value).__name__} a form that msgpack knows")
    return Packed(kind, [bytes(body)] if body else [])


class Holding:
    """Decides where each value of a checkpoint is held."""

    def __init__(
        self, reader: Reader, serde: SerializerProtocol, memory: Memory, owner: str, given: Given, plain: bool
    ) -> None:
        self._reader = reader
        self._serde = serde
        self._memory = memory
        self._owner = owner
        self._given = given
        self._plain = plain

    def hold(self, parent: Entry | None, log: str | None) -> Held:
        """The values to be held here, and where those are that have not changed."""
        given, held = self._given.checkpoint["channel_values"], Held({}, {}, {})
        for channel in [*given, *(name for name in self._given.checkpoint["channel_versions"] if name not in given)]:
            if channel == log:
                continue
            if parent is not None and parent.has(channel) and has_stayed(self._given, channel, parent):
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
        kept, first = segments(begins, len(before), common(items, before), len(items))
        for begin in kept:
            assert parent is not None
            held.inherit(name_of(channel, begin), parent)
        if first is not None:
            held.values[name_of(channel, first)] = pack(self._serde, value[first:])
        held.lists[channel] = kept if first is None else [*kept, first]
        self._memory.put_items(self._owner, self._given.id, channel, items)

    def _items(self, parent: Entry | None, channel: str) -> Sequence[bytes]:
        """The items of a list at the checkpoint before, as LangGraph encodes each."""
        if parent is None or channel not in parent.payload.lists:
            return []
        known = self._memory.items(self._owner, parent.id, channel)
        return known or encoded(self._serde, load_list(self._reader, self._serde, parent, channel))


def has_stayed(given: Given, channel: str, parent: Entry | None) -> bool:
    """Whether a channel is as it was at the checkpoint before."""
    if parent is None or channel in given.versions or channel not in given.checkpoint["channel_versions"]:
        return False
    return bool(parent.payload.versions.get(channel) == given.checkpoint["channel_versions"][channel])


def log_of(given: Given, parent: Entry | None) -> Log | None:
    """Which channel is the transcript: the one that was, else `messages`, else the first list of messages."""
    values = given.checkpoint["channel_values"]
    before = None if parent is None else parent.payload.log
    if parent is not None and before is not None and before in values and has_stayed(given, before, parent):
        return Log(before, parent.payload.snapshot, None)
    plain = {name: value.value if isinstance(value, _DeltaSnapshot) else value for name, value in values.items()}
    first = [name for name in (before, "messages") if name in plain]
    for name in [*first, *sorted(plain)]:
        if is_transcript(plain[name]) or (name == before and plain[name] == [] and type(plain[name]) is list):
            return Log(name, isinstance(values[name], _DeltaSnapshot), plain[name])
    return None
