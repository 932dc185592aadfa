"""Telling formats apart by looking: at the tables of a database, the first lines of a file, the files of a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from holdfast.importers.ares import POINTER
from holdfast.importers.databases import is_database, opened
from holdfast.importers.reading import MAX_LINE
from holdfast.model import Json

_LOOKED_AT = 20


def recognise(path: Path) -> str | None:
    """The name of the format a path is in, or None if it is in none that is known."""
    if path.is_dir():
        return _of_folder(path)
    if is_database(path):
        return _of_database(path)
    return _of_lines(path)


def _of_database(path: Path) -> str | None:
    with opened(path) as database:
        tables = database.tables()
    checkpoints = tables.get("checkpoints", set())
    if {"agent_sessions", "agent_messages"} <= tables.keys():
        return "openai"
    if {"thread_id", "checkpoint_id", "checkpoint"} <= checkpoints:
        return "langgraph"
    if {"agent_id", "iteration", "conversation"} <= checkpoints:
        return "smooth"
    if {"sessions", "messages", "tool_executions", "usage_records"} <= tables.keys():
        return "behest"
    return None


def _of_lines(path: Path) -> str | None:
    for line in islice(_first_lines(path), _LOOKED_AT):
        found = _of_object(_object(line))
        if found is not None:
            return found
    return None


def _first_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE):
            yield line


def _of_object(value: dict[str, Json]) -> str | None:
    if "leafUuid" in value or "parentUuid" in value or ("sessionId" in value and "type" in value):
        return "claude_code"
    if "role" in value or isinstance(value.get("messages"), list):
        return "chat"
    return None


def _of_folder(path: Path) -> str | None:
    if any((path / name).is_dir() for name in ("conversations", "agents")):
        return "aethershell"
    flat = sorted(path.glob("*.json"))
    if any(file.name.endswith(POINTER) for file in flat) or _any_has(flat, "session_id", "step"):
        return "ares"
    if _any_has(sorted(path.glob("*/*.json")), "conversation", "iteration"):
        return "smooth"
    return next((found for file in sorted(path.rglob("*.jsonl")) if (found := _of_lines(file))), None)


def _any_has(files: list[Path], *names: str) -> bool:
    """Whether one of the first files is a JSON object with these fields."""
    return any(all(name in _object(file.read_bytes()) for name in names) for file in files[:_LOOKED_AT])


def _object(text: bytes) -> dict[str, Json]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
