"""Where a session parts: its tree, switching between branches, forking into a session of its own."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast import history
from holdfast.appends import ROOT
from holdfast.commits import commit, get
from holdfast.contracts import Insert, Reader, Require, Write
from holdfast.errors import AlreadyExists, InvalidInput, NotFound
from holdfast.history import ROOT_BRANCH, Branch, Pointer, Seen
from holdfast.holds import check_free
from holdfast.ids import check_id, check_whole, new_id
from holdfast.kinds import HEADS, MESSAGES, SESSIONS
from holdfast.model import BranchView, Session, Tree
from holdfast.session_records import Stored, check_readable, head_view, read_stored, same_session, stored_record, view
from holdfast.transcripts import Transcripts


class Branching(Transcripts):
    """The branches and forks of sessions."""

    def tree(self, session_id: str, *, timeout: float | None = None) -> Tree:
        """The branches a session reaches and where they part; NotFound if there is no such session."""
        with self._within(timeout):
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
            session_id=session_id,
            head=head_view(pointer),
            branches=views,
            branch_points=_branch_points(views),
        )

    def _get(self, reader: Reader, session_id: str) -> Session | None:
        seen = history.look_up(reader, session_id)
        record = get(reader, SESSIONS, session_id) if seen is not None else None
        return None if seen is None or record is None else view(read_stored(record), seen.pointer)

    def switch(
        self, session_id: str, branch: int | None = None, *, at: str | None = None, timeout: float | None = None
    ) -> Session:
        """Move the head to the end of another branch, or to one message; `at=ROOT` is in front of the first.

        A branch goes on where it was left; an append behind any other message opens a new one.
        """
        check_id(session_id, "session id")
        if (branch is None) == (at is None):
            raise InvalidInput("name either a branch or the message to stand at")
        if branch is not None:
            check_whole(branch, "branch")
        elif at != ROOT:
            check_id(at, "message id")

        def place(reader: Reader) -> list[Write]:
            seen = history.must_see(reader, session_id)
            check_free(reader, seen.pointer, self._store)
            return history.move(seen, self._point(reader, seen.pointer, *self._goal(reader, seen.pointer, branch, at)))[
                1
            ]

        with self._within(timeout):
            commit(self._store, place)
            self._ground.heads.pop(session_id, None)
            return self._must_get(session_id)

    def _must_get(self, session_id: str) -> Session:
        session = self._get(self._store, session_id)
        if session is None:
            raise NotFound(f"session {session_id!r} was deleted meanwhile")
        return session

    def _goal(self, reader: Reader, pointer: Pointer, branch: int | None, at: str | None) -> tuple[int, int]:
        """The branch and position of a branch's end, or of a message."""
        if branch is not None:
            return branch, self._end(reader, pointer, branch)
        if at is None or at == ROOT:
            return ROOT_BRANCH, 0
        _, number, seq = history.find_reached(reader, pointer, at).key
        return int(number), int(seq)

    def _point(self, reader: Reader, pointer: Pointer, branch: int, seq: int) -> Pointer:
        """The same session pointing at another position."""
        here = history.branch_at(reader, pointer.history, branch)
        own = here.opened_by == pointer.uid and seq == history.end_of(reader, here)
        at = self._stamps.next(after=pointer.updated_at)
        moved = replace(pointer, branch=branch, seq=seq, open=own, updated_at=at)
        if seq == here.fork_seq:
            return replace(moved, link=here.fork_link, message_id=here.fork_id)
        record = get(reader, MESSAGES, pointer.history, branch, seq)
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
        if at is not None:
            check_id(at, "message id")

        def stand(reader: Reader, pointer: Pointer) -> Pointer:
            if at is None:
                return pointer
            _, branch, seq = history.find_reached(reader, pointer, at).key
            return self._point(reader, pointer, int(branch), int(seq))

        with self._within(timeout):
            return self._fork(session_id, new, stand, title=title, copy=copy)

    def _fork(
        self,
        session_id: str,
        new: str,
        stand: Callable[[Reader, Pointer], Pointer],
        *,
        title: str | None = None,
        agent_id: str | None = None,
        copy: bool = False,
    ) -> Session:
        """A new session that begins where `stand` says, of the same agent or of another."""
        self._ground.sweeps.finish_session(new)
        named = {"title": title, "agent_id": agent_id}
        given = {name: value for name, value in named.items() if value is not None}
        if copy:
            return self._fork_copy(session_id, new, stand, given)
        forked: list[tuple[Stored, Seen]] = []

        def place(reader: Reader) -> list[Write]:
            stored, pointer, required = self._fork_point(reader, session_id, new, stand, given)
            check_readable(stored, pointer)
            known = self._known(reader, stored, pointer)
            if known is not None:
                forked[:] = [known]
                return []
            seen, head = history.new_head(pointer)
            forked[:] = [(stored, seen)]
            return [required, Insert(stored_record(stored)), *head]

        commit(self._store, place)
        stored, seen = forked[-1]
        self._ground.remember(seen)
        return view(stored, seen.pointer)

    def _fork_point(
        self,
        reader: Reader,
        session_id: str,
        new: str,
        stand: Callable[[Reader, Pointer], Pointer],
        given: dict[str, str],
    ) -> tuple[Stored, Pointer, Require]:
        seen = history.must_see(reader, session_id)
        record = get(reader, SESSIONS, session_id)
        if record is None:
            raise NotFound(f"session {session_id!r} was deleted meanwhile")
        at = stand(reader, seen.pointer)
        stamp, source = self._stamps.next(), read_stored(record)
        place = (at.branch, at.seq)
        stored = replace(
            source,
            id=new,
            uid=new_id(),
            created_at=stamp,
            origin=place,
            forked_at=(source.uid, *place),
            users=[*{*source.users, *filter(None, [seen.pointer.user_id])}],
            **given,
        )
        pointer = replace(
            at,
            session_id=new,
            uid=stored.uid,
            agent_id=stored.agent_id,
            open=False,
            created_at=stamp,
            updated_at=stamp,
            detached_by=None,
            pending=None,
            titled=stored.title is not None,
        )
        return stored, pointer, Require(HEADS, (session_id,), seen.digest)

    def _fork_copy(
        self,
        session_id: str,
        new: str,
        stand: Callable[[Reader, Pointer], Pointer],
        given: dict[str, str],
    ) -> Session:
        stored, pointer, _ = self._fork_point(self._store, session_id, new, stand, given)
        check_readable(stored, pointer)
        known = self._known(self._store, stored, pointer)
        if known is not None:
            return view(known[0], known[1].pointer)
        runs = history.segments(self._store, pointer.history, pointer.branch, pointer.seq)
        own = new_id()
        stored = replace(stored, history=own, origin=None)
        first = history.first_link(own)
        root = Branch(history=own, branch=ROOT_BRANCH, opened_by=stored.uid, fork_link=first)
        link = self._ground.sweeps.staged_copy(own, pointer.history, runs)
        pointer = replace(pointer, history=own, branch=ROOT_BRANCH, link=link, n=pointer.seq, open=True)
        published: list[Write] = [Insert(history.branch_record(root)), self._ground.sweeps.publish(own)]
        return self._insert(stored, pointer, published)

    def _known(self, reader: Reader, stored: Stored, pointer: Pointer) -> tuple[Stored, Seen] | None:
        """The very same session if it is there, None if its id is free; AlreadyExists if another has it."""
        known = history.look_up(reader, stored.id)
        if known is None:
            return None
        record = get(reader, SESSIONS, stored.id)
        if record is None or not same_session((stored, pointer), (read_stored(record), known.pointer)):
            raise AlreadyExists(f"session {stored.id!r} exists; choose another id, or append to it")
        return read_stored(record), known

    def _insert(self, stored: Stored, pointer: Pointer, writes: list[Write]) -> Session:
        """Add a session that is not there yet."""
        check_readable(stored, pointer)
        session = stored_record(stored)
        seen, head = history.new_head(pointer)

        made: list[tuple[Stored, Seen]] = []

        def place(reader: Reader) -> list[Write]:
            known = self._known(reader, stored, pointer)
            made[:] = [known or (stored, seen)]
            return [] if known is not None else [Insert(session), *head, *writes]

        if stored.id != stored.history:
            self._ground.sweeps.finish_session(stored.id)
        commit(self._store, place)
        self._ground.remember(made[-1][1])
        return view(made[-1][0], made[-1][1].pointer)


def _branch_points(views: list[BranchView]) -> list[str | None]:
    """The messages with more than one answer, None for the beginning; oldest first."""
    ends = {view.id: view.seq for view in views}
    points: dict[str | None, int] = {}
    for one in views:
        if one.parent is not None and one.seq > one.fork_seq:
            goes_on = ends.get(one.parent, 0) > one.fork_seq
            points[one.fork_message_id] = points.get(one.fork_message_id, int(goes_on)) + 1
    return [point for point, answers in points.items() if answers > 1]
