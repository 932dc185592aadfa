"""`holdfast`: finds the command, runs it, and turns whatever goes wrong into a message and an exit code.

A command's module is imported when it is used: the help of `holdfast` itself needs none of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from holdfast.cli import streams
from holdfast.errors import ConnectionFailed, HoldfastError, IntegrityError

OK, FAILED, USAGE, DAMAGED, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 3, 130, 141

COMMANDS = {
    "Nouns": {
        "agent": ("agents", "Agents and their revisions."),
        "session": ("sessions", "Conversations."),
        "checkpoint": ("checkpoints", "Points to go back to."),
        "run": ("runs", "Drives of an agent on a session."),
        "artifact": ("artifacts", "Files and other bytes."),
    },
    "Looking": {
        "stats": ("looking", "Say how much the store holds."),
        "search": ("looking", "Find messages by their words."),
        "log": ("looking", "Print a conversation."),
        "tree": ("looking", "Draw a conversation's branches and checkpoints."),
        "diff": ("looking", "Say what changed from one checkpoint to another."),
    },
    "Tending": {
        "verify": ("tending", "Check every record, chain and file of the store."),
        "gc": ("tending", "Reclaim what nothing reaches any more."),
        "prune": ("tending", "Remove old checkpoints of an agent or a session."),
        "backup": ("tending", "Copy the whole store into a file while others write."),
        "doctor": ("doctor", "Say what is installed, whether the store is sound, and what to do."),
    },
    "Moving": {
        "copy": ("moving", "Copy everything from one store to another."),
        "export": ("moving", "Write everything into a new .zip, or else a new folder."),
        "import": ("moving", "Read an export, or what another system has stored."),
    },
    "Beginning": {
        "demo": ("demo", "Watch an agent be killed, come back, and go another way."),
        "completion": ("completion", "Print the completion script of a shell."),
    },
}
"""Each command by section: the module it is in, and the first line of its help."""


class Root(click.Group):
    """`holdfast`, whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        for section in COMMANDS.values():
            if name in section:
                module = import_module(f"holdfast.cli.{section[name][0]}")
                command: click.Command = module.COMMANDS[name]
                return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, help) for name, (_, help) in section.items()], col_max=12)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would end with 1, as if something had failed
            raise click.exceptions.Exit(CLOSED_PIPE) from None


@click.command(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 damage found, 130 interrupted, 141 closed pipe.",
)
@click.option(
    "--store", metavar="URL", help="Where to keep it: sqlite:///here.db, sqlite:////tmp/there.db. [HOLDFAST_STORE]"
)
@click.option("--namespace", metavar="NAME", help="Which tenant of the store. [HOLDFAST_NAMESPACE]")
@click.option("--config", metavar="FILE", help="Settings in TOML: store, namespace, timeout. [HOLDFAST_CONFIG]")
@click.option("--timeout", metavar="SECONDS", type=float, help="How long to wait for others. [HOLDFAST_TIMEOUT]")
@click.version_option(package_name="holdfast", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, /, **given: object) -> None:
    """Holdfast, the memory of record for AI agents.

    What an agent is, what was said, what it did, and every point it can go back to. Ids may be given whole, as a
    unique beginning, or by title.
    """
    ctx.obj = given


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    streams.stand_in()
    try:
        code = cli.main(arguments, prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
        if code == CLOSED_PIPE:
            streams.let_go_of_stdout()
        return code if isinstance(code, int) else OK
    except (KeyboardInterrupt, click.Abort):
        click.echo("\ninterrupted; what was acknowledged is kept", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        streams.let_go_of_stdout()
        return CLOSED_PIPE
    except (HoldfastError, OSError) as error:
        if isinstance(error, OSError) and streams.is_closed(error):
            streams.let_go_of_stdout()
            error = OSError("standard output is closed; what was acknowledged is kept")
        _tell(error)
        return DAMAGED if isinstance(error, IntegrityError) else FAILED


def _tell(error: HoldfastError | OSError) -> None:
    colour = False if os.environ.get("NO_COLOR") else None
    click.secho(f"{type(error).__name__}: ", err=True, nl=False, color=colour, fg="red", bold=True)
    click.echo(str(error), err=True)
    if isinstance(error, ConnectionFailed):
        click.echo("If the address is right, the same command may succeed once the server is there.", err=True)
    elif isinstance(error, HoldfastError) and error.retry:
        click.echo("The same command may succeed later.", err=True)
