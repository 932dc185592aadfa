"""Redaction beyond the message: what the events of runs repeat of it is emptied, too."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contracts import Put, Query, Reader, Record, RecordStore, Write
from holdfast.echoes import Echo
from holdfast.filters import Filter
from holdfast.heads import uid_of
from holdfast.kinds import RUNS, SESSIONS
from holdfast.model import Json, Message
from holdfast.run_records import StoredEvent, event_record, events_of, read_run, run_record

BATCH = 200
REDACTED = "redacted"


def forget(store: RecordStore, past: str, said: Message) -> None:
    """Empty every event of this history's runs that repeats the message.

    In as many commits as it takes, before the message itself goes: after a crash the redaction is repeated.
    """
    echo = Echo(said)
    writes: list[Write] = []
    for record in _runs(store, past):
        run = read_run(record)
        events = [*events_of(store, run)]
        found = {event.seq: event for event in (*repeating(events, said), *_echoing(events, echo))}
        writes += [Put(event_record(run, _emptied(event))) for event in found.values() if not event.redacted]
        if echo.in_error(run.reason):
            writes.append(Put(run_record(replace(run, reason=REDACTED), record), record.digest))
    for start in range(0, len(writes), BATCH):
        store.commit(writes[start : start + BATCH])


def _runs(reader: Reader, past: str) -> Iterator[Record]:
    for session in [*reader.scan(Query(kind=SESSIONS, where=(Filter("history", "=", past),)))]:
        yield from [*reader.scan(Query(kind=RUNS, prefix=(uid_of(session),)))]


def _echoing(events: list[StoredEvent], echo: Echo) -> Iterator[StoredEvent]:
    """The events in which the message is heard again, wherever the program took it from."""
    streams: dict[str | None, list[StoredEvent]] = {}
    for event in events:
        if event.kind == "partial":
            streams.setdefault(event.call, []).append(event)
        elif event.kind in ("failed", "ended"):
            yield from [event] if echo.in_error(event.value) else []
        elif event.kind != "append" and (echo.in_value(event.value) or echo.in_call(event.call, event.value)):
            yield event
    for pieces in streams.values():
        if echo.in_value("".join(str(piece.value) for piece in pieces)):
            yield from pieces


def repeating(events: list[StoredEvent], said: Message) -> list[StoredEvent]:
    """The events of one run that repeat what a message says."""
    reading = _Reading(said=said)
    for event in events:
        reading.take(event)
    if said.tool_call_id is not None and not reading.appended:
        # It was not the run that appended the answer, so any call with its id may be the one.
        ends = [one for one in events if one.call == said.tool_call_id and one.kind in ("done", "failed")]
        return [*reading.found, *ends]
    return reading.found


class _Reading(Struct):
    """One way through the events of a run, from the first to the last."""

    said: Message
    found: list[StoredEvent] = []
    appended: bool = False
    asked: dict[str, str] = {}
    ends: dict[str, StoredEvent] = {}
    answer: StoredEvent | None = None
    steps: set[str] = set()
    streams: dict[str | None, list[StoredEvent]] = {}

    def take(self, event: StoredEvent) -> None:
        """Take in the next event."""
        call = event.call or ""
        if event.kind == "append":
            self._append(event)
        elif event.kind == "partial":
            self.streams.setdefault(event.call, []).append(event)
        elif event.kind == "begun":
            self._begin(event, call)
        elif event.kind in ("done", "failed"):
            self.ends[call] = event
            if call in self.steps:
                self._answer(event)

    def _begin(self, event: StoredEvent, call: str) -> None:
        self.streams.pop(event.call, None)
        if event.what == "step":
            self.steps.add(call)
        elif self.asked.get(call) == self.said.id:
            self.found.append(event)

    def _answer(self, event: StoredEvent) -> None:
        """The end of a model call: it is the message, or what the message was made of."""
        self.answer = event
        if _message_in(event.value).get("id") == self.said.id:
            self.found += [event, *self.streams.get(event.call, [])]

    def _append(self, event: StoredEvent) -> None:
        self.asked.update(event.asks)
        if self.said.id in (event.value or []):
            self.appended = True
            self.found += [event, *self.streams.get(None, [])]
            if self.said.tool_call_id in self.ends:
                self.found.append(self.ends[self.said.tool_call_id or ""])
            answer = self.answer
            if answer is not None and self.said.role == "assistant" and not _message_in(answer.value):
                self.found += [answer, *self.streams.get(answer.call, [])]
        self.streams.pop(None, None)


def _message_in(value: Json) -> dict[str, Json]:
    kept = value.get("message") if isinstance(value, dict) else None
    return kept if isinstance(kept, dict) else {}


def _emptied(event: StoredEvent) -> StoredEvent:
    """The event without what was said; that it happened stays."""
    value: Json = event.value if event.kind == "append" else None
    if event.kind == "done":
        kept = _message_in(event.value)
        bare = {name: kept[name] for name in ("id", "role", "created_at") if name in kept}
        value = {"message": bare} if bare else {"value": None}
    elif event.kind in ("partial", "failed", "ended"):
        value = REDACTED if event.kind == "ended" else ""
    return replace(event, value=value, redacted=True)
