"""The one document per namespace on which its commits agree.

`version` counts the commits. A commit happens by one conditional update of this document, from a version to the next,
which takes the whole batch along; `applied` says that the records show it. So who finds a batch that is not applied
can apply it, and nobody begins a commit before. Writers who were overtaken draw a ticket and are served in order: that
is a courtesy for fairness, and no promise rests on it. `token_N` tell a writer whose connection broke what became of
its commit.
"""

from __future__ import annotations

import os
from typing import Any, Literal

from bson import Binary, Int64
from msgspec import Struct
from pymongo import ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from holdfast.backends._mongo.answers import answering
from holdfast.backends._mongo.documents import Document
from holdfast.errors import BackendError

TOKENS = 256
SHOWN = {"version": 1, "applied": 1, "tickets": 1, "serving": 1, "left": 1}
NEW: Document = {"version": Int64(0), "applied": True, "tickets": Int64(0), "serving": Int64(0), "left": []}

Fate = Literal["done", "not done", "open", "unknown"]


class State(Struct, frozen=True, kw_only=True):
    """What a namespace's document says of its commits and of those who wait."""

    version: int = 0
    applied: bool = True
    tickets: int = 0
    serving: int = 0
    left: tuple[int, ...] = ()

    def idle(self) -> bool:
        """Whether nobody waits."""
        return self.tickets == self.serving


class Space:
    """A namespace's document."""

    def __init__(self, spaces: Collection[Document], namespace: str) -> None:
        self._spaces = spaces
        self._me: Document = {"_id": f"space {namespace}"}

    def create(self) -> None:
        """Make the document, unless it is there."""
        try:
            with answering():
                self._spaces.update_one(self._me, {"$setOnInsert": NEW}, upsert=True)
        except DuplicateKeyError:
            return  # somebody else has just made it

    def read(self) -> State:
        """How things stand; as in an empty namespace if there is no document."""
        with answering():
            found = self._spaces.find_one(self._me, SHOWN)
        return State() if found is None else _state(found)

    def journal(self, version: int) -> bytes | None:
        """The batch of this version, unless it is applied."""
        with answering():
            found = self._spaces.find_one({**self._me, "version": Int64(version)}, {"batch": 1})
        return None if found is None or found.get("batch") is None else bytes(found["batch"])

    def advance(self, state: State, ticket: int | None, batch: bytes, token: str) -> bool:
        """Commit a batch, if the version is still this one and, without a ticket, nobody has drawn one."""
        version = state.version + 1
        change: Document = {
            "version": Int64(version),
            "applied": False,
            "batch": Binary(batch),
            f"token_{version % TOKENS}": token,
        }
        wanted = {**self._me, "version": Int64(state.version)}
        update: Document = {"$set": change}
        if ticket is None:
            wanted["tickets"] = Int64(state.tickets)
        else:
            update["$max"] = {"serving": Int64(ticket + 1)}  # one who was passed over must not turn it back
        with answering("unknown"):
            done = self._spaces.update_one(wanted, update)
        return done.matched_count == 1

    def finish(self, version: int) -> None:
        """Note that the batch of this version is applied."""
        mine = {**self._me, "version": Int64(version)}
        with answering():
            self._spaces.update_one(mine, {"$set": {"applied": True}, "$unset": {"batch": 1}})

    def fate(self, version: int, token: str) -> Fate:
        """What became of a commit to this version; open while it may still come, unknown after many others."""
        slot = f"token_{version % TOKENS}"
        with answering():
            found = self._spaces.find_one(self._me, {"version": 1, slot: 1}) or {}
        behind = int(found.get("version", 0)) - version
        if found.get(slot) == token:
            return "done"
        if behind < 0:
            return "open"
        return "not done" if behind < TOKENS else "unknown"

    # waiting in line

    def draw(self) -> tuple[int, State]:
        """A ticket, and how things stand."""
        with answering():
            found = self._spaces.find_one_and_update(
                self._me, {"$inc": {"tickets": Int64(1)}}, SHOWN, return_document=ReturnDocument.AFTER
            )
        if found is None:
            raise BackendError("the namespace has been removed from the database; open the store again")
        state = _state(found)
        return state.tickets - 1, state

    def skip(self, serving: int) -> None:
        """Serve the next, if this ticket is still the one that is served."""
        now = {**self._me, "serving": Int64(serving)}
        with answering():
            self._spaces.update_one(now, {"$set": {"serving": Int64(serving + 1)}})

    def leave(self, state: State, ticket: int) -> None:
        """Say that nobody waits with this ticket any more; those served before are forgotten."""
        left = [Int64(one) for one in (*state.left, ticket) if one >= state.serving]
        with answering():
            self._spaces.update_one(self._me, {"$set": {"left": left}})


def _state(found: dict[str, Any]) -> State:
    return State(
        version=int(found["version"]),
        applied=found["applied"],
        tickets=int(found["tickets"]),
        serving=int(found["serving"]),
        left=tuple(int(one) for one in found["left"]),
    )


def new_token() -> str:
    """What tells one try to commit from every other."""
    return os.urandom(9).hex()
