"""Claims: what records say of other places, and whether it is so there.

A head, a branch, a checkpoint says which link and which message it leads to. They are read before the messages, wait
for the place they name, and are compared when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from holdfast.commits import get
from holdfast.contracts import Key, Query, Record, RecordStore
from holdfast.filters import Filter
from holdfast.history import Branch
from holdfast.kinds import BRANCHES, CHECKPOINTS, HEADS, MESSAGES, SESSIONS, SWEEPS, Kind
from holdfast.model import Value

# Who says it (kind, key, digest): the link and the message id at the place, the uid of the session or agent without
# which it says nothing, and what else is said of the same place. There may be one for each message: so it is small.
Claim: TypeAlias = tuple[Kind, Key, bytes, bytes, str | None, str | None, Any]


class Problem(Value, frozen=True, kw_only=True):
    """A record that is not what it was."""

    kind: str
    key: tuple[str | int, ...]
    what: str


class Claims:
    """What is claimed of places in a store, and what was found to be wrong."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._problems: list[Problem] = []
        self._living: set[str] = set()
        self._branches: dict[Key, Branch] = {}
        self._unsure: set[Key] = set()
        self._claims: dict[Key, Claim] = {}
        self._beside: dict[Key, list[Kind]] = {}
        self._leads: dict[Key, Key] = {}  # from a message to a checkpoint that leaves its text out

    def _note(self, kind: Kind, key: Key, what: str) -> None:
        self._problems.append(Problem(kind=kind.name, key=key, what=what))
        if kind is BRANCHES:
            self._unsure.add(key)

    def _claim(self, record: Record, at: Key, link: bytes, message_id: str | None, of: str | None) -> None:
        if of is None or of in self._living:
            claims = self._claims
            claims[at] = (record.kind, record.key, record.digest, link, message_id, of, claims.get(at))

    def _met(self, claim: Claim, link: bytes | None, record: Record) -> None:
        """Compare what is claimed of a place with what is there."""
        message_id = record.fields[0] if record.kind is MESSAGES else None
        for kind, key, _, claimed, claimed_id, _, _ in _each(claim):
            if claimed != link or claimed_id != message_id:
                self._note(kind, key, f"it does not match {record.kind.name} {record.key}")

    def _unmet(self, living_now: Callable[[], set[str]]) -> None:
        """What leads to no message must lead to the beginning of a branch, unless it has gone meanwhile."""
        missing: list[tuple[Claim, Key]] = []
        for at, newest in self._claims.items():
            branch = self._branches.get(at[:2])
            if branch is not None and at[2:] == (branch.fork_seq,):
                beginning = (branch.fork_link, branch.fork_id)
                missing += [(claim, at) for claim in _each(newest) if claim[3:5] != beginning]
            elif at[:2] not in self._unsure:
                missing += [(claim, at) for claim in _each(newest)]
        living = living_now() if missing else set()
        for (kind, key, digest, _, _, of, _), at in missing:
            present = get(self._store, kind, *key)
            if present is None or present.digest != digest or (kind is BRANCHES and self._is_going(key)):
                continue
            if of is None or of in living:
                self._note(kind, key, f"there is nothing at {at}, which it points at")

    def _left_over(self) -> None:
        """What stands beside a message that is not there, unless it is being deleted."""
        for kind, key in ((kind, key) for key, kinds in self._beside.items() for kind in kinds):
            record = get(self._store, kind, *key)
            if record is not None and get(self._store, MESSAGES, *key) is None and not self._is_going(key):
                self._note(kind, key, "there is no message that it belongs to")
        for message, checkpoint in self._leads.items():
            gone = get(self._store, CHECKPOINTS, *checkpoint) is None or self._is_going(message)
            if not gone and get(self._store, MESSAGES, *message) is None:
                self._note(CHECKPOINTS, checkpoint, f"there is no message {message}, whose text it leaves out")

    def _is_going(self, key: Key) -> bool:
        """Whether a row is of a history that is being deleted, or copied and not yet anybody's."""
        same = (Filter("history", "=", key[0]),)
        sessions = [found.key for found in self._store.scan(Query(kind=SESSIONS, where=same))]
        staged = get(self._store, SWEEPS, f"staged {key[0]}")
        return staged is not None or any(get(self._store, HEADS, *session) is None for session in sessions)


def _each(claim: Claim | None) -> Iterator[Claim]:
    """A claim and what else is said of the same place, the oldest first."""
    found = []
    while claim is not None:
        found.append(claim)
        claim = claim[6]
    return reversed(found)
