"""Sessions: conversations, each a named pointer into a history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from holdfast import codec, cursors, history, saving
from holdfast.commits import commit, get
from holdfast.contexts import Contexts
from holdfast.contracts import Insert, Put, Query, Reader, Write
from holdfast.errors import InvalidInput
from holdfast.filters import Filter
from holdfast.heads import scan_heads
from holdfast.history import ROOT_BRANCH, Branch, Pointer, Seen
from holdfast.holds import check_free
from holdfast.ids import check_id, micros, new_id, new_uid
from holdfast.kinds import HEADS, SESSIONS
from holdfast.model import Json, Message, Page, Session, SessionStatus
from holdfast.session_filters import check_filters
from holdfast.session_records import Stored, check_changes, read_stored, session_record, view

Unset = msgspec.UnsetType
Position = tuple[int, str]
UNSET = msgspec.UNSET


class Sessions(Contexts):
    """`hf.sessions`: create, append, read, branch, fork, compact, redact."""

    def create(
        self,
        *,
        id: str | None = None,
        agent_id: str | None = None,
        user_id: str | None = None,
        title: str | None = None,
        model: str | None = None,
        metadata: dict[str, Json] | None = None,
        tags: Sequence[str] = (),
        status: SessionStatus = "active",
        archived: bool = False,
        max_context_tokens: int | None = None,
        created_at: datetime | None = None,
        timeout: float | None = None,
    ) -> Session:
        """A new, empty session; AlreadyExists if the id is another's, while the very same again is the one there."""
        stored, pointer, root = self._new(
            id=id,
            agent_id=agent_id,
            user_id=user_id,
            title=title,
            model=model,
            metadata=metadata,
            tags=tags,
            status=status,
            archived=archived,
            max_context_tokens=max_context_tokens,
            created_at=created_at,
        )
        with self._within(timeout):
            return self._insert(stored, pointer, [root])

    def _new(
        self,
        *,
        id: str | None = None,
        agent_id: str | None = None,
        user_id: str | None = None,
        title: str | None = None,
        model: str | None = None,
        metadata: dict[str, Json] | None = None,
        tags: Sequence[str] = (),
        status: SessionStatus = "active",
        archived: bool = False,
        max_context_tokens: int | None = None,
        created_at: datetime | None = None,
    ) -> tuple[Stored, Pointer, Insert]:
        """A session that is not there yet: its record, its head, and the write of the branch it begins with."""
        codec.check_json(metadata, "session metadata")
        at = self._stamps.next()
        own = new_id() if id is None else new_uid()
        stored = Stored(
            id=own if id is None else check_id(id, "session id"),
            uid=own,
            history=own,
            created_at=at if created_at is None else micros(created_at, "created_at"),
            agent_id=_optional_id(agent_id, "agent id"),
            title=title,
            model=model,
            metadata=metadata,
            tags=list(tags) if isinstance(tags, tuple) else tags,  # type: ignore[arg-type]
            max_context_tokens=max_context_tokens,
        )
        pointer = Pointer(
            session_id=stored.id,
            uid=own,
            history=own,
            branch=ROOT_BRANCH,
            seq=0,
            link=history.first_link(own),
            n=0,
            created_at=stored.created_at,
            updated_at=at,
            agent_id=stored.agent_id,
            user_id=_optional_id(user_id, "user id"),
            status=status,
            archived=archived,
            titled=title is not None,
        )
        root = Branch(history=own, branch=ROOT_BRANCH, opened_by=own, fork_link=pointer.link)
        return stored, pointer, Insert(history.branch_record(root))

    def save(
        self,
        session: Session | Mapping[str, Json],
        messages: Sequence[Message | dict[str, Any]] = (),
        *,
        timeout: float | None = None,
    ) -> Session:
        """Keep a conversation as given: a new one, or the one with this id brought to these fields and messages.

        The leading messages it has in common stay; where the rest differs it becomes a new branch, and the head moves
        there. A message whose id is taken gets a new one. A save that was interrupted is completed by saving again.
        Busy while a run holds a session that would have to leave its branch.
        """
        fields = saving.fields_of(session)
        session_id = check_id(fields.pop("id", None) or new_id(), "session id")
        with self._within(timeout):
            given = saving.drafts(self._ground.say(messages), messages)
            present = self.get(session_id)
            changes = {} if present is None else saving.changes_of(fields, present)
            if present is None:
                self.create(id=session_id, **fields)
            while self._save_messages(session_id, given) < len(given):
                pass  # each round adds as many as one commit takes
            return self.update(session_id, **changes) if changes else self._must_get(session_id)

    def _save_messages(self, session_id: str, given: Sequence[saving.Draft]) -> int:
        """Bring the head to these messages, as far as one commit goes; how many are there then."""
        counts: list[int] = []

        def place(reader: Reader) -> list[Write]:
            seen = history.must_see(reader, session_id)
            saved = saving.place(reader, seen, given, self._stamps.next(seen.pointer.updated_at))
            if saved.turns:
                check_free(reader, seen.pointer, self._store)
            counts[:] = [saved.count]
            return saved.writes

        commit(self._store, place)
        self._ground.heads.pop(session_id, None)
        return counts[-1]

    def get(self, session_id: str, *, timeout: float | None = None) -> Session | None:
        """The session, or None."""
        with self._within(timeout):
            return self._get(self._store, check_id(session_id, "session id"))

    def list(
        self,
        *,
        agent_id: str | None = None,
        user_id: str | None = None,
        status: SessionStatus | None = None,
        archived: bool | None = None,
        tag: str | None = None,
        metadata: dict[str, Json] | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        order: Literal["updated", "created"] = "updated",
        limit: int = 100,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> Page[Session]:
        """Sessions that match, the last changed first; detached ones are left out.

        Pages have `limit` entries and a `cursor` to go on with. `metadata` matches the pairs it names,
        `created_after` is inclusive and `created_before` is not.
        """
        cursors.check_range(limit, offset)
        check_filters(tag, status, archived, order, metadata)
        _optional_id(agent_id, "agent id")
        _optional_id(user_id, "user id")
        given = {"agent_id": agent_id, "user_id": user_id, "status": status}
        where = [Filter(name, "=", value) for name, value in given.items() if value is not None]
        if archived is not None:
            where.append(Filter("archived", "=", int(archived)))
        if created_after is not None:
            where.append(Filter("created_at", ">=", micros(created_after, "created_after")))
        if created_before is not None:
            where.append(Filter("created_at", "<", micros(created_before, "created_before")))
        where.append(Filter("detached_by", "=", None))
        listing = ["sessions", order, [[one.field, one.compare, one.value] for one in where], tag, metadata]
        after = None if cursor is None else tuple(cursors.read(listing, cursor))
        column = f"{order}_at"
        query = Query(kind=HEADS, where=tuple(where), order=column, reverse=True, after=after)
        with self._within(timeout):
            return _page(islice(self._matching(query, tag, metadata), offset, None), listing, limit)

    def _matching(
        self, query: Query, tag: str | None, metadata: dict[str, Json] | None
    ) -> Iterator[tuple[Session, Position]]:
        for seen in scan_heads(self._store, query):
            session = get(self._store, SESSIONS, seen.pointer.session_id)
            if session is None:
                continue
            found = view(read_stored(session), seen.pointer)
            if tag is not None and tag not in found.tags:
                continue
            if metadata is not None and (found.metadata is None or not codec.holds(found.metadata, metadata)):
                continue
            at = seen.pointer.updated_at if query.order == "updated_at" else seen.pointer.created_at
            yield found, (at, found.id)

    def update(
        self,
        session_id: str,
        *,
        agent_id: str | Unset | None = UNSET,
        user_id: str | Unset | None = UNSET,
        title: str | Unset | None = UNSET,
        model: str | Unset | None = UNSET,
        metadata: dict[str, Json] | Unset | None = UNSET,
        tags: Sequence[str] | Unset = UNSET,
        status: SessionStatus | Unset = UNSET,
        archived: bool | Unset = UNSET,
        max_context_tokens: int | Unset | None = UNSET,
        timeout: float | None = None,
    ) -> Session:
        """Change only the fields given; NotFound if there is no such session."""
        in_head = {"agent_id": agent_id, "user_id": user_id, "status": status, "archived": archived}
        in_session = {
            "agent_id": agent_id,
            "title": title,
            "model": model,
            "metadata": metadata,
            "tags": tags,
            "max_context_tokens": max_context_tokens,
        }
        for name in ("agent_id", "user_id"):
            if in_head[name] is not UNSET and in_head[name] is not None:
                check_id(in_head[name], name)
        head_changes = {name: value for name, value in in_head.items() if value is not UNSET}
        changes = {name: value for name, value in in_session.items() if value is not UNSET}
        check_changes(changes)
        if "title" in changes:
            head_changes["titled"] = changes["title"] is not None
        return self._change(session_id, head_changes, changes, timeout)

    def attach(self, session_id: str, *, timeout: float | None = None) -> Session:
        """Bring a session back that a restore has detached; fine if it is not detached."""
        return self._change(session_id, {"detached_by": None}, {}, timeout)

    def _change(
        self, session_id: str, head_changes: dict[str, Any], changes: dict[str, Any], timeout: float | None
    ) -> Session:
        check_id(session_id, "session id")
        changed: list[Session] = []

        def place(reader: Reader) -> list[Write]:
            seen = history.must_see(reader, session_id)
            present = get(reader, SESSIONS, session_id)
            assert present is not None
            before = codec.decode_envelope(present.body, f"session {session_id!r}")
            envelope = {**before, **changes, **_left_by(seen.pointer.user_id, head_changes, before)}
            session = session_record({k: v for k, v in envelope.items() if k not in changes or v is not None})
            at = self._stamps.next(after=seen.pointer.updated_at)
            pointer = replace(seen.pointer, updated_at=at, **head_changes)
            codec.encode_value(pointer, Pointer, "session")
            changed[:] = [view(read_stored(session), pointer)]
            return [*_put_head(seen, pointer), Put(session, present.digest)]

        with self._within(timeout):
            commit(self._store, place)
            self._ground.heads.pop(session_id, None)
            return changed[-1]

    def delete(
        self,
        session_id: str | None = None,
        *,
        user_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Remove a session with all that belongs to it, or every session of a user; fine if there is none."""
        if (session_id is None) == (user_id is None):
            raise InvalidInput("name either a session id or a user_id")
        with self._within(timeout):
            if session_id is not None:
                self._ground.sweeps.delete_session(check_id(session_id, "session id"))
                self._ground.heads.pop(session_id, None)
            else:
                self._ground.sweeps.delete_user(check_id(user_id, "user id"))
                self._ground.heads.clear()
            self._ground.sweeps.scrub()


def _left_by(user_id: str | None, head_changes: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """What a session keeps of the user it was of until now: their words stay theirs to erase."""
    if user_id is None or head_changes.get("user_id", user_id) == user_id:
        return {}
    return {"users": sorted({*before.get("users", []), user_id})}


def _put_head(seen: Seen, pointer: Pointer) -> list[Write]:
    """The head with other properties; where it changes hands, both agents' next checkpoints look at it."""
    before = seen.pointer
    if (before.agent_id, before.detached_by) == (pointer.agent_id, pointer.detached_by):
        return [Put(history.pointer_record(pointer, seen.later), seen.digest)]
    left = before.agent_id
    leaving: list[Write] = [] if left is None or left == pointer.agent_id else [history.mark(before, left)]
    return [*leaving, *history.move(seen, replace(pointer, marked=False))[1]]


def _page(found: Iterator[tuple[Session, Position]], listing: Json, limit: int) -> Page[Session]:
    """The first so many, and a cursor if there are more."""
    first = list(islice(found, limit))
    more = bool(first) and next(found, None) is not None
    return Page([session for session, _ in first], cursors.make(listing, first[-1][1]) if more else None)


def _optional_id(value: str | None, what: str) -> str | None:
    return None if value is None else check_id(value, what)
