"""Checkpoints of a session: its head, written down in one commit with what is said there."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from holdfast import appends, codec, history
from holdfast import checkpoint_records as records
from holdfast.checkpoint_records import StoredCheckpoint
from holdfast.commits import Plan
from holdfast.contracts import Delete, Insert, Put, Query, Reader, Record, RecordStore, Write
from holdfast.errors import AlreadyExists
from holdfast.filters import Filter
from holdfast.heads import next_stamp
from holdfast.history import Pointer, Seen
from holdfast.ids import moment
from holdfast.kinds import CHECKPOINTS
from holdfast.model import Checkpoint
from holdfast.nouns import Ground


class Made(Struct, frozen=True, gc=False):
    """A checkpoint and the head it leaves; as its reader will see it, where that is known beforehand."""

    record: Record
    seen: Seen
    shown: Checkpoint | None = None


class Keep(Plan[Checkpoint]):
    """A checkpoint of a session that is decided but not yet made."""

    ground: Ground
    session_id: str
    draft: StoredCheckpoint
    said: list[appends.Said]
    overwrite: bool
    made: Made | None

    def rebase(self, reader: Reader) -> list[Write]:
        draft, seen = self.draft, history.must_see(reader, self.session_id)
        rivals = _rivals(reader, seen.pointer, draft)
        if rivals and not (self.overwrite and all(one.key[0] == seen.pointer.uid for one in rivals)):
            self.made = Made(self._repeated(reader, seen, rivals[0]), seen)
            return []
        parent_id = draft.parent_id or seen.pointer.checkpoint_id
        now = self.ground.stamps.next()
        pointer = history.checkpointed(seen.pointer, draft.id, now, draft.step)
        seen, writes = _append(reader, Seen(pointer, seen.digest, seen.later), self.said, now)
        record = session_checkpoint(draft, seen.pointer, now, parent_id)
        self.made = Made(record, seen)
        gone = [Delete(CHECKPOINTS, rival.key, over=rival.digest) for rival in rivals]
        return [*writes, *gone, Insert(record)]

    def _repeated(self, reader: Reader, seen: Seen, rival: Record) -> Record:
        """The one that is there, if it is the one asked for; AlreadyExists if it says or points at something else."""
        present = check_same(rival, self.draft)
        stands = (seen.pointer.branch, seen.pointer.seq)
        if self.said:
            found = appends.settle(reader, seen, self.said, None, True, self.ground.stamps.next())
            last = found.messages[-1]
            stands = (-1, -1) if found.writes else (last.branch or 0, last.seq or 0)
        elif present.id == self.draft.id:
            return rival
        if present.head is None or stands != (present.head.branch, present.head.seq):
            raise AlreadyExists(
                f"checkpoint {present.id!r} exists at another message; use replace=True, or another step or id", present
            )
        return rival

    def finish(self) -> Checkpoint:
        made = self.made
        assert made is not None
        self.ground.remember(made.seen)
        return made.shown or records.view(made.record)


class KeepMoving(Keep):
    """The same, where large parts of what is said are put as blobs first."""

    blocks = True

    def carry_out(self, store: RecordStore) -> Checkpoint:
        self.said = self.ground.lighten(self.said)
        return super().carry_out(store)


def keep(
    ground: Ground, session_id: str, draft: StoredCheckpoint, said: list[appends.Said], overwrite: bool, usual: bool
) -> Plan[Checkpoint]:
    """The plan of a checkpoint, with hopeful writes where the session was seen; the commit finds out if it has moved.

    Whoever makes a checkpoint moves the head, so that no other of this step can have come since. A `usual` draft says
    nothing but where it belongs.
    """
    if ground.has_blobs(said):
        return KeepMoving(None, ground, session_id, draft, said, overwrite, None)
    seen = None if overwrite else ground.heads.get(session_id)
    if seen is None or not appends.goes_on(seen.pointer, said) or not _is_later(draft.step, seen.pointer):
        return Keep(None, ground, session_id, draft, said, overwrite, None)
    parent_id = draft.parent_id or seen.pointer.checkpoint_id
    now = ground.stamps.next()
    pointer = history.checkpointed(seen.pointer, draft.id, now, draft.step)
    seen, writes = _behind(Seen(pointer, seen.digest, seen.later), said, now)
    stored = _standing(draft, seen.pointer, now, parent_id)
    record = records.checkpoint_record(stored, plain=usual or records.is_plain(stored))
    writes.append(Insert(record))
    # Shown now, since behind the wait for a disk the same takes longer.
    made = Made(record, seen, records.shown(stored, record) if usual else None)
    return Keep(writes, ground, session_id, draft, said, overwrite, made)


def _append(reader: Reader, seen: Seen, said: list[appends.Said], now: int) -> tuple[Seen, list[Write]]:
    """The head with what was said at this time behind it, and the writes for both."""
    if said:
        appended = appends.settle(reader, seen, said, None, True, next_stamp(now, seen.pointer.updated_at))
        if appended.writes:
            return appended.seen, appended.writes
    return _behind(seen, [], now)


def _behind(seen: Seen, said: list[appends.Said], now: int) -> tuple[Seen, list[Write]]:
    """The same where nothing of it can be there already."""
    if said:
        appended = appends.extend(seen, said, next_stamp(now, seen.pointer.updated_at))
        return appended.seen, appended.writes
    head = history.pointer_record(seen.pointer, seen.later)
    return Seen(seen.pointer, head.digest, seen.later), [Put(head, seen.digest)]


def session_checkpoint(draft: StoredCheckpoint, pointer: Pointer, now: int, parent_id: str | None) -> Record:
    """The record of a checkpoint, made at this time, of the session that stands here and counts it."""
    return records.checkpoint_record(_standing(draft, pointer, now, parent_id))


def _standing(draft: StoredCheckpoint, pointer: Pointer, now: int, parent_id: str | None) -> StoredCheckpoint:
    return replace(
        draft,
        uid=records.told_uid(pointer),
        number=pointer.checkpoints,
        at=pointer.checkpoint_at,
        created_at=records.made_at(draft, moment(now)),
        agent_id=pointer.agent_id,
        parent_id=parent_id,
        head=records.kept_head(pointer),
    )


def _rivals(reader: Reader, pointer: Pointer, draft: StoredCheckpoint) -> list[Record]:
    """The checkpoint that has this id already, and this session's with the same step."""
    found = records.find(reader, draft.id)
    rivals = [] if found is None else [found]
    return rivals + [one for one in of_step(reader, pointer, draft.step) if found is None or one.key != found.key]


def of_step(reader: Reader, pointer: Pointer, step: int | None) -> list[Record]:
    """A session's checkpoints of this step; nothing is read where all are known to be of earlier ones."""
    if step is None or _is_later(step, pointer):
        return []
    return list(reader.scan(Query(kind=CHECKPOINTS, prefix=(pointer.uid,), where=(Filter("step", "=", step),))))


def _is_later(step: int | None, pointer: Pointer) -> bool:
    """Whether no checkpoint of the session can be of this step."""
    return step is None or (pointer.checkpoint_step is not None and step > pointer.checkpoint_step)


_OWN = ("id", "uid", "number", "at", "created_at", "parent_id", "expires_at", "head", "revision", "revision_link")


def check_same(rival: Record, draft: StoredCheckpoint) -> StoredCheckpoint:
    """What the one that is there says, if it says the same; AlreadyExists if not."""
    present = records.read_stored(rival)
    own = _OWN if draft.session_id is None else (*_OWN, "agent_id")
    for name in StoredCheckpoint.__struct_fields__:
        said, asked = (codec.encode(getattr(one, name), name) for one in (present, draft))
        if name not in own and said != asked:
            raise AlreadyExists(
                f"checkpoint {present.id!r} exists with another {name}; use replace=True, or another step or id",
                present,
            )
    return present
