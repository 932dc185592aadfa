"""Taking over what other systems have stored: `holdfast.importers.read(hf, path)`.

The source is never changed, and importing it again adds only what is new in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from holdfast.client import Holdfast
from holdfast.errors import CorruptData, InvalidInput, NotFound
from holdfast.importers import aethershell, ares, behest, chat, claude_code, langgraph, openai, smooth
from holdfast.importers.recognising import recognise
from holdfast.importers.reports import Note, Progress, Report, Taken
from holdfast.importers.taking import Taker

FORMATS: dict[str, str] = {
    "aethershell": "aethershell: a folder with agents, conversations and checkpoints as JSON files",
    "smooth": "smooth-operator: a folder of checkpoints by agent, or a database of them",
    "ares": "ares: a folder of step files",
    "behest": "behest: a SQLite database of sessions, messages, executions and usage",
    "langgraph": "LangGraph: a SQLite database of langgraph-checkpoint-sqlite",
    "openai": "OpenAI Agents: a SQLite database of SQLiteSession",
    "claude_code": "Claude Code: a transcript of JSON lines, or a folder of them",
    "chat": "plain chats: JSON lines with role and content, or a folder of them",
}
_READERS: dict[str, Callable[[Taker, Path], None]] = {
    "aethershell": aethershell.read,
    "smooth": smooth.read,
    "ares": ares.read,
    "behest": behest.read,
    "langgraph": langgraph.read,
    "openai": openai.read,
    "claude_code": claude_code.read,
    "chat": chat.read,
}
_ONLY_FOLDERS = ("aethershell", "ares")
_ONLY_FILES = ("behest", "langgraph", "openai")
_ANY_FILE = ("claude_code", "chat")  # nothing about a file tells that it is none, before its lines are read

__all__ = ["FORMATS", "Note", "Progress", "Taken", "read"]


def read(
    hf: Holdfast, path: str | os.PathLike[str], *, format: str | None = None, progress: Progress | None = None
) -> Taken:
    """Take over what a file or folder holds, in a format of FORMATS or in the one it is recognised by.

    What cannot be taken is named in the notes, and the rest is taken. NotFound without the path, InvalidInput for a
    format that is not known, or that no line of a text is in, CorruptData for a database that cannot be opened.
    `progress` is told now and then.
    """
    source = Path(path)
    if format is not None and format not in FORMATS:
        raise InvalidInput(f"format is one of {', '.join(FORMATS)}, not {format!r}")
    try:
        found = _look_at(source, format)
        report = Report(found, progress)
        _READERS[found](Taker(hf, report), source)
    except OSError as cause:
        raise CorruptData(f"{cause.filename or source} cannot be read: {cause}") from cause
    if format in _ANY_FILE:
        report.must_be_understood(str(source))
    report.step()
    return report.taken()


def _look_at(source: Path, format: str | None) -> str:
    """The format to read a path in, once it is known to be one that can hold it."""
    if not source.is_file() and not source.is_dir():
        raise NotFound(f"there is no file or folder {str(source)!r}")
    found = format or recognise(source)
    if found is None:
        raise InvalidInput(f"{str(source)!r} is in no format that is known; name it, one of {', '.join(FORMATS)}")
    if source.is_dir() and found in _ONLY_FILES:
        raise InvalidInput(f"{found} is read from a file, and {str(source)!r} is a folder; name the file in it")
    if not source.is_dir() and found in _ONLY_FOLDERS:
        raise InvalidInput(f"{found} is read from a folder, and {str(source)!r} is a file; name its folder")
    return found
