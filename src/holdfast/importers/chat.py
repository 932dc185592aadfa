"""Plain chats: JSON lines with `role` and `content`, or with a whole conversation as `messages` in each line."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.appends import ROOT
from holdfast.contents import call_of, listed, parts_of, role_of, told_role
from holdfast.errors import CorruptData
from holdfast.importers.facts import given, with_facts
from holdfast.importers.placing import Placing
from holdfast.importers.reading import derive, lines, moment_of, parse
from holdfast.importers.taking import Taker
from holdfast.model import Json, Message, ToolCall

_TIMES = ("created_at", "timestamp", "time")
_MAPPED = frozenset(("role", "content", "id", "tool_calls", "tool_call_id", "name", "reasoning", "reasoning_content"))


def read(taker: Taker, path: Path) -> None:
    """Take a file over, or every file of JSON lines in a folder."""
    for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
        with taker.report.noting(str(file)):
            _Chat(taker, file).take()
        taker.report.step()


class _Chat:
    """One file under import, line by line."""

    def __init__(self, taker: Taker, file: Path) -> None:
        self._taker = taker
        self._report = taker.report
        self._file = file
        self._without_times = 0
        self._written_at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        self._placing: Placing | None = None
        self._is_refused = False
        self._at = ROOT

    def take(self) -> None:
        for where, line in lines(self._file, self._report):
            with self._report.noting(where):
                raw = parse(line, self._report, where)
                if not isinstance(raw, dict):
                    raise CorruptData(f"{where}: no JSON object")
                if isinstance(raw.get("messages"), list):
                    self._whole(raw, line, where)
                else:
                    self._one(raw, line, where)
        if self._placing is not None:
            self._placing.flush()
        if self._without_times:
            what = f"{self._without_times} messages have no time; the file's was taken"
            self._report.note(str(self._file), what)

    def _one(self, raw: dict[str, Json], line: bytes, where: str) -> None:
        """A message of the conversation that the file is; what is none makes no conversation."""
        if role_of(raw.get("role")) is None:
            raise CorruptData(f"{where}: the role {raw.get('role')!r} is not known")
        if self._placing is None and not self._is_refused:
            # The first line tells files of one name apart, and stays as it is when a file grows.
            own = derive("chat", self._file.stem, hashlib.sha256(line.strip()).hexdigest())
            self._placing = self._taker.session(own, where, facts={"file": self._file.name})
            self._is_refused = self._placing is None
        if self._placing is not None:
            self._at = self._put(self._placing, raw, self._at, where, where.rpartition(":")[2])

    def _whole(self, raw: dict[str, Json], line: bytes, where: str) -> None:
        """A conversation in one line."""
        own = derive("chats", hashlib.sha256(line.strip()).hexdigest())
        fields = {name: one for name, one in raw.items() if name != "messages"}
        placing = self._taker.session(own, where, facts=given(file=self._file.name, fields=fields))
        at = ROOT
        for n, one in enumerate(raw["messages"] if placing is not None else [], 1):
            place = f"{where}, message {n}"
            with self._report.noting(place):
                if not isinstance(one, dict):
                    raise CorruptData(f"{place}: no message")
                assert placing is not None
                at = self._put(placing, one, at, place, str(n))
        if placing is not None:
            placing.flush()

    def _put(self, placing: Placing, raw: dict[str, Json], parent: str, where: str, place: str) -> str:
        role = role_of(raw.get("role"))
        if role is None:
            raise CorruptData(f"{where}: the role {raw.get('role')!r} is not known")
        derived = derive(placing.session_id, place)
        own = raw.get("id")
        name, reasoning = raw.get("name"), raw.get("reasoning", raw.get("reasoning_content"))
        answers = raw.get("tool_call_id")
        rest = {key: one for key, one in raw.items() if key not in (*_MAPPED, *_TIMES)}
        facts = given(role=told_role(raw["role"]), name=None if role == "tool" else name, fields=rest)
        message = Message(
            id=own if isinstance(own, str) and own else derived,
            role=role,
            content=parts_of(raw.get("content")),
            created_at=self._time(raw, where),
            tool_calls=[_call(one, where) for one in listed(raw.get("tool_calls"))],
            tool_call_id=answers if isinstance(answers, str) else None,
            tool_name=name if role == "tool" and isinstance(name, str) else None,
            reasoning=reasoning if isinstance(reasoning, str) else None,
            metadata=with_facts(None, facts),
        )
        return placing.put(message, parent, where, other=derived)

    def _time(self, raw: dict[str, Json], where: str) -> datetime:
        for name in _TIMES:
            if raw.get(name) is not None:
                return moment_of(raw[name], where)
        self._without_times += 1
        return self._written_at


def _call(raw: Any, where: str) -> ToolCall:
    asked = raw.get("function", raw) if isinstance(raw, dict) else None
    call = call_of(raw.get("id"), asked.get("name"), asked.get("arguments")) if isinstance(asked, dict) else None
    if call is None:
        raise CorruptData(f"{where}: a tool call has no id or no name")
    return call
