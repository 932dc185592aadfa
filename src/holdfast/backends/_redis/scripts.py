"""The scripts that the server runs, each a file beside this one, in front of them what they know of the kinds.

A script is the same text for everybody: what a commit or a query says is in its arguments only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from holdfast.backends._redis.plans import indexes
from holdfast.kinds import KINDS, Kind


class Script(Struct, frozen=True):
    """The text of a script and the name that the server has for it."""

    text: bytes
    sha: str


class Scripts(Struct, frozen=True, kw_only=True):
    """All scripts of the backend."""

    allowed: Script
    commit: Script
    read: Script
    forget: Script
    turn_enter: Script
    turn_leave: Script
    blob_stage: Script
    blob_put: Script
    blob_delete: Script


def load() -> Scripts:
    """Read the scripts from their files."""
    knowing = _kinds(KINDS) + _text("common")
    return Scripts(
        allowed=_script(_text("allowed")),
        commit=_script(knowing + _text("commit")),
        read=_script(knowing + _text("read")),
        forget=_script(_text("forget")),
        turn_enter=_script(_text("turn_enter")),
        turn_leave=_script(_text("turn_leave")),
        blob_stage=_script(_text("blob_stage")),
        blob_put=_script(_text("blob_put")),
        blob_delete=_script(_text("blob_delete")),
    )


def _text(name: str) -> str:
    return Path(__file__).with_name(f"{name}.lua").read_text(encoding="utf-8")


def _script(text: str) -> Script:
    plain = text.encode()
    return Script(plain, hashlib.sha1(plain, usedforsecurity=False).hexdigest())


def _kinds(kinds: Iterable[Kind]) -> str:
    return "local KINDS = {\n" + "".join(f"  {kind.name} = {_kind(kind)},\n" for kind in kinds) + "}\n"


def _kind(kind: Kind) -> str:
    names = [field.name for field in kind.columns()]
    types = "".join(field.type[0] for field in kind.key)
    parts = [f"types = '{types}'", f"fields = {len(kind.fields)}"]
    parts.append(f"indexes = {{{', '.join(_numbers(names, index) for index in indexes(kind))}}}")
    if kind.unique:
        parts.append(f"unique = {_numbers(names, kind.unique)}")
    return f"{{ {', '.join(parts)} }}"


def _numbers(names: list[str], chosen: tuple[str, ...]) -> str:
    return f"{{{', '.join(str(names.index(name) + 1) for name in chosen)}}}"
