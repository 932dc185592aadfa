"""Which session a message is found in: its own, or else another that reaches it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from holdfast import codec, history
from holdfast.commits import get
from holdfast.contracts import Key, Query, Reader, Record
from holdfast.filters import Filter
from holdfast.heads import scan_heads
from holdfast.history import Branch, Pointer
from holdfast.kinds import BRANCHES, HEADS, MESSAGES, SESSIONS


class Scope(Struct, frozen=True, kw_only=True):
    """Whose sessions are meant; None means everybody's. Detached sessions never are."""

    agent_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None

    def is_open(self) -> bool:
        """Whether everybody's are."""
        return self.agent_id is None and self.session_id is None and self.user_id is None

    def has(self, pointer: Pointer) -> bool:
        """Whether a session is one of them."""
        return (
            pointer.detached_by is None
            and self.session_id in (None, pointer.session_id)
            and self.agent_id in (None, pointer.agent_id)
            and self.user_id in (None, pointer.user_id)
        )


class _Session(Struct, frozen=True, gc=False):
    """A session, the branches it opened, and how far it reaches into each."""

    id: str
    created_at: int
    own: frozenset[int]
    reach: dict[int, int | None]


class Reached:
    """What the sessions of a scope reach; each history is looked at once."""

    def __init__(self, reader: Reader, scope: Scope) -> None:
        self._reader = reader
        self._scope = scope
        self._known: dict[str, list[_Session]] = {}
        self._owners: dict[tuple[str, int], str | None] = {}

    def histories(self) -> list[str]:
        """The histories of the sessions meant."""
        return list(dict.fromkeys(pointer.history for pointer in self._pointers()))

    def _pointers(self) -> Iterator[Pointer]:
        scope = self._scope
        if scope.session_id is not None:
            seen = history.look_up(self._reader, scope.session_id)
            found = iter(() if seen is None else (seen.pointer,))
        else:
            given = {"agent_id": scope.agent_id, "user_id": scope.user_id}
            where = [Filter(name, "=", value) for name, value in given.items() if value is not None]
            heads = scan_heads(self._reader, Query(kind=HEADS, where=(*where, Filter("detached_by", "=", None))))
            found = (seen.pointer for seen in heads)
        return (pointer for pointer in found if scope.has(pointer))

    def queries(self) -> Iterator[Query]:
        """What to scan for every message that is reached, each once."""
        for name in self.histories():
            ends: dict[int, int | None] = {}
            for session in self._sessions(name):
                for branch, end in session.reach.items():
                    known = ends.get(branch, 0)
                    ends[branch] = None if end is None or known is None else max(known, end)
            for branch, end in ends.items():
                yield Query(kind=MESSAGES, prefix=(name, branch), high=end)

    def is_reached(self, name: str) -> bool:
        """Whether any of the sessions meant has this history."""
        return bool(self._sessions(name))

    def session_of(self, place: Key) -> str | None:
        """The session in which the message at this place is found; None if none of those meant reaches it."""
        branch, seq = int(place[1]), int(place[2])
        quick = self._own(str(place[0]), branch)
        if quick is not None:
            return quick
        there = [one for one in self._sessions(str(place[0])) if history.within_reach(one.reach, branch, seq)]
        own = next((one for one in there if branch in one.own), None)
        return own.id if own is not None else there[0].id if there else None

    def _own(self, name: str, branch: int) -> str | None:
        """The session that opened a branch, if it has the id that a history and its first session are made with."""
        if (name, branch) not in self._owners:
            seen, opened = history.look_up(self._reader, name), get(self._reader, BRANCHES, name, branch)
            pointer = None if seen is None else seen.pointer
            own = pointer is not None and opened is not None and self._scope.has(pointer) and _opened(opened, pointer)
            self._owners[name, branch] = name if own else None
        return self._owners[name, branch]

    def _sessions(self, name: str) -> list[_Session]:
        """The sessions meant that have this history, oldest first."""
        known = self._known.get(name)
        if known is None:
            self._known[name] = known = sorted(self._look(name), key=lambda one: (one.created_at, one.id))
        return known

    def _look(self, name: str) -> Iterator[_Session]:
        branches = history.branches_of(self._reader, name)
        for record in self._reader.scan(Query(kind=SESSIONS, where=(Filter("history", "=", name),))):
            seen = history.look_up(self._reader, str(record.key[0]))
            pointer = None if seen is None else seen.pointer
            if pointer is not None and self._scope.has(pointer):
                own = frozenset(branch.branch for branch in branches.values() if branch.opened_by == pointer.uid)
                reach = history.reach_from(record, branches)
                yield _Session(pointer.session_id, pointer.created_at, own, reach)


def _opened(record: Record, pointer: Pointer) -> bool:
    """Whether a session has opened a branch, all of which it then reaches."""
    branch = codec.decode(record.body, Branch, f"branch {record.key}")
    return branch.opened_by == pointer.uid and branch.history == pointer.history and not branch.gone
