"""`holdfast artifact`: files and other bytes, stored once, by name and version."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from holdfast.cli import finding
from holdfast.cli.asking import confirm
from holdfast.cli.printing import deleted, line, moment, say, size
from holdfast.cli.settings import open_to_read, open_to_write
from holdfast.cli.shapes import Group, as_json, with_limit, with_yes
from holdfast.cli.tables import listing


@click.group(cls=Group)
def artifact() -> None:
    """Files and other bytes."""


@artifact.command(examples="holdfast artifact put map.png --session kyoto")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="The name to keep it under; the file's own by default.")
@click.option("--session", metavar="ID", help="The session it belongs to.")
@click.option("--type", "content_type", metavar="MIME", help="Its content type.")
@as_json
def put(file: Path, name: str | None, session: str | None, content_type: str | None, as_json: bool) -> None:
    """Keep a FILE, as the next version of its name."""
    with open_to_write() as hf:
        owner = None if session is None else finding.session(hf, session).id
        kept = hf.artifacts.put(file, name=name or file.name, session_id=owner, content_type=content_type)
    if as_json:
        line(kept)
    else:
        say(f"kept artifact {kept.id}: {kept.name}, version {kept.version}, {size(kept.size)}")


@artifact.command(examples="holdfast artifact get map.png -o copy-of-map.png\nholdfast artifact get map.png | wc -c")
@click.argument("id")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Into this file.")
def get(id: str, output: Path | None) -> None:
    """Write an artifact's bytes to a file or to standard output."""
    with open_to_read() as hf:
        found = finding.artifact(hf, id)
        if output is not None:
            hf.artifacts.save(found.id, output)
            say(f"wrote {output}, {size(found.size)}")
            return
        out = sys.stdout.buffer
        for piece in hf.artifacts.stream(found.id):
            out.write(piece)


@artifact.command("list", examples="holdfast artifact list\nholdfast artifact list --session kyoto --json")
@click.option("--session", metavar="ID", help="Only this session's.")
@with_limit
@as_json
def list_(session: str | None, limit: int, as_json: bool) -> None:
    """List the newest version of each name, newest first."""
    with open_to_read() as hf:
        owner = None if session is None else finding.session(hf, session).id
        found = hf.artifacts.list(session_id=owner, limit=limit)
    rows = (
        (one.id, one.name, one.version, size(one.size), one.session_id or "", moment(one.created_at)) for one in found
    )
    listing(found, as_json, ("id", "name", "version", "size", "session", "created"), rows)


@artifact.command(examples="holdfast artifact delete map.png --yes")
@click.argument("id")
@with_yes
@as_json
def delete(id: str, yes: bool, as_json: bool) -> None:
    """Delete one version of an artifact."""
    with open_to_write() as hf:
        found = finding.artifact(hf, id)
        confirm(f"Delete artifact {found.id} ({found.name}, version {found.version}, {size(found.size)})?", yes)
        hf.artifacts.delete(found.id)
    deleted("artifact", found.id, as_json)


COMMANDS = {"artifact": artifact}
