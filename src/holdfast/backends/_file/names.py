"""Where a record lives on disk: keys as names that every file system keeps apart, and back.

Only a–z, 0–9, - and _ stand for themselves, so that names differ by more than case, are never special
to any system, and never leave their folder. Everything else is % and two hex digits per byte.
"""

from __future__ import annotations

import hashlib
import re

from holdfast.contracts import Key
from holdfast.kinds import Kind

HISTORIES = "histories"
RECORD = ".json"
LOG = ".jsonl"

_LONGEST = 180  # file systems allow 255 bytes, and some of them belong to suffixes and temporary names
_SAFE = re.compile(r"[a-z0-9_-]+")
_NAME = re.compile(r"(?:[a-z0-9_-]|%[0-9a-f]{2})+")
_UNSAFE = re.compile(rb"[^a-z0-9_-]")
_ESCAPED = re.compile(rb"%([0-9a-f]{2})")
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
_EMPTY = "%"
_HASHED = "~"


def escape(text: str) -> str:
    """A file name for this text, and for no other."""
    if text == "":
        return _EMPTY
    if _SAFE.fullmatch(text) is None:
        name = _UNSAFE.sub(lambda found: b"%%%02x" % found[0][0], text.encode()).decode()
    else:
        name = f"%{ord(text[0]):02x}{text[1:]}" if text in _DEVICES else text
    return name if len(name) <= _LONGEST else hashed(text)


def unescape(name: str) -> str | None:
    """The text this name stands for; None where it was too long to be spelled out, or is no name of ours."""
    if name == _EMPTY:
        return ""
    if _NAME.fullmatch(name) is None:
        return None
    try:
        text = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), name.encode()).decode()
    except UnicodeDecodeError:
        return None
    return text if escape(text) == name else None


def hashed(text: str) -> str:
    """The name of what is too long to be spelled out."""
    return _HASHED + hashlib.sha256(text.encode()).hexdigest()


def part(value: str | int) -> str:
    """One key part as a name."""
    return escape(value) if isinstance(value, str) else str(value)


def stem(parts: Key) -> str:
    """Key parts as one file name, without its suffix."""
    name = ".".join(map(part, parts))
    return name if len(name) <= _LONGEST else hashed(name)


def owners_folder(kind: Kind) -> str:
    """The folder with one folder per first key part."""
    return HISTORIES if kind.key[0].name == "history" else kind.name


def folder(kind: Kind, owner: str) -> str:
    """The folder of a kind's records, for kinds of several key parts that of one owner, given by its name."""
    if len(kind.key) == 1:
        return kind.name
    home = f"{owners_folder(kind)}/{owner}"
    return f"{home}/{kind.name}" if kind.key[0].name == "history" and not kind.log else home


def owner_name(kind: Kind, key: Key) -> str:
    """The name of the folder that a key's record is under; kinds of one key part have but one."""
    return part(key[0]) if len(kind.key) > 1 else ""


def record_name(kind: Kind, key: Key) -> str:
    """The file name of a record within its folder."""
    return stem(key[1:] if len(kind.key) > 1 else key) + RECORD


def log_name(kind: Kind, middle: Key, first: int) -> str:
    """The file name of a log within its owner's folder; it says where the log begins, unless that is 1."""
    begins = [] if first == 1 else [first]
    return ".".join([kind.name, *map(part, (*middle, *begins))]) + LOG


def key_of(kind: Kind, owner: str, name: str) -> Key | None:
    """The key of the record in this file; None where the names are too long to be spelled out."""
    spelled = name.removesuffix(RECORD).split(".")
    names = [owner, *spelled] if len(kind.key) > 1 else spelled
    return _key(kind, names)


def log_of(kind: Kind, name: str) -> tuple[Key, int] | None:
    """The key parts between owner and position of the log in this file, and its first position.

    None if the file is not of this kind.
    """
    spelled = name.removesuffix(LOG).split(".")
    if not name.endswith(LOG) or spelled[0] != kind.name:
        return None
    begins = ["1"] if len(spelled) == len(kind.key) - 1 else []
    found = _key(kind, [escape(kind.name), *spelled[1:], *begins])
    return None if found is None else (found[1:-1], int(found[-1]))


def _key(kind: Kind, names: list[str]) -> Key | None:
    if len(names) != len(kind.key):
        return None
    parts: list[str | int] = []
    for column, name in zip(kind.key, names, strict=True):
        value = unescape(name) if column.type == "text" else _number(name)
        if value is None:
            return None
        parts.append(value)
    return tuple(parts)


def _number(name: str) -> int | None:
    return int(name) if re.fullmatch(r"-?[0-9]{1,20}", name, re.ASCII) and str(int(name)) == name else None


def fallback_key(kind: Kind, owner: str, name: str) -> Key:
    """A key that names a file whose true key nobody can tell any more."""
    shown = f"{owner}/{name}" if owner else name
    return tuple(shown if column.type == "text" else -1 for column in kind.key)
