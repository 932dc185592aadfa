"""`holdfast completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from holdfast.cli.shapes import Command

_HOW = {
    "bash": 'eval "$(holdfast completion bash)"        # in ~/.bashrc',
    "zsh": 'eval "$(holdfast completion zsh)"         # in ~/.zshrc, behind compinit',
    "fish": "holdfast completion fish | source         # in ~/.config/fish/config.fish",
}


@click.command(cls=Command, examples="holdfast completion bash\nholdfast completion zsh\nholdfast completion fish")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    Its first line says where it goes.
    """
    root = click.get_current_context().find_root().command
    script = get_completion_class(shell)
    assert script is not None
    click.echo(f"# {_HOW[shell]}")
    click.echo(script(root, {}, "holdfast", "_HOLDFAST_COMPLETE").source())


COMMANDS = {"completion": completion}
