"""Write the table of commands in docs/command-line.md from the commands themselves; `--check` only compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from holdfast.cli.main import cli

PAGE = Path(__file__).parent.parent / "docs/command-line.md"
BEGIN, END = "<!-- commands -->\n", "<!-- end of commands -->\n"


def rows(group: click.Group, path: str = "") -> Iterator[str]:
    """A line for each command."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from rows(command, f"{path}{name} ")
        else:
            said = (command.help or "").splitlines()[0]
            yield f"| `{' '.join([path + name, *pieces(command)])}` | {said} |\n"


def pieces(command: click.Command) -> Iterator[str]:
    """The arguments of a command, then its options, but for those that mean the same everywhere."""
    context = click.Context(command)
    for one in command.params:
        if isinstance(one, click.Argument):
            yield _value(one.make_metavar(context))
    for one in command.params:
        if isinstance(one, click.Option) and one.name not in ("as_json", "limit"):
            value = "" if one.is_flag else f" {_value(one.make_metavar(context))}"
            yield f"[{one.opts[-1]}{value}]"


def _value(metavar: str) -> str:
    return metavar.replace("INTEGER RANGE", "N").replace("INTEGER", "N").replace("|", "\\|")


def page(text: str) -> str:
    """The page with its table as it should be."""
    before, rest = text.split(BEGIN)
    table = "".join(["| command | what it does |\n|---|---|\n", *rows(cli)])
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Write the page, or say whether it is up to date."""
    present = PAGE.read_text(encoding="utf-8")
    wanted = page(present)
    if "--check" not in sys.argv:
        PAGE.write_text(wanted, encoding="utf-8")
    elif wanted != present:
        print("docs/command-line.md is out of date; run tools/make_commands.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
