"""What is stored of runs: the run itself, its events in order, and who holds the session."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import msgspec
from msgspec.structs import replace

from holdfast import codec
from holdfast.commits import get
from holdfast.contracts import Insert, Put, Query, Reader, Record, Write
from holdfast.errors import NotFound
from holdfast.filters import Filter
from holdfast.kinds import EVENTS, HOLDS, RUNS
from holdfast.model import Event, EventKind, Json, Moment, Run, RunStatus, Value

Ending = Literal["completed", "failed", "halted"]


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
    """Something that happened in a run. `call` tells the beginning and the end of one call together.

    `by_id` is what a replay finds by its call, wherever it comes; `within` is the call it was made from. `asks` are
    the calls that appended messages ask for, with the message of each; `answers` are those they answer. `returned` is
    a failure after the call had its effect: it gave a result that could not be kept.
    """

    run_id: str
    seq: int
    kind: EventKind
    at: Moment
    call: str | None = None
    name: str | None = None
    digest: str | None = None
    value: Json = None
    what: Literal["tool", "step"] | None = None
    by_id: bool = False
    within: str | None = None
    execution: str | None = None
    asks: dict[str, str] = {}
    answers: list[str] = []
    redacted: bool = False
    returned: bool = False


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


# from values to records


def run_record(run: StoredRun, over: Record | None = None) -> Record:
    """The record of a run, in the place of an older one of it."""
    body = _body(run, over, "run")
    return Record(RUNS, (run.owner, run.number), body, codec.digest(body), (run.id, run.key, run.status))


def event_record(run: StoredRun, event: StoredEvent) -> Record:
    """The record of an event."""
    body = codec.encode_value(event, StoredEvent, "event")
    return Record(EVENTS, (run.owner, run.number, event.seq), body, codec.digest(body))


def hold_record(hold: Hold, over: Record | None = None) -> Record:
    """The record of who holds a session, in the place of an older one."""
    body = _body(hold, over, "hold")
    return Record(HOLDS, (hold.session,), body, codec.digest(body))


def _body(value: Value, over: Record | None, what: str) -> bytes:
    """The bytes of a value; what only a later version knows of the older record stays."""
    envelope = {} if over is None else codec.decode_envelope(over.body, what)
    later = {name: kept for name, kept in envelope.items() if name not in value.__struct_fields__}
    return codec.encode({**msgspec.to_builtins(value), **later} if later else value, what)


# from records to values


def read_run(record: Record) -> StoredRun:
    """What a run's record says."""
    return codec.decode(record.body, StoredRun, f"run {record.fields[0]!r}")


def read_event(record: Record) -> StoredEvent:
    """What an event's record says."""
    return codec.decode(record.body, StoredEvent, f"event {record.key[2]} of a run")


def read_hold(record: Record) -> Hold:
    """What a hold's record says."""
    return codec.decode(record.body, Hold, f"hold of session {record.key[0]}")


def run_view(run: StoredRun) -> Run:
    """A run as its reader sees it."""
    return Run(**{name: getattr(run, name) for name in Run.__struct_fields__})


def event_view(event: StoredEvent) -> Event:
    """An event as its reader sees it."""
    return Event(**{name: getattr(event, name) for name in Event.__struct_fields__})


# finding


def find_run(reader: Reader, run_id: str) -> Record | None:
    """A run's record by its id."""
    same = (Filter("id", "=", run_id),)
    return next(iter(reader.scan(Query(kind=RUNS, where=same))), None)


def find_key(reader: Reader, owner: str, key: str) -> Record | None:
    """The record of a session's run with this key."""
    same = (Filter("key", "=", key),)
    return next(iter(reader.scan(Query(kind=RUNS, prefix=(owner,), where=same))), None)


def events_of(reader: Reader, run: StoredRun, after: int = 0) -> Iterator[StoredEvent]:
    """A run's events behind a position, in order."""
    rows = reader.scan(Query(kind=EVENTS, prefix=(run.owner, run.number), low=after + 1))
    return (read_event(row) for row in rows)


def hold_of(reader: Reader, owner: str) -> Hold | None:
    """Who holds a session, or held it last."""
    record = get(reader, HOLDS, owner)
    return None if record is None else read_hold(record)


# ending


def ended(
    record: Record, status: Ending, reason: str | None, now: datetime, call: str | None = None
) -> tuple[list[Write], StoredRun]:
    """The writes that end a run, and the run as it then stands; `call` is the failure that ended it."""
    run = read_run(record)
    after = replace(run, status=status, reason=reason, ended_at=now, events=run.events + 1)
    event = StoredEvent(run_id=run.id, seq=after.events, kind="ended", at=now, name=status, value=reason, call=call)
    return [Put(run_record(after, record), record.digest), Insert(event_record(after, event))], after


def end_writes(
    reader: Reader, run: StoredRun, status: Ending, reason: str | None, now: datetime, call: str | None = None
) -> tuple[list[Write], StoredRun]:
    """The writes that end a run and let its session go."""
    record = get(reader, RUNS, run.owner, run.number)
    if record is None:
        raise NotFound(f"run {run.id!r} was deleted meanwhile")
    writes, after = ended(record, status, reason, now, call)
    held = get(reader, HOLDS, run.owner)
    if held is not None and read_hold(held).run_id == run.id:
        released = replace(read_hold(held), released=True)
        writes.append(Put(hold_record(released, held), held.digest))
    return writes, after
