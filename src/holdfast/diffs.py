"""Structural differences: between two JSON values, two revisions, two places in a history."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast import codec, history
from holdfast.commits import get
from holdfast.contracts import Reader
from holdfast.history import Position, Segment
from holdfast.kinds import BRANCHES
from holdfast.model import Agent, Change, Json


def differences(before: Json, after: Json, path: tuple[str, ...] = ()) -> Iterator[Change]:
    """What was added, changed and removed, in order of path; objects are compared key by key."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            if key not in after:
                yield Change(path=(*path, key), kind="removed", before=before[key])
            elif key not in before:
                yield Change(path=(*path, key), kind="added", after=after[key])
            else:
                yield from differences(before[key], after[key], (*path, key))
    elif not codec.same(before, after):
        yield Change(path=path, kind="changed", before=before, after=after)


_NOT_CONTENT = ("modified_at", "revision", "active_sessions")


def agent_changes(before: Agent, after: Agent) -> Iterator[Change]:
    """What differs between two revisions of an agent, field by field and state key by state key."""
    for change in differences(msgspec.to_builtins(before), msgspec.to_builtins(after)):
        if change.path[0] not in _NOT_CONTENT:
            yield change


def parted(reader: Reader, before: Position | None, after: Position | None) -> tuple[int, list[Segment], list[Segment]]:
    """The last position two places have in common, and the paths from there to the one and to the other."""
    old, new = _path(reader, before), _path(reader, after)
    common = 0
    for one, other in zip(old, new, strict=False):
        if (one.branch, one.low) != (other.branch, other.low):
            break
        common = min(one.high, other.high)
        if one.high != other.high:
            break
    return common, history.between(old, common + 1, None), history.between(new, common + 1, None)


def _path(reader: Reader, at: Position | None) -> list[Segment]:
    """The way to a place; nothing if its session has been deleted since."""
    if at is None or get(reader, BRANCHES, at.history, at.branch) is None:
        return []
    return history.segments(reader, at.history, at.branch, at.seq)
