"""Drawing for people: a message, a tree of branches, a difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.text import Text

from holdfast.cli.printing import COLOURS, clean, many, moment, one_line
from holdfast.model import BranchView, Change, Checkpoint, CheckpointDiff, Code, Message, Session, SessionDiff, ToolCall
from holdfast.model import Text as TextPart

if TYPE_CHECKING:  # or the help of a command would load the whole library
    from holdfast import Holdfast

_MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}
_LIMIT = 60
_SHORTEST = 13  # characters of an id
_POINTS = 500  # of a session and of its agent, at most so many of the newest checkpoints


def draw_message(out: Console, message: Message) -> None:
    """A message: who and when, then what was said, the calls asked for, and what was sent along.

    One that says nothing, but keeps something in its metadata, is a framework's own, and not shown.
    """
    body = list(_body(message))
    if not body and message.metadata:
        return
    colour = COLOURS.get(message.role, "white")
    name = f" {clean(message.tool_name)}" if message.tool_name else ""
    head = Text().append(f"{message.role}{name}", style=f"bold {colour}")
    head.append(f"  {message.seq}  {moment(message.created_at)}", style="dim")
    out.print(head)
    for text, style in body:
        out.print(Text(f"  {text}".replace("\n", "\n  "), style=style))
    out.print()


def _body(message: Message) -> Iterator[tuple[str, str]]:
    if message.redacted is not None:
        yield f"(redacted: {clean(message.redacted.reason)})", "dim italic"
    if message.reasoning:
        yield clean(message.reasoning), "dim italic"
    if message.text:
        yield clean(message.text), ""
    for part in message.content:
        if not isinstance(part, TextPart | Code):
            yield f"[{part.__struct_config__.tag}] {one_line(_brief(part), _LIMIT)}", "dim"
    for call in message.tool_calls:
        yield call_line(call), "yellow"
    for sent in message.attachments:
        yield f"[{sent.type}] {clean(sent.name)}", "dim"


def call_line(call: ToolCall) -> str:
    """A call as it would be written."""
    return f"→ {clean(call.name)}({one_line(_brief(call.arguments), _LIMIT)})"


def _brief(value: object) -> str:
    return msgspec.json.encode(value).decode(errors="replace")


Marks = dict[int, list[tuple[int, Checkpoint]]]
"""By branch, after which message a checkpoint stands."""


def draw_tree(out: Console, hf: Holdfast, session: Session, *, limit: int = 50) -> None:
    """The branches of a session, each behind the message it leaves, with at most so many checkpoints of each."""
    tree = Drawn(out, hf, session, limit)
    out.print(Text(f"{session.id}  {one_line(session.title or '', 50)}", style="bold"))
    for root in tree.behind(None):
        tree.draw(root, "")
    if tree.damaged:
        out.print(Text(f"{many(len(tree.damaged), 'damaged checkpoint')} not drawn; `holdfast verify` names all"))


class Drawn:
    """A tree being drawn."""

    def __init__(self, out: Console, hf: Holdfast, session: Session, limit: int) -> None:
        self._out = out
        self._hf = hf
        self._session = session
        self._limit = limit
        self._branches = hf.sessions.tree(session.id).branches
        found = _checkpoints(hf, session)
        self.damaged = [one for one in found if one.damaged]
        self._marks = _marks(hf, session, found)
        self._width = _telling({one.id for found in self._marks.values() for _, one in found})

    def behind(self, parent: int | None) -> list[BranchView]:
        """The branches that leave another one, or those that leave none."""
        return [branch for branch in self._branches if branch.parent == parent]

    def draw(self, branch: BranchView, indent: str) -> None:
        """A branch, and what stands behind its messages: checkpoints, and branches again."""
        self._out.print(self._line(branch, indent))
        inner = indent if branch.parent is None else indent + "   "
        leaving = self.behind(branch.id)
        marks = sorted(self._marks.get(branch.id, []), key=lambda found: found[0])
        for seq, one in marks[: self._limit]:
            leaving = self._draw_up_to(seq, leaving, inner)
            self._out.print(_checkpoint_line(one, one.id[: self._width], seq, inner))
        if len(marks) > self._limit:
            self._out.print(Text(f"{inner}│  … and {len(marks) - self._limit} later checkpoints", style="dim"))
        self._draw_up_to(branch.seq + 1, leaving, inner)

    def _draw_up_to(self, seq: int, leaving: list[BranchView], indent: str) -> list[BranchView]:
        """Draw the branches that leave before a message; those that are left."""
        for branch in sorted(leaving, key=lambda one: one.fork_seq):
            if branch.fork_seq < seq:
                self.draw(branch, indent + "│  ")
        return [branch for branch in leaving if branch.fork_seq >= seq]

    def _line(self, branch: BranchView, indent: str) -> Text:
        drawn = Text().append(indent if branch.parent is None else f"{indent}└─ ", style="dim")
        drawn.append(f"● branch {branch.id}", style="bold green" if branch.active else "bold")
        drawn.append(f"  messages {branch.fork_seq + 1}–{branch.seq}" if branch.seq > branch.fork_seq else "  empty")
        drawn.append(f"  {self._last_words(branch)}", style="dim")
        if branch.active:
            head = self._session.head.seq
            drawn.append("  ← head" if head == branch.seq else f"  ← head at {head}", style="green")
        return drawn

    def _last_words(self, branch: BranchView) -> str:
        if branch.seq == branch.fork_seq:
            return ""
        there = self._hf.sessions.messages(self._session.id, branch=branch.id, start=branch.seq, stop=branch.seq)
        return next((f"“{one_line(one.text or one.role, 28)}”" for one in there), "")


def _checkpoints(hf: Holdfast, session: Session) -> list[Checkpoint]:
    """The newest of a session and of its agent."""
    own = hf.checkpoints.list(session_id=session.id, limit=_POINTS).items
    return own if session.agent_id is None else [*own, *hf.checkpoints.list(session.agent_id, limit=_POINTS)]


def _marks(hf: Holdfast, session: Session, found: Iterable[Checkpoint]) -> Marks:
    """Those that have this session, by branch."""
    marks: Marks = {}
    for one in found:
        head = one.head
        if head is None and one.damaged is None:
            head = hf.checkpoints.heads(one.id).get(session.id)
        if head is not None:
            marks.setdefault(head.branch, []).append((head.seq, one))
    return marks


def _telling(ids: set[str]) -> int:
    """How much of ids is enough to tell them apart."""
    longest = max(map(len, ids), default=0)
    return next((n for n in range(_SHORTEST, longest) if len({id[:n] for id in ids}) == len(ids)), longest)


def _checkpoint_line(one: Checkpoint, short: str, seq: int, indent: str) -> Text:
    drawn = Text().append(f"{indent}│  ", style="dim")
    drawn.append(f"◆ {one_line(one.name or one.description or one.kind, 28)}", style="yellow")
    of = "" if one.session_id is not None else " of the agent"
    step = "" if one.step is None else f", step {one.step}"
    return drawn.append(f"  after message {seq}{step}{of}  {short}", style="dim")


def draw_diff(out: Console, diff: CheckpointDiff) -> None:
    """What changed: of the agent key by key, of each session its messages."""
    if not diff.agent and not diff.sessions:
        out.print("nothing changed")
    for change in diff.agent:
        out.print(_change_line(change))
    for session in diff.sessions:
        _draw_session(out, session)


def _change_line(change: Change) -> Text:
    mark, colour = _MARKS[change.kind]
    before = "" if change.kind == "added" else one_line(_brief(change.before), 30)
    after = "" if change.kind == "removed" else one_line(_brief(change.after), 30)
    arrow = " → " if before and after else ""
    return Text(f"{mark} {clean('.'.join(change.path))}: {before}{arrow}{after}", style=colour)


def _draw_session(out: Console, diff: SessionDiff) -> None:
    mark, colour = _MARKS[diff.kind]
    out.print(Text(f"{mark} session {diff.session_id}: the same up to message {diff.common}", style=f"bold {colour}"))
    for kind, messages in (("removed", diff.removed), ("added", diff.added)):
        sign, style = _MARKS[kind]
        for message in messages:
            said = message.text or "; ".join(map(call_line, message.tool_calls))
            out.print(Text(f"  {sign} {message.seq} {message.role}: {one_line(said, 56)}", style=style))
