"""Tending a store: `verify`, `gc`, `prune` and `backup`."""

from __future__ import annotations

import click

from holdfast.cli import finding
from holdfast.cli.asking import confirm, progress
from holdfast.cli.damage import ADVICE, concerned
from holdfast.cli.main import DAMAGED
from holdfast.cli.printing import line, many, moment, note, say
from holdfast.cli.settings import open_to_read, open_to_write
from holdfast.cli.shapes import Command, as_json, with_yes
from holdfast.cli.tables import draw
from holdfast.model import Checkpoint
from holdfast.pruning import Pruned

_PATIENT_S = 7 * 24 * 3600.0  # whoever waits for these is at the keyboard, and can interrupt
KINDS = click.Choice(["automatic", "manual", "pre_operation", "recovery"])


@click.command(cls=Command, examples="holdfast verify\nholdfast verify --json")
@as_json
@click.pass_context
def verify(ctx: click.Context, as_json: bool) -> None:
    """Check every record, chain and file of the store.

    Exits with 3 if anything is damaged, and names it.
    """
    with open_to_read() as hf, progress("checking") as tell:
        report = hf.verify(progress=tell, timeout=_PATIENT_S)
        sessions = "" if report.ok else concerned(hf, report.problems)
    if as_json:
        line({"ok": report.ok, "checked": report.checked, "redacted": report.redacted, "problems": report.problems})
    elif report.ok:
        say(f"sound: {report.checked:,} records checked, {report.redacted:,} of them redacted")
    else:
        rows = [(one.kind, " ".join(map(str, one.key)), one.what) for one in report.problems]
        draw(("kind", "key", "what"), rows, wrapped=True)
        note(f"{many(len(report.problems), 'finding')} in {many(report.checked, 'record')}. {sessions}")
        note(ADVICE)
    if not report.ok:
        ctx.exit(DAMAGED)


@click.command(cls=Command, examples="holdfast gc\nholdfast gc --grace 0 --json")
@click.option("--grace", "grace_s", type=click.FloatRange(0), default=86_400, show_default=True, metavar="SECONDS")
@as_json
def gc(grace_s: float, as_json: bool) -> None:
    """Reclaim what nothing reaches any more.

    That is the rest of deletions, and bytes that nobody refers to; nothing that can still be read goes. Bytes put
    within --grace seconds stay, for who is about to refer to them.
    """
    with open_to_write() as hf, progress("collecting"):
        done = hf.gc(grace_s=grace_s, timeout=_PATIENT_S)
    if as_json:
        line({"sweeps": done.sweeps, "captures": done.captures, "blobs": done.blobs})
    else:
        say(f"finished {done.sweeps} deletions, removed {done.captures} old rows and {done.blobs} blobs")


@click.command(cls=Command, examples="holdfast prune scout --keep 10 --dry-run\nholdfast prune scout --keep 10 --yes")
@click.argument("agent", required=False)
@click.option("--session", metavar="ID", help="A session's checkpoints, not an agent's.")
@click.option("--keep", type=click.IntRange(0), help="Keep the last so many.")
@click.option("--kind", type=KINDS, help="Look only at this kind.")
@click.option("--dry-run", is_flag=True, help="Only say which would go.")
@with_yes
@as_json
def prune(
    agent: str | None, session: str | None, keep: int | None, kind: str | None, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Remove old checkpoints of an agent or a session.

    Those beyond --keep go, and expired ones. Named and protected ones stay, and so does the newest.
    """
    if (agent is None) == (session is None):
        raise click.UsageError("name an AGENT or a --session to prune")
    with open_to_read() if dry_run else open_to_write() as hf:
        owner = None if agent is None else finding.agent(hf, agent).id
        chat = None if session is None else finding.session(hf, session).id

        def remove(only_say: bool) -> Pruned:
            return hf.checkpoints.prune(owner, session_id=chat, keep=keep, kind=kind, dry_run=only_say)  # type: ignore[arg-type]

        going = remove(only_say=True)
        if not dry_run and going.count:
            confirm(f"Remove {going.count} checkpoints of {owner or chat}?", yes)
            going = remove(only_say=False)
    _tell(going.checkpoints, dry_run, as_json)


def _tell(gone: list[Checkpoint], dry_run: bool, as_json: bool) -> None:
    if as_json:
        for one in gone:
            line(one)
        return
    for one in gone:
        say(f"{one.id}  {one.kind}  {moment(one.created_at)}")
    note(f"{len(gone)} checkpoints {'would go' if dry_run else 'went'}")


@click.command(cls=Command, examples="holdfast backup agents-copy.db")
@click.argument("file", type=click.Path())
def backup(file: str) -> None:
    """Copy the whole store into a file while others write."""
    with open_to_read() as hf, progress("copying"):
        hf.backup(file, timeout=_PATIENT_S)
    say(f"backed up into {file}")


COMMANDS: dict[str, click.Command] = {"verify": verify, "gc": gc, "prune": prune, "backup": backup}
