"""One instant of an agent: its record and the heads of its sessions, looked at and changed in one commit.

Only sessions with a mark have moved since the agent's last checkpoint, so only they are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from holdfast import codec, history
from holdfast.agent_records import Present, must_be_present, present_record
from holdfast.checkpoint_records import Capture, capture_record, was_captured
from holdfast.contracts import Delete, Put, Query, Reader, Record, Write
from holdfast.errors import Busy, IntegrityError
from holdfast.heads import restore_of
from holdfast.history import Mark, Pointer, Seen
from holdfast.kinds import MARKS

CAPACITY = 300  # sessions in one commit: each takes a capture, a head and a mark


class Instant:
    """Collects what one commit does to an agent and its sessions, each record once."""

    def __init__(self, reader: Reader, agent_id: str) -> None:
        self._reader = reader
        self.present, self._record = must_be_present(reader, agent_id)
        restore = restore_of(reader, agent_id)
        if restore is not None and restore.published:
            raise Busy(f"a restore of agent {agent_id!r} has just been published; repeat")
        self._agent_id = agent_id
        self._heads: dict[str, tuple[Seen, Pointer]] = {}
        self._marks: dict[str, Put | Delete] = {}
        self._captures: list[Write] = []

    @property
    def number(self) -> int:
        """The number of the checkpoint that this instant makes."""
        return self.present.checkpoints + 1

    def marks(self, limit: int) -> list[Mark]:
        """Some of the sessions that have moved since the last checkpoint."""
        rows = self._reader.scan(Query(kind=MARKS, prefix=(self._agent_id,), limit=limit))
        return list(map(_read_mark, rows))

    def capture_all(self) -> bool:
        """Capture every session that has moved; False if they are more than one commit takes.

        What moved before a captured head was read has its mark by then, so whoever cannot hold a lock meanwhile looks
        for marks again until there is no new one: at that look all of it stood so.
        """
        while fresh := [mark for mark in self.marks(CAPACITY + 1) if mark.session not in self._marks]:
            if len(self._marks) + len(fresh) > CAPACITY:
                return False
            for mark in fresh:
                self.capture(mark)
        return True

    def capture(self, mark: Mark) -> None:
        """Write down where a session stands, or that it is gone, and take its mark away."""
        seen = self.look(mark.session_id)
        here = seen is not None and self._is_mine(seen.pointer) and seen.pointer.uid == mark.session
        self._marks[mark.session] = Delete(MARKS, (self._agent_id, mark.session))
        if seen is not None and here:
            self._capture(mark, Capture(session_id=mark.session_id, position=history.position_of(seen.pointer)))
            self.change(seen, replace(seen.pointer, marked=False))
        elif was_captured(self._reader, self.present.uid, mark.session):
            self._capture(mark, Capture(session_id=mark.session_id))

    def has(self, pointer: Pointer, uid: str) -> bool:
        """Whether this is still the session of this uid and still the agent's, detached or not."""
        return pointer.uid == uid and pointer.agent_id == self._agent_id

    def _is_mine(self, pointer: Pointer) -> bool:
        return pointer.agent_id == self._agent_id and pointer.detached_by is None

    def _capture(self, mark: Mark, capture: Capture) -> None:
        self._captures.append(Put(capture_record(self.present.uid, mark.session, self.number, capture)))

    def look(self, session_id: str) -> Seen | None:
        """A session's head as it is at this instant, changes included; None if there is none."""
        if session_id in self._heads:
            seen, pointer = self._heads[session_id]
            return Seen(pointer, seen.digest, seen.later)
        return history.look_up(self._reader, session_id)

    def change(self, seen: Seen, pointer: Pointer) -> None:
        """Let a session's head say something else."""
        before = self._heads.get(pointer.session_id)
        self._heads[pointer.session_id] = (before[0] if before else seen, pointer)

    def move(self, seen: Seen, pointer: Pointer) -> None:
        """Let a session's head stand elsewhere, for the next checkpoint to see."""
        self.change(seen, replace(pointer, marked=True, pending=None))
        self._marks[pointer.uid] = history.mark(pointer, self._agent_id)

    def writes(self, present: Present | None = None) -> Iterator[Write]:
        """Everything collected, and the agent's record if it changes."""
        if present is not None:
            yield Put(present_record(present, self._record), self._record.digest)
        for seen, pointer in self._heads.values():
            yield Put(history.pointer_record(pointer, seen.later), seen.digest)
        yield from self._captures
        yield from self._marks.values()


def _read_mark(row: Record) -> Mark:
    """The mark in its place; another's would be taken away where it is not, time and again."""
    mark = codec.decode(row.body, Mark, f"mark {row.key}")
    if row.key != (mark.agent_id, mark.session):
        raise IntegrityError(f"mark {row.key} says that it is {(mark.agent_id, mark.session)}; run verify")
    return mark


def stage(reader: Reader, agent_id: str, leave: int | None = None) -> list[Write]:
    """Capture some of the moved sessions under the next checkpoint's number, which nobody reads yet.

    Sessions that move again are marked again, and what is staged for them is replaced, so a crash or a
    rival does no harm. One mark at least must be left, by which `changed` knows that a checkpoint is due.
    """
    instant = Instant(reader, agent_id)
    leave = CAPACITY if leave is None else leave
    marks = instant.marks(CAPACITY + leave)
    if len(marks) <= leave:
        return []
    for mark in marks[: min(CAPACITY, len(marks) - leave)]:
        instant.capture(mark)
    return list(instant.writes())
