"""Draw a session's tree from a real store: docs/pictures/tree.svg, and in README.md as a terminal shows it.

`--check` only compares.
"""

from __future__ import annotations

import io
import itertools
import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from textwrap import wrap

from rich.console import Console

import holdfast
from holdfast import Agent, Holdfast, Message
from holdfast.cli.drawing import draw_tree
from holdfast.model import BranchView, Checkpoint, Head

ROOT = Path(__file__).parent.parent
PICTURE, PAGE = ROOT / "docs/pictures/tree.svg", ROOT / "README.md"
BEGIN, END = "<!-- tree -->\n", "<!-- end of tree -->\n"
SESSION = "kyoto"
_COLUMN, _ROW, _LEFT, _TOP = 172, 150, 92, 96
_NEW_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}[0-9a-f-]*")
_STYLE = """
  text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #1f2933 }
  .ground { fill: #f7f9fb }
  .small { font-size: 12px; fill: #5f6b7a }
  .line { stroke: #9aa5b1; stroke-width: 2; fill: none }
  .user { fill: #2f6fdb } .assistant { fill: #1d9a6c }
  .left { opacity: .45 }
  .point { fill: #d9822b } .stem { stroke: #d9822b; stroke-width: 1.5; stroke-dasharray: 3 3 }
  .head { fill: none; stroke: #1d9a6c; stroke-width: 2.5 }
  .strong { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #1f252d } text { fill: #e4e7eb } .small { fill: #9aa5b1 } .line { stroke: #616e7c }
  }
"""


def tell(hf: Holdfast) -> None:
    """The story: an agent books, is taken back, books another one; then its answer is regenerated."""
    hf.agents.save(Agent(id="scout", name="Scout"))
    hf.sessions.create(id=SESSION, agent_id="scout", title="Three nights in Kyoto")
    hf.sessions.append(
        SESSION, Message.user("Find a ryokan"), Message.assistant("Two look good: Sawa, and Garden House.")
    )
    before = hf.checkpoints.create("scout", name="before booking")
    hf.sessions.append(SESSION, Message.user("Book the first"), Message.assistant("Sawa is booked, 92,000 yen."))
    hf.checkpoints.restore(before.id)
    asked, _ = hf.sessions.append(
        SESSION, Message.user("Book the cheaper one"), Message.assistant("Sorry, it is full.")
    )
    hf.sessions.append(SESSION, Message.assistant("Garden House is booked, 41,000 yen."), parent=asked.id)
    hf.checkpoints.create(session_id=SESSION, name="booked")


class Drawing:
    """The tree as a picture: a row for each branch, a column for each position."""

    def __init__(self, hf: Holdfast) -> None:
        self._hf = hf
        self._branches = hf.sessions.tree(SESSION).branches
        self._rows = {branch.id: row for row, branch in enumerate(self._branches)}
        session = hf.sessions.get(SESSION)
        assert session is not None
        self._head = session.head
        self._path = {message.id for message in hf.sessions.messages(SESSION)}

    def svg(self) -> str:
        """The whole picture."""
        width = _LEFT + _COLUMN * max(branch.seq for branch in self._branches) + 20
        height = _TOP + _ROW * len(self._branches) - 34
        size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">']
        parts.append("<title>A session: its branches, its checkpoints, its head</title>")
        parts.append(f"<style>{_STYLE}</style>")
        parts.append(f'<rect class="ground" width="{width}" height="{height}" rx="8"/>')
        for branch in self._branches:
            parts += self._line(branch)
        for branch in self._branches:
            parts += self._messages(branch)
        parts += self._points()
        return "\n".join([*parts, "</svg>"]) + "\n"

    def _at(self, branch: int, seq: int) -> tuple[int, int]:
        return _LEFT + _COLUMN * (seq - 1) + 40, _TOP + _ROW * self._rows[branch]

    def _line(self, branch: BranchView) -> Iterator[str]:
        end_x, y = self._at(branch.id, branch.seq)
        if branch.parent is None:
            start_x, _ = self._at(branch.id, 1)
            yield f'<path class="line" d="M{start_x} {y} H{end_x}"/>'
        else:
            x, from_y = self._at(branch.parent, branch.fork_seq)
            bend = f"H{x + 70} C{x + 100} {from_y} {x + 70} {y} {x + 100} {y}"
            yield f'<path class="line" d="M{x} {from_y} {bend} H{end_x}"/>'
        yield f'<text class="small" x="8" y="{y + 4}">branch {branch.id}</text>'

    def _messages(self, branch: BranchView) -> Iterator[str]:
        for message in self._hf.sessions.messages(SESSION, branch=branch.id, start=branch.fork_seq + 1):
            assert message.seq is not None
            x, y = self._at(branch.id, message.seq)
            live = "" if message.id in self._path else " left"
            yield f'<circle class="{message.role}{live}" cx="{x}" cy="{y}" r="10"/>'
            yield f'<text class="small{live}" text-anchor="middle" x="{x}" y="{y + 30}">{message.role}</text>'
            for row, words in enumerate(wrap(message.text, 18)):
                place = f'text-anchor="middle" x="{x}" y="{y + 48 + 17 * row}"'
                yield f'<text class="{live.strip()}" {place}>{escape(words)}</text>'
            if (branch.id, message.seq) == (self._head.branch, self._head.seq):
                yield f'<circle class="head" cx="{x}" cy="{y}" r="15"/>'
                yield f'<text class="strong" x="{x + 22}" y="{y - 12}">head</text>'

    def _points(self) -> Iterator[str]:
        for name, head in self._named():
            x, y = self._at(head.branch, head.seq)
            yield f'<path class="stem" d="M{x} {y - 14} V{y - 46}"/>'
            yield f'<path class="point" d="M{x} {y - 60} l9 9 l-9 9 l-9 -9 Z"/>'
            yield f'<text class="strong" x="{x + 16}" y="{y - 47}">{escape(name)}</text>'

    def _named(self) -> Iterator[tuple[str, Head]]:
        """The checkpoints that somebody has named, and where each has this session."""
        points: list[Checkpoint] = [*self._hf.checkpoints.list("scout"), *self._hf.checkpoints.list(session_id=SESSION)]
        for point in points:
            head = point.head or self._hf.checkpoints.heads(point.id).get(SESSION)
            if point.name is not None and head is not None:
                yield point.name, head


def terminal(hf: Holdfast) -> str:
    """What `holdfast tree` prints; ids are new in every store, so each is shown as the same one."""
    session = hf.sessions.get(SESSION)
    assert session is not None
    out = io.StringIO()
    draw_tree(Console(file=out, width=100, highlight=False, markup=False, emoji=False), hf, session)
    shown = itertools.count(0x7B3A, 0x1F)  # any ids, as long as they are the same each time
    return _NEW_ID.sub(
        lambda _: f"0198c1e4-{next(shown):04x}", "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
    )


def page(text: str, drawn: str) -> str:
    """The page with its tree as it should be."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n```console\n$ holdfast tree {SESSION}\n{drawn}```\n\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Write picture and page, or say whether they are up to date."""
    with holdfast.open("memory:") as hf:
        tell(hf)
        wanted = {PICTURE: Drawing(hf).svg(), PAGE: page(PAGE.read_text(encoding="utf-8"), terminal(hf))}
    for path, text in wanted.items():
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            print(f"{path.relative_to(ROOT)} is out of date; run tools/make_picture.py", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
