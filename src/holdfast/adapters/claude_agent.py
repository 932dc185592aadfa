"""Claude Agent SDK: `HoldfastSessionStore`, its `SessionStore` on sessions of Holdfast.

A transcript is a session: its lines are messages, a prompt that was edited opens a branch, a subagent's transcript is
a session of its own, and a project is the agent they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, unquote

from holdfast.adapters._extras import needing

with needing("claude-agent"):
    from claude_agent_sdk import fold_session_summary
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

from holdfast import codec
from holdfast.adapters._awaited import Awaited
from holdfast.adapters._claude_entries import check_entries, entries_of
from holdfast.adapters._claude_placing import Placing
from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.errors import AlreadyExists, InvalidInput
from holdfast.ids import MAX_ID, check_id, micros
from holdfast.model import Json, Session

__all__ = ["HoldfastSessionStore", "session_id_of"]

_OURS = "claude"  # in the metadata of a session that is a transcript, for people; which one, its id says
_SUMMARY = "claude_summary"


def session_id_of(key: SessionKey) -> str:
    """The id of the session that a key stands for: `session/project`, and for a subagent its path behind that.

    Where that is longer than an id may be, the project is hashed.
    """
    named = (key.get("session_id"), key.get("project_key"), *([key["subpath"]] if "subpath" in key else []))
    if not all(isinstance(one, str) and one for one in named):
        raise InvalidInput(f"a session key names a project_key, a session_id and perhaps a subpath, not {key!r}")
    session, project, *below = (str(one) for one in named)
    own = "/".join([quote(session, safe=""), quote(project, safe=""), *below])
    if len(own) > MAX_ID:
        own = "/".join([quote(session, safe=""), codec.digest(project.encode()).hex(), *below])
    return check_id(own, "session id")


class HoldfastSessionStore:
    """Transcripts in a store: `ClaudeAgentOptions(session_store=HoldfastSessionStore(hf))`.

    Entries with a uuid are safe to repeat. Summaries that others' writes have overtaken are made anew.
    """

    def __init__(self, hf: Holdfast | AsyncHoldfast) -> None:
        self._store = Awaited(hf)
        self._hf = self._store.hf
        self._placing = Placing(self._hf)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Add lines behind those there are; known ones stay as they are."""
        await self._store.call(self._append, key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Every line of a transcript in the order of writing, None if there is none."""
        return await self._store.call(self._load, session_id_of(key))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The transcripts of a project, without those of subagents, and when each was written last."""
        return await self._store.call(lambda: [_listed(*one) for one in self._mains(project_key)])

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's own summaries of a project's transcripts."""
        return await self._store.call(lambda: [self._summary(*one) for one in self._mains(project_key)])

    async def delete(self, key: SessionKey) -> None:
        """Destroy a transcript and those of its subagents, or of one subagent; fine if there is none."""
        await self._store.call(self._delete, key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The paths of a transcript's subagents."""
        return await self._store.call(lambda: [subpath for subpath, _ in self._below(key)])

    # on a thread

    def _append(self, key: SessionKey, entries: object) -> None:
        session_id, given = session_id_of(key), check_entries(entries)
        if not given:
            return
        session = self._hf.sessions.get(session_id) or self._create(session_id, key)
        before = session.head.message_id
        is_main = "subpath" not in key
        self._placing.place(session_id, given, is_main)
        if is_main:
            self._sum_up(session_id, before, key, given)

    def _create(self, session_id: str, key: SessionKey) -> Session:
        try:
            return self._hf.sessions.create(id=session_id, agent_id=key["project_key"], metadata={_OURS: "transcript"})
        except AlreadyExists:
            found = self._hf.sessions.get(session_id)
            if found is None:
                raise
            return found

    def _load(self, session_id: str) -> list[SessionStoreEntry] | None:
        return list(self._entries(session_id)) or None

    def _entries(self, session_id: str) -> Iterator[Any]:
        return entries_of(self._hf.sessions.written(session_id), self._hf.artifacts.read)

    def _delete(self, key: SessionKey) -> None:
        session_id = session_id_of(key)
        if "subpath" not in key:
            for _, below in self._below(key):
                self._hf.sessions.delete(below.id)
        self._hf.sessions.delete(session_id)
        self._placing.forget(session_id)

    # what there is of a project

    def _of_project(self, project_key: str) -> Iterator[tuple[SessionKey, Session]]:
        cursor: str | None = None
        while True:
            page = self._hf.sessions.list(agent_id=project_key, order="created", cursor=cursor)
            for session in page:
                key = _key_of(session)
                if key is not None and key["project_key"] == project_key:
                    yield key, session
            cursor = page.cursor
            if cursor is None:
                return

    def _mains(self, project_key: str) -> Iterator[tuple[SessionKey, Session]]:
        return ((key, one) for key, one in self._of_project(project_key) if "subpath" not in key)

    def _below(self, main: SessionKey | SessionListSubkeysKey) -> list[tuple[str, Session]]:
        found = self._of_project(main["project_key"])
        of_main = ((key, one) for key, one in found if key["session_id"] == main["session_id"])
        return [(key["subpath"], one) for key, one in of_main if "subpath" in key]

    # summaries

    def _sum_up(self, session_id: str, head: str | None, key: SessionKey, entries: Sequence[Any]) -> None:
        """Keep the summary with the session, and the message that it reaches to; `head` is where that was before."""
        session = self._hf.sessions.get(session_id)
        if session is None:
            return
        known = (session.metadata or {}).get(_SUMMARY)
        goes_on = head is None if known is None else known["at"] == head
        previous = None if known is None or not goes_on else _summed(key, session, known["data"])
        fresh = entries if goes_on else self._entries(session_id)
        data = fold_session_summary(previous, key, list(fresh))["data"]
        kept = {**(session.metadata or {}), _SUMMARY: {"data": data, "at": session.head.message_id}}
        title = data.get("custom_title") or data.get("ai_title") or session.title
        self._hf.sessions.update(session_id, metadata=kept, title=title)

    def _summary(self, key: SessionKey, session: Session) -> SessionSummaryEntry:
        known = (session.metadata or {}).get(_SUMMARY)
        if known is not None and known["at"] == session.head.message_id:
            return _summed(key, session, known["data"])
        return _summed(key, session, fold_session_summary(None, key, list(self._entries(session.id)))["data"])


def _key_of(session: Session) -> SessionKey | None:
    """The key that a session stands for; None for one that is no transcript."""
    named = session.id.split("/", 2)
    if session.agent_id is None or len(named) < 2 or not all(named):
        return None
    key: SessionKey = {"project_key": session.agent_id, "session_id": unquote(named[0])}
    key = {**key, "subpath": named[2]} if len(named) > 2 else key
    return key if session_id_of(key) == session.id else None


def _listed(key: SessionKey, session: Session) -> SessionStoreListEntry:
    return {"session_id": key["session_id"], "mtime": micros(session.updated_at) // 1000}


def _summed(key: SessionKey, session: Session, data: dict[str, Json]) -> SessionSummaryEntry:
    return {**_listed(key, session), "data": data}
