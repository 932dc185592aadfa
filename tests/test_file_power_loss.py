"""Power loss on the file backend: whatever a disk may have kept of unsynced writes, each commit is whole.

A recorded run is cut at any point. What was synced by then is there; of the rest each write may be there,
torn or missing, and each name made, moved or removed may or may not be so. The store must then open and hold
exactly what was acknowledged, with or without the one commit that was under way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from holdfast.backends.file import FileStore
from holdfast.codec import digest
from holdfast.contracts import Delete, Insert, Put, Query, Record, Write
from holdfast.errors import HoldfastError
from holdfast.kinds import BRANCHES, HEADS, KINDS, MESSAGES, SESSIONS
from holdfast.testing import file_power
from holdfast.testing.file_disk import ACKNOWLEDGED, Event, Platter, RecordedDisk

RUNS = int(os.environ.get("HOLDFAST_POWER_RUNS", "12"))
CUTS = 40
COMMITS = 25


class UnsyncedDisk(RecordedDisk):
    """A disk whose files are never synced."""

    def sync(self, name: str) -> None:
        pass


class UnsyncedFolders(RecordedDisk):
    """A disk whose folders are never synced, but for those of an empty store."""

    def sync_folder(self, name: str) -> None:
        if ACKNOWLEDGED not in self.events:
            super().sync_folder(name)


# what is stored


def _record(chance: Random, number: int) -> Record:
    body = b'{"said":"%s"}' % (b"x" * chance.choice((5, 100, 3000)))
    history = f"h{chance.randint(1, 2)}"
    kind = chance.choice((MESSAGES, MESSAGES, HEADS, BRANCHES, SESSIONS))
    if kind is MESSAGES:
        key: tuple[str | int, ...] = (history, chance.randint(1, 2), number)
        return Record(kind, key, body, digest(body), (f"m{number}", number, b"link"))
    if kind is BRANCHES:
        return Record(kind, (history, chance.randint(1, 3)), body, digest(body))
    values = (None, None, "active", None, 0, number, number) if kind is HEADS else (None, history)
    return Record(kind, (f"s{chance.randint(1, 3)}",), body, digest(body), values)


def _commit(chance: Random, number: int, present: list[Record]) -> list[Write]:
    """A few writes of all sorts, each of another record."""
    writes: dict[tuple[str | int, ...], Write] = {}
    for _ in range(chance.choice((1, 2, 2, 4))):
        number += 1
        record = _record(chance, number)
        writes[record.kind.name, *record.key] = Insert(record) if record.kind is MESSAGES else Put(record)
    if present and chance.random() < 0.4:
        for old in chance.sample(present, min(len(present), chance.choice((1, 3)))):
            redacted = Record(old.kind, old.key, b'{"gone":1}', digest(b'{"gone":1}'), old.fields)
            writes[old.kind.name, *old.key] = chance.choice((Delete(old.kind, old.key), Put(redacted)))
    if chance.random() < 0.05:
        return [Delete(MESSAGES, ("h1",)), Delete(BRANCHES, ("h1",))]
    return list(writes.values())


def _dump(store: FileStore) -> list[Record]:
    return [record for kind in KINDS for record in store.scan(Query(kind=kind))]


def _recorded(path: str, disk: type[RecordedDisk], seed: int) -> tuple[list[Event], list[list[Record]]]:
    """A run of commits: what it did to the disk, and what the store held after each."""
    chance = Random(seed)
    disk.events = events = []
    store = FileStore(path, disk=disk)
    states = [_dump(store)]
    events.append(ACKNOWLEDGED)
    for number in range(0, COMMITS * 10, 10):
        store.commit(_commit(chance, number, states[-1]))
        events.append(ACKNOWLEDGED)
        states.append(_dump(store))
    store.close()
    return events, states


def _reopened(path: str, disk: type[RecordedDisk]) -> list[Record] | None:
    """What the store holds now; None if it does not open."""
    disk.events = []
    try:
        store = FileStore(path, disk=disk)
    except HoldfastError:
        return None
    found = _dump(store)
    store.close()
    return found


def _losses(tmp_path: Path, disk: type[RecordedDisk], seed: int) -> Iterator[str]:
    """What is wrong after power was lost at random points of a run, and again while that was being repaired."""
    events, states = _recorded(str(tmp_path / f"run{seed}"), disk, seed)
    chance, path = Random(seed), str(tmp_path / "left")
    first = events.index(ACKNOWLEDGED)
    for cut in sorted(chance.sample(range(first, len(events)), min(CUTS, len(events) - first))):
        acknowledged = events[: cut + 1].count(ACKNOWLEDGED)
        allowed = states[acknowledged - 1 : acknowledged + 1]
        for found in _lost_twice(Platter(), events[: cut + 1], disk, chance, path):
            if found not in allowed:
                yield f"seed {seed}, after event {cut} of {len(events)}: {events[cut]}"


def _lost_twice(
    platter: Platter, events: list[Event], disk: type[RecordedDisk], chance: Random, path: str
) -> Iterator[list[Record] | None]:
    """What the store holds after these events and a power loss, and after another in the repair of the first."""
    for _ in range(2):
        for event in events:
            platter.do(event)
        platter.lose_power(chance, path)
        platter = Platter.holding(path)
        yield _reopened(path, disk)
        events = disk.events[: chance.randint(0, len(disk.events))]


@pytest.mark.parametrize("seed", range(RUNS))
def test_whatever_the_disk_kept_a_commit_is_whole(tmp_path: Path, seed: int) -> None:
    assert list(_losses(tmp_path, RecordedDisk, seed)) == []


@pytest.mark.parametrize("disk", [UnsyncedDisk, UnsyncedFolders])
def test_a_store_that_does_not_sync_is_caught(tmp_path: Path, disk: type[RecordedDisk]) -> None:
    assert any(found for seed in range(20) for found in _losses(tmp_path, disk, seed))


def test_a_power_loss_loses_no_acknowledged_step_and_tears_none(tmp_path: Path) -> None:
    tally = file_power.run(tmp_path, RUNS * CUTS)
    assert tally.problems == []
    assert tally.crashes == RUNS * CUTS


@pytest.mark.parametrize("disk", [UnsyncedDisk, UnsyncedFolders])
def test_steps_that_are_acknowledged_before_they_are_synced_are_caught(
    tmp_path: Path, disk: type[RecordedDisk]
) -> None:
    assert file_power.run(tmp_path, 60, disk=disk).problems != []
