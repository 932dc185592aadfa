"""`holdfast demo`: an agent is killed in the middle of its work, comes back, does nothing twice, goes another way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.text import Text

import holdfast
from holdfast import Holdfast, Message
from holdfast.cli.demo_agent import BOOKINGS, SESSION, TASK
from holdfast.cli.drawing import draw_tree
from holdfast.cli.printing import console, one_line, size
from holdfast.cli.shapes import Command
from holdfast.model import Checkpoint

_WIDTH = 80
_SHORT, _LONG = 10, 100
_KILL_AFTER = "Ryokan Sawa, 2 nights"
_NEXT = (
    ("{holdfast} --help", "every command, with examples"),
    ("{holdfast} doctor", "what is installed, and where your store is"),
    ("docs/runs.md", "the loop you have just seen, for your own agent"),
)


class Show:
    """The demonstration: what it prints, and the store it works on."""

    def __init__(self, folder: Path) -> None:
        self._out = console(width=min(_WIDTH, Console().width))
        self._folder = folder
        self._url = f"sqlite:///{folder / 'agents.db'}"
        self._scene = 0

    def run(self) -> None:
        """All scenes."""
        self._heading("An agent plans a trip, and is killed in the middle")
        self._say(f"task: {TASK}")
        self._agent(kill_after=_KILL_AFTER)
        self._heading("What is left: every acknowledged step")
        with holdfast.open(self._url) as hf:
            self._left(hf)
        self._heading("The same program again: what is on record is not done twice")
        self._agent(kill_after=None)
        self._bookings()
        with holdfast.open(self._url) as hf:
            self._another_way(hf)
            self._heading("Find what was said, on any branch")
            for found in hf.search("garden", limit=3):
                self._say(f"message {found.message.seq}, {found.message.role}: {one_line(found.snippet, 56)}")
            self._costs(hf)
        self._next()

    # scenes

    def _agent(self, kill_after: str | None) -> None:
        """Run the agent as a process of its own; kill it once it has acknowledged a certain call."""
        command = [sys.executable, "-m", "holdfast.cli.demo_agent", self._url, str(self._folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as agent:
            assert agent.stdout is not None
            try:
                self._watch(agent.stdout, agent.pid, kill_after)
            except BrokenPipeError:  # nobody watches any more, and the agent would complain about that
                agent.kill()
                raise

    def _watch(self, lines: Iterable[str], pid: int, kill_after: str | None) -> None:
        for line in lines:
            how, tool, what = line.rstrip("\n").split("\t")
            self._step(how, tool, what)
            if what == kill_after:
                os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
                self._say(f"✗ kill -9 {pid}", "bold red")
                break

    def _step(self, how: str, tool: str, what: str) -> None:
        done = how == "done"
        shown = Text().append("   ✓ " if done else "   · ", style="green" if done else "dim")
        shown.append(f"{tool:<11}", style="bold" if done else "dim").append(what, style="" if done else "dim")
        self._out.print(shown if done else shown.append("  (on record, not called again)", style="dim italic"))

    def _left(self, hf: Holdfast) -> None:
        verdict = "sound" if hf.verify().ok else "DAMAGED"
        messages = sum(1 for _ in hf.sessions.messages(SESSION))
        points = len(hf.checkpoints.list(session_id=SESSION))
        self._say(f"{messages} messages and {points} checkpoints, one before each turn; verify says: {verdict}")
        run = hf.runs.list(SESSION)[0]
        self._say(f"run “{run.key}” is {run.status}, {run.events} events; nobody drives it any more")

    def _bookings(self) -> None:
        booked = (self._folder / BOOKINGS).read_text(encoding="utf-8").splitlines()
        for line in booked:
            self._say(f"{BOOKINGS}: {line}")
        twice = len(booked) - len(set(booked))
        self._say(f"{len(booked)} bookings, {twice} of them twice", "green" if twice == 0 else "bold red")

    def _another_way(self, hf: Holdfast) -> None:
        self._heading("Back to before the dinner, and another way from there")
        back = self._point(hf, step=4)
        restored = hf.checkpoints.restore(back.id)
        hf.sessions.append(
            SESSION,
            Message.user("Wait, keep dinner below 8,000 yen for the two of us."),
            Message.assistant("Then noodles at Omen: 5,000 yen, by the canal."),
        )
        draw_tree(self._out, hf, self._session(hf))
        self._heading("What the restore put aside: nothing is ever thrown away")
        aside = hf.checkpoints.diff(back.id, restored.recovery.id).sessions[0]
        for message in aside.added:
            said = message.text or ", ".join(call.name for call in message.tool_calls)
            self._say(f"+ {message.seq:>2} {message.role}: {one_line(said, 56)}", "yellow")

    def _costs(self, hf: Holdfast) -> None:
        self._heading("What it takes")
        for turns in (_SHORT, _LONG):
            pointers, copies = _costs(hf, turns)
            self._say(
                f"{turns:>4} turns, a checkpoint each: {size(pointers):>7} of pointers, "
                f"{size(copies):>7} as full snapshots"
            )
        self._say("A checkpoint costs the same at message 10 and at message 100,000.")

    def _next(self) -> None:
        self._out.print("\nThree things to try next:", style="bold")
        # Beside the interpreter, where the environment is not active.
        command = "holdfast" if shutil.which("holdfast") else os.path.relpath(Path(sys.executable).parent / "holdfast")
        width = len(command) + len(" --help") + 3
        for what, why in _NEXT:
            self._out.print(Text(f"   {what.format(holdfast=command):<{width}}").append(why, style="dim"))

    # pieces

    def _point(self, hf: Holdfast, step: int) -> Checkpoint:
        return next(one for one in hf.checkpoints.list(session_id=SESSION) if one.step == step)

    def _session(self, hf: Holdfast) -> holdfast.Session:
        found = hf.sessions.get(SESSION)
        assert found is not None
        return found

    def _heading(self, text: str) -> None:
        self._scene += 1
        self._out.print(Text(f"\n{self._scene}. {text}", style="bold cyan"))

    def _say(self, text: str, style: str = "") -> None:
        self._out.print(Text(f"   {text}", style=style))


def _costs(hf: Holdfast, turns: int) -> tuple[int, int]:
    """The bytes of a checkpoint after each turn of a conversation: as they are, and as copies of all that was said."""
    session = hf.sessions.create(title=f"{turns} turns")
    pointers = said = copies = 0
    for turn in range(turns):
        message = Message.user(f"Turn {turn}: " + "and what about the trains from Osaka? " * 6)
        said += len(msgspec.json.encode(message))
        pointers += hf.checkpoints.create(session_id=session.id, messages=[message]).size_bytes
        copies += said
    return pointers, copies


@click.command(cls=Command, examples="holdfast demo")
def demo() -> None:
    """Watch an agent be killed, come back, and go another way.

    It needs no network, works in a folder of its own, and leaves nothing behind.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        Show(Path(folder)).run()


COMMANDS = {"demo": demo}
