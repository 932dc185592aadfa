"""What all commands have in common: examples in their help, and options that mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def _placing(ctx: click.Context) -> Iterator[None]:
    """An option of `holdfast` itself that stands behind the command is told where it goes."""
    try:
        yield
    except click.NoSuchOption as wrong:
        if not any(wrong.option_name in option.opts for option in ctx.find_root().command.params):
            raise
        said = f"{wrong.option_name} goes before the command: holdfast {wrong.option_name} … {ctx.info_name} …"
        raise click.UsageError(said, ctx) from None


class Command(click.Command):
    """A command whose help shows how it is used."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _placing(ctx):
            return super().parse_args(ctx, args)

    def __init__(self, *args: Any, examples: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = [line.strip() for line in examples.strip().splitlines()]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"  {line}\n")


class Group(click.Group):
    """Commands about one noun."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _placing(ctx):
            return super().parse_args(ctx, args)

    command_class = Command


def as_json(command: F) -> F:
    """`--json`: print data for programs instead of people."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def json_anyway(command: F) -> F:
    """`--json` where it changes nothing, so that programs may give it to every command."""
    return click.option("--json", is_flag=True, expose_value=False, hidden=True)(command)


def with_yes(command: F) -> F:
    """`--yes`: do it without asking."""
    return click.option("--yes", is_flag=True, help="Do it without asking.")(command)


def with_limit(command: F) -> F:
    """`--limit`: how many at most."""
    return click.option("--limit", default=100, show_default=True, type=click.IntRange(0), help="At most so many.")(
        command
    )
