"""Asking before something is destroyed, and showing how far long work is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

Tell = Callable[[int, int | None], None]


def confirm(question: str, yes: bool) -> None:
    """Go on only with a yes: from `--yes`, or from the person at the terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: repeat with --yes.")
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing was changed")


def _tell_nobody(_done: int, _total: int | None) -> None:
    return None


@contextmanager
def finished_by_repeating() -> Iterator[None]:
    """Work that goes on where it stopped: whoever interrupts it is told so."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("\nnot finished: run the same command again to finish it", err=True)
        raise


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="cyan")


@contextmanager
def progress(what: str) -> Iterator[Tell]:
    """A bar on standard error with rate and remaining time; nothing at all where that is no terminal."""
    if not sys.stderr.isatty():
        yield _tell_nobody
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
