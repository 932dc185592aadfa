"""`holdfast doctor`: what is installed and running, whether the store is sound, and what to do about each finding."""

from __future__ import annotations

import platform
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import click
from rich.text import Text

from holdfast import Holdfast, HoldfastError, IntegrityError, NotFound, history
from holdfast.backends._opened import path_of
from holdfast.checks import check_path
from holdfast.cli.damage import ADVICE
from holdfast.cli.main import DAMAGED, FAILED
from holdfast.cli.printing import clean, console, line, size
from holdfast.cli.settings import Settings, default_store, open_to_read, settings
from holdfast.cli.shapes import Command, as_json
from holdfast.model import Value

_SAMPLE = 20
_LITTLE = 1_000_000_000
_PROBE_S = 0.2
USUAL = {
    "PostgreSQL": (5432, "postgresql://localhost/DATABASE"),
    "MySQL, MariaDB": (3306, "mysql://USER@127.0.0.1/DATABASE"),
    "Redis, Valkey": (6379, "redis://localhost/0"),
    "MongoDB": (27017, "mongodb://localhost/DATABASE"),
    "SurrealDB": (8000, "ws://localhost:8000"),
}
_FOR_DEVELOPERS = ("adapter-tests", "dev", "docs", "testing")
_NEEDED = re.compile(r"""([\w.-]+).*extra == ['"]([\w-]+)['"]""")
State = Literal["ok", "note", "bad", "damaged"]
_MARKS: dict[State, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("·", "yellow"),
    "bad": ("✗", "red"),
    "damaged": ("✗", "red"),
}


class Finding(Value, frozen=True, kw_only=True):
    """One thing that was looked at: how it is, and what to do where it is not well."""

    what: str
    state: State
    says: str
    do: str | None = None


def installed() -> Iterator[Finding]:
    """Holdfast itself, and the packages its extras need."""
    version = metadata.version("holdfast")
    yield Finding(what="holdfast", state="ok", says=f"{version}, Python {platform.python_version()}")
    for needed in metadata.requires("holdfast") or ():
        found = _NEEDED.fullmatch(needed)
        if found is not None and found[2] not in _FOR_DEVELOPERS and found[1] != "holdfast":
            yield _package(found[1], found[2])


def _package(name: str, extra: str) -> Finding:
    what = f"extra {extra}: {name}"
    try:
        return Finding(what=what, state="ok", says=metadata.version(name))
    except metadata.PackageNotFoundError:
        do = f"pip install 'holdfast[{extra}]' if you want it"
        return Finding(what=what, state="note", says="not installed", do=do)


def servers(usual: Mapping[str, tuple[int, str]] = USUAL) -> Iterator[Finding]:
    """Which servers answer on this machine, on the ports that are usual for them; what they are is not asked."""
    for name, (port, address) in usual.items():
        with socket.socket() as probe:
            probe.settimeout(_PROBE_S)
            there = probe.connect_ex(("127.0.0.1", port)) == 0
        says = f"something answers on port {port}" if there else f"nothing answers on port {port} of this machine"
        do = f"holdfast --store {address} doctor" if there else None
        yield Finding(what=f"server {name}", state="ok" if there else "note", says=says, do=do)


def examined(chosen: Settings) -> Iterator[Finding]:
    """The store: whether it opens, how durable it is, a sample of it, and the room it has."""
    yield Finding(what="settings", state="ok", says=chosen.config or "no config file; options and environment only")
    try:
        hf = open_to_read()
    except HoldfastError as error:
        yield _unopened(error, chosen)
        return
    with hf:
        try:
            yield from _store(hf, chosen)
            yield _sample(hf)
        except HoldfastError as error:
            do = "run `holdfast verify`; if that fails alike, restore a backup"
            state: State = "damaged" if isinstance(error, IntegrityError) else "bad"
            yield Finding(what="store", state=state, says=f"it opens, but cannot be read: {error}", do=do)
    yield from _room(chosen)


def _unopened(error: HoldfastError, chosen: Settings) -> Finding:
    """A store that does not open, for what reason, and what helps against that."""
    says = f"{chosen.shown}: {error}"
    if isinstance(error, IntegrityError):
        do = "restore a backup; put the damaged file aside first, with the files beside it"
        return Finding(what="store", state="damaged", says=says, do=do)
    do = "see `holdfast --help` on --store"
    if isinstance(error, NotFound):
        do += ", or save something to make it"
    # Where nobody has saved anything yet nothing is wrong, but a store that somebody names shall be there.
    unused = isinstance(error, NotFound) and chosen.store == default_store()
    return Finding(what="store", state="note" if unused else "bad", says=says, do=do)


def _store(hf: Holdfast, chosen: Settings) -> Iterator[Finding]:
    found = hf.health()
    says = f"{chosen.shown}: {found.backend} {found.version}, its schema is this version's"
    yield Finding(what="store", state="ok", says=says)
    if "normal" in found.durability or found.durability == "none":
        do = 'open it with durability="full" where power may fail, or on a backend that keeps what it acknowledges'
        yield Finding(what="durability", state="note", says=found.durability, do=do)
    else:
        yield Finding(what="durability", state="ok", says=f"{found.durability}: acknowledged writes survive power loss")


def _sample(hf: Holdfast) -> Finding:
    """The chains of the sessions that changed last."""
    sessions = hf.sessions.list(limit=_SAMPLE)
    for session in sessions:
        try:
            check_path(hf._store, history.position_of(history.must_see(hf._store, session.id).pointer))
        except HoldfastError as error:
            do = f"run `holdfast verify`, which names all damage. {ADVICE}"
            return Finding(what="integrity", state="damaged", says=f"session {session.id}: {error}", do=do)
    whole = "the last session is" if len(sessions) == 1 else f"the last {len(sessions)} sessions are"
    says = f"{whole} whole; `holdfast verify` checks everything"
    return Finding(what="integrity", state="ok", says=says)


def _room(chosen: Settings) -> Iterator[Finding]:
    if urlsplit(chosen.store).scheme not in ("sqlite", "file"):
        return
    path = Path(path_of(chosen.store, "agents"))
    free = shutil.disk_usage(path if path.exists() else path.absolute().parent).free
    if free < _LITTLE:
        do = "make room, or `holdfast prune` and `holdfast gc`"
        yield Finding(what="free space", state="bad", says=size(free), do=do)
    else:
        yield Finding(what="free space", state="ok", says=size(free))


@click.command(cls=Command, examples="holdfast doctor\nholdfast doctor --json")
@as_json
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Say what is installed, whether the store is sound, and what to do.

    Exits with 1 if the store cannot be used as it is or has little room left, and with 3 if it is damaged; extras and
    servers that are missing are only told.
    """
    findings = [*installed(), *servers(), *examined(settings())]
    for finding in findings:
        if as_json:
            line({name: getattr(finding, name) for name in finding.__struct_fields__})
        else:
            _draw(finding)
    states = {finding.state for finding in findings}
    ctx.exit(DAMAGED if "damaged" in states else FAILED if "bad" in states else 0)


def _draw(finding: Finding) -> None:
    mark, colour = _MARKS[finding.state]
    drawn = Text().append(f"{mark} ", style=colour)
    drawn.append(f"{finding.what}: ", style="bold").append(clean(finding.says))
    if finding.do is not None:
        drawn.append(f"\n    → {finding.do}", style=colour)
    console().print(drawn)


COMMANDS = {"doctor": doctor}
