"""Ways to do the same thing, timed in turns, so that what slows one moment slows all of them."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

TEXT = os.urandom(550).hex()  # 1,100 characters that do not compress
RAM, DISK = Path("/dev/shm"), Path(__file__).parent

Burst = Callable[[int], list[float]]  # does it so many times in a row; the seconds of each


@contextmanager
def folder(parent: Path) -> Iterator[Path]:
    """A folder that goes with its content."""
    with tempfile.TemporaryDirectory(dir=parent, prefix="bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's collector, which would count against one way what all of them have left behind."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def burst(call: Callable[[], object]) -> Burst:
    """Of a plain call."""

    def run(count: int) -> list[float]:
        with uncollected():
            return [seconds(call) for _ in range(count)]

    return run


def awaited(runner: asyncio.Runner, call: Callable[[], Awaitable[object]]) -> Burst:
    """Of a coroutine; entering the loop is not counted."""

    async def run(count: int) -> list[float]:
        taken = []
        for _ in range(count):
            start = time.perf_counter()
            await call()
            taken.append(time.perf_counter() - start)
        return taken

    def run_all(count: int) -> list[float]:
        with uncollected():
            return runner.run(run(count))

    return run_all


class Taken(msgspec.Struct, frozen=True):
    """The seconds of one way: of each round its mean, and of each call."""

    rounds: list[float]
    calls: list[float]

    @property
    def median_us(self) -> float:
        return statistics.median(self.rounds) * 1e6

    @property
    def mean_us(self) -> float:
        """With its share of what comes in few rounds, such as writing SQLite's log back."""
        return statistics.fmean(self.rounds) * 1e6

    @property
    def p99_us(self) -> float:
        return quantile(self.calls, 0.99) * 1e6

    def of(self, floor: Taken) -> float:
        """The median of paired ratios: each pair ran within the same moments."""
        return statistics.median(one / other for one, other in zip(self.rounds, floor.rounds, strict=True))


def quantile(taken: list[float], part: float) -> float:
    return sorted(taken)[min(len(taken) - 1, int(len(taken) * part))]


def interleaved(ways: Mapping[str, Burst], rounds: int, in_a_row: int = 10) -> dict[str, Taken]:
    """Every way in every round, in an order drawn anew each time; one round before them is not counted."""
    taken = {name: Taken([], []) for name in ways}
    names = list(ways)
    for name in names:
        ways[name](in_a_row)
    for _ in range(rounds):
        for name in random.sample(names, len(names)):
            calls = ways[name](in_a_row)
            taken[name].rounds.append(statistics.fmean(calls))
            taken[name].calls.extend(calls)
    return taken


def paired(ours: Callable[[], object], floor: Callable[[], object], rounds: int) -> float:
    """The median ratio of two calls that take turns."""
    taken = interleaved({"ours": burst(ours), "floor": burst(floor)}, rounds, in_a_row=1)
    return taken["ours"].of(taken["floor"])


def peak_mb() -> float:
    """The most memory that this process has had."""
    # Not getrusage: it counts what the parent had when it started this one.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM")
