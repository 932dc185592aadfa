"""What a benchmark finds, as data: figures, curves, and the Markdown that shows them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

Better = Literal["smaller", "larger"]


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number of one run; `limit` is what it must reach, where something is promised."""

    workload: str
    name: str
    value: float
    unit: str
    limit: float | None = None
    better: Better | None = None


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """How a number grows: points of (n, value), in the order of n."""

    workload: str
    name: str
    unit: str
    points: list[tuple[float, float]]


class Section(msgspec.Struct, kw_only=True):
    """One part of the results page, with the figures it is about."""

    title: str
    failed: bool = False
    lines: list[str] = []
    figures: list[Figure] = []
    curves: list[Curve] = []

    def say(self, *lines: str) -> None:
        self.lines += lines

    def note(self, workload: str, name: str, value: float, unit: str) -> None:
        self.figures.append(Figure(workload=workload, name=name, value=value, unit=unit))

    def tell(self, workload: str, name: str, value: float, unit: str) -> None:
        """A figure that is also a line of its own."""
        self.note(workload, name, value, unit)
        self.say(f"- {workload}: {name}: {shown(value, unit)}.")

    def curve(self, workload: str, name: str, unit: str, points: Iterable[tuple[float, float]]) -> None:
        self.curves.append(Curve(workload=workload, name=name, unit=unit, points=list(points)))

    def page(self) -> list[str]:
        return [f"## {self.title}", "", *self.lines, ""]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run; `taken` says when, and of which commit."""

    taken: str
    machine: str
    versions: dict[str, str]
    quick: bool
    figures: list[Figure]
    curves: list[Curve]

    def save(self, path: Path) -> None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def load(path: Path) -> Results:
    """What `save` has written; msgspec's own errors if the file says something else."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def shown(value: float, unit: str) -> str:
    """A number as people read it."""
    digits = 0 if value == int(value) or abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f} {unit}".strip()


def table(heading: list[str], rows: Iterable[list[str]]) -> list[str]:
    """A Markdown table."""
    lines = [f"| {' | '.join(heading)} |", "|---" * len(heading) + "|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]
