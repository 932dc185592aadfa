"""`holdfast run`: what drives of agents did, and ending one from outside."""

from __future__ import annotations

import click

from holdfast.cli import finding
from holdfast.cli.asking import confirm
from holdfast.cli.printing import document, line, moment, one_line, say
from holdfast.cli.settings import open_to_read, open_to_write
from holdfast.cli.shapes import Group, as_json, json_anyway, with_limit, with_yes
from holdfast.cli.tables import listing
from holdfast.model import Event


@click.group(cls=Group)
def run() -> None:
    """Drives of an agent on a session."""


@run.command("list", examples="holdfast run list kyoto")
@click.argument("session")
@with_limit
@as_json
def list_(session: str, limit: int, as_json: bool) -> None:
    """List a SESSION's runs, newest first."""
    with open_to_read() as hf:
        found = hf.runs.list(finding.session(hf, session).id, limit=limit)
    rows = (
        (one.id, one.key or "", one.status, one_line(one.reason or "", 30), one.events, moment(one.started_at))
        for one in found
    )
    listing(found, as_json, ("id", "key", "status", "reason", "events", "started"), rows)


@run.command(examples="holdfast run show book-1")
@click.argument("id")
@json_anyway
def show(id: str) -> None:
    """Print a run as JSON."""
    with open_to_read() as hf:
        document(finding.run(hf, id))


@run.command(examples="holdfast run events book-1\nholdfast run events book-1 --after 2 --json")
@click.argument("id")
@click.option("--after", default=0, type=click.IntRange(0), help="Only those behind this number.")
@click.option("--follow", is_flag=True, help="Go on until the run ends.")
@as_json
def events(id: str, after: int, follow: bool, as_json: bool) -> None:
    """Print what happened in a run."""
    with open_to_read() as hf:
        found = finding.run(hf, id)
        happened = hf.runs.follow(found.id, after=after) if follow else hf.runs.events(found.id, after=after)
        for event in happened:
            if as_json:
                line(event)
            else:
                say(_told(event))


def _told(event: Event) -> str:
    value = "" if event.value is None else one_line(str(event.value), 60)
    return f"{event.seq:>5}  {moment(event.at)}  {event.kind:<10}  {event.name or ''}  {value}".rstrip()


@run.command(examples="holdfast run halt book-1 --yes")
@click.argument("id")
@click.option("--reason", default="revoked", show_default=True, help="Why.")
@with_yes
@as_json
def halt(id: str, reason: str, yes: bool, as_json: bool) -> None:
    """End a run from outside: whoever drives it cannot write from then on."""
    with open_to_write() as hf:
        found = finding.run(hf, id)
        confirm(f"Halt run {found.id} of session {found.session_id}?", yes)
        ended = hf.runs.halt(found.id, reason)
    if as_json:
        line(ended)
    else:
        say(f"run {ended.id} is {ended.status}")


COMMANDS = {"run": run}
