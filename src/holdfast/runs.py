"""`hf.runs`: drives of an agent that survive a crash. After it the same lines are replayed, and what is on record is
not done twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from holdfast import history
from holdfast import run_records as records
from holdfast.checkpoints import Checkpoints
from holdfast.commits import commit, get
from holdfast.contracts import Insert, Put, Query, Reader, Record, Write
from holdfast.cursors import check_range
from holdfast.deadlines import deadline
from holdfast.driver import Driver, InFlightPolicy
from holdfast.errors import Busy, InvalidInput, NotFound
from holdfast.holds import LEASE_S, is_live, make_hold, store_now
from holdfast.ids import check_count, check_id, moment, new_id
from holdfast.kinds import HOLDS, RUNS
from holdfast.model import Event, Run
from holdfast.nouns import Ground, Noun
from holdfast.run_records import Hold, StoredEvent, StoredRun
from holdfast.sessions import Sessions
from holdfast.strategies import Strategy

POLL_S = 0.05


class Runs(Noun):
    """`hf.runs`: start or re-enter a run, look at runs, follow one."""

    def __init__(self, ground: Ground, sessions: Sessions, checkpoints: Checkpoints) -> None:
        super().__init__(ground)
        self._sessions = sessions
        self._checkpoints = checkpoints

    def start(
        self,
        session_id: str,
        *,
        key: str | None = None,
        mode: Literal["replay", "continue"] = "replay",
        in_flight: InFlightPolicy = "raise",
        strategy: Strategy | None = None,
        lease_s: float = LEASE_S,
        timeout: float | None = None,
    ) -> Driver:
        """Begin a run that holds the session, or re-enter the unfinished one with this key.

        Busy at once if another run holds it, in any process. With the key of a completed run everything is
        replayed and nothing more can be done.
        """
        check_id(session_id, "session id")
        if key is not None:
            check_id(key, "key")
        if mode not in ("replay", "continue"):
            raise InvalidInput(f"mode is 'replay' or 'continue', not {mode!r}")
        if not isinstance(lease_s, int | float) or not lease_s > 0:
            raise InvalidInput(f"lease_s is a number of seconds above 0, not {lease_s!r}")
        with self._within(timeout):
            run, resumed = self._enter(session_id, key, lease_s)
            events = list(records.events_of(self._store, run)) if resumed else []
        return Driver(
            self._ground,
            self._checkpoints,
            run,
            events if mode == "replay" or run.status == "completed" else [],
            open_events=events,
            in_flight=in_flight,
            strategy=strategy or Strategy.after_tool_calls(),
            lease_s=lease_s,
        )

    def _enter(self, session_id: str, key: str | None, lease_s: float) -> tuple[StoredRun, bool]:
        entered: list[tuple[StoredRun, bool]] = []

        def place(reader: Reader) -> list[Write]:
            pointer = history.must_see(reader, session_id).pointer
            known = None if key is None else records.find_key(reader, pointer.uid, key)
            if known is not None and known.status == "completed":
                entered[:] = [(known, True)]
                return []
            record = get(reader, HOLDS, pointer.uid)
            hold = None if record is None else records.read_hold(record)
            if is_live(hold, store_now(self._store)):
                assert hold is not None
                raise Busy(f"run {hold.run_id!r} holds session {session_id!r}; wait for its end, or halt it")
            run, writes = self._begin(reader, pointer, known, key, hold)
            held = records.hold_record(make_hold(self._store, pointer.uid, run.id, run.epoch, lease_s))
            entered[:] = [(run, known is not None)]
            return [*writes, Insert(held) if record is None else Put(held, record.digest)]

        commit(self._store, place)
        return entered[-1]

    def _begin(
        self, reader: Reader, pointer: history.Pointer, known: StoredRun | None, key: str | None, hold: Hold | None
    ) -> tuple[StoredRun, list[Write]]:
        """The run with its first event, or with one that says it goes on."""
        now = moment(self._stamps.next())
        epoch = 1 if hold is None else hold.epoch + 1
        if known is None:
            number = records.next_number(reader, pointer.uid)
            run = StoredRun(
                id=new_id(),
                owner=pointer.uid,
                number=number,
                session_id=pointer.session_id,
                agent_id=pointer.agent_id,
                key=key,
                started_at=now,
                epoch=epoch,
                events=1,
            )
            event = StoredEvent(run_id=run.id, seq=1, kind="started", at=now)
            return run, [Insert(records.run_record(run)), Insert(records.event_record(run, event))]
        run = replace(known, status="running", reason=None, ended_at=None, epoch=epoch, events=known.events + 1)
        event = StoredEvent(run_id=run.id, seq=run.events, kind="resumed", at=now)
        over = records.run_record(known).digest
        return run, [Put(records.run_record(run), over), Insert(records.event_record(run, event))]

    # looking

    def get(self, run_id: str, *, timeout: float | None = None) -> Run | None:
        """The run, or None."""
        with self._within(timeout):
            record = records.find_run(self._store, check_id(run_id, "run id"))
            return None if record is None else records.run_view(records.read_run(record))

    def list(
        self, session_id: str, *, limit: int = 100, offset: int = 0, timeout: float | None = None
    ) -> Sequence[Run]:
        """A session's runs, newest first; nothing for an unknown session."""
        check_range(limit, offset)
        with self._within(timeout):
            seen = history.look_up(self._store, check_id(session_id, "session id"))
            if seen is None:
                return []
            query = Query(kind=RUNS, prefix=(seen.pointer.uid,), reverse=True, limit=offset + limit)
            rows = [records.run_view(records.read_run(row)) for row in self._store.scan(query)]
        return rows[offset:]

    def events(self, run_id: str, *, after: int = 0, timeout: float | None = None) -> Iterator[Event]:
        """A run's events behind a position, in order; NotFound without the run."""
        check_count(after, "after")
        with self._within(timeout):
            run = records.read_run(self._must_find(run_id))
        return (records.event_view(event) for event in records.events_of(self._store, run, after))

    def follow(self, run_id: str, *, after: int = 0, timeout: float | None = None) -> Iterator[Event]:
        """A run's events behind a position and then each new one, until the run ends or the timeout is over."""
        check_count(after, "after")
        with self._within(timeout):
            record, until = self._must_find(run_id), deadline()
        return self._follow(records.read_run(record), record, after, until)

    def _follow(self, run: StoredRun, record: Record, after: int, until: float) -> Iterator[Event]:
        while True:
            ended = run.status != "running"
            for event in records.events_of(self._store, run, after):
                after = event.seq
                yield records.event_view(event)
            if ended or time.monotonic() >= until:
                return
            threading.Event().wait(POLL_S)
            present = get(self._store, RUNS, *record.key)
            if present is None:
                return
            run = records.read_run(present)

    def _must_find(self, run_id: str) -> Record:
        record = records.find_run(self._store, check_id(run_id, "run id"))
        if record is None:
            raise NotFound(f"there is no run {run_id!r}")
        return record

    # ending

    def halt(self, run_id: str, reason: str = "revoked", *, timeout: float | None = None) -> Run:
        """End a run from outside; its holder cannot write from then on. Fine if it has ended."""
        halted: list[StoredRun] = []

        def place(reader: Reader) -> list[Write]:
            run = records.read_run(self._must_find(run_id))
            halted[:] = [run]
            if run.status != "running":
                return []
            writes, after = records.end_writes(reader, run, "halted", reason, moment(self._stamps.next()))
            halted[:] = [after]
            return writes

        with self._within(timeout):
            commit(self._store, place)
        return records.run_view(halted[-1])
