"""Claude Code: transcripts of JSON lines, a tree by `uuid` and `parentUuid`; a sidechain is a session of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from holdfast.appends import ROOT
from holdfast.errors import CorruptData
from holdfast.importers.claude_messages import Turn, messages_of, usage_of
from holdfast.importers.facts import given
from holdfast.importers.placing import Placing
from holdfast.importers.reading import derive, objects, usable_id
from holdfast.importers.taking import Taker
from holdfast.model import Json, Message, Usage

_RECENT = 256  # answers of the model whose lines may still come; one answer's lines stand close together
_OF_SESSION = ("cwd", "gitBranch", "version")


def read(taker: Taker, path: Path) -> None:
    """Take a transcript over, or every transcript of a folder."""
    for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
        with taker.report.noting(str(file)):
            _Transcript(taker, file).take()
        taker.report.step()


class _Use:
    """What one answer of the model used, which each of its lines repeats; the last one knows best."""

    def __init__(self, placing: Placing, message_id: str, usage: Usage) -> None:
        self.placing = placing
        self.message_id = message_id
        self.first = self.last = usage


class _Transcript:
    """One file under import, line by line."""

    def __init__(self, taker: Taker, file: Path) -> None:
        self._taker = taker
        self._report = taker.report
        self._file = file
        self._sessions: dict[str, Placing | None] = {}
        self._last: dict[str, str] = {}
        self._turns: dict[str, Turn] = {}
        self._told: dict[str, dict[str, Json]] = {}
        self._stands_for: dict[str, str] = {}  # lines that are no message of their own: the message before them
        self._side: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._uses: dict[str, _Use] = {}
        self._titles: dict[str | None, str] = {}
        self._others: Counter[str] = Counter()
        self._main: str | None = self._file.stem if _is_uuid(self._file.stem) else None

    def take(self) -> None:
        for where, raw in objects(self._file, self._report):
            with self._report.noting(where):
                self._line(raw, where)
        for placing in self._sessions.values():
            if placing is not None:
                placing.flush()
        for use in self._uses.values():
            self._settle(use)
        self._name()
        for kind, count in self._others.items():
            self._report.note(str(self._file), f"{count} lines of the type {kind!r} hold no message and were not taken")

    def _line(self, raw: dict[str, Json], where: str) -> None:
        kind = raw.get("type")
        if kind == "summary":
            leaf, title = raw.get("leafUuid"), raw.get("summary")
            if isinstance(leaf, str) and isinstance(title, str):
                self._titles[leaf] = title
        elif kind == "custom-title" and isinstance(raw.get("customTitle"), str):
            self._titles[None] = raw["customTitle"]
        elif isinstance(raw.get("uuid"), str) and kind in ("user", "assistant"):
            self._said(raw, raw["uuid"], where)
        else:
            self._others[str(kind)] += 1
            self._pass_by(raw)

    def _pass_by(self, raw: dict[str, Json]) -> None:
        """Lead from what hangs on a line that is no message to the message before it."""
        own, parent = raw.get("uuid"), raw.get("parentUuid")
        if isinstance(own, str):
            self._stands_for[own] = self._stands_for.get(parent, parent) if isinstance(parent, str) else ROOT
            if isinstance(parent, str) and parent in self._side:
                self._side[own] = self._side[parent]

    # messages

    def _said(self, raw: dict[str, Json], uuid: str, where: str) -> None:
        session_id = self._session_id(raw, uuid, where)
        placing = self._placing(session_id, raw, where)
        if placing is None:
            return
        at = self._stands_for[uuid] = self._parent(raw, session_id, placing, where)
        for n, message in enumerate(self._messages(raw, placing, where)):
            own = usable_id(uuid, self._report, where, session_id) if n == 0 else derive(session_id, uuid, str(n))
            at = placing.put(replace(message, id=own), at, where)
        if at == uuid:
            del self._stands_for[uuid]
        else:
            self._stands_for[uuid] = at
        self._last[session_id] = at

    def _session_id(self, raw: dict[str, Json], uuid: str, where: str) -> str:
        if self._main is None or self._file.stem.startswith("agent-"):
            named = raw.get("sessionId")
            self._main = named if isinstance(named, str) else derive(self._file.stem, uuid)
        main = usable_id(self._main, self._report, where)
        if raw.get("isSidechain") is not True:
            return main
        parent, agent = raw.get("parentUuid"), raw.get("agentId")
        before = self._side.get(parent, uuid) if isinstance(parent, str) else uuid
        root = agent if isinstance(agent, str) else before
        self._side[uuid] = root
        return f"{main}/{root}"

    def _placing(self, session_id: str, raw: dict[str, Json], where: str) -> Placing | None:
        if session_id not in self._sessions:
            self._told[session_id] = raw
            facts = given(**{name: raw.get(name) for name in _OF_SESSION}, created_at=raw.get("timestamp"))
            if session_id != self._main:
                facts |= given(sidechain_of=self._main, agentId=raw.get("agentId"))
            self._sessions[session_id] = self._taker.session(session_id, where, facts=facts)
        return self._sessions[session_id]

    def _parent(self, raw: dict[str, Json], session_id: str, placing: Placing, where: str) -> str:
        named, said = raw.get("parentUuid"), raw.get("message")
        before = self._last.get(session_id, ROOT)
        turn = self._turns.setdefault(session_id, Turn())
        if turn.goes_on(raw, said if isinstance(said, dict) else {}):
            return before
        if not isinstance(named, str):
            return ROOT
        parent = self._stands_for.get(named, named)
        if parent in (before, ROOT) or placing.has(parent):
            return parent
        self._report.note(where, f"its parent {named!r} is not in this file; it stands behind the message before it")
        return before

    def _messages(self, raw: dict[str, Json], placing: Placing, where: str) -> Iterator[Message]:
        said = raw.get("message")
        if not isinstance(said, dict):
            raise CorruptData(f"{where}: the line has no message")
        told = self._told[placing.session_id]
        told_anew = {name: one for name, one in raw.items() if name not in _OF_SESSION or told.get(name) != one}
        for message in messages_of(told_anew, said, self._names, where):
            yield replace(message, usage=self._usage(said, raw["uuid"], message, placing, where))

    # usage

    def _usage(self, said: dict[str, Any], uuid: str, message: Message, placing: Placing, where: str) -> Usage | None:
        answer = said.get("id")
        if not isinstance(answer, str) or not isinstance(said.get("usage"), dict):
            return None
        usage = usage_of(said, derive(placing.session_id, answer), message.created_at, where)
        known = self._uses.get(answer)
        if known is not None:
            known.last = replace(usage, created_at=known.first.created_at)
            return None
        if len(self._uses) >= _RECENT:
            self._settle(self._uses.pop(next(iter(self._uses))))
        self._uses[answer] = _Use(placing, uuid, usage)
        return usage

    def _settle(self, use: _Use) -> None:
        """Set what an answer used in the end, where its first line did not know yet."""
        if use.last == use.first:
            return
        use.placing.flush()
        sessions = self._taker.hf.sessions
        stored = sessions.message(use.placing.session_id, use.message_id)
        if stored is not None and stored.usage != use.last:
            sessions.update_usage(use.placing.session_id, use.message_id, use.last)

    # titles

    def _name(self) -> None:
        """Title the session by its own title, or by the summary of a message in it."""
        main = None if self._main is None else self._sessions.get(self._main)
        title = self._titles.pop(None, None)
        for leaf, summary in self._titles.items():
            if main is not None and leaf is not None and main.has(self._stands_for.get(leaf, leaf) or leaf):
                title = title or summary
            else:
                self._report.note(str(self._file), f"the summary {summary!r} is of a message that is not in this file")
        if main is not None and main.is_new and title is not None:
            self._taker.hf.sessions.update(main.session_id, title=title)


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
