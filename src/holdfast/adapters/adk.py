"""Google's Agent Development Kit on Holdfast: its sessions, artifacts and memory in any store.

Runner(app_name="app", agent=agent, session_service=HoldfastSessionService(hf))
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Struct

from holdfast.adapters._extras import needing

with needing("adk"):
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events import Event, EventActions
    from google.adk.sessions import BaseSessionService, Session
    from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from holdfast import appends, history
from holdfast.adapters import _adk_places as places
from holdfast.adapters._adk_artifacts import HoldfastArtifactService
from holdfast.adapters._adk_events import MARK, dumped, event_of, messages_of
from holdfast.adapters._adk_memory import HoldfastMemoryService
from holdfast.adapters._adk_places import Deltas, State, deltas
from holdfast.adapters._awaited import Awaited
from holdfast.adapters._groups import groups, last_groups
from holdfast.adapters._together import Found, begin
from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.commits import commit
from holdfast.contracts import Reader, Write
from holdfast.ids import moment, new_id

__all__ = ["HoldfastArtifactService", "HoldfastMemoryService", "HoldfastSessionService"]


class Held(Struct, frozen=True):
    """What the caller's copy of a session says about itself, to be held against the store."""

    app: str
    user: str
    id: str
    marker: str | None
    updated: float
    last_event: str | None


class HoldfastSessionService(BaseSessionService):
    """ADK's sessions in a Holdfast store; takes a `Holdfast` or an `AsyncHoldfast`.

    An event, and the session's, the user's and the app's state with it, are one commit.
    """

    def __init__(self, hf: Holdfast | AsyncHoldfast) -> None:
        self._awaited = Awaited(hf)
        self._hf = self._awaited.hf
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # sessions

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """A new session; ADK's AlreadyExistsError if the user has one with this id."""
        given = deltas(dumped(EventActions(state_delta=state or {})).get("state_delta", {}))
        return await self._awaited.call(self._create, app_name, user_id, session_id or new_id(), given)

    def _create(self, app: str, user: str, session: str, given: Deltas) -> Session:
        name = places.id_of(app, user, session)
        note = {"id": session, **({"initial": given.session} if given.session else {})}

        def place(reader: Reader) -> list[Write]:
            known = places.session_of(reader, app, user, session)
            if known is not None and places.is_session(known.note):
                raise AlreadyExistsError(f"Session with id {session} already exists.")
            begun = (
                begin(self._hf, id=name, agent_id=app, user_id=user, metadata={MARK: note})
                if known is None
                else places.put_note(reader, known, note)
            )
            return [*begun, *self._put_states(reader, app, user, given)]

        self._free(name, places.id_of(app, user))
        commit(self._hf._store, place)
        made = self._get(app, user, session, None)
        assert made is not None
        return made

    def _free(self, *session_ids: str) -> None:
        """Finish what deletions of these have left, so that their ids can be used again."""
        for one in session_ids:
            self._hf._ground.sweeps.finish_session(one)

    def _put_states(self, reader: Reader, app: str, user: str, given: Deltas) -> list[Write]:
        in_app = places.put_app_state(self._hf, reader, app, given.app)
        return [*in_app, *places.put_user_state(self._hf, reader, app, user, given.user)]

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """The session with its events up to the head, or the latest of them; None if there is none."""
        return await self._awaited.call(self._get, app_name, user_id, session_id, config)

    def _get(self, app: str, user: str, session: str, config: GetSessionConfig | None) -> Session | None:
        store = self._hf._store
        found = places.session_of(store, app, user, session)
        if found is None or not places.is_session(found.note) or found.seen.pointer.detached_by is not None:
            return None
        state = places.merged(
            places.app_state(store, app),
            places.user_state(store, app, user),
            places.session_state(store, found),
        )
        events = self._events(app, found, config)
        made = Session(
            app_name=app, user_id=user, id=session, state=state, events=events, last_update_time=_time(found)
        )
        made._storage_update_marker = _marker(found.seen)
        return made

    def _events(self, app: str, found: Found, config: GetSessionConfig | None) -> list[Event]:
        events = [event_of(group, self._hf.artifacts.read, app) for group in self._groups(found, config)]
        if config is None or not config.after_timestamp:
            return events
        older = [number for number, event in enumerate(events) if event.timestamp < config.after_timestamp]
        return events[older[-1] + 1 :] if older else events

    def _groups(self, found: Found, config: GetSessionConfig | None) -> list[list[Any]]:
        pointer, store = found.seen.pointer, self._hf._store
        runs = history.segments(store, pointer.history, pointer.branch, pointer.seq)
        if config is None or config.num_recent_events is None:
            return list(groups(self._hf.sessions._read(found.id, pointer.history, runs), MARK))

        def last(count: int) -> Iterator[Any]:
            return self._hf.sessions._read(found.id, pointer.history, history.last_of(runs, count))

        return last_groups(last, config.num_recent_events, MARK)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of an app, or of one user of it, the last changed last; without their events."""
        return ListSessionsResponse(sessions=await self._awaited.call(self._list, app_name, user_id))

    def _list(self, app: str, user: str | None) -> list[Session]:
        store, in_app = self._hf._store, places.app_state(self._hf._store, app)
        users: dict[str, State] = {}
        listed = []
        for session_id in places.sessions_of(self._hf, app, user):
            found = places.look(store, session_id)
            owner = None if found is None else found.seen.pointer.user_id
            if found is None or owner is None or not places.is_session(found.note):
                continue
            if owner not in users:
                users[owner] = places.user_state(store, app, owner)
            state = places.merged(in_app, users[owner], places.session_state(store, found))
            name = places.name_of(session_id, found.note, app, owner)
            listed.append(Session(app_name=app, user_id=owner, id=name, state=state, last_update_time=_time(found)))
        return sorted(listed, key=lambda session: (session.last_update_time, session.user_id, session.id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session with its events and artifacts; fine if there is none."""
        await self._awaited.call(self._delete, app_name, user_id, session_id)

    def _delete(self, app: str, user: str, session: str) -> None:
        found = places.session_of(self._hf._store, app, user, session)
        if found is not None and places.is_session(found.note):
            self._hf.sessions.delete(found.id)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The `user:` state without its prefixes; empty if there is none."""
        return await self._awaited.call(places.user_state, self._hf._store, app_name, user_id)

    # events

    async def append_event(self, session: Session, event: Event) -> Event:
        """Add an event with the state it changes, in one commit; the same event again changes nothing.

        StaleSessionError if the stored session has gone on, or was moved, since this copy of it was read.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        async with self._turns.setdefault(places.id_of(session.app_name, session.user_id, session.id), asyncio.Lock()):
            found, is_new = await self._awaited.call(self._append, _held(session), event)
            if found.seen.pointer.message_id == event.id:
                session._storage_update_marker = _marker(found.seen)
                session.last_update_time = _time(found)
            if not is_new and any(one.id == event.id for one in session.events):
                return event
            return self._commit_event_to_session(session, event)

    def _append(self, held: Held, event: Event) -> tuple[Found, bool]:
        """Commit an event; the session as it then stands, and whether the event is a new one."""
        said = self._hf._ground.say(messages_of(event))
        delta = deltas(dumped(event.actions).get("state_delta", {}))
        done: list[tuple[Found, bool]] = []

        def place(reader: Reader) -> list[Write]:
            found = places.session_of(reader, held.app, held.user, held.id)
            if found is None or not places.is_session(found.note):
                raise SessionNotFoundError(f"Session {held.id} not found.")
            known = history.find(reader, found.seen.pointer.history, event.id) is not None
            if not known:
                _check_fresh(found, held)
            at = self._hf._ground.stamps.next(found.seen.pointer.updated_at)
            made = appends.settle(reader, found.seen, said, None, True, at)
            done[:] = [(Found(made.seen, found.stored, found.note), not known)]
            if known:
                return made.writes
            writes = _with_state(reader, found, delta.session, event.id, made.writes)
            return [*writes, *self._put_states(reader, held.app, held.user, delta)]

        self._free(places.id_of(held.app, held.user))
        commit(self._hf._store, place)
        self._hf._ground.remember(done[-1][0].seen)
        return done[-1]


def _with_state(reader: Reader, found: Found, delta: State, event_id: str, writes: list[Write]) -> list[Write]:
    """The writes, with the session's state as of this event; a session that never had a change of state notes none."""
    if not delta and "state" not in found.note:
        return writes
    state = {**places.session_state(reader, found), **delta}
    return places.put_note(reader, found, {**found.note, "state": state, "at": event_id}, writes)


def _held(session: Session) -> Held:
    return Held(
        app=session.app_name,
        user=session.user_id,
        id=session.id,
        marker=session._storage_update_marker,
        updated=session.last_update_time,
        last_event=session.events[-1].id if session.events else None,
    )


def _check_fresh(found: Found, held: Held) -> None:
    """StaleSessionError if the stored session is not the one held; one built by hand is told by its time, as in ADK."""
    if held.marker is not None:
        fresh = held.marker == _marker(found.seen)
    else:
        fresh = _time(found) <= held.updated or found.seen.pointer.message_id == held.last_event
    if not fresh:
        raise StaleSessionError(
            "The session has been modified in storage since it was loaded. "
            "Please reload the session before appending more events."
        )


def _marker(seen: history.Seen) -> str:
    """A name for the whole path to the head: the link that chains its last message to all before."""
    return seen.pointer.link.hex()


def _time(found: Found) -> float:
    """When a session was last changed, as ADK counts it: the time of its last event."""
    last = found.seen.pointer.last_message_at
    return (moment(found.stored.created_at) if last is None else last).timestamp()
