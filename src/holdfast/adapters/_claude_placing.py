"""Where the lines of a transcript go: behind the head, or on a branch where a prompt hangs on an older line.

A transcript is a tree by `uuid` and `parentUuid`, but lines that say nothing hang anywhere in it, and the results of
parallel calls hang on their own lines of the answer. Neither is a branch of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from msgspec.structs import replace

from holdfast.adapters._claude_entries import KEY, answer_of, is_spoken, messages_from, part_id, uuid_of
from holdfast.adapters._together import lots
from holdfast.appends import ROOT
from holdfast.client import Holdfast
from holdfast.errors import AlreadyExists
from holdfast.importers.claude_messages import Turn
from holdfast.model import Message, Usage

_BATCH = 300  # messages of one commit
_LOOK_BACK = 64  # messages in which the call of a result, and the last thing said, are looked for
_SESSIONS = 256  # sessions whose last answer is kept in mind


class _Run:
    """Messages that follow one another behind a parent; None is the head."""

    def __init__(self, parent: str | None) -> None:
        self.parent = parent
        self.messages: list[Message] = []


class _Answers:
    """The turn under way in a session, and the first message of its last answer, which has what it used."""

    def __init__(self) -> None:
        self.turn = Turn()
        self.answer: str | None = None
        self.message_id = ""


class Placing:
    """Appends lines to sessions."""

    def __init__(self, hf: Holdfast) -> None:
        self._hf = hf
        self._answers: dict[str, _Answers] = {}

    def forget(self, session_id: str) -> None:
        """Leave what is known of a session that is no more."""
        self._answers.pop(session_id, None)

    def place(self, session_id: str, entries: Sequence[dict[str, Any]], is_main: bool) -> None:
        """Add entries in their order; those that are there already stay as they are.

        In a `main` transcript an old one has subagents' lines, too, which are beside the conversation.
        """
        plan = _Plan(self._hf, session_id, self._answers_of(session_id), is_main)
        known = self._known(session_id, [uuid for one in entries if (uuid := uuid_of(one)) is not None])
        for entry in entries:
            uuid = uuid_of(entry)
            if uuid in known:
                plan.pass_by(entry)
            else:
                plan.add(entry)
            known |= {uuid} if uuid is not None else set()
        for run in plan.runs:
            for n, some in enumerate(lots(run.messages, _BATCH)):
                self._append(session_id, some, run.parent if n == 0 else None)
        for message_id, usage in plan.used.items():
            self._hf.sessions.update_usage(session_id, message_id, usage)

    def _known(self, session_id: str, uuids: Sequence[str]) -> set[str]:
        """Those entries that are there. A batch is new or was tried before, so its ends tell whether to look at all."""
        ends = {*uuids[:1], *uuids[-1:]}
        found = {uuid for uuid in ends if self._hf.sessions.message(session_id, uuid) is not None}
        rest = set(uuids) - ends if found else set()
        return found | {uuid for uuid in rest if self._hf.sessions.message(session_id, uuid) is not None}

    def _answers_of(self, session_id: str) -> _Answers:
        while len(self._answers) >= _SESSIONS and session_id not in self._answers:
            del self._answers[next(iter(self._answers))]
        return self._answers.setdefault(session_id, _Answers())

    def _append(self, session_id: str, messages: list[Message], parent: str | None) -> None:
        try:
            self._hf.sessions.append(session_id, *messages, parent=parent)
        except AlreadyExists:
            fresh = [one for one in messages if self._hf.sessions.message(session_id, one.id) is None]
            if fresh:
                self._hf.sessions.append(session_id, *fresh, parent=parent)


class _Plan:
    """The appends that some entries come to."""

    def __init__(self, hf: Holdfast, session_id: str, answers: _Answers, is_main: bool) -> None:
        self._hf = hf
        self._session_id = session_id
        self._answers = answers
        before = list(hf.sessions.messages(session_id, last=_LOOK_BACK))
        self._names = {call.id: call.name for one in before for call in one.tool_calls}
        self._is_main = is_main
        self._tail = self._tail_of(before)
        self._is_begun = any(map(self._is_said, before))
        self.runs: list[_Run] = []
        self.used: dict[str, Usage] = {}

    def pass_by(self, entry: dict[str, Any]) -> None:
        """Learn of an entry that is there already."""
        if self._has_place(entry):
            self._answers.turn.goes_on(entry, entry["message"])

    def add(self, entry: dict[str, Any]) -> None:
        """Plan for an entry."""
        parent = self._parent(entry)
        messages = self._with_usage(entry, messages_from(self._session_id, entry, self._names))
        if not self.runs or parent is not None:
            self.runs.append(_Run(parent))
        self.runs[-1].messages += messages
        if self._has_place(entry):
            self._tail, self._is_begun = set(), True
        self._tail |= {one.id for one in messages}

    def _parent(self, entry: dict[str, Any]) -> str | None:
        """Where an entry hangs if that is a branch; None for the head."""
        if not self._has_place(entry):
            return None
        goes_on = self._answers.turn.goes_on(entry, entry["message"])
        named = entry.get("parentUuid")
        if goes_on or not self._is_begun or named in self._tail or "parentUuid" not in entry:
            return None
        if named is None:
            return None if isinstance(entry.get("logicalParentUuid"), str) else ROOT
        return self._last_of(named) if isinstance(named, str) and named else None

    def _last_of(self, uuid: str) -> str | None:
        """The last message of an entry; None if it is not in this session."""
        planned = {one.id for run in self.runs for one in run.messages}
        last: str | None = None
        for n in count():
            part = part_id(self._session_id, uuid, n)
            if part not in planned and self._hf.sessions.message(self._session_id, part) is None:
                break
            last = part
        return last

    def _with_usage(self, entry: dict[str, Any], messages: list[Message]) -> list[Message]:
        """What an answer used goes to its first message; its other lines repeat it, and the last one knows best."""
        found = answer_of(entry)
        if found is None:
            return messages
        answer, usage = found
        known = self._answers
        if known.answer == answer:
            self.used[known.message_id] = usage
            return messages
        known.answer, known.message_id = answer, messages[0].id
        return [replace(messages[0], usage=usage), *messages[1:]]

    # what is in the tree of the conversation

    def _has_place(self, entry: dict[str, Any]) -> bool:
        return is_spoken(entry) and uuid_of(entry) is not None and not self._is_aside(entry)

    def _is_aside(self, kept: object) -> bool:
        return self._is_main and isinstance(kept, dict) and kept.get("isSidechain") is True

    def _is_said(self, message: Message) -> bool:
        if self._is_aside((message.metadata or {}).get(KEY)):
            return False
        return bool(message.content or message.tool_calls or message.reasoning or message.redacted)

    def _tail_of(self, messages: Sequence[Message]) -> set[str]:
        """The last entry that says something, and the lines behind it: what hangs on any of them goes on."""
        tail: set[str] = set()
        for message in reversed(messages):
            tail.add(message.id)
            begins = not isinstance((message.metadata or {}).get(KEY), int)
            if begins and self._is_said(message):
                break
        return tail
