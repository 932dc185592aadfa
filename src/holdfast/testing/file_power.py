"""Cut the power under a folder of files and look: every acknowledged step is there, and each in flight whole or absent.

The steps are those of `power`, on a disk that notes everything. Each crash state is opened as after a reboot; its
repair may lose the power again.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

from holdfast.backends.file import FileStore
from holdfast.client import Holdfast
from holdfast.errors import HoldfastError
from holdfast.testing.file_disk import ACKNOWLEDGED, ASKED, Event, Platter, RecordedDisk
from holdfast.testing.oracle import Tally, check, judge
from holdfast.testing.oracle_model import State, Step
from holdfast.testing.oracle_steps import perform, plan

STEPS = 12  # in one log
STATES_PER_LOG = 20


def record(path: Path, steps: list[Step], disk: type[RecordedDisk]) -> list[Event]:
    """What is done to the disk while a new store does the steps; the first acknowledgement is the opening's."""
    events: list[Event] = []
    disk.events = events
    with Holdfast(FileStore(str(path), disk=disk)) as hf:
        events.append(ACKNOWLEDGED)
        for step in steps:
            events.append(ASKED)
            perform(hf, step)
            events.append(ACKNOWLEDGED)
    return events


def run(folder: Path, states: int, *, seed: int = 0, disk: type[RecordedDisk] = RecordedDisk) -> Tally:
    """Open so many crash states of file stores, laid out in this folder, and check each."""
    tally, chance = Tally(), Random(seed)
    while tally.crashes < states:
        steps = plan(chance, State(), count(1), "w0-", STEPS)
        events = record(folder / f"log {tally.crashes}", steps, disk)
        first = events.index(ACKNOWLEDGED)
        for _ in range(min(STATES_PER_LOG, states - tally.crashes)):
            cut = chance.randint(first, len(events) - 1) + 1
            _lose(events[:cut], folder / "left", steps, disk, chance, tally)
    return tally


def _lose(
    events: list[Event], left: Path, steps: list[Step], disk: type[RecordedDisk], chance: Random, tally: Tally
) -> None:
    """Lose the power after these events, one time in two again in the repair, and note what is broken then."""
    acked = steps[: events.count(ACKNOWLEDGED) - 1]
    flying = steps[len(acked) : events.count(ASKED)]
    tally.crashes += 1
    tally.acknowledged += len(acked)
    tally.in_flight += len(flying)
    _crash(Platter(), events, left, chance)
    if chance.random() < 0.5:
        platter = Platter.holding(str(left))
        _crash(platter, _repair(left, disk, chance), left, chance)
    disk.events = []

    def reopen() -> Holdfast:
        return Holdfast(FileStore(str(left), disk=disk))

    _, problems = check(tally.crashes, reopen, lambda seen: judge(State(), acked, flying, seen))
    tally.problems += problems


def _crash(platter: Platter, events: list[Event], left: Path, chance: Random) -> None:
    for event in events:
        platter.do(event)
    platter.lose_power(chance, str(left))


def _repair(left: Path, disk: type[RecordedDisk], chance: Random) -> list[Event]:
    """What opening a crashed store has done to the disk when the power fails again."""
    events: list[Event] = []
    disk.events = events
    with suppress(HoldfastError):  # a store that does not open is found when it is checked
        FileStore(str(left), disk=disk).close()
    return events[: chance.randint(0, len(events))]
