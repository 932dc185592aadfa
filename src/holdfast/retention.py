"""Which checkpoints may go: pure functions, so that a dry run and the deed cannot differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from holdfast.errors import InvalidInput
from holdfast.model import CHECKPOINT_KINDS, Checkpoint, CheckpointKind, Value


class Retention(Value, frozen=True, kw_only=True):
    """What to keep: the last `keep` of all kinds, the last so many of a kind, and what has not expired.

    None keeps everything that has not expired. Protected checkpoints are kept and not counted.
    """

    keep: int | None = None
    per_kind: Mapping[CheckpointKind, int] = {}

    def __post_init__(self) -> None:
        for kind in self.per_kind:
            check_kind(kind)
        for count in (self.keep, *self.per_kind.values()):
            if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
                raise InvalidInput(f"how many to keep is a whole number from 0, not {count!r}")


def check_kind(kind: object) -> None:
    """InvalidInput for what is no kind of checkpoints."""
    if kind not in CHECKPOINT_KINDS:
        raise InvalidInput(f"kind is one of {', '.join(CHECKPOINT_KINDS)}, not {kind!r}")


def is_protected(checkpoint: Checkpoint) -> bool:
    """Named and protected ones survive; so do damaged ones, which can no longer say what they were."""
    return checkpoint.protected or checkpoint.name is not None or checkpoint.damaged is not None


def is_good(checkpoint: Checkpoint) -> bool:
    """Whether a run can go on from it."""
    return checkpoint.damaged is None and checkpoint.status != "failed"


def is_expired(checkpoint: Checkpoint, now: datetime) -> bool:
    """Whether its time is over: strictly after it."""
    return checkpoint.expires_at is not None and now > checkpoint.expires_at


def eligible(
    newest_first: Sequence[Checkpoint], policy: Retention, now: datetime, spared: Collection[str] = ()
) -> list[Checkpoint]:
    """Those of one owner's checkpoints that may go; the newest sound one never, nor those spared by id."""
    newest = next((one for one in newest_first if one.damaged is None), None)
    going = []
    kept: dict[str, int] = {}
    kept_in_all = 0
    for one in newest_first:
        if is_protected(one) or one.id in spared:
            continue
        limit = policy.per_kind.get(one.kind)
        beyond = policy.keep is not None and kept_in_all >= policy.keep
        beyond = beyond or (limit is not None and kept.get(one.kind, 0) >= limit)
        if one is not newest and (beyond or is_expired(one, now)):
            going.append(one)
            continue
        kept_in_all += 1
        kept[one.kind] = kept.get(one.kind, 0) + 1
    return going
