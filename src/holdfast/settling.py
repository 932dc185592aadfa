"""Settling: what a restore has published for many sessions is written into their heads, in small commits.

Readers go by the published places from the first instant; settling only saves them from asking. Any process may do
it, and go on where another has died.
"""

from __future__ import annotations

import contextlib
from functools import partial

from msgspec.structs import replace

from holdfast.commits import commit, get
from holdfast.contracts import Delete, Moved, Put, Query, Reader, Record, RecordStore, Write
from holdfast.filters import Filter
from holdfast.heads import is_published, look_up, move, pointer_record, read_restore, restore_of
from holdfast.kinds import HEADS, RESTORES

BATCH = 400  # heads in one commit: each takes a head and a mark
_PENDING = b'"pending":'


def settle(store: RecordStore, agent_id: str) -> None:
    """Carry a published restore of an agent's sessions through, if there is one."""
    record = get(store, RESTORES, agent_id)
    if record is not None and read_restore(record).published:
        _end(store, record)


def abandon(store: RecordStore, agent_id: str, by: str) -> None:
    """Take back what a restore has staged, unless it was published or another has begun."""
    record = get(store, RESTORES, agent_id)
    if record is not None and read_restore(record).by == by and not read_restore(record).published:
        _end(store, record)


def resume(store: RecordStore, before: int) -> int:
    """Carry published restores through and take back what was staged before a moment (µs); returns how many."""
    ended = 0
    for record in list(store.scan(Query(kind=RESTORES))):
        restore = read_restore(record)
        if restore.published or restore.at < before:
            _end(store, record)
            ended += 1
    return ended


def _end(store: RecordStore, record: Record) -> None:
    mine = (Filter("agent_id", "=", record.key[0]),)
    heads = store.scan(Query(kind=HEADS, where=mine))
    pending = [str(head.key[0]) for head in heads if _PENDING in head.body]
    for start in range(0, len(pending), BATCH):
        commit(store, partial(_settled, session_ids=pending[start : start + BATCH]))
    with contextlib.suppress(Moved):  # another process has ended it
        store.commit([Delete(RESTORES, record.key, over=record.digest)])


def _settled(reader: Reader, session_ids: list[str]) -> list[Write]:
    """Heads without a pending place: at it where it counts, and then marked for the agent's next checkpoint."""
    writes: list[Write] = []
    for session_id in session_ids:
        seen = look_up(reader, session_id)
        pending = None if seen is None else seen.pointer.pending
        if seen is None or pending is None:
            continue
        if is_published(pending, restore_of(reader, seen.pointer.agent_id)):
            writes += move(seen, replace(seen.pointer, marked=False))[1]
        else:
            writes.append(Put(pointer_record(replace(seen.pointer, pending=None), seen.later), seen.digest))
    return writes
