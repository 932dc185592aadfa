"""Printing: JSON for programs, tables and colours for people, and nothing that a stored text could do to a terminal."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from typing import NoReturn

import click
import msgspec
from rich.console import Console

_WIDE = 100_000
# Control characters, and the marks that make text run backwards: what is stored must not steer a terminal.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
COLOURS = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def console(width: int | None = None) -> Console:
    """Standard output: so wide or as the terminal, without limit where it is none; rich minds NO_COLOR."""
    terminal = sys.stdout.isatty()
    return _Console(
        file=sys.stdout,
        width=width or (None if terminal else _WIDE),
        soft_wrap=not (width or terminal),
        highlight=False,
        markup=False,
        emoji=False,
    )


def clean(text: str) -> str:
    """The text with what would steer a terminal made visible."""
    return _UNSAFE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def one_line(text: str, width: int = 60) -> str:
    """The beginning of a text, on one line."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def moment(at: datetime | None) -> str:
    """A time, as a clock on the wall here shows it; the year only where it is another."""
    if at is None:
        return ""
    here = at.astimezone()
    return f"{here:%d %b %H:%M}" if here.year == datetime.now().astimezone().year else f"{here:%d %b %Y}"


def size(count: int) -> str:
    """So many bytes, readably."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def many(count: int, thing: str) -> str:
    """So many things."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def say(text: str) -> None:
    """A line on standard output."""
    click.echo(clean(text))


def note(text: str) -> None:
    """A line for the person, not for the pipe."""
    click.echo(clean(text), err=True)


def document(value: object) -> None:
    """One JSON document, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def line(value: object) -> None:
    """One JSON document on one line."""
    click.echo(msgspec.json.encode(value).decode())


def deleted(what: str, id: str, as_json: bool) -> None:
    """That something is gone."""
    if as_json:
        line({"deleted": id})
    else:
        say(f"deleted {what} {id}")
