"""Tables for people: a line for each row, ids as short as they are still clear, and no more columns than fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise, takewhile

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from holdfast.cli.printing import clean, console, line, note

_GAP = 2
_SHORT_ID = 12
_NARROWEST = 24
_IDS = ("id", "session", "agent")
_ELASTIC = ("title", "name", "text", "reason", "of")
_FIRST_TO_GO = ("status", "kind", "active sessions", "version", "agent", "session")

Rows = list[list[str]]


def listing(found: Sequence[object], as_json: bool, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A list: a JSON line each for programs, a table for people."""
    if as_json:
        for one in found:
            line(one)
    elif found:
        draw(columns, rows)
    else:
        note("nothing there")


def draw(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = (), wrapped: bool = False
) -> None:
    """Print rows under headings, cut to the terminal's width or wrapped; where there is none, all of it."""
    out = console()
    names, cells = [*columns], [[clean(str(cell)) for cell in row] for row in rows]
    if not wrapped:
        names, cells = fit(names, cells, out.width)
    drawn = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for number, name in enumerate(names):
        drawn.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=not wrapped or number == 0,
            overflow="fold",
            style="bold" if number == 0 else "",
        )
    for row in cells:
        drawn.add_row(*map(Text, row))
    out.print(drawn)


def fit(columns: list[str], rows: Rows, width: int) -> tuple[list[str], Rows]:
    """The columns and rows that a width has room for: ids become short, then columns go, then texts are cut."""
    if _needed(columns, rows) <= width:
        return columns, rows
    for number, name in enumerate(columns):
        if name in _IDS:
            short = shortened(row[number] for row in rows)
            rows = _with(rows, number, short.__getitem__)
    while _needed(columns, rows, _NARROWEST) > width and (going := _next_to_go(columns)) is not None:
        columns = columns[:going] + columns[going + 1 :]
        rows = [row[:going] + row[going + 1 :] for row in rows]
    room = max((limit for limit in range(width) if _needed(columns, rows, limit) <= width), default=_NARROWEST)
    for number, name in enumerate(columns):
        if name in _ELASTIC:
            rows = _with(rows, number, partial(_cut, width=room))
    return columns, rows


def shortened(ids: Iterable[str]) -> dict[str, str]:
    """For each id the shortest beginning that no other of them has, of at least twelve characters."""
    known = sorted({*ids})
    shared = [0, *(_in_common(*pair) for pair in pairwise(known)), 0]
    return {id: id[: max(_SHORT_ID, 1 + max(shared[at : at + 2]))] for at, id in enumerate(known)}


def _in_common(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _next_to_go(columns: list[str]) -> int | None:
    """The column to leave out next: never the first, nor what people read."""
    for name in _FIRST_TO_GO:
        if name in columns[1:]:
            return columns.index(name)
    rest = [number for number, name in enumerate(columns) if number and name not in _ELASTIC]
    return rest[-1] if rest else None


def _needed(columns: list[str], rows: Rows, limit: int | None = None) -> int:
    """The width of a table, whose texts may be cut to a limit."""
    total = -_GAP
    for number, name in enumerate(columns):
        widest = max(cell_len(name), 0, *(cell_len(row[number]) for row in rows))
        total += _GAP + (min(widest, limit) if limit is not None and name in _ELASTIC else widest)
    return total


def _with(rows: Rows, number: int, change: Callable[[str], str]) -> Rows:
    return [[*row[:number], change(row[number]), *row[number + 1 :]] for row in rows]


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"
