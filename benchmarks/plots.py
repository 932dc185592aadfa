"""Pictures of a run. Ground is left out and lines are of middle tones, so that they read on light and on dark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from figures import Curve, Results

INK = "#7b8794"
COLOURS = ("#14919b", "#d9822b", "#7d5fd3", "#c2415c", "#4f8a10", "#a0722a", "#3b7dd8", "#8a8f98")
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "holdfast", "font.family": "sans-serif", "font.size": 10,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": INK, "grid.alpha": 0.25,
    "legend.frameon": False, "figure.figsize": (7.2, 3.6),
}  # fmt: skip
OURS = "Holdfast"


def draw(run: Results, into: Path) -> list[Path]:
    """Every picture that the run has figures for."""
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams.update(STYLE)
    into.mkdir(parents=True, exist_ok=True)
    made = []
    for name, picture in PICTURES.items():
        figure, axes = import_module("matplotlib.pyplot").subplots(layout="constrained")
        if picture(run, axes):
            made.append(into / f"bench-{name}.svg")
            figure.savefig(made[-1], transparent=True, metadata={"Date": None})
        import_module("matplotlib.pyplot").close(figure)
    return made


def _curves(run: Results, axes: Any, workload: str, scale: float, label: str, across: str) -> bool:
    """Both axes in powers of ten."""
    found = [curve for curve in run.curves if curve.workload == workload and curve.points]
    for number, curve in enumerate(found):
        _line(axes, curve, scale, COLOURS[number % len(COLOURS)])
    axes.set(xscale="log", yscale="log", ylabel=label, xlabel=f"{across} (both axes logarithmic)")
    if found:
        axes.figure.legend(loc="outside right upper", fontsize=8)
    return bool(found)


def _line(axes: Any, curve: Curve, scale: float, colour: str) -> None:
    across, up = zip(*curve.points, strict=True)
    width = 2.6 if curve.name.startswith(OURS) else 1.4
    axes.plot(
        across, [value / scale for value in up], "o-", label=curve.name, color=colour, linewidth=width, markersize=4
    )


def _bars(axes: Any, values: Iterable[tuple[str, float]], label: str) -> bool:
    """One bar each, ours in a colour of its own; from zero, so that twice as long is twice as much."""
    found = list(values)[::-1]
    names = [name for name, _ in found]
    colours = [COLOURS[0] if name.startswith(OURS) else COLOURS[-1] for name in names]
    bars = axes.barh(names, [value for _, value in found], color=colours)
    axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
    axes.set(xlabel=label)
    axes.margins(x=0.12)
    axes.grid(False, axis="y")
    return bool(found)


def append(run: Results, axes: Any) -> bool:
    found = (figure for figure in run.figures if figure.workload == "append beside peers, RAM" and figure.unit == "µs")
    return _bars(axes, ((figure.name, figure.value) for figure in found), "µs per append, RAM disk, each as it comes")


def many_agents(run: Results, axes: Any) -> bool:
    workload = "32 async agents, disk, beside peers"
    found = (figure for figure in run.figures if figure.workload == workload and figure.unit == "appends/s")
    return _bars(axes, ((figure.name, figure.value) for figure in found), "appends per second of 32 agents, disk")


def steps_time(run: Results, axes: Any) -> bool:
    return _curves(run, axes, "append + checkpoint as steps add up", 1, "µs per step, RAM disk", "steps")


def steps_bytes(run: Results, axes: Any) -> bool:
    return _curves(run, axes, "bytes as steps add up", 1e6, "MB", "steps")


def conversation(run: Results, axes: Any) -> bool:
    return _curves(run, axes, "append as a conversation grows", 1, "µs per append, RAM disk", "messages before it")


def store(run: Results, axes: Any) -> bool:
    return _curves(run, axes, "as a store grows", 1, "ms per call", "messages in the store")


PICTURES: dict[str, Callable[[Results, Any], bool]] = {
    "append": append,
    "agents": many_agents,
    "steps-time": steps_time,
    "steps-bytes": steps_bytes,
    "conversation": conversation,
    "store": store,
}
