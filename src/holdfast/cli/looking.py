"""Looking: `stats`, `search`, `log`, `tree` and `diff`."""

from __future__ import annotations

import click

from holdfast.cli import finding
from holdfast.cli.asking import progress
from holdfast.cli.damage import Watch
from holdfast.cli.drawing import draw_diff, draw_message, draw_tree
from holdfast.cli.printing import console, line, one_line, say, size
from holdfast.cli.settings import open_to_read, open_to_write
from holdfast.cli.shapes import Command, as_json
from holdfast.cli.tables import draw


@click.command(cls=Command, examples="holdfast stats\nholdfast stats --json")
@as_json
def stats(as_json: bool) -> None:
    """Say how much the store holds."""
    with open_to_read() as hf:
        found = hf.stats()
    if as_json:
        line({name: getattr(found, name) for name in found.__struct_fields__})
        return
    for name in ("agents", "sessions", "messages", "checkpoints"):
        say(f"{name:>12}  {getattr(found, name):,}")
    say(f"{'stored':>12}  {size(found.bytes)}")


def searching(called: str) -> click.Command:
    """The command, for the name it is called by."""

    @click.command(cls=Command, examples=f"{called} ryokan\n{called} ryokan --in kyoto --json")
    @click.argument("text")
    @click.option("--in", "within", metavar="ID", help="Only in this session.")
    @click.option("--agent", metavar="ID", help="Only in this agent's sessions.")
    @click.option("--user", metavar="ID", help="Only in this user's sessions.")
    @click.option("--substring", is_flag=True, help="Also inside words.")
    @click.option("--limit", default=20, show_default=True, type=click.IntRange(0), help="At most so many.")
    @as_json
    def search(
        text: str, within: str | None, agent: str | None, user: str | None, substring: bool, limit: int, as_json: bool
    ) -> None:
        """Find messages by their words."""
        open_to_read().close()  # a search fills the index, but must not make a store
        with open_to_write() as hf, progress("indexing") as tell:
            found = hf.search(
                text,
                session_id=None if within is None else finding.session(hf, within).id,
                agent_id=None if agent is None else finding.agent(hf, agent).id,
                user_id=user,
                substring=substring,
                limit=limit,
                progress=tell,
            )
        if as_json:
            for one in found:
                line(one)
        elif found:
            rows = [(one.session_id, one.message.seq, one.message.role, one_line(one.snippet)) for one in found]
            draw(("session", "message", "role", "text"), rows, right=("message",))
        else:
            click.echo("no message has that; --substring also looks inside words", err=True)

    return search


@click.command(cls=Command, examples='holdfast log kyoto --last 10\nholdfast log kyoto --at "before booking" --json')
@click.argument("session")
@click.option("--last", type=click.IntRange(0), help="Only the last so many messages.")
@click.option("--branch", type=int, help="The path to the end of this branch.")
@click.option("--at", metavar="CHECKPOINT", help="As it was at this checkpoint.")
@as_json
def log(session: str, last: int | None, branch: int | None, at: str | None, as_json: bool) -> None:
    """Print a conversation."""
    if at is not None and (last is not None or branch is not None):
        raise click.UsageError("--at shows the whole path as it was; leave out --last and --branch")
    with open_to_read() as hf:
        found = finding.session(hf, session)
        if at is None:
            messages = hf.sessions.messages(found.id, last=last, branch=branch)
        else:
            messages = hf.checkpoints.messages(finding.checkpoint(hf, at).id, found.id)
        out, watch = console(), Watch(hf, found.id)
        for message in watch.over(messages):
            if as_json:
                line(message)
            else:
                draw_message(out, message)
    watch.end()


@click.command(cls=Command, examples="holdfast tree kyoto\nholdfast tree kyoto --json")
@click.argument("session")
@as_json
def tree(session: str, as_json: bool) -> None:
    """Draw a conversation's branches and checkpoints."""
    with open_to_read() as hf:
        found = finding.session(hf, session)
        if as_json:
            line(hf.sessions.tree(found.id))
        else:
            draw_tree(console(), hf, found)


@click.command(cls=Command, examples='holdfast diff "before booking" "after booking"')
@click.argument("before")
@click.argument("after")
@as_json
def diff(before: str, after: str, as_json: bool) -> None:
    """Say what changed from one checkpoint to another."""
    with open_to_read() as hf:
        found = hf.checkpoints.diff(finding.checkpoint(hf, before).id, finding.checkpoint(hf, after).id)
    if as_json:
        line(found)
    else:
        draw_diff(console(), found)


COMMANDS: dict[str, click.Command] = {
    "stats": stats,
    "search": searching("holdfast search"),
    "log": log,
    "tree": tree,
    "diff": diff,
}
