"""`holdfast session`: save, load, search, list, branch and delete conversations."""

from __future__ import annotations

from typing import BinaryIO

import click

from holdfast.cli import finding
from holdfast.cli.asking import confirm
from holdfast.cli.damage import Watch
from holdfast.cli.documents import conversation, fields_and_messages, read_json
from holdfast.cli.looking import searching
from holdfast.cli.printing import deleted, document, line, moment, one_line, say
from holdfast.cli.settings import open_to_read, open_to_write
from holdfast.cli.shapes import Group, as_json, json_anyway, with_limit, with_yes
from holdfast.cli.tables import listing


@click.group(cls=Group)
def session() -> None:
    """Conversations."""


@session.command(
    examples="""holdfast session load kyoto | holdfast --store sqlite:///other.db session save -
    echo '[{"role": "user", "content": "Find a ryokan"}]' | holdfast session save -"""
)
@click.argument("file", type=click.File("rb"))
@as_json
def save(file: BinaryIO, as_json: bool) -> None:
    """Save a conversation from a JSON FILE (- is standard input).

    It has the session's fields and its messages, or is a bare list of messages. Onto an existing id, the leading
    messages it has in common stay, and a rest that differs becomes a new branch.
    """
    fields, messages = fields_and_messages(read_json(file))
    with open_to_write() as hf:
        saved = hf.sessions.save(fields, messages)
    if as_json:
        line(saved)
    else:
        say(f"saved session {saved.id}: {saved.head.seq} messages, branch {saved.head.branch}")


@session.command(examples="holdfast session load kyoto\nholdfast session load kyoto --branch 1")
@click.argument("id")
@click.option("--branch", type=int, help="The path to the end of this branch.")
@json_anyway
def load(id: str, branch: int | None) -> None:
    """Print a conversation with its messages as JSON, which `save` reads."""
    with open_to_read() as hf:
        found = finding.session(hf, id)
        watch = Watch(hf, found.id)
        document(conversation(hf, found, watch.over(hf.sessions.messages(found.id, branch=branch))))
    watch.end()


session.add_command(searching("holdfast session search"))


@session.command("list", examples="holdfast session list\nholdfast session list --agent scout --json")
@click.option("--agent", metavar="ID", help="Only this agent's.")
@click.option("--user", metavar="ID", help="Only this user's.")
@click.option("--tag", help="Only with this tag.")
@with_limit
@as_json
def list_(agent: str | None, user: str | None, tag: str | None, limit: int, as_json: bool) -> None:
    """List conversations, the last changed first."""
    with open_to_read() as hf:
        owner = None if agent is None else finding.agent(hf, agent).id
        found = hf.sessions.list(agent_id=owner, user_id=user, tag=tag, limit=limit)
    rows = (
        (one.id, one_line(one.title or "", 40), one.agent_id or "", one.head.seq, one.status, moment(one.updated_at))
        for one in found
    )
    listing(found, as_json, ("id", "title", "agent", "messages", "status", "updated"), rows)


@session.command(examples="holdfast session stats kyoto")
@click.argument("id")
@as_json
def stats(id: str, as_json: bool) -> None:
    """Say what a conversation comes to, on all its branches."""
    with open_to_read() as hf:
        found = hf.sessions.stats(finding.session(hf, id).id)
    if as_json:
        line({name: getattr(found, name) for name in found.__struct_fields__})
        return
    for name in found.__struct_fields__:
        say(f"{name.replace('_', ' '):>16}  {getattr(found, name):,}")


@session.command(examples="holdfast session fork kyoto --id kyoto-cheaper")
@click.argument("id")
@click.option("--at", metavar="MESSAGE", help="Begin with the messages up to this one.")
@click.option("--id", "new", metavar="ID", help="The new session's id.")
@click.option("--title", help="The new session's title.")
@as_json
def fork(id: str, at: str | None, new: str | None, title: str | None, as_json: bool) -> None:
    """Make a new session that begins with this one's messages."""
    with open_to_write() as hf:
        made = hf.sessions.fork(finding.session(hf, id).id, at=at, id=new, title=title)
    if as_json:
        line(made)
    else:
        say(f"forked as session {made.id}, {made.head.seq} messages")


@session.command(examples="holdfast session switch kyoto 1")
@click.argument("id")
@click.argument("branch", type=int)
@as_json
def switch(id: str, branch: int, as_json: bool) -> None:
    """Make another BRANCH the active one."""
    with open_to_write() as hf:
        moved = hf.sessions.switch(finding.session(hf, id).id, branch)
    if as_json:
        line(moved)
    else:
        say(f"session {moved.id} is on branch {moved.head.branch}, message {moved.head.seq}")


@session.command(examples="holdfast session delete kyoto --yes")
@click.argument("id")
@with_yes
@as_json
def delete(id: str, yes: bool, as_json: bool) -> None:
    """Delete a conversation with all that belongs to it."""
    with open_to_write() as hf:
        found = finding.session(hf, id)
        title = one_line(found.title or "untitled", 40)
        confirm(f"Delete session {found.id} ({title}) with its {found.head.seq} messages and its checkpoints?", yes)
        hf.sessions.delete(found.id)
    deleted("session", found.id, as_json)


COMMANDS = {"session": session}
