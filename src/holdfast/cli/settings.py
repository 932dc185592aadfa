"""Which store a command works on: by option, by environment, by config file, or the platform's data folder."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import click
from msgspec import Struct

import holdfast
from holdfast.cli.printing import note
from holdfast.deadlines import DEFAULT_TIMEOUT_S
from holdfast.errors import InvalidInput, NotFound

if TYPE_CHECKING:  # or the help of a command would load the whole library
    from holdfast import Holdfast


class Settings(Struct, frozen=True, kw_only=True):
    """What a command works with."""

    store: str
    namespace: str = ""
    timeout: float = DEFAULT_TIMEOUT_S
    config: str | None = None

    @property
    def shown(self) -> str:
        """The address without what may be a secret: what stands before the host, and the parameters of a server."""
        place = urlsplit(self.store).netloc
        if not place:
            return self.store
        return self.store.replace(place, place.rpartition("@")[2], 1).partition("?")[0]


def settings() -> Settings:
    """The settings of the running command."""
    given: Mapping[str, Any] = click.get_current_context().find_root().obj or {}
    path = config_path(given.get("config"))
    kept = _read(path)
    found = {name: _first(name, given, kept) for name in ("store", "namespace", "timeout")}
    try:
        timeout = float(found["timeout"] or DEFAULT_TIMEOUT_S)
    except (TypeError, ValueError) as cause:
        raise InvalidInput(f"timeout is a number of seconds, not {found['timeout']!r}") from cause
    return Settings(
        store=found["store"] or default_store(),
        namespace=found["namespace"] or "",
        timeout=timeout,
        config=str(path) if path.exists() else None,
    )


def _first(name: str, given: Mapping[str, Any], kept: Mapping[str, Any]) -> Any:
    """The option, else the environment's value, else the file's."""
    if name == "store" and given.get(name) == "":
        raise InvalidInput("--store is empty; name a store, or leave it out")
    if given.get(name) is not None:
        return given[name]
    return os.environ.get(f"HOLDFAST_{name.upper()}") or kept.get(name)


def config_path(given: str | None = None) -> Path:
    """The config file, whether it is there or not."""
    named = given or os.environ.get("HOLDFAST_CONFIG")
    if named and not Path(named).is_file():
        raise InvalidInput(f"there is no config file {named}; write one, or leave it out")
    return Path(named or Path(click.get_app_dir("holdfast")) / "config.toml")


def _read(path: Path) -> dict[str, Any]:
    try:
        kept = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise InvalidInput(f"{path} is not TOML: {cause}") from cause
    unknown = kept.keys() - {"store", "namespace", "timeout"}
    if unknown:
        raise InvalidInput(f"{path} sets {min(unknown)!r}; known are store, namespace and timeout")
    for name in ("store", "namespace"):
        if not isinstance(kept.get(name, ""), str):
            raise InvalidInput(f"{path} sets {name} to {kept[name]!r}; write it in quotes")
    return kept


def data_folder() -> Path:
    """Where this platform keeps a program's data."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "holdfast"
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/holdfast"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "holdfast"


def default_store() -> str:
    """The store of whoever names none."""
    return f"sqlite:///{quote(str(data_folder() / 'agents.db'))}"


def open_to_read() -> Holdfast:
    """The store as it is, which a reader never makes or changes; NotFound if it is not there yet."""
    chosen = settings()
    try:
        return holdfast.open(
            chosen.store,
            namespace=chosen.namespace,
            timeout=chosen.timeout,
            read_only=not chosen.store.startswith("memory:"),
        )
    except NotFound as cause:
        raise NotFound(
            f"there is no store at {chosen.shown} yet; whatever writes makes it, --store names another"
        ) from (cause)


def open_to_write() -> Holdfast:
    """The store, made if it is not there yet."""
    chosen = settings()
    if chosen.store.startswith("memory:"):
        note("memory: ends with this command, and so does what it writes; --store names a store that stays")
    if chosen.store == default_store():
        data_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    return holdfast.open(chosen.store, namespace=chosen.namespace, timeout=chosen.timeout)
