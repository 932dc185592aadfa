"""Where ADK's things are in a store: an app is an agent, and its state the agent's; a session is a session.

A user has a session of their own without messages: its metadata is the `user:` state, its artifacts the `user:` files,
and erasing the user erases it with the rest. ADK's session ids are unique within a user, Holdfast's in a store, so a
session's id is made of app, user and session. One that came another way (a fork, an import) keeps the id it has, if it
is of this agent and user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from holdfast import codec, history
from holdfast.adapters import _together
from holdfast.adapters._adk_events import MARK
from holdfast.adapters._groups import note_of
from holdfast.adapters._together import Found, begin, every, with_metadata
from holdfast.agent_records import read_present
from holdfast.client import Holdfast
from holdfast.commits import commit, get
from holdfast.contracts import Reader, Write
from holdfast.ids import MAX_ID, check_id
from holdfast.kinds import AGENTS, REVISIONS
from holdfast.model import Agent, Json, Message

State = dict[str, Json]
APP, USER, TEMP = "app:", "user:", "temp:"
_PAGE = 500


class Deltas(Struct, frozen=True):
    """Changes of state by whose it is, with the prefixes taken off; what is temporary is left out."""

    app: State
    user: State
    session: State


def deltas(state: State) -> Deltas:
    """Sort a change of state by the prefixes of its keys."""
    return Deltas(
        app={key.removeprefix(APP): value for key, value in state.items() if key.startswith(APP)},
        user={key.removeprefix(USER): value for key, value in state.items() if key.startswith(USER)},
        session={key: value for key, value in state.items() if not key.startswith((APP, USER, TEMP))},
    )


def merged(app: State, user: State, session: State) -> State:
    """State as ADK shows it, with the prefixes put back."""
    return {
        **session,
        **{APP + key: value for key, value in app.items()},
        **{USER + key: value for key, value in user.items()},
    }


def id_of(*names: str) -> str:
    """The id of what these name, the same for no others: each quoted, or all of them hashed where that is too long."""
    made = "/".join(quote(name, safe=" :@") for name in names)
    if len(made) <= MAX_ID:
        return made
    return f"adk {codec.digest(codec.encode(names, 'session id')).hex()}"


def session_of(reader: Reader, app: str, user: str, session: str) -> Found | None:
    """The session that ADK names so, or None; one that is a mere holder of files or memories is found, too."""
    found = look(reader, id_of(app, user, session))
    if found is not None or not session or len(session) > MAX_ID:
        return found
    other = look(reader, session)
    if other is None or other.seen.pointer.detached_by is not None or "user" in other.note:
        return None
    return other if (other.seen.pointer.agent_id, other.seen.pointer.user_id) == (app, user) else None


def user_of(reader: Reader, app: str, user: str) -> Found | None:
    """The session that stands for a user, or None if nothing is kept of them."""
    return look(reader, id_of(app, user))


def look(reader: Reader, session_id: str) -> Found | None:
    """A session by its id in the store."""
    return _together.look(reader, session_id, MARK)


def sessions_of(hf: Holdfast, app: str, user: str | None) -> Iterator[str]:
    """The ids of an app's sessions, or of one user's, a user's own among them; the last changed first."""
    page = partial(hf.sessions.list, agent_id=app, user_id=user, limit=_PAGE)
    return (session.id for session in every(lambda cursor: page(cursor=cursor)))


def is_session(note: dict[str, Any]) -> bool:
    """Whether ADK knows this as a session: not a user's own, and not one that is a mere holder of files or memories."""
    return "user" not in note and not note.get("holder")


def name_of(session_id: str, note: dict[str, Any], app: str, user: str) -> str:
    """What ADK calls a session."""
    name = note.get("id")
    return name if isinstance(name, str) and id_of(app, user, name) == session_id else session_id


# state


def app_state(reader: Reader, app: str) -> State:
    """The state all of an app shares."""
    record = get(reader, AGENTS, check_id(app, "app name"))
    present = None if record is None else read_present(record)
    revision = None if present is None else get(reader, REVISIONS, present.uid, present.revision)
    return {} if revision is None else codec.decode(revision.body, Agent, f"agent {app!r}").state


def user_state(reader: Reader, app: str, user: str) -> State:
    """The state all sessions of a user share."""
    found = user_of(reader, app, user)
    return {} if found is None else dict(found.note.get("user", {}))


def session_state(reader: Reader, found: Found) -> State:
    """The state at the head: as it was noted there, or where the head was moved, made anew of the path to it."""
    note, pointer = found.note, found.seen.pointer
    if "state" not in note:
        return dict(note.get("initial", {}))
    if note.get("at") == pointer.message_id:
        return dict(note["state"])
    runs = history.segments(reader, pointer.history, pointer.branch, pointer.seq)
    path = (message for run in runs for message in history.read(reader, found.id, pointer.history, run))
    return _folded(note.get("initial", {}), path)


def _folded(state: State, messages: Iterable[Message]) -> State:
    state = dict(state)
    for message in messages:
        event = (note_of(message, MARK) or {}).get("event", {})
        state |= deltas(event.get("actions", {}).get("state_delta", {})).session
    return state


# writes


def put_app_state(hf: Holdfast, reader: Reader, app: str, delta: State) -> list[Write]:
    """The writes that change an app's state; the first one makes the agent."""

    def changed(present: Agent | None) -> Agent:
        agent = Agent(id=app, name=app, kind=MARK) if present is None else present
        return Agent(
            **{name: getattr(agent, name) for name in agent.__struct_fields__} | {"state": {**agent.state, **delta}}
        )

    known = get(reader, AGENTS, check_id(app, "app name")) is not None
    return [] if known and not delta else hf.agents._place(reader, app, changed)[1]


def put_user_state(hf: Holdfast, reader: Reader, app: str, user: str, delta: State) -> list[Write]:
    """The writes that change a user's state; the first one makes the session that stands for the user."""
    if not delta:
        return []
    found = user_of(reader, app, user)
    state = {**({} if found is None else found.note.get("user", {})), **delta}
    if found is None:
        return new_user(hf, app, user, state)
    return put_note(reader, found, {**found.note, "user": state})


def new_user(hf: Holdfast, app: str, user: str, state: State) -> list[Write]:
    """The writes of the session that stands for a user."""
    title = f"state and files of {user}"
    note = {MARK: {"user": state}}
    return begin(hf, id=id_of(app, user), agent_id=app, user_id=user, title=title, archived=True, metadata=note)


def hold(hf: Holdfast, app: str, user: str, session: str) -> str:
    """A session for what belongs to one that is not in this store; it becomes the own one if that is created later."""
    own = id_of(app, user, session)

    def place(reader: Reader) -> list[Write]:
        if look(reader, own) is not None:
            return []
        return begin(hf, id=own, agent_id=app, user_id=user, metadata={MARK: {"id": session, "holder": True}})

    hf._ground.sweeps.finish_session(own)
    commit(hf._store, place)
    return own


def put_note(reader: Reader, found: Found, note: dict[str, Any], writes: list[Write] | None = None) -> list[Write]:
    """The writes, and with them what is noted in a session."""
    return with_metadata(reader, found.id, {**(found.stored.metadata or {}), MARK: note}, writes or [])
