"""Moving: `copy`, `export` and `import`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

import holdfast
from holdfast import Progress, importers
from holdfast.cli.asking import finished_by_repeating, progress
from holdfast.cli.printing import line, many, note, say, size
from holdfast.cli.settings import open_to_read, open_to_write, settings
from holdfast.cli.shapes import Command, as_json

_SHOWN = 10


@contextmanager
def _told(what: str) -> Iterator[Callable[[Progress], None]]:
    """A bar that understands how a copy says how far it is."""
    with progress(what) as tell:
        yield lambda made: tell(made.done, made.total)


@click.command(cls=Command, examples="holdfast copy sqlite:///agents.db file:///agents")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--from-namespace", default="", metavar="NAME", help="Which tenant to copy.")
@click.option("--to-namespace", default="", metavar="NAME", help="As which tenant.")
@as_json
def copy(source: str, target: str, from_namespace: str, to_namespace: str, as_json: bool) -> None:
    """Copy everything from one store to another.

    Interrupted, no session or agent is to be seen yet, only counted by `stats`; the same command again finishes it.
    """
    with finished_by_repeating(), _told("copying") as tell:
        done = holdfast.copy(source, target, src_namespace=from_namespace, dst_namespace=to_namespace, progress=tell)
    if as_json:
        line({name: getattr(done, name) for name in done.__struct_fields__})
    else:
        say(f"copied {done.records:,} records ({done.written:,} of them new) and {done.blobs:,} files")


@click.command(cls=Command, examples="holdfast export agents.zip\nholdfast export agents-folder")
@click.argument("path", type=click.Path(path_type=Path))
@as_json
def export(path: Path, as_json: bool) -> None:
    """Write everything into a new .zip, or else a new folder."""
    with open_to_read() as hf, _told("exporting") as tell:
        done = hf.export(path, progress=tell)
    if as_json:
        line({name: getattr(done, name) for name in done.__struct_fields__})
    else:
        say(f"exported {done.records:,} records and {done.blobs:,} files, {size(done.bytes)}, into {path}")


@click.command(
    "import",
    cls=Command,
    examples="holdfast --store sqlite:///other.db import agents.zip\nholdfast import chat.jsonl --format chat",
)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--format", type=click.Choice([*importers.FORMATS]), help="What another system's files are.")
@as_json
def import_(path: Path, format: str | None, as_json: bool) -> None:
    """Read an export, or what another system has stored.

    The source is never changed, and importing it again adds only what is new in it.
    """
    if format is None and is_export(path):
        _import_export(path, as_json)
    else:
        _import_other(path, format, as_json)


def is_export(path: Path) -> bool:
    """Whether a path is an export of Holdfast, by its looks."""
    return path.suffix == ".zip" or (path / "manifest.json").is_file()


def _import_export(path: Path, as_json: bool) -> None:
    with finished_by_repeating(), open_to_write() as hf, _told("importing") as tell:
        done = hf.import_from(path, progress=tell)
    if as_json:
        line({name: getattr(done, name) for name in done.__struct_fields__})
    else:
        say(f"imported {done.records:,} records ({done.written:,} of them new) and {done.blobs:,} files")


def _import_other(path: Path, format: str | None, as_json: bool) -> None:
    with finished_by_repeating(), open_to_write() as hf, progress("importing messages") as tell:
        taken = importers.read(hf, path, format=format, progress=lambda so_far: tell(so_far.messages, None))
    if as_json:
        line({name: getattr(taken, name) for name in taken.__struct_fields__})
        return
    counts = many(taken.sessions, "session"), many(taken.messages, "message"), many(taken.agents, "agent")
    say(f"took from {taken.format}: {', '.join(counts)}")
    for one in taken.notes[:_SHOWN]:
        note(f"  {one.where}: {one.what}")
    if len(taken.notes) > _SHOWN:
        note(f"  … and {len(taken.notes) - _SHOWN} more notes; --json has them all")
    say(f"they are in {settings().shown}; `holdfast session list` shows them")


COMMANDS: dict[str, click.Command] = {"copy": copy, "export": export, "import": import_}
