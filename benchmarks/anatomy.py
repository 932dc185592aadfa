"""Where the time of a call goes: making its records, SQLite's statements with their commit, the sync, the answer.

Each way syncs its log behind the commit, as ours does, so that all have the same four parts.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import apsw
import floors
from append import BARE, BEHIND
from append import OURS as APPEND
from append import OURS_AWAITED as AWAITED
from figures import Section, table
from floors import BareRows, ByHand
from rounds import DISK, RAM, TEXT, folder, uncollected
from steps import BARE as BARE_ROWS
from steps import VALUES as HAND_VALUES

from holdfast import AsyncHoldfast, Message
from holdfast.backends.sqlite import SqliteStore
from holdfast.client import Holdfast
from holdfast.contracts import Planned, Rebase, Write

WORKLOAD = "where the time goes"
STEP, HAND_STEP = (f"{name}, with a checkpoint" for name in (APPEND, HAND_VALUES))
PARTS = ("records", "statements and commit", "sync", "answer")
FLOORS = {
    BARE: BARE, HAND_VALUES: BARE, APPEND: BARE, AWAITED: BARE,
    BARE_ROWS: BARE_ROWS, HAND_STEP: BARE_ROWS, STEP: BARE_ROWS,
}  # fmt: skip

Taken = tuple[float, ...]  # the seconds of each part
Way = Callable[[int], list[Taken]]  # does it so often in a row
R = TypeVar("R")


class Timed(SqliteStore):
    """A store that tells when its last commit began and ended, and how long the sync in it took."""

    begun = ended = synced = 0.0

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        self.begun = time.perf_counter()
        applied = super().commit(writes, rebase)
        self.ended = time.perf_counter()
        return applied

    def commit_at_once(self, plans: Sequence[Planned]) -> list[BaseException | None] | None:
        self.begun = time.perf_counter()
        done = super().commit_at_once(plans)
        self.ended = time.perf_counter()
        return done

    def _sync(self) -> None:
        start = time.perf_counter()
        super()._sync()
        self.synced = time.perf_counter() - start

    def taken(self, start: float, end: float) -> Taken:
        """The parts of a call with one commit, which began and ended then."""
        return self.begun - start, self.ended - self.begun - self.synced, self.synced, end - self.ended


def ours(store: Timed, call: Callable[[], object], count: int) -> list[Taken]:
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        taken.append(store.taken(start, time.perf_counter()))
    return taken


def ours_awaited(store: Timed, runner: asyncio.Runner, hf: AsyncHoldfast, session: str, count: int) -> list[Taken]:
    async def run() -> list[Taken]:
        taken = []
        for _ in range(count):
            start = time.perf_counter()
            await hf.sessions.append(session, Message.user(TEXT))
            taken.append(store.taken(start, time.perf_counter()))
        return taken

    return runner.run(run())


def by_hand(
    con: apsw.Connection, make: Callable[[], R], commit: Callable[[R], None], answer: Callable[[R], object]
) -> Way:
    con.execute("PRAGMA synchronous = NORMAL")  # the rest is done here
    commit(make())
    log = os.open(con.filename_wal, os.O_RDONLY)

    def call() -> Taken:
        moments = [time.perf_counter()]
        rows = make()
        moments.append(time.perf_counter())
        commit(rows)
        moments.append(time.perf_counter())
        os.fdatasync(log)
        moments.append(time.perf_counter())
        answer(rows)
        moments.append(time.perf_counter())
        return tuple(later - earlier for earlier, later in pairwise(moments))

    return lambda count: [call() for _ in range(count)]


def nothing(_rows: object) -> None:
    """The answer of what has none."""


@contextmanager
def ways(at: Path) -> Iterator[dict[str, Way]]:
    with ExitStack() as stack:
        bare = stack.enter_context(closing(floors.connect(at / "bare.db")))
        bare.execute("CREATE TABLE messages (place INTEGER PRIMARY KEY, body BLOB)")
        rows = stack.enter_context(closing(BareRows(at / "rows.db")))
        hand = stack.enter_context(closing(ByHand(at / "hand.db")))
        values = stack.enter_context(closing(ByHand(at / "values.db")))
        yield {
            BARE: by_hand(bare, lambda: TEXT, partial(floors.insert, bare), nothing),
            HAND_VALUES: by_hand(
                hand.con, lambda: hand.told(Message.user(TEXT)), lambda told: hand.commit(told[0]), nothing
            ),
            APPEND: _of(stack, at / "append.db", _append),
            AWAITED: _awaited(stack, at / "awaited.db"),
            BARE_ROWS: by_hand(rows.con, rows.stepped, rows.keep, nothing),
            HAND_STEP: by_hand(values.con, values.stepped, values.keep, values.shown),
            STEP: _of(stack, at / "step.db", _step),
        }


def _of(stack: ExitStack, path: Path, call: Callable[[Holdfast, str], object]) -> Way:
    store = Timed(str(path))
    hf = stack.enter_context(closing(Holdfast(store)))
    return partial(ours, store, partial(call, hf, hf.sessions.create(title="bench").id))


def _awaited(stack: ExitStack, path: Path) -> Way:
    store = Timed(str(path))
    hf = stack.enter_context(closing(Holdfast(store)))
    session = hf.sessions.create(title="bench").id
    return partial(ours_awaited, store, stack.enter_context(asyncio.Runner()), AsyncHoldfast(hf), session)


def _append(hf: Holdfast, session: str) -> object:
    return hf.sessions.append(session, Message.user(TEXT))


def _step(hf: Holdfast, session: str) -> object:
    return hf.checkpoints.create(session_id=session, messages=[Message.user(TEXT)])


def taken(all_ways: Mapping[str, Way], rounds: int, in_a_row: int = 10) -> dict[str, list[Taken]]:
    """Every way in every round, in an order drawn anew each time."""
    found: dict[str, list[Taken]] = {name: [] for name in all_ways}
    for _ in range(rounds):
        for name in random.sample(list(all_ways), len(all_ways)):
            with uncollected():
                found[name] += all_ways[name](in_a_row)
    return found


def results(quick: bool) -> Section:
    section = Section(title="Where the time of an append goes, SQLite")
    section.say(
        "Medians of each part, in microseconds. What runs behind the wait for a disk finds the processor's caches",
        "cold, so the same code takes longer there than on a RAM disk.", "",
    )  # fmt: skip
    for place, parent in (("disk", DISK), ("RAM", RAM)):
        with folder(parent) as at, ways(at) as all_ways:
            taken(all_ways, 2 if quick else BEHIND // 10)
            found = taken(all_ways, 3 if quick else 150)
        _told(section, place, found)
    return section


def _told(section: Section, place: str, found: dict[str, list[Taken]]) -> None:
    rows = []
    whole = {name: statistics.median(map(sum, calls)) for name, calls in found.items()}
    for name, calls in found.items():
        parts = [statistics.median(part) * 1e6 for part in zip(*calls, strict=True)]
        for part, each in zip(PARTS, parts, strict=True):
            section.note(WORKLOAD, f"{place}, {name}: {part}", each, "µs")
        floor = FLOORS[name]
        ratio = f"{whole[name] / whole[floor]:.2f} × {floor}"
        rows.append([name, *(f"{each:.1f}" for each in parts), f"{whole[name] * 1e6:.1f}", ratio])
    section.say(f"### {place}", "", *table(["way", *PARTS, "all", "of"], rows))
