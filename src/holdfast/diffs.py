"""Structural differences between two JSON values."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.model import Change, Json


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
    elif type(before) is not type(after) or before != after:
        yield Change(path=path, kind="changed", before=before, after=after)
