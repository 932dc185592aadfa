"""Checkpoints that a run takes of its session, in one commit with what it says of them."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast import checkpoint_records as records
from holdfast import history
from holdfast.checkpoint_records import StoredCheckpoint
from holdfast.contracts import Delete, Insert, Put, Reader, Record, Write
from holdfast.history import Seen
from holdfast.ids import Stamps
from holdfast.kinds import CHECKPOINTS
from holdfast.model import Checkpoint
from holdfast.retention import is_good
from holdfast.session_checkpoints import of_step, session_checkpoint


def take(reader: Reader, stamps: Stamps, draft: StoredCheckpoint) -> tuple[list[Write], Record, Seen]:
    """The writes of a checkpoint, its record, and the head they leave.

    It takes the place of the run's unnamed one of the same step; a step that is somebody else's it goes without.
    """
    seen = history.must_see(reader, draft.session_id or "")
    rivals = of_step(reader, seen.pointer, draft.step)
    if not all(_is_own(records.view(rival), draft) for rival in rivals):
        draft, rivals = replace(draft, step=None), []
    now = stamps.next()
    pointer = history.checkpointed(seen.pointer, draft.id, now, draft.step)
    record = session_checkpoint(draft, pointer, now, seen.pointer.checkpoint_id)
    head = history.pointer_record(pointer, seen.later)
    gone = [Delete(CHECKPOINTS, rival.key, over=rival.digest) for rival in rivals]
    return [Put(head, seen.digest), *gone, Insert(record)], record, Seen(pointer, head.digest, seen.later)


def last_good(reader: Reader, owner: str, run_id: str) -> Checkpoint | None:
    """A run's newest checkpoint that neither failed nor is damaged, or None."""
    found = map(records.view, records.newest_first(reader, owner))
    return next((one for one in found if one.run_id == run_id and is_good(one)), None)


def _is_own(rival: Checkpoint, draft: StoredCheckpoint) -> bool:
    same = rival.run_id == draft.run_id and rival.kind == draft.kind
    return same and rival.damaged is None and rival.name is None and not rival.protected
