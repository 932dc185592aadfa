"""`holdfast agent`: save, load, list and delete agents."""

from __future__ import annotations

from typing import BinaryIO

import click

from holdfast.cli import finding
from holdfast.cli.asking import confirm
from holdfast.cli.documents import agent_of, read_json
from holdfast.cli.printing import deleted, document, line, moment, say
from holdfast.cli.settings import open_to_read, open_to_write
from holdfast.cli.shapes import Group, as_json, json_anyway, with_limit, with_yes
from holdfast.cli.tables import listing
from holdfast.errors import NotFound


@click.group(cls=Group)
def agent() -> None:
    """Agents and their revisions."""


@agent.command(examples='echo \'{"id": "scout", "name": "Scout"}\' | holdfast agent save -')
@click.argument("file", type=click.File("rb"))
@click.option("--if-unchanged", is_flag=True, help="Refuse if somebody has saved since the file's revision.")
@as_json
def save(file: BinaryIO, if_unchanged: bool, as_json: bool) -> None:
    """Save an agent from a JSON FILE (- is standard input), as a new revision."""
    given = agent_of(read_json(file), keep_revision=if_unchanged)
    with open_to_write() as hf:
        saved = hf.agents.save(given)
    if as_json:
        line(saved)
    else:
        say(f"saved agent {saved.id}, revision {saved.revision}")


@agent.command(examples="holdfast agent load scout\nholdfast agent load scout --revision 1")
@click.argument("id")
@click.option("--revision", type=int, help="As of an earlier save.")
@json_anyway
def load(id: str, revision: int | None) -> None:
    """Print an agent as JSON, which `save` reads."""
    with open_to_read() as hf:
        found = finding.agent(hf, id)
        if revision is not None:
            old = hf.agents.get(found.id, revision=revision)
            if old is None:
                raise NotFound(f"agent {found.id!r} has no revision {revision}; its newest is {found.revision}")
            found = old
        document(found)


@agent.command("list", examples="holdfast agent list\nholdfast agent list --json")
@with_limit
@as_json
def list_(limit: int, as_json: bool) -> None:
    """List agents by id."""
    with open_to_read() as hf:
        found = hf.agents.list(limit=limit)
    rows = ((one.id, one.name, one.kind, one.revision, one.active_sessions, moment(one.modified_at)) for one in found)
    listing(found, as_json, ("id", "name", "kind", "revision", "active sessions", "modified"), rows)


@agent.command(examples="holdfast agent revisions scout")
@click.argument("id")
@with_limit
@as_json
def revisions(id: str, limit: int, as_json: bool) -> None:
    """List an agent's revisions, newest first."""
    with open_to_read() as hf:
        found = hf.agents.revisions(finding.agent(hf, id).id, limit=limit)
    rows = ((one.revision, one.name, one.kind, len(one.state), moment(one.modified_at)) for one in found)
    listing(found, as_json, ("revision", "name", "kind", "state keys", "modified"), rows)


@agent.command(examples="holdfast agent delete scout --yes")
@click.argument("id")
@with_yes
@as_json
def delete(id: str, yes: bool, as_json: bool) -> None:
    """Delete an agent with its revisions, sessions and checkpoints."""
    with open_to_write() as hf:
        found = finding.agent(hf, id)
        confirm(f"Delete agent {found.id} ({found.name}) with all its sessions and checkpoints?", yes)
        hf.agents.delete(found.id)
    deleted("agent", found.id, as_json)


COMMANDS = {"agent": agent}
