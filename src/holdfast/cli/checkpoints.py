"""`holdfast checkpoint`: points to go back to."""

from __future__ import annotations

import click

from holdfast.cli import finding
from holdfast.cli.asking import confirm
from holdfast.cli.printing import deleted, document, line, many, moment, say
from holdfast.cli.settings import open_to_read, open_to_write
from holdfast.cli.shapes import Group, as_json, json_anyway, with_limit, with_yes
from holdfast.cli.tables import listing
from holdfast.model import Agent, Checkpoint


@click.group(cls=Group)
def checkpoint() -> None:
    """Points to go back to."""


def subject(one: Checkpoint) -> str:
    """What a checkpoint is of."""
    if one.session_id is not None:
        return f"session {one.session_id}"
    return "?" if one.agent_id is None else f"agent {one.agent_id}"  # a damaged one cannot tell


@checkpoint.command(
    examples='holdfast checkpoint create scout --name "before booking"\nholdfast checkpoint create --session kyoto'
)
@click.argument("agent", required=False)
@click.option("--session", metavar="ID", help="Only this session, not a whole agent.")
@click.option("--name", help="A name, which also protects it from pruning.")
@click.option("--description", help="What it is for.")
@as_json
def create(agent: str | None, session: str | None, name: str | None, description: str | None, as_json: bool) -> None:
    """Checkpoint an AGENT with all its sessions, or one session."""
    if (agent is None) == (session is None):
        raise click.UsageError("name an AGENT or a --session to checkpoint, not both")
    with open_to_write() as hf:
        made = hf.checkpoints.create(
            None if agent is None else finding.agent(hf, agent).id,
            session_id=None if session is None else finding.session(hf, session).id,
            name=name,
            description=description,
        )
    if as_json:
        line(made)
    else:
        say(f"made checkpoint {made.id} of {subject(made)}")


@checkpoint.command(examples='holdfast checkpoint restore "before booking" --yes')
@click.argument("id")
@click.option("--force", is_flag=True, help="End runs that hold one of the sessions.")
@with_yes
@as_json
def restore(id: str, force: bool, yes: bool, as_json: bool) -> None:
    """Go back to a checkpoint; another is made first, which undoes it."""
    with open_to_write() as hf:
        found = finding.checkpoint(hf, id)
        confirm(f"Take {subject(found)} back to checkpoint {found.id} of {moment(found.created_at)}?", yes)
        done = hf.checkpoints.restore(found.id, force=force)
    if as_json:
        line(done)
        return
    say(f"restored {subject(found)}: {many(len(done.sessions), 'session')}, {len(done.detached)} put aside as newer")
    for missing in done.missing:
        say(f"  session {missing} was deleted since, and stays so")
    say(f"to undo: holdfast checkpoint restore {done.recovery.id}")


@checkpoint.command("list", examples="holdfast checkpoint list\nholdfast checkpoint list scout --json")
@click.argument("agent", required=False)
@click.option("--session", metavar="ID", help="Only this session's.")
@with_limit
@as_json
def list_(agent: str | None, session: str | None, limit: int, as_json: bool) -> None:
    """List checkpoints, the last made first: all, or an AGENT's own."""
    with open_to_read() as hf:
        found = hf.checkpoints.list(
            None if agent is None else finding.agent(hf, agent).id,
            session_id=None if session is None else finding.session(hf, session).id,
            limit=limit,
        )
    rows = ((one.id, subject(one), one.name or "", _kind(one), moment(one.created_at)) for one in found)
    listing(found, as_json, ("id", "of", "name", "kind", "created"), rows)


def _kind(one: Checkpoint) -> str:
    """Its kind, and what is out of the ordinary."""
    if one.damaged is not None:
        return "DAMAGED"
    return one.kind if one.status == "completed" else f"{one.kind}, {one.status}"


@checkpoint.command(examples='holdfast checkpoint load "before booking"')
@click.argument("id")
@json_anyway
def load(id: str) -> None:
    """Print a checkpoint as JSON."""
    with open_to_read() as hf:
        document(finding.checkpoint(hf, id))


@checkpoint.command(examples='holdfast checkpoint fork "before booking" --id scout-2')
@click.argument("id")
@click.option("--id", "new", metavar="ID", help="The new session's or agent's id.")
@as_json
def fork(id: str, new: str | None, as_json: bool) -> None:
    """Make a new session, or a new agent with its sessions, of a checkpoint."""
    with open_to_write() as hf:
        made = hf.checkpoints.fork(finding.checkpoint(hf, id).id, id=new)
    if as_json:
        line(made)
    else:
        say(f"forked as {'agent' if isinstance(made, Agent) else 'session'} {made.id}")


@checkpoint.command(examples='holdfast checkpoint delete "before booking" --yes')
@click.argument("id")
@with_yes
@as_json
def delete(id: str, yes: bool, as_json: bool) -> None:
    """Delete a checkpoint; what it points at stays."""
    with open_to_write() as hf:
        found = finding.checkpoint(hf, id)
        confirm(f"Delete checkpoint {found.id} of {subject(found)}, made {moment(found.created_at)}?", yes)
        hf.checkpoints.delete(found.id)
    deleted("checkpoint", found.id, as_json)


COMMANDS = {"checkpoint": checkpoint}
