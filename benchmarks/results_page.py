"""Brings a whole run into the pages that show it, between two comments each: pictures, peers, and how a store grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import sharding
from figures import Results, shown, table
from limits import verdicts
from peers import PEERS

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
CAPTIONS = {
    "append": "One append of 1,100 characters, each store as it comes, on a RAM disk",
    "steps-time": "Time of a step with a checkpoint, as steps add up",
    "steps-bytes": "Bytes of a session with a checkpoint at every step, as steps add up",
    "agents": "Appends per second of 32 agents in one process, on a disk",
    "conversation": "Time of an append, as a conversation grows",
    "store": "Time of some calls, as a store grows",
}
GROWTH = "as a store grows"
ON_DISK = {"append beside peers, disk": "one append", "32 async agents, disk, beside peers": "32 agents at once"}
BESIDE = "Medians, for messages of 1,100 characters; one append is of the first 260 of a conversation."
STORES = ("Holdfast", *PEERS, "LangGraph AsyncSqliteSaver")


def pictures(*names: str, where: str) -> list[str]:
    """Those that the run could draw."""
    there = [name for name in names if (PICTURES / f"bench-{name}.svg").exists()]
    return [line for name in there for line in (f"![{CAPTIONS[name]}]({where}/bench-{name}.svg)", "")]


def growth(run: Results, workload: str, heading: str = "", columns: str = "{:,.0f}") -> list[str]:
    """A row for each curve of a workload, a column for each size."""
    curves = [curve for curve in run.curves if curve.workload == workload]
    sizes = sorted({n for curve in curves for n, _ in curve.points})
    rows = []
    for curve in curves:
        found = dict(curve.points)
        rows.append([curve.name, *(shown(found[n], curve.unit) if n in found else "–" for n in sizes)])
    return table([heading, *(columns.format(n) for n in sizes)], rows)


def replaced(text: str, mark: str, lines: list[str]) -> str:
    """The text with what stands between the two comments exchanged; ValueError if they are not there."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->\n"
    before, after = text.index(begin) + len(begin), text.index(end)
    return text[:before] + "\n" + "\n".join(lines).strip() + "\n\n" + text[after:]


def beside_peers(run: Results) -> list[str]:
    """What people would use instead, on a disk."""
    found = {(figure.workload, figure.name): shown(figure.value, figure.unit) for figure in run.figures}
    rows = [[name, *(found.get((workload, name), "–") for workload in ON_DISK)] for name in STORES]
    return table(["on a disk, each store as it comes", *ON_DISK.values()], rows)


def _readme(run: Results) -> list[str]:
    judged = verdicts(run.figures)
    kept = f"In the last whole run {sum(one.holds for one in judged)} of {len(judged)} promises held;"
    drawn = pictures("append", "steps-bytes", where="docs/pictures")
    return [f"{kept} the page says which did not.", "", *beside_peers(run), BESIDE, "", *drawn]


def _benchmarks(_run: Results) -> list[str]:
    return pictures("append", "conversation", "steps-time", "steps-bytes", "agents", where="pictures")


def _scale(run: Results) -> list[str]:
    return [*growth(run, GROWTH), *pictures("store", where="pictures")]


def _nodes(run: Results) -> list[str]:
    touched = [[figure.name, shown(figure.value, "")] for figure in run.figures if figure.workload == sharding.TOUCHED]
    return [
        *table(["commits of", sharding.TOUCHED], touched),
        *growth(run, sharding.HOTTEST, sharding.HOTTEST, "{:.0f} nodes"),
    ]


PAGES: list[tuple[str, str, Callable[[Results], list[str]]]] = [
    ("README.md", "measured", _readme),
    ("docs/benchmarks.md", "measured", _benchmarks),
    ("docs/scale.md", "growth", _scale),
    ("docs/scale.md", "nodes", _nodes),
]


def fill(run: Results) -> None:
    """Every page, from a whole run."""
    for name, mark, lines in PAGES:
        page = ROOT / name
        page.write_text(replaced(page.read_text(), mark, lines(run)))
