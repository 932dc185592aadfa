"""What a checkpoint at every step costs as steps add up: time and bytes, beside LangGraph's savers.

A step is a message of 1,100 characters and a checkpoint. LangGraph's is a whole superstep of a graph with one node,
`durability="sync"`; what its saver takes of that is told beside it.
"""

from __future__ import annotations

import random
import sqlite3
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import graphs
import msgspec
from figures import Section, shown, table
from floors import NEWEST, NEWEST_OF, BareRows, ByHand, connect
from graphs import Graph
from log_pages import per_call
from rounds import DISK, RAM, TEXT, Burst, burst, folder, interleaved, seconds, uncollected
from syncs import counted

import holdfast
from holdfast import Holdfast, Message

STEP, BYTES, LIST = "append + checkpoint, step 1,000", "bytes of steps", "list 20 checkpoints of 1,000"
OURS, NUMBERED = "Holdfast", "Holdfast with step="
HAND, VALUES, BARE = "the same statements by hand", "the same statements by hand with values", "bare rows"
DEFAULT, DELTA = "LangGraph SqliteSaver", "LangGraph DeltaChannel"
BARE_LIST, BY_PLACE = "bare SELECT", "bare SELECT of known places"
SAVER = "its saver's calls, some beside the step"
WINDOW = 100  # steps that a point is the mean of, since DeltaChannel writes a snapshot at every hundredth


class Sizes(msgspec.Struct, frozen=True):
    """How far it goes; the default saver copies all messages at every step, and stops at the first mark."""

    marks: tuple[int, ...] = (100, 250, 500, 1_000, 1_500, 2_000)
    copying: int = 1_000
    long: int = 10_000
    rounds: int = 60
    runs: int = 5  # whose median compares us with LangGraph, since a hundred steps of ours are over in 10 ms
    in_a_row: int = 50  # of each way, since the first few after another way find nothing of theirs in the caches


class Run:
    """Some ways to take steps, one file each, their seconds by way and step."""

    def __init__(self, at: Path) -> None:
        self.at = at
        self.taken: dict[str, list[float]] = {}
        self.bytes: dict[str, list[tuple[float, float]]] = {}

    def step(self, name: str, way: Callable[[], object] | Graph) -> None:
        self.taken.setdefault(name, []).append(seconds(way.step if isinstance(way, Graph) else way))
        if isinstance(way, Graph):
            self.taken.setdefault(f"{name}, {SAVER}", []).append(way.inside_saver())

    def weigh(self, name: str, steps: int) -> None:
        self.bytes.setdefault(name, []).append((steps, size(self.at / f"{name}.db")))

    def around(self, name: str, step: int) -> float:
        """The mean of the steps up to this one."""
        return statistics.fmean(self.taken[name][max(0, step - WINDOW) : step])


def size(path: Path) -> int:
    """The bytes of a file once its log is written back."""
    # In the library that has the file open already: of two in one process, one would drop the other's locks.
    connection: Any = sqlite3.connect if path.stem in (DEFAULT, DELTA) else apsw.Connection
    with closing(connection(str(path))) as con:
        pages, bytes_each = (con.execute(f"PRAGMA {what}").fetchall()[0][0] for what in ("page_count", "page_size"))
        return int(pages * bytes_each)


@contextmanager
def ours(path: Path, numbered: bool = False) -> Iterator[tuple[Holdfast, Callable[[], object]]]:
    """A store with one session, and its next step; which may be given its number."""
    with holdfast.open(f"sqlite:///{path}") as hf:
        session, numbers = hf.sessions.create(title="bench").id, count(1)
        if numbered:
            yield (
                hf,
                lambda: hf.checkpoints.create(session_id=session, step=next(numbers), messages=[Message.user(TEXT)]),
            )
        else:
            yield hf, lambda: hf.checkpoints.create(session_id=session, messages=[Message.user(TEXT)])


def on_ram(section: Section, sizes: Sizes) -> None:
    runs = [_run(section, sizes, first=number == 0) for number in range(sizes.runs)]
    _told(section, runs, sizes)


def _run(section: Section, sizes: Sizes, first: bool) -> Run:
    """All ways from their first step on; the first run goes further than where they are compared."""
    with folder(RAM) as at, ExitStack() as stack:
        hf, step = stack.enter_context(ours(at / f"{OURS}.db"))
        hand = stack.enter_context(closing(ByHand(at / f"{HAND}.db")))
        values = stack.enter_context(closing(ByHand(at / f"{VALUES}.db")))
        rows = stack.enter_context(closing(BareRows(at / f"{BARE}.db")))
        savers = {
            DEFAULT: stack.enter_context(graphs.on_sqlite(at / f"{DEFAULT}.db", delta=False)),
            DELTA: stack.enter_context(graphs.on_sqlite(at / f"{DELTA}.db", delta=True)),
        }
        run = Run(at)
        ways: dict[str, Callable[[], object] | Graph] = {
            OURS: step,
            HAND: hand.step,
            VALUES: values.step_with_values,
            BARE: rows.step,
            **savers,
        }
        last = sizes.marks[-1] if first else sizes.copying
        for number in range(sizes.in_a_row, last + 1, sizes.in_a_row):
            _some(run, ways, number, sizes)
            if first and number == sizes.copying:
                _list(section, hf, at / f"{OURS}.db", savers, sizes)
    return run


def _some(run: Run, ways: dict[str, Callable[[], object] | Graph], number: int, sizes: Sizes) -> None:
    """A few steps in a row of every way, up to this one.

    In an order drawn anew each time: behind LangGraph the caches are cold, and that should not always be for the same.
    """
    names = [name for name in ways if name != DEFAULT or number <= sizes.copying]
    for name in random.sample(names, len(names)):
        with uncollected():
            for _ in range(sizes.in_a_row):
                run.step(name, ways[name])
    if number in sizes.marks:
        for name in names:
            run.weigh(name, number)


def _told(section: Section, runs: list[Run], sizes: Sizes) -> None:
    at, run = sizes.copying, runs[0]
    for name in (DEFAULT, DELTA):
        for what, way in ((name, name), (f"the saver alone of {name}", f"{name}, {SAVER}")):
            ratio = statistics.median(one.around(way, at) / one.around(OURS, at) for one in runs)
            section.tell(STEP, f"RAM, times faster than {what}", ratio, "×")
        for floor in (HAND, VALUES):
            ratio = statistics.median(one.around(name, at) / one.around(floor, at) for one in runs)
            section.tell(STEP, f"RAM, {floor}, times faster than {name}", ratio, "×")
    section.say("")
    for name, taken in run.taken.items():
        points = [(float(mark), run.around(name, mark) * 1e6) for mark in sizes.marks if mark <= len(taken)]
        section.curve("append + checkpoint as steps add up", name, "µs", points)
    for name, points in run.bytes.items():
        section.curve("bytes as steps add up", name, "bytes", points)
    _show(section, sizes)


def _show(section: Section, sizes: Sizes) -> None:
    for workload, heading in (
        ("append + checkpoint as steps add up", f"Microseconds per step, RAM, means of the {WINDOW} steps before n"),
        ("bytes as steps add up", "Megabytes after n steps"),
    ):
        rows = []
        for curve in (curve for curve in section.curves if curve.workload == workload):
            found = dict(curve.points)
            scale = 1 if curve.unit == "µs" else 1e6
            rows.append([curve.name, *(shown(found[n] / scale, "") if n in found else "–" for n in sizes.marks)])
        section.say(f"### {heading}", "", *table(["way", *(f"{n:,}" for n in sizes.marks)], rows))


def _list(section: Section, hf: Holdfast, path: Path, savers: dict[str, Graph], sizes: Sizes) -> None:
    """The newest twenty; by the savers apart, since they take so long that of ours nothing is left in the caches.

    The bare SELECT knows what a caller knows, the session's name. Beside it stands one that knows the places of its
    rows, which are SQLite's own.
    """
    with closing(connect(path)) as con:
        log: int = con.execute("SELECT log FROM logs WHERE kind = 'checkpoints'").get
        places, session = (log << 32, log + 1 << 32), hf.sessions.list()[0].id
        ours = burst(lambda: hf.checkpoints.list(session_id=session, limit=20))
        bare = burst(lambda: con.execute(NEWEST_OF, (session,)).fetchall())
        by_place = burst(lambda: con.execute(NEWEST, places).fetchall())
        taken = interleaved({BARE_LIST: bare, BY_PLACE: by_place, OURS: ours}, rounds=sizes.rounds)
    of_savers = {name: burst(partial(_newest, graph)) for name, graph in savers.items()}
    taken |= interleaved(of_savers, rounds=8, in_a_row=2)
    floor = taken[BARE_LIST]
    section.note(LIST, "of the bare SELECT", taken[OURS].of(floor), "×")
    section.note(LIST, "of a SELECT by place", taken[OURS].of(taken[BY_PLACE]), "×")
    rows = [[name, f"{way.median_us:,.0f}", f"{way.median_us / floor.median_us:,.1f} ×"] for name, way in taken.items()]
    section.say("### The newest 20 of 1,000 checkpoints, RAM", "", *table(["way", "median µs", "of bare"], rows))


def _newest(graph: Graph) -> object:
    return list(graph.saver.list(graphs.THREAD, limit=20))


@contextmanager
def floors_and_ours(at: Path, steps: int) -> Iterator[dict[str, Burst]]:
    """The ways in a folder, without LangGraph, each behind so many steps."""
    with ExitStack() as stack:
        _hf, step = stack.enter_context(ours(at / "ours.db"))
        _other, numbered = stack.enter_context(ours(at / "numbered.db", numbered=True))
        ways = {
            OURS: burst(step),
            NUMBERED: burst(numbered),
            HAND: burst(stack.enter_context(closing(ByHand(at / "hand.db"))).step),
            VALUES: burst(stack.enter_context(closing(ByHand(at / "values.db"))).step_with_values),
            BARE: burst(stack.enter_context(closing(BareRows(at / "bare.db"))).step),
        }
        for way in ways.values():
            way(steps)
        yield ways


def beside_floors(section: Section, sizes: Sizes) -> None:
    """The step after many, with nobody else around."""
    section.say("### Beside the floors, from step 1,000 on", "")
    for place, parent in (("RAM", RAM), ("disk", DISK)):
        with folder(parent) as at, floors_and_ours(at, sizes.copying) as ways:
            taken = interleaved(ways, sizes.rounds)
            if parent is DISK:
                files = {OURS: "ours", NUMBERED: "numbered", HAND: "hand", BARE: "bare"}
                pages = {name: per_call(at / f"{file}.db", partial(ways[name], 1)) for name, file in files.items()}
        for floor in (HAND, BARE):
            section.tell(STEP, f"{place}, of {floor}", taken[OURS].of(taken[floor]), "×")
        for floor in (HAND, BARE):
            section.tell(STEP, f"{place}, {VALUES}, of {floor}", taken[VALUES].of(taken[floor]), "×")
        section.tell(STEP, f"{place}, {OURS}", taken[OURS].median_us, "µs")
        section.tell(STEP, f"{place}, {NUMBERED}, of {OURS}", taken[NUMBERED].of(taken[OURS]), "×")
    for name, each in pages.items():
        section.tell("pages of the log per step", name, each, "")
    durability(section, sizes.rounds)


def durability(section: Section, calls: int) -> None:
    rows = []
    for name in (OURS, DEFAULT, DELTA):
        synced = counted("steps" if name == OURS else name, calls)
        rows.append([name, synced.journal, synced.shown])
        if synced.per_call is not None:
            section.note(STEP, "syncs per step" if name == OURS else f"{name}, syncs per step", synced.per_call, "")
    section.say("", *table(["way", "journal", "syncs per step"], rows))


def in_bytes(section: Section, sizes: Sizes) -> None:
    """After close, at two lengths."""
    found: dict[int, dict[str, int]] = {}
    for steps, name in ((sizes.copying, "1,000"), (sizes.long, "10,000")):
        with folder(RAM) as at:
            with ours(at / "ours.db") as (_hf, step), closing(BareRows(at / "bare.db")) as rows:
                for _ in range(steps):
                    step()
                    rows.step()
            found[steps] = {way: (at / f"{way}.db").stat().st_size for way in ("ours", "bare")}
        section.tell(BYTES, f"{name} steps, of {BARE}", found[steps]["ours"] / found[steps]["bare"], "×")
    per_step = found[sizes.long]["ours"] / sizes.long / (found[sizes.copying]["ours"] / sizes.copying)
    section.tell(BYTES, "per step at 10,000, of at 1,000", per_step, "×")


def results(quick: bool) -> Section:
    section = Section(title="Append + checkpoint at every step, SQLite")
    sizes = Sizes(marks=(20, 60, 120), copying=60, long=600, rounds=5, runs=2, in_a_row=20) if quick else Sizes()
    on_ram(section, sizes)
    beside_floors(section, sizes)
    in_bytes(section, sizes)
    return section
