"""Sessions: conversations, their messages, branches and forks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from holdfast import appends, codec, cursors, history
from holdfast.commits import Plan, get
from holdfast.contracts import Delete, Insert, Put, Query, Reader, Record, RecordStore, Require, Write
from holdfast.deadlines import within
from holdfast.errors import AlreadyExists, InvalidInput, NotFound
from holdfast.filters import Filter
from holdfast.history import ROOT_BRANCH, Branch, Pointer, Seen, Segment
from holdfast.ids import Stamps, check_id, micros, moment, new_id
from holdfast.kinds import HEADS, SESSIONS, USAGES
from holdfast.model import (
    BranchView,
    Head,
    Json,
    Message,
    Page,
    Redaction,
    Session,
    SessionStatus,
    Tree,
    Usage,
    Value,
)
from holdfast.sweeps import Sweeps

_REMEMBERED = 4096
Unset = msgspec.UnsetType
UNSET = msgspec.UNSET


class Stored(Value, kw_only=True):
    """What a session's own record says; the rest of a Session is its head's."""

    id: str
    history: str
    created_at: int
    agent_id: str | None = None
    title: str | None = None
    model: str | None = None
    metadata: dict[str, Json] | None = None
    tags: list[str] = []
    max_context_tokens: int | None = None
    origin: tuple[int, int] | None = None


class Sessions:
    """`hf.sessions`: create, append, read, branch, fork, redact."""

    def __init__(self, store: RecordStore, sweeps: Sweeps, stamps: Stamps, timeout: float) -> None:
        self._store = store
        self._sweeps = sweeps
        self._stamps = stamps
        self._timeout = timeout
        self._seen: dict[str, Seen] = {}

    def create(
        self,
        *,
        id: str | None = None,
        agent_id: str | None = None,
        user_id: str | None = None,
        title: str | None = None,
        model: str | None = None,
        metadata: dict[str, Json] | None = None,
        tags: list[str] | None = None,
        status: SessionStatus = "active",
        archived: bool = False,
        max_context_tokens: int | None = None,
        timeout: float | None = None,
    ) -> Session:
        """A new, empty session; AlreadyExists if the id is taken."""
        at = self._stamps.next()
        own = new_id()
        stored = Stored(
            id=own if id is None else check_id(id, "session id"),
            history=own,
            created_at=at,
            agent_id=_optional_id(agent_id, "agent id"),
            title=title,
            model=model,
            metadata=metadata,
            tags=tags or [],
            max_context_tokens=max_context_tokens,
        )
        pointer = Pointer(
            session_id=stored.id,
            history=own,
            branch=ROOT_BRANCH,
            seq=0,
            link=history.first_link(own),
            n=0,
            created_at=at,
            updated_at=at,
            agent_id=stored.agent_id,
            user_id=_optional_id(user_id, "user id"),
            status=status,
            archived=archived,
            titled=title is not None,
        )
        root = Branch(history=own, branch=ROOT_BRANCH, session_id=stored.id, fork_link=pointer.link)
        with within(self._limit(timeout)):
            return self._create(stored, pointer, [Insert(history.branch_record(root))])

    def _create(self, stored: Stored, pointer: Pointer, writes: list[Write]) -> Session:
        session, head = stored_record(stored), history.pointer_record(pointer, {})
        _check_session(session, head)

        def place(reader: Reader) -> list[Write]:
            if get(reader, HEADS, stored.id) is not None:
                raise AlreadyExists(f"session {stored.id!r} exists; choose another id, or append to it")
            return [Require(SESSIONS, session.key, None), Insert(session), Insert(head), *writes]

        if stored.id != stored.history:
            self._sweeps.finish_session(stored.id)
        Plan(None, place, lambda: None).carry_out(self._store)
        self._remember(Seen(pointer, head.digest, {}))
        return view(stored, pointer)

    def get(self, session_id: str, *, timeout: float | None = None) -> Session | None:
        """The session, or None."""
        with within(self._limit(timeout)):
            return self._get(self._store, check_id(session_id, "session id"))

    def _get(self, reader: Reader, session_id: str) -> Session | None:
        seen = history.look_up(reader, session_id)
        record = get(reader, SESSIONS, session_id) if seen is not None else None
        return None if seen is None or record is None else view(read_stored(record), seen.pointer)

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
        """Sessions that match, newest first; detached ones are left out."""
        cursors.check_range(limit, offset)
        given = {"agent_id": agent_id, "user_id": user_id, "status": status}
        where = [Filter(name, "=", value) for name, value in given.items() if value is not None]
        if archived is not None:
            where.append(Filter("archived", "=", int(archived)))
        if created_after is not None:
            where.append(Filter("created_at", ">=", micros(created_after, "created_after")))
        if created_before is not None:
            where.append(Filter("created_at", "<", micros(created_before, "created_before")))
        if order not in ("updated", "created"):
            raise InvalidInput(f"order is 'updated' or 'created', not {order!r}")
        where.append(Filter("detached_by", "=", None))
        listing = ["sessions", order, [[one.field, one.compare, one.value] for one in where], tag, metadata]
        after = None if cursor is None else tuple(cursors.read(listing, cursor))
        column = f"{order}_at"
        query = Query(kind=HEADS, where=tuple(where), order=column, reverse=True, after=after)
        with within(self._limit(timeout)):
            found: list[Session] = []
            skip = offset
            for session, position in self._matching(query, tag, metadata):
                if skip:
                    skip -= 1
                    continue
                if len(found) == limit:
                    return Page(found, cursors.make(listing, last) if found else None)
                found.append(session)
                last = position
            return Page(found, None)

    def _matching(
        self, query: Query, tag: str | None, metadata: dict[str, Json] | None
    ) -> Iterator[tuple[Session, list[str | int]]]:
        for record in self._store.scan(query):
            seen = history.see(record)
            session = get(self._store, SESSIONS, *record.key)
            if session is None:
                continue
            found = view(read_stored(session), seen.pointer)
            if tag is not None and tag not in found.tags:
                continue
            if metadata is not None and not _holds(found.metadata, metadata):
                continue
            at = seen.pointer.updated_at if query.order == "updated_at" else seen.pointer.created_at
            yield found, [at, found.id]

    def update(
        self,
        session_id: str,
        *,
        agent_id: str | None | Unset = UNSET,
        user_id: str | None | Unset = UNSET,
        title: str | None | Unset = UNSET,
        model: str | None | Unset = UNSET,
        metadata: dict[str, Json] | None | Unset = UNSET,
        tags: list[str] | Unset = UNSET,
        status: SessionStatus | Unset = UNSET,
        archived: bool | Unset = UNSET,
        max_context_tokens: int | None | Unset = UNSET,
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
            if isinstance(in_head[name], str):
                check_id(in_head[name], name)
        head_changes = {name: value for name, value in in_head.items() if value is not UNSET}
        changes = {name: value for name, value in in_session.items() if value is not UNSET}
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
            envelope = {**codec.decode_envelope(present.body, f"session {session_id!r}"), **changes}
            session = session_record({k: v for k, v in envelope.items() if k not in changes or v is not None})
            at = self._stamps.next(after=seen.pointer.updated_at)
            pointer = replace(seen.pointer, updated_at=at, **head_changes)
            head = history.pointer_record(pointer, seen.later)
            _check_session(session, head)
            changed[:] = [view(read_stored(session), pointer)]
            return [Put(head, seen.digest), Put(session, present.digest)]

        with within(self._limit(timeout)):
            Plan(None, place, lambda: None).carry_out(self._store)
            self._seen.pop(session_id, None)
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
        with within(self._limit(timeout)):
            if session_id is not None:
                self._sweeps.delete_session(check_id(session_id, "session id"))
                self._seen.pop(session_id, None)
            else:
                self._sweeps.delete_user(check_id(user_id, "user id"))
                self._seen.clear()

    # messages

    def append(
        self,
        session_id: str,
        *messages: Message | dict[str, Any],
        parent: str | None = None,
        activate: bool = True,
        timeout: float | None = None,
    ) -> list[Message]:
        """Add messages at the head, all or none; safe with concurrent writers, and safe to repeat.

        With a `parent` that is not the head they open a branch, which becomes the active one unless
        `activate=False`; `parent=ROOT` stands in front of the first message.
        """
        if timeout is None:
            return self._append(session_id, messages, parent, activate).carry_out(self._store)
        with within(self._limit(timeout)):
            return self._append(session_id, messages, parent, activate).carry_out(self._store)

    def _append(
        self,
        session_id: str,
        messages: tuple[Message | dict[str, Any], ...],
        parent: str | None = None,
        activate: bool = True,
    ) -> Plan[list[Message]]:
        check_id(session_id, "session id")
        said = appends.say(messages)
        made: appends.Appended | None = None
        seen = self._seen.get(session_id)
        if (
            seen is not None
            and said
            and parent is None
            and seen.pointer.open
            and seen.pointer.detached_by is None
            and appends.wants_title(seen.pointer, said) is None
        ):
            made = appends.extend(seen, said, self._stamps.next(seen.pointer.updated_at))

        def rebase(reader: Reader) -> list[Write]:
            nonlocal made
            now_seen = history.must_see(reader, session_id)
            at = self._stamps.next(now_seen.pointer.updated_at)
            made = appends.settle(reader, now_seen, said, parent, activate, at)
            return made.writes

        def finish() -> list[Message]:
            assert made is not None
            self._remember(made.seen)
            return made.messages

        return Plan(None if made is None else made.writes, rebase, finish)

    def message(
        self, session_id: str, message_id: str, *, timeout: float | None = None
    ) -> Message | None:
        """One message this session reaches, on any branch, or None."""
        with within(self._limit(timeout)):
            seen = history.look_up(self._store, check_id(session_id, "session id"))
            if seen is None:
                return None
            try:
                record = history.find_reached(self._store, seen.pointer, check_id(message_id, "message id"))
            except NotFound:
                return None
            _, branch, seq = record.key
            runs = history.segments(self._store, seen.pointer.history, int(branch), int(seq))
            run = history.last_of(runs, 1)[0]
            return next(history.read(self._store, session_id, seen.pointer.history, run))

    def messages(
        self,
        session_id: str,
        *,
        last: int | None = None,
        start: int | None = None,
        stop: int | None = None,
        branch: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[Message]:
        """The path to the head, lazily; or its `last` n, or positions `start` to `stop` (from 1, inclusive).

        With `branch` the path to that branch's end. Nothing for an unknown session.
        """
        for name, value in (("last", last), ("start", start), ("stop", stop), ("branch", branch)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise InvalidInput(f"{name} must be a whole number from 0, not {value!r}")
        with within(self._limit(timeout)):
            seen = history.look_up(self._store, check_id(session_id, "session id"))
            if seen is None:
                return iter(())
            runs = self._runs(seen.pointer, branch)
        if last is not None:
            runs = history.last_of(runs, last)
        if start is not None or stop is not None:
            runs = _between(runs, start, stop)
        return self._read(session_id, seen.pointer.history, runs)

    def _runs(self, pointer: Pointer, branch: int | None) -> list[Segment]:
        if branch is None:
            return history.segments(self._store, pointer.history, pointer.branch, pointer.seq)
        return history.segments(
            self._store, pointer.history, branch, self._end(self._store, pointer, branch)
        )

    def _end(self, reader: Reader, pointer: Pointer, branch: int) -> int:
        """The last position of a branch that this session reaches; NotFound if it does not."""
        session = get(reader, SESSIONS, pointer.session_id)
        reached = {} if session is None else history.reach_of(reader, session, pointer.history)
        if branch not in reached:
            raise NotFound(f"session {pointer.session_id!r} has no branch {branch}")
        end = reached[branch]
        return history.end_of(reader, history.branch_at(reader, pointer.history, branch)) if end is None else end

    def _read(self, session_id: str, name: str, runs: list[Segment]) -> Iterator[Message]:
        for run in runs:
            yield from history.read(self._store, session_id, name, run)

    def page(
        self,
        session_id: str,
        *,
        limit: int = 100,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> Page[Message]:
        """Messages from the first on, a page at a time; the cursor keeps to the path it began on."""
        cursors.check_range(limit, 0)
        listing = ["messages", check_id(session_id, "session id")]
        with within(self._limit(timeout)):
            seen = history.look_up(self._store, session_id)
            if seen is None:
                return Page([], None)
            branch, end, begin = seen.pointer.branch, seen.pointer.seq, 0
            if cursor is not None:
                branch, end, begin = cursors.read(listing, cursor)
            runs = history.segments(self._store, seen.pointer.history, branch, end)
            stop = min(end, begin + limit)
            found = list(self._read(session_id, seen.pointer.history, _between(runs, begin + 1, stop)))
            return Page(found, cursors.make(listing, [branch, end, stop]) if stop < end and limit else None)

    def update_usage(
        self, session_id: str, message_id: str, usage: Usage, *, timeout: float | None = None
    ) -> Message:
        """Set what a message used, in place of what was set before; NotFound without the message."""
        check_id(message_id, "message id")

        def place(reader: Reader) -> list[Write]:
            pointer = history.must_see(reader, session_id).pointer
            record = history.find_reached(reader, pointer, message_id)
            gone = [
                _delete(old)
                for old in reader.scan(Query(kind=USAGES, prefix=record.key))
                if old.key[-1] != usage.id
            ]
            return [*gone, Put(history.usage_insert(record.key, usage).record)]

        with within(self._limit(timeout)):
            Plan(None, place, lambda: None).carry_out(self._store)
            message = self.message(session_id, message_id)
            assert message is not None
            return message

    def redact(
        self, session_id: str, message_id: str, reason: str, *, timeout: float | None = None
    ) -> Message:
        """Destroy a message's content everywhere; id, role, call ids, time and digest stay."""
        check_id(message_id, "message id")

        def place(reader: Reader) -> list[Write]:
            pointer = history.must_see(reader, session_id).pointer
            record = history.find_reached(reader, pointer, message_id)
            if codec.redacted_digest(record.body) is not None:
                return []
            said = codec.decode_message(record.body, f"message {message_id!r}")
            stub = codec.redact(said, record.digest, Redaction(reason=reason, at=moment(self._stamps.next())))
            emptied = Record(record.kind, record.key, stub, codec.digest(stub), record.fields)
            return [Put(emptied, record.digest)]

        with within(self._limit(timeout)):
            Plan(None, place, lambda: None).carry_out(self._store)
            message = self.message(session_id, message_id)
            assert message is not None
            return message

    # branches

    def tree(self, session_id: str, *, timeout: float | None = None) -> Tree:
        """The branches a session reaches and where they part; NotFound if there is no such session."""
        with within(self._limit(timeout)):
            pointer = history.must_see(self._store, check_id(session_id, "session id")).pointer
            session = get(self._store, SESSIONS, session_id)
            branches = history.branches_of(self._store, pointer.history)
            reached = {} if session is None else history.reach_of(self._store, session, pointer.history)
            views = [
                BranchView(
                    id=number,
                    parent=branches[number].parent,
                    fork_seq=branches[number].fork_seq,
                    fork_message_id=branches[number].fork_id,
                    seq=history.end_of(self._store, branches[number]) if end is None else end,
                    active=number == pointer.branch,
                )
                for number, end in sorted(reached.items())
            ]
        return Tree(
            session_id=session_id, head=head_view(pointer), branches=views, branch_points=_branch_points(views)
        )

    def switch(self, session_id: str, branch: int, *, timeout: float | None = None) -> Session:
        """Make another branch the active one; the head moves to its end."""
        check_id(session_id, "session id")

        def place(reader: Reader) -> list[Write]:
            seen = history.must_see(reader, session_id)
            end = self._end(reader, seen.pointer, branch)
            pointer = self._point(reader, seen.pointer, branch, end)
            return [Put(history.pointer_record(pointer, seen.later), seen.digest)]

        with within(self._limit(timeout)):
            Plan(None, place, lambda: None).carry_out(self._store)
            self._seen.pop(session_id, None)
            session = self._get(self._store, session_id)
            if session is None:
                raise NotFound(f"session {session_id!r} was deleted meanwhile")
            return session

    def _point(self, reader: Reader, pointer: Pointer, branch: int, seq: int) -> Pointer:
        """The same session pointing at another position."""
        here = history.branch_at(reader, pointer.history, branch)
        own = here.session_id == pointer.session_id and seq == history.end_of(reader, here)
        at = self._stamps.next(after=pointer.updated_at)
        moved = replace(pointer, branch=branch, seq=seq, open=own, updated_at=at)
        if seq == here.fork_seq:
            return replace(moved, link=here.fork_link, message_id=here.fork_id)
        record = get(reader, history.MESSAGES, pointer.history, branch, seq)
        if record is None:
            raise NotFound(f"session {pointer.session_id!r} has no message {seq} on branch {branch}")
        return replace(moved, link=history.message_link(record), message_id=str(record.fields[0]))

    def fork(
        self,
        session_id: str,
        *,
        at: str | None = None,
        id: str | None = None,
        title: str | None = None,
        copy: bool = False,
        timeout: float | None = None,
    ) -> Session:
        """A new session that begins with this one's messages up to `at` (the head by default).

        It shares their storage; `copy=True` gives it its own.
        """
        check_id(session_id, "session id")
        new = new_id() if id is None else check_id(id, "session id")
        with within(self._limit(timeout)):
            self._sweeps.finish_session(new)
            if copy:
                return self._fork_copy(session_id, at, new, title)
            forked: list[tuple[Stored, Seen]] = []

            def place(reader: Reader) -> list[Write]:
                stored, pointer, required = self._fork_point(reader, session_id, at, new, title)
                head = history.pointer_record(pointer, {})
                forked[:] = [(stored, Seen(pointer, head.digest, {}))]
                return [*required, Insert(stored_record(stored)), Insert(head)]

            Plan(None, place, lambda: None).carry_out(self._store)
            stored, seen = forked[-1]
            self._remember(seen)
            return view(stored, seen.pointer)

    def _fork_point(
        self, reader: Reader, session_id: str, at: str | None, new: str, title: str | None
    ) -> tuple[Stored, Pointer, list[Write]]:
        seen = history.must_see(reader, session_id)
        record = get(reader, SESSIONS, session_id)
        assert record is not None
        if get(reader, HEADS, new) is not None:
            raise AlreadyExists(f"session {new!r} exists; choose another id")
        pointer = seen.pointer
        if at is not None:
            key = history.find_reached(reader, pointer, check_id(at, "message id")).key
            pointer = self._point(reader, pointer, int(key[1]), int(key[2]))
        stamp = self._stamps.next()
        source = read_stored(record)
        named = title if title is not None else source.title
        origin = (pointer.branch, pointer.seq)
        stored = replace(source, id=new, created_at=stamp, title=named, origin=origin)
        pointer = replace(
            pointer,
            session_id=new,
            open=False,
            created_at=stamp,
            updated_at=stamp,
            detached_by=None,
            titled=named is not None,
        )
        return stored, pointer, [Require(HEADS, (session_id,), seen.digest)]

    def _fork_copy(self, session_id: str, at: str | None, new: str, title: str | None) -> Session:
        stored, pointer, _ = self._fork_point(self._store, session_id, at, new, title)
        runs = history.segments(self._store, pointer.history, pointer.branch, pointer.seq)
        own = new_id()
        stored = replace(stored, history=own, origin=None)
        link = self._sweeps.staged_copy(own, pointer.history, runs)
        root = Branch(history=own, branch=ROOT_BRANCH, session_id=new, fork_link=history.first_link(own))
        pointer = replace(
            pointer, history=own, branch=ROOT_BRANCH, link=link, n=pointer.seq, open=True
        )
        return self._create(stored, pointer, [Insert(history.branch_record(root)), self._sweeps.publish(own)])

    # shared

    def _limit(self, timeout: float | None) -> float:
        if timeout is None:
            return self._timeout
        if not isinstance(timeout, int | float) or not timeout >= 0:
            raise InvalidInput(f"timeout is a number of seconds, not {timeout!r}")
        return timeout

    def _remember(self, seen: Seen) -> None:
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen[seen.pointer.session_id] = seen


def _delete(record: Record) -> Delete:
    return Delete(record.kind, record.key)


def _between(runs: list[Segment], start: int | None, stop: int | None) -> list[Segment]:
    """The part of a path from position start to position stop."""
    kept = []
    for run in runs:
        low = run.low if start is None else max(run.low, start)
        high = run.high if stop is None else min(run.high, stop)
        if low <= high:
            kept.append(history.cut(run, low, high))
    return kept


def _holds(present: dict[str, Json] | None, wanted: dict[str, Json]) -> bool:
    """Whether metadata has these pairs; 42, 42.0 and "42" are three values."""
    missing = object()
    return present is not None and all(
        type(present.get(key, missing)) is type(value) and present[key] == value for key, value in wanted.items()
    )


def _branch_points(views: list[BranchView]) -> list[str | None]:
    """The messages with more than one answer, None for the beginning; oldest first."""
    ends = {view.id: view.seq for view in views}
    points: dict[str | None, int] = {}
    for one in views:
        if one.parent is not None and one.seq > one.fork_seq:
            goes_on = ends.get(one.parent, 0) > one.fork_seq
            points[one.fork_message_id] = points.get(one.fork_message_id, int(goes_on)) + 1
    return [point for point, answers in points.items() if answers > 1]


def _optional_id(value: str | None, what: str) -> str | None:
    return None if value is None else check_id(value, what)


def session_record(envelope: dict[str, Any]) -> Record:
    """The record of a session from its whole envelope."""
    for name in ("metadata",):
        codec.check_json(envelope.get(name), f"session {name}")
    body = codec.encode(envelope, "session")
    fields = (envelope.get("agent_id"), envelope["history"])
    return Record(SESSIONS, (envelope["id"],), body, codec.digest(body), fields)


def stored_record(stored: Stored) -> Record:
    """The record of a session."""
    return session_record(msgspec.to_builtins(stored))


def read_stored(record: Record) -> Stored:
    """What a session's record says."""
    return codec.decode(record.body, Stored, f"session {record.key[0]!r}")


def _check_session(session: Record, head: Record) -> None:
    """InvalidInput where a value would not read back."""
    try:
        msgspec.json.decode(session.body, type=Stored)
        msgspec.json.decode(head.body, type=Pointer)
    except msgspec.ValidationError as cause:
        raise InvalidInput(f"the session cannot be stored: {cause}") from cause


def head_view(pointer: Pointer) -> Head:
    """Where a session stands, for its reader."""
    return Head(branch=pointer.branch, seq=pointer.seq, message_id=pointer.message_id)


def view(stored: Stored, pointer: Pointer) -> Session:
    """A session as its reader sees it."""
    return Session(
        id=stored.id,
        agent_id=pointer.agent_id,
        user_id=pointer.user_id,
        title=stored.title,
        model=stored.model,
        metadata=stored.metadata,
        tags=stored.tags,
        archived=pointer.archived,
        status=pointer.status,
        max_context_tokens=stored.max_context_tokens,
        detached_by=pointer.detached_by,
        created_at=moment(stored.created_at),
        updated_at=moment(pointer.updated_at),
        last_message_at=pointer.last_message_at,
        head=head_view(pointer),
    )
