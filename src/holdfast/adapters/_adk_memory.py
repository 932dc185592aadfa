"""ADK's memory over Holdfast's search: a session is remembered by a note in it, and its text is stored once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session

from holdfast import history
from holdfast.adapters import _adk_places as places
from holdfast.adapters._adk_events import MARK, event_of, messages_of
from holdfast.adapters._awaited import Awaited
from holdfast.adapters._groups import note_of
from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.commits import commit
from holdfast.contracts import Reader, Write
from holdfast.model import Message

_MOST = 10  # memories of one search, as many as ADK's own services give
_WORDS = 32  # of a query that are looked for
_LOOKED_AT = 100  # messages for each of them
_AT_ONCE = 100  # events in one commit


class HoldfastMemoryService(BaseMemoryService):
    """ADK's memory in a Holdfast store; takes a `Holdfast` or an `AsyncHoldfast`.

    A search finds the events of remembered sessions that share most words with the query.
    """

    def __init__(self, hf: Holdfast | AsyncHoldfast) -> None:
        self._awaited = Awaited(hf)
        self._hf = self._awaited.hf

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember a session up to where it now stands; again, and it is remembered up to there."""
        name = (session.app_name, session.user_id, session.id)
        await self._awaited.call(self._remember, *name, list(session.events))

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,  # noqa: ARG002  (part of ADK's signature)
    ) -> None:
        """Remember these events, and what stands before them if they are of a session in this store."""
        await self._awaited.call(self._remember, app_name, user_id, session_id or "", list(events))

    def _remember(self, app: str, user: str, session: str, events: list[Event]) -> None:
        """Keep what is not there yet, and note how far the session is remembered."""
        own = self._begun(app, user, session)
        pointer = history.must_see(self._hf._store, own).pointer
        fresh = [one for one in events if history.find(self._hf._store, pointer.history, one.id) is None]
        for start in range(0, len(fresh), _AT_ONCE):
            said = [message for one in fresh[start : start + _AT_ONCE] for message in messages_of(one)]
            self._hf.sessions.append(own, *said)

        def place(reader: Reader) -> list[Write]:
            found = places.look(reader, own)
            if found is None:
                return []
            return places.put_note(reader, found, {**found.note, "remembered": found.seen.pointer.seq})

        commit(self._hf._store, place)

    def _begun(self, app: str, user: str, session: str) -> str:
        """The session that has the events; a mere holder if it is not in this store."""
        known = places.session_of(self._hf._store, app, user, session)
        return places.hold(self._hf, app, user, session) if known is None else known.id

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The ten remembered events that share most words with the query."""
        return SearchMemoryResponse(memories=await self._awaited.call(self._search, app_name, user_id, query))

    def _search(self, app: str, user: str, query: str) -> list[MemoryEntry]:
        words = list(dict.fromkeys(re.findall(r"\w+", query.lower())))[:_WORDS]
        matches: Counter[tuple[str, str]] = Counter()
        messages: dict[tuple[str, str], Message] = {}
        for word in words:
            for found in self._hf.search(word, agent_id=app, user_id=user, limit=_LOOKED_AT):
                matches[found.session_id, found.message.id] += 1
                messages[found.session_id, found.message.id] = found.message
        best = sorted(matches, key=lambda one: (-matches[one], messages[one].created_at))
        notes: dict[str, dict[str, Any]] = {}
        remembered = (self._entry(app, *one, messages[one], notes) for one in best)
        return [*islice((entry for entry in remembered if entry is not None), _MOST)]

    def _entry(
        self, app: str, session_id: str, message_id: str, message: Message, notes: dict[str, dict[str, Any]]
    ) -> MemoryEntry | None:
        """What is remembered of a message, or None if it is an answer of a tool or not remembered."""
        if session_id not in notes:
            found = places.look(self._hf._store, session_id)
            notes[session_id] = {} if found is None else found.note
        note = notes[session_id]
        if message.role == "tool" or message.seq is None or message.seq > note.get("remembered", 0):
            return None
        last = self._hf.sessions.message(session_id, (note_of(message, MARK) or {}).get("of", message_id))
        if last is None or last.id in note.get("forgotten", []):
            return None
        event = event_of([last] if last.id == message.id else [message, last], self._hf.artifacts.read, app)
        return MemoryEntry(
            id=event.id,
            content=event.content,
            author=event.author,
            timestamp=datetime.fromtimestamp(event.timestamp).isoformat(),
        )

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget one event, for good; the session keeps it. Fine if it is not remembered."""
        if memory_id:
            await self._awaited.call(self._forget, app_name, user_id, memory_id)

    def _forget(self, app: str, user: str, memory_id: str) -> None:
        for session_id in places.sessions_of(self._hf, app, user):

            def place(reader: Reader, session_id: str = session_id) -> list[Write]:
                found = places.look(reader, session_id)
                if found is None or "remembered" not in found.note:
                    return []
                if history.find(reader, found.seen.pointer.history, memory_id) is None:
                    return []
                forgotten = [*{*found.note.get("forgotten", []), memory_id}]
                return places.put_note(reader, found, {**found.note, "forgotten": sorted(forgotten)})

            commit(self._hf._store, place)
