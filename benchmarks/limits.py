"""What must be reached, line by line; `make bench-check` holds a run against it.

The lines are here and not in the results, so that a run which left one out is told so. "Independent of length" and
"unchanged" are taken as at most 1.25 times, "does not grow" as at most 1.1 times: medians of one run differ by that.
"""

from __future__ import annotations

import msgspec
from figures import Better, Figure, shown

SAME, STEADY = 1.25, 1.1
FLOORS = (
    "A floor is the same figure of the same run for what stands in docs/benchmarks.md, without anything of ours;"
    " a line whose floor misses its limit, too, is out of reach on that machine."
)
HAND = "the same statements by hand"
VALUES = f"{HAND} with values"


class Limit(msgspec.Struct, frozen=True):
    """One promise about one figure; `floor` is the figure of the same workload without anything of ours."""

    workload: str
    name: str
    limit: float
    better: Better = "smaller"
    floor: str | None = None

    def holds(self, value: float) -> bool:
        return value <= self.limit if self.better == "smaller" else value >= self.limit


class Verdict(msgspec.Struct, frozen=True):
    """A promise and what came of it; without a figure the run did not measure it. `floor` is what bounds it."""

    limit: Limit
    figure: Figure | None
    floor: Figure | None = None

    @property
    def holds(self) -> bool:
        return self.figure is not None and self.limit.holds(self.figure.value)

    @property
    def shown(self) -> str:
        """The figure as people read it, with more digits where it would look like the limit that it misses."""
        if self.figure is None:
            return "–"
        value, unit, limit = self.figure.value, self.figure.unit, self.limit.limit
        if self.holds or f"{value:.2f}" != f"{limit:.2f}":
            return shown(value, unit)
        digits = next(digits for digits in range(3, 18) if f"{value:.{digits}f}" != f"{limit:.{digits}f}")
        return f"{value:,.{digits}f} {unit}".strip()

    @property
    def floor_shown(self) -> str:
        if self.limit.floor is None:
            return "–"
        return "not measured" if self.floor is None else shown(self.floor.value, self.floor.unit)

    @property
    def out_of_reach(self) -> bool:
        """Whether the limit is missed without anything of ours."""
        return self.floor is not None and not self.limit.holds(self.floor.value)

    @property
    def word(self) -> str:
        if self.figure is None:
            return "missing"
        return "holds" if self.holds else "out of reach" if self.out_of_reach else "falls short"


def _at_least(workload: str, name: str, limit: float, floor: str | None = None) -> Limit:
    return Limit(workload, name, limit, "larger", floor)


def _processes(count: int) -> list[Limit]:
    workload = f"{count} processes on one file"
    return [
        Limit(workload, "errors", 0),
        Limit(workload, "errors at the first open of a fresh file", 0),
        _at_least(workload, "of bare SQLite's rate", 0.7),
        Limit(workload, "p99.9 of a wait, in median commits of all processes", 20),
    ]


LIMITS: list[Limit] = [
    Limit("append, sync", f"RAM, of {HAND}", 1.3, floor=f"RAM, {VALUES}, of {HAND}"),
    Limit("append, sync", "disk, of a bare INSERT + commit", 1.15, floor=f"disk, {VALUES}, of a bare INSERT + commit"),
    Limit("append, sync", "behind 10,000 messages, of behind 100", SAME),
    Limit(
        "append, async, one agent",
        "disk, of a bare INSERT + commit",
        1.5,
        floor=f"disk, {VALUES}, not awaited, of a bare INSERT + commit",
    ),
    _at_least(
        "32 async agents, disk", "of OpenAI SQLiteSession's rate", 5, f"{VALUES}, of OpenAI SQLiteSession's rate"
    ),
    _at_least(
        "32 async agents, disk", "of the rate of one commit each", 2.5, f"{VALUES}, of the rate of one commit each"
    ),
    Limit("32 async agents, disk", "syncs per append", 0.25),
    Limit("append + checkpoint, step 1,000", f"RAM, of {HAND}", 1.5, floor=f"RAM, {VALUES}, of {HAND}"),
    Limit("append + checkpoint, step 1,000", "disk, of bare rows", 1.5, floor=f"disk, {VALUES}, of bare rows"),
    Limit("append + checkpoint, step 1,000", "syncs per step", 1.05),
    _at_least(
        "append + checkpoint, step 1,000",
        "RAM, times faster than LangGraph SqliteSaver",
        100,
        f"RAM, {VALUES}, times faster than LangGraph SqliteSaver",
    ),
    _at_least(
        "append + checkpoint, step 1,000",
        "RAM, times faster than LangGraph DeltaChannel",
        15,
        f"RAM, {VALUES}, times faster than LangGraph DeltaChannel",
    ),
    Limit("bytes of steps", "1,000 steps, of bare rows", 1.4),
    Limit("bytes of steps", "10,000 steps, of bare rows", 1.4),
    Limit("bytes of steps", "per step at 10,000, of at 1,000", STEADY),
    Limit("list 20 checkpoints of 1,000", "of the bare SELECT", 5),
    Limit("resume 10,000 messages", "of decoding the rows by hand", 1.5),
    Limit("last 50 of 10,000", "of the bare SELECT + decode", 2),
    Limit("last 50 of 10,000", "of the last 50 of 100", SAME),
    *(
        limit
        for call in ("restore with verify='pointers'", "fork", "diff of heads")
        for limit in (
            Limit("10,000-message session", f"{call}, of an append", 30),
            Limit("10,000-message session", f"{call}, of the same with 100 messages", SAME),
        )
    ),
    Limit("10,000-message session", "restore, of reading and hashing the rows by hand", 2),
    *_processes(4),
    *_processes(8),
    Limit("text search, 100,000 messages", "of bare FTS5", 1.5),
    Limit("text search, 100,000 messages", "append after a search, of before", SAME),
    Limit("vectors 100,000 × 384", "exact, once loaded, of numpy", 1.3),
    Limit("vectors 100,000 × 384", "by index, of numpy", 0.1, floor="by graph and rows by hand, of numpy"),
    _at_least("vectors 100,000 × 384", "recall by index", 0.98),
    Limit("a store of 1 million messages", "open, of opening an empty one", 2),
    Limit("a store of 1 million messages", "memory after open, of an empty one's", STEADY),
    Limit("PostgreSQL", "append, of bare psycopg", 1.5, floor=f"append, {HAND}, of bare psycopg"),
    _at_least("PostgreSQL", "32 agents, of a bare pool's rate", 0.6),
    _at_least("PostgreSQL", "32 agents, of SQLAlchemySession's rate", 5),
    Limit("import holdfast", "of python -c pass", 6),
]


def stated(figures: list[Figure]) -> list[Figure]:
    """The same figures, each with the limit that is set for it."""
    limits = {(limit.workload, limit.name): limit for limit in LIMITS}
    found = ((figure, limits.get((figure.workload, figure.name))) for figure in figures)
    return [
        msgspec.structs.replace(figure, limit=limit.limit, better=limit.better) if limit else figure
        for figure, limit in found
    ]


def verdicts(figures: list[Figure]) -> list[Verdict]:
    """Every promise, in order, with the figure that a run has for it."""
    measured = {(figure.workload, figure.name): figure for figure in figures}
    return [
        Verdict(limit, measured.get((limit.workload, limit.name)), measured.get((limit.workload, limit.floor or "")))
        for limit in LIMITS
    ]
