"""Lists that grow, kept as segments, each held by the checkpoint that added it: so a step stores what it adds.

A segment is a value like others, under the name of its channel and the place of its first item. When many small ones
have come together they are stored again as one: an item is written a few times, and a list is read from a few places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from holdfast.checkpoint_texts import texts_of
from holdfast.contracts import Reader
from holdfast.errors import CorruptData
from holdfast.kinds import CHECKPOINTS

from ._langgraph_payloads import filled
from ._langgraph_threads import Entry, read_entry

_FAN = 8  # segments of about one size that become one


def name_of(channel: str, begin: int) -> str:
    """The name under which a segment is held; no channel has such a name."""
    return f"{channel}\0{begin}"


def is_segment(name: str) -> bool:
    """Whether a value is a piece of a list."""
    return "\0" in name


def encoded(serde: SerializerProtocol, items: Sequence[Any]) -> list[bytes]:
    """Each item as LangGraph encodes it, to compare it by."""
    told = (serde.dumps_typed(one) for one in items)
    return [kind.encode() + b" " + body for kind, body in told]


def common(new: Sequence[bytes], old: Sequence[bytes]) -> int:
    """How many leading items are the same."""
    differing = (n for n, (one, other) in enumerate(zip(new, old, strict=False)) if one != other)
    return next(differing, min(len(new), len(old)))


def segments(begins: Sequence[int], length: int, same: int, count: int) -> tuple[list[int], int | None]:
    """Which segments of a list stay, and where a new one begins, None if nothing is new.

    The list had this length, so many of its items are the same, and now it has so many.
    """
    ends = [*begins[1:], length]
    kept = [begin for begin, end in zip(begins, ends, strict=True) if end <= same] if begins else []
    first = ends[len(kept) - 1] if kept else 0
    if first == count:
        return kept, None
    while (run := _alike([*kept, first], count)) >= _FAN - 1:
        first = kept[-run]
        del kept[-run:]
    return kept, first


def _alike(begins: Sequence[int], count: int) -> int:
    """How many segments in front of the last one are no larger than it, roughly."""
    sizes = [end - begin for begin, end in zip(begins, [*begins[1:], count], strict=True)]
    run = 0
    for size in reversed(sizes[:-1]):
        if size.bit_length() // 3 > sizes[-1].bit_length() // 3:
            break
        run += 1
    return run


def load_list(reader: Reader, serde: SerializerProtocol, entry: Entry, channel: str) -> list[Any]:
    """The list that a channel had at a checkpoint."""
    names = {name_of(channel, begin): entry.holder(name_of(channel, begin)) for begin in entry.payload.lists[channel]}
    numbers = sorted({number for number in names.values() if number is not None})
    rows = reader.get(CHECKPOINTS, [(entry.stored.owner, number) for number in numbers]) if numbers else []
    holders = {one.stored.number: one for one in map(read_entry, rows) if one is not None}
    found: list[Any] = []
    for name, at in names.items():
        if at not in holders or name not in holders[at].payload.values:
            raise CorruptData(f"items of channel {channel!r} at checkpoint {entry.id!r} are gone with their holder")
        packed = holders[at].payload.values[name]
        found += serde.loads_typed((packed.type, filled(packed.pieces, texts_of(reader, holders[at].stored))))
    return found
