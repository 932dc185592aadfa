"""`hf.runs`: drives of an agent that survive a crash. After it the same lines are replayed, and what is on record is
not done twice."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from holdfast import history
from holdfast import run_records as records
from holdfast.commits import commit, get, next_number
from holdfast.contracts import Insert, Put, Query, Reader, Record, Write
from holdfast.cursors import check_range
from holdfast.driver import Driver
from holdfast.errors import InvalidInput, NotFound
from holdfast.following import Following
from holdfast.holds import LEASE_S, held_by, is_live, make_hold, store_now
from holdfast.ids import check_count, check_id, moment, new_id
from holdfast.kinds import HOLDS, RUNS
from holdfast.leases import Leases
from holdfast.model import Event, Run
from holdfast.nouns import Ground, Noun, check_timeout
from holdfast.outcomes import InFlightPolicy, check_policy
from holdfast.recorder import Recorder
from holdfast.replays import Replay
from holdfast.run_records import StoredEvent, StoredRun
from holdfast.strategies import Strategy


class Runs(Noun):
    """`hf.runs`: start or re-enter a run, look at runs, follow one."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._leases = Leases()

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
        """Begin a run that holds the session, or re-enter the one with this key that has not completed.

        Busy at once if another run holds it, in any process. With the key of a completed run everything is
        replayed and nothing more can be done. `in_flight` decides about tools that were begun and never ended.
        """
        check_id(session_id, "session id")
        if key is not None:
            check_id(key, "key")
        if mode not in ("replay", "continue"):
            raise InvalidInput(f"mode is 'replay' or 'continue', not {mode!r}")
        if not callable(in_flight):
            check_policy(in_flight)
        _check_lease(lease_s)
        chosen = _strategy(strategy)
        with self._within(timeout):
            run, resumed = self._enter(session_id, key, lease_s)
            events = [*records.events_of(self._store, run)] if resumed else []
            driver = Driver(
                self._ground,
                Recorder(self._ground, self._leases, run, lease_s),
                Replay(events, from_the_beginning=mode == "replay" or run.status == "completed"),
                in_flight=in_flight,
                strategy=chosen,
            )
            if resumed and mode == "continue":
                driver.go_on()
        return driver

    def _enter(self, session_id: str, key: str | None, lease_s: float) -> tuple[StoredRun, bool]:
        entered: list[tuple[StoredRun, bool]] = []

        def place(reader: Reader) -> list[Write]:
            pointer = history.must_see(reader, session_id).pointer
            history.check_attached(pointer)
            known = None if key is None else records.find_key(reader, pointer.uid, key)
            if known is not None and records.read_run(known).status == "completed":
                entered[:] = [(records.read_run(known), True)]
                return []
            held = get(reader, HOLDS, pointer.uid)
            hold = None if held is None else records.read_hold(held)
            if hold is not None and is_live(hold, store_now(self._store)):
                raise held_by(hold, session_id)
            epoch = 1 if hold is None else hold.epoch + 1
            run, writes = self._new(reader, pointer, key, epoch) if known is None else self._again(known, epoch)
            taken = records.hold_record(make_hold(self._store, pointer.uid, run.id, epoch, lease_s), held)
            entered[:] = [(run, known is not None)]
            lapsed = [] if hold is None or hold.run_id == run.id else self._lapsed(reader, hold.run_id)
            return [*writes, *lapsed, Insert(taken) if held is None else Put(taken, held.digest)]

        commit(self._store, place)
        return entered[-1]

    def _new(
        self, reader: Reader, pointer: history.Pointer, key: str | None, epoch: int
    ) -> tuple[StoredRun, list[Write]]:
        """A run with its first event."""
        run = StoredRun(
            id=new_id(),
            owner=pointer.uid,
            number=next_number(reader, RUNS, pointer.uid),
            session_id=pointer.session_id,
            agent_id=pointer.agent_id,
            key=key,
            started_at=moment(self._stamps.next()),
            epoch=epoch,
            events=1,
        )
        event = StoredEvent(run_id=run.id, seq=1, kind="started", at=run.started_at)
        return run, [Insert(records.run_record(run)), Insert(records.event_record(run, event))]

    def _again(self, known: Record, epoch: int) -> tuple[StoredRun, list[Write]]:
        """A run with an event that says it goes on."""
        before = records.read_run(known)
        run = replace(before, status="running", reason=None, ended_at=None, epoch=epoch, events=before.events + 1)
        event = StoredEvent(run_id=run.id, seq=run.events, kind="resumed", at=moment(self._stamps.next()))
        return run, [Put(records.run_record(run, known), known.digest), Insert(records.event_record(run, event))]

    def _lapsed(self, reader: Reader, run_id: str) -> list[Write]:
        """The end of another run whose holder has died: its session is this one's now, and its key enters it again."""
        record = records.find_run(reader, run_id)
        if record is None or records.read_run(record).status != "running":
            return []
        return records.ended(record, "halted", "lapsed: its holder died", moment(self._stamps.next()))[0]

    # looking

    def get(self, run_id: str, *, timeout: float | None = None) -> Run | None:
        """The run, or None."""
        with self._within(timeout):
            record = self._find(self._store, check_id(run_id, "run id"))
            return None if record is None else records.run_view(records.read_run(record))

    def events(self, run_id: str, *, after: int = 0, timeout: float | None = None) -> Iterator[Event]:
        """A run's events behind a position, in order; NotFound without the run."""
        check_count(after, "after")
        with self._within(timeout):
            run = records.read_run(self._must_find(self._store, run_id))
        return (records.event_view(event) for event in records.events_of(self._store, run, after))

    def follow(self, run_id: str, *, after: int = 0, timeout: float | None = None) -> Iterator[Event]:
        """A run's events behind a position and then each new one, until the run ends or nobody has driven it for long.

        With a `timeout`, Busy if it has not come to that by then; go on behind the last event with `after`.
        """
        return iter(self._poll_follow(run_id, after=after, timeout=timeout))

    def _poll_follow(self, run_id: str, *, after: int = 0, timeout: float | None = None) -> Following:
        check_count(after, "after")
        until = math.inf if timeout is None else time.monotonic() + check_timeout(timeout)
        with self._within(timeout):
            return Following(self._ground, self._must_find(self._store, run_id), after, until)

    def _find(self, reader: Reader, run_id: str) -> Record | None:
        """A run whose session has not been deleted."""
        record = records.find_run(reader, run_id)
        if record is None:
            return None
        run = records.read_run(record)
        seen = history.look_up(reader, run.session_id)
        return record if seen is not None and seen.pointer.uid == run.owner else None

    def _must_find(self, reader: Reader, run_id: str) -> Record:
        record = self._find(reader, check_id(run_id, "run id"))
        if record is None:
            raise NotFound(f"there is no run {run_id!r}; runs.list shows those of a session")
        return record

    # ending

    def halt(self, run_id: str, reason: str = "revoked", *, timeout: float | None = None) -> Run:
        """End a run from outside; its holder cannot write from then on. Fine if it has ended."""
        if not isinstance(reason, str):
            raise InvalidInput(f"reason is a string, not {type(reason).__name__}")
        halted: list[StoredRun] = []

        def place(reader: Reader) -> list[Write]:
            run = records.read_run(self._must_find(reader, run_id))
            if run.status != "running":
                halted[:] = [run]
                return []
            writes, after = records.end_writes(reader, run, "halted", reason, moment(self._stamps.next()))
            halted[:] = [after]
            return writes

        with self._within(timeout):
            commit(self._store, place)
        return records.run_view(halted[-1])

    def _close(self) -> None:
        """Let the sessions go that unfinished runs of this client hold."""
        self._leases.close()

    def list(
        self, session_id: str, *, limit: int = 100, offset: int = 0, timeout: float | None = None
    ) -> Sequence[Run]:
        """A session's runs, newest first; nothing for an unknown session."""
        check_range(limit, offset)
        with self._within(timeout):
            seen = history.look_up(self._store, check_id(session_id, "session id"))
            if seen is None or limit == 0:
                return []
            query = Query(kind=RUNS, prefix=(seen.pointer.uid,), reverse=True, limit=offset + limit)
            rows = [records.run_view(records.read_run(row)) for row in self._store.scan(query)]
        return rows[offset:]


def _check_lease(lease_s: float) -> None:
    if not isinstance(lease_s, int | float) or isinstance(lease_s, bool) or not 0 < lease_s < 10**9:
        raise InvalidInput(f"lease_s is a number of seconds above 0, not {lease_s!r}")


def _strategy(given: Strategy | None) -> Strategy:
    if given is not None and not isinstance(given, Strategy):
        raise InvalidInput(f"strategy is a Strategy such as Strategy.every_iterations(5), not {given!r}")
    return given or Strategy.after_tool_calls()
