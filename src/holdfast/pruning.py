"""Letting checkpoints go, and then what only they referred to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from holdfast import checkpoint_records as records
from holdfast.agent_records import read_present
from holdfast.contracts import Delete, Key, Query, Reader, Record
from holdfast.errors import CorruptData, IntegrityError, InvalidInput
from holdfast.filters import Filter
from holdfast.finding import detaches
from holdfast.ids import moment
from holdfast.kinds import AGENTS, CAPTURES, CHECKPOINTS, RUNS
from holdfast.model import Checkpoint, CheckpointKind, Value
from holdfast.restoring import Restoring
from holdfast.retention import Retention, check_kind, eligible, is_good
from holdfast.run_records import read_run

BATCH = 200


class Pruned(Value, frozen=True, kw_only=True):
    """What a prune removed, or with `dry_run` would remove."""

    checkpoints: list[Checkpoint]
    dry_run: bool = False

    @property
    def count(self) -> int:
        """How many."""
        return len(self.checkpoints)


class Pruning(Restoring):
    """Checkpoints that go."""

    def prune(
        self,
        agent_id: str | None = None,
        *,
        session_id: str | None = None,
        keep: int | None = None,
        kind: CheckpointKind | None = None,
        policy: Retention | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Pruned:
        """Remove an agent's or a session's checkpoints beyond the last `keep`, and expired ones.

        With `kind` only checkpoints of that kind are looked at. Named and protected ones survive, and so does
        the newest that is not damaged.
        """
        if (agent_id is None) == (session_id is None):
            raise InvalidInput("name either an agent_id or a session_id to prune")
        if keep is not None and policy is not None:
            raise InvalidInput("give keep or a policy, not both")
        if kind is not None:
            check_kind(kind)
        chosen = policy or Retention(keep=keep)
        with self._within(timeout):
            owner = self._owner(self._store, agent_id, session_id)
            if owner is None:
                return Pruned(checkpoints=[], dry_run=dry_run)
            going = [*self._going(owner, chosen, kind)]
            if not dry_run:
                self._remove([row.key for row, _ in going])
        return Pruned(checkpoints=[one for _, one in going], dry_run=dry_run)

    def _going(self, owner: str, policy: Retention, kind: CheckpointKind | None) -> Iterator[tuple[Record, Checkpoint]]:
        rows = [(row, records.view(row)) for row in records.newest_first(self._store, owner)]
        looked_at = [(row, one) for row, one in rows if kind is None or one.kind == kind or one.damaged]
        spared = [one.id for _, one in rows if one.kind == "recovery" and detaches(self._store, one.id)]
        spared += self._needed_by_runs([one for _, one in rows])
        now = moment(self._stamps.next())
        going = {one.id for one in eligible([one for _, one in looked_at], policy, now, spared)}
        return ((row, one) for row, one in looked_at if one.id in going)

    def _needed_by_runs(self, newest_first: Sequence[Checkpoint]) -> Iterator[str]:
        """The last good checkpoint of each run that has not ended well."""
        last = {one.run_id: one.id for one in reversed(newest_first) if one.run_id is not None and is_good(one)}
        for run_id, checkpoint_id in last.items():
            rows = self._store.scan(Query(kind=RUNS, where=(Filter("id", "=", run_id),)))
            if any(read_run(row).status != "completed" for row in rows):
                yield checkpoint_id

    def _remove(self, keys: Sequence[Key]) -> None:
        for start in range(0, len(keys), BATCH):
            self._store.commit([Delete(CHECKPOINTS, key) for key in keys[start : start + BATCH]])


def collect_captures(store: Reader) -> Iterator[Record]:
    """Rows of session heads that no checkpoint resolves to, now or when the next one is made."""
    for record in store.scan(Query(kind=AGENTS)):
        present = read_present(record)
        try:
            numbers = sorted([*_numbers(store, present.uid), present.checkpoints + 1])
        except (IntegrityError, CorruptData):
            continue  # what a damaged checkpoint needs is not known, so nothing of this agent's may go
        for rows in _by_session(store, present.uid):
            yield from unneeded(rows, numbers)


def _numbers(store: Reader, owner: str) -> Iterator[int]:
    for row in store.scan(Query(kind=CHECKPOINTS, prefix=(owner,))):
        yield records.read_stored(row).number


def _by_session(store: Reader, agent: str) -> Iterator[list[Record]]:
    """An agent's captures, session by session, each oldest first."""
    rows: list[Record] = []
    for record in store.scan(Query(kind=CAPTURES, prefix=(agent,))):
        if rows and rows[0].key[1] != record.key[1]:
            yield rows
            rows = []
        rows.append(record)
    if rows:
        yield rows


def unneeded(rows: Sequence[Record], numbers: Sequence[int]) -> Iterator[Record]:
    """Of one session's captures, oldest first, those that none of these ascending numbers resolves to.

    Rows above all numbers are newer than the look, and stay. That a session is gone need not be said where
    nothing says any more that it was there.
    """
    known = False
    for index, row in enumerate(rows):
        at = bisect_left(numbers, int(row.key[2]))
        last = index == len(rows) - 1
        resolved = at == len(numbers) or last or numbers[at] < int(rows[index + 1].key[2])
        if resolved and (known or not _is_gone(row)):
            known = True
        else:
            yield row


def _is_gone(row: Record) -> bool:
    """Whether a sound capture says that its session was gone."""
    try:
        return records.read_capture(row).position is None
    except (IntegrityError, CorruptData):
        return False
