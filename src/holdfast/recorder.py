"""The record of a run as its holder writes it: each event in one commit with what belongs to it."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast import run_records as records
from holdfast.commits import commit, get
from holdfast.contracts import Insert, Put, Reader, Record, Write
from holdfast.deadlines import within
from holdfast.errors import Conflict, HoldfastError
from holdfast.holds import lease_until, store_now
from holdfast.ids import moment
from holdfast.kinds import HOLDS, RUNS
from holdfast.leases import Leases
from holdfast.model import EventKind
from holdfast.nouns import Ground
from holdfast.run_records import Ending, Hold, StoredEvent, StoredRun

Also = Callable[[Reader], list[Write]]


class Recorder:
    """Writes to one run as long as this process holds its session; Conflict, and nothing written, from then on."""

    def __init__(self, ground: Ground, leases: Leases, run: StoredRun, lease_s: float) -> None:
        self.run = run
        self.renew_at = time.monotonic() + lease_s / 3
        self._ground = ground
        self._store = ground.store
        self._leases = leases
        self._lease_s = lease_s
        self._user: weakref.ref[object] = weakref.ref(self)
        if self.is_open:
            leases.add(self)

    def used_by(self, user: object) -> None:
        """Let the lease lapse once nobody has this any more."""
        self._user = weakref.ref(user)

    @property
    def is_wanted(self) -> bool:
        """Whether there is still somebody who could write."""
        return self._user() is not None

    @property
    def is_open(self) -> bool:
        """Whether the run goes on, as far as this process knows."""
        return self.run.status == "running"

    def write(self, kind: EventKind, also: Also | None = None, **said: Any) -> StoredEvent:
        """Put an event on record, with other writes in the same commit."""
        written: list[StoredEvent] = []

        def place(reader: Reader) -> list[Write]:
            writes, event = self.writes(reader, kind, **said)
            written[:] = [event]
            return writes if also is None else [*writes, *also(reader)]

        with within(self._ground.timeout):
            commit(self._store, place)
        self.saw(written[-1])
        return written[-1]

    def saw(self, event: StoredEvent) -> None:
        """Remember how far the record goes."""
        if event.seq > self.run.events:
            self.run = replace(self.run, events=event.seq)

    def writes(self, reader: Reader, kind: EventKind, **said: Any) -> tuple[list[Write], StoredEvent]:
        """The writes that put an event on record, for a commit that has others."""
        record, _ = self._mine(reader)
        run = records.read_run(record)
        after = replace(run, events=run.events + 1)
        at = moment(self._ground.stamps.next())
        event = StoredEvent(run_id=run.id, seq=after.events, kind=kind, at=at, **said)
        put = Put(records.run_record(after, record), record.digest)
        return [put, Insert(records.event_record(after, event))], event

    def _mine(self, reader: Reader) -> tuple[Record, Record]:
        """The run and the hold as they are, if this process may still write."""
        record = get(reader, RUNS, self.run.owner, self.run.number)
        held = get(reader, HOLDS, self.run.owner)
        status = "deleted" if record is None else records.read_run(record).status
        if record is None or held is None or status != "running":
            raise Conflict(f"run {self.run.id!r} has ended ({status}); nothing was written")
        if not self._holds(records.read_hold(held)):
            raise Conflict(
                f"run {self.run.id!r} lost its hold on session {self.run.session_id!r}; nothing was written."
                " Start it again with its key"
            )
        return record, held

    def _holds(self, hold: Hold) -> bool:
        mine = (hold.run_id, hold.epoch, hold.released) == (self.run.id, self.run.epoch, False)
        return mine and store_now(self._store) < hold.until

    # the lease

    def renew(self) -> bool:
        """Hold the session for longer; False if it is held no more."""
        self.renew_at = time.monotonic() + self._lease_s / 3

        def place(reader: Reader) -> list[Write]:
            _, held = self._mine(reader)
            longer = replace(records.read_hold(held), until=lease_until(self._store, self._lease_s))
            return [Put(records.hold_record(longer, held), held.digest)]

        try:
            with within(self._lease_s / 3):
                commit(self._store, place)
        except HoldfastError as cause:
            return cause.retry  # a busy store may have time before the lease is over
        return True

    def let_go(self) -> None:
        """Free the session without an end: the run can be entered again at once."""

        def place(reader: Reader) -> list[Write]:
            _, held = self._mine(reader)
            freed = replace(records.read_hold(held), released=True)
            return [Put(records.hold_record(freed, held), held.digest)]

        with contextlib.suppress(HoldfastError), within(self._ground.timeout):
            commit(self._store, place)

    # the end

    def end(self, status: Ending, reason: str | None, call: str | None = None) -> None:
        """End the run and let its session go; fine if it has ended."""
        if not self.is_open:
            return
        ended: list[StoredRun] = []

        def place(reader: Reader) -> list[Write]:
            record, _ = self._mine(reader)
            now = moment(self._ground.stamps.next())
            writes, after = records.end_writes(reader, records.read_run(record), status, reason, now, call)
            ended[:] = [after]
            return writes

        with within(self._ground.timeout):
            commit(self._store, place)
        self.run = ended[-1]
        self._leases.remove(self)
