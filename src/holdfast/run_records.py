"""What is stored of runs: the run itself, its events in order, and who holds the session."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from msgspec.structs import replace

from holdfast import codec
from holdfast.commits import get
from holdfast.contracts import Insert, Put, Query, Reader, Record, Write
from holdfast.errors import NotFound
from holdfast.filters import Filter
from holdfast.kinds import EVENTS, HOLDS, RUNS
from holdfast.model import Event, EventKind, Json, Moment, Run, RunStatus, Value


class StoredRun(Value, frozen=True, kw_only=True):
    """A run as it is kept. `owner` is its session's uid, `number` counts the session's runs, `events` its own."""

    id: str
    owner: str
    number: int
    session_id: str
    started_at: Moment
    status: RunStatus = "running"
    agent_id: str | None = None
    key: str | None = None
    reason: str | None = None
    ended_at: Moment | None = None
    epoch: int = 1
    events: int = 0


class StoredEvent(Value, frozen=True, kw_only=True):
    """Something that happened in a run. `call` tells the beginning and the end of one call together."""

    run_id: str
    seq: int
    kind: EventKind
    at: Moment
    call: str | None = None
    name: str | None = None
    digest: str | None = None
    value: Json = None


class Hold(Value, frozen=True, kw_only=True):
    """Who holds a session: a run in a process, until a moment of the store's clock (microseconds)."""

    session: str
    run_id: str
    epoch: int
    until: int
    host: str
    pid: int
    born: str
    released: bool = False


def run_record(run: StoredRun) -> Record:
    """The record of a run."""
    body = codec.encode_value(run, StoredRun, "run")
    return Record(RUNS, (run.owner, run.number), body, codec.digest(body), (run.id, run.key, run.status))


def event_record(run: StoredRun, event: StoredEvent) -> Record:
    """The record of an event."""
    body = codec.encode_value(event, StoredEvent, "event")
    return Record(EVENTS, (run.owner, run.number, event.seq), body, codec.digest(body))


def hold_record(hold: Hold) -> Record:
    """The record of who holds a session."""
    body = codec.encode(hold, "hold")
    return Record(HOLDS, (hold.session,), body, codec.digest(body))


def read_run(record: Record) -> StoredRun:
    """What a run's record says."""
    return codec.decode(record.body, StoredRun, f"run {record.fields[0]!r}")


def read_hold(record: Record) -> Hold:
    """What a hold's record says."""
    return codec.decode(record.body, Hold, f"hold of session {record.key[0]}")


def find_run(reader: Reader, run_id: str) -> Record | None:
    """A run's record by its id."""
    same = (Filter("id", "=", run_id),)
    return next(iter(reader.scan(Query(kind=RUNS, where=same))), None)


def find_key(reader: Reader, owner: str, key: str) -> StoredRun | None:
    """The newest run of a session with this key."""
    same = (Filter("key", "=", key),)
    rows = list(reader.scan(Query(kind=RUNS, prefix=(owner,), where=same)))
    return read_run(rows[-1]) if rows else None


def next_number(reader: Reader, owner: str) -> int:
    """A run number that this session has never had."""
    newest = reader.scan(Query(kind=RUNS, prefix=(owner,), reverse=True, limit=1))
    return max((int(record.key[1]) for record in newest), default=0) + 1


def events_of(reader: Reader, run: StoredRun, after: int = 0) -> Iterator[StoredEvent]:
    """A run's events behind a position, in order."""
    rows = reader.scan(Query(kind=EVENTS, prefix=(run.owner, run.number), low=after + 1))
    return (codec.decode(row.body, StoredEvent, f"event {row.key[2]} of run {run.id!r}") for row in rows)


def hold_of(reader: Reader, owner: str) -> Hold | None:
    """Who holds a session, or held it last."""
    record = get(reader, HOLDS, owner)
    return None if record is None else read_hold(record)


def run_view(run: StoredRun) -> Run:
    """A run as its reader sees it."""
    kept = {name: getattr(run, name) for name in Run.__struct_fields__}
    return Run(**kept)


def event_view(event: StoredEvent) -> Event:
    """An event as its reader sees it."""
    kept = {name: getattr(event, name) for name in Event.__struct_fields__}
    return Event(**kept)


def end_writes(
    reader: Reader, run: StoredRun, status: Literal["completed", "failed", "halted"], reason: str | None, now: datetime
) -> tuple[list[Write], StoredRun]:
    """The writes that end a run and let its session go."""
    record = get(reader, RUNS, run.owner, run.number)
    if record is None:
        raise NotFound(f"run {run.id!r} was deleted meanwhile")
    after = replace(run, status=status, reason=reason, ended_at=now, events=run.events + 1)
    event = StoredEvent(run_id=run.id, seq=after.events, kind="ended", at=now, name=status, value=reason)
    writes: list[Write] = [
        Put(run_record(after), record.digest),
        Insert(event_record(after, event)),
    ]
    held = get(reader, HOLDS, run.owner)
    if held is not None and read_hold(held).run_id == run.id:
        released = replace(read_hold(held), released=True)
        writes.append(Put(hold_record(released), held.digest))
    return writes, after
