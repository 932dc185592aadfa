"""Committing against writers one cannot see: try, and on a refusal read again and re-plan."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from holdfast.contracts import (
    Delete,
    Insert,
    Key,
    Moved,
    Put,
    Query,
    Reader,
    Rebase,
    Record,
    RecordStore,
    Require,
    Taken,
    Write,
)
from holdfast.deadlines import deadline
from holdfast.errors import Busy
from holdfast.kinds import Kind

R = TypeVar("R")

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.1


class Plan(Struct, Generic[R], eq=False):
    """A write that is decided but not yet done.

    `writes` are the hopeful ones, made of what was last seen; None means that nothing was.
    """

    blocks: ClassVar[bool] = False  # whether carrying it out takes more than its commit

    writes: Sequence[Write] | None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"  # of what it holds, a whole store can be reached

    def rebase(self, reader: Reader) -> Sequence[Write]:
        """The writes made anew of what is there."""
        raise NotImplementedError

    def finish(self) -> R:
        """The caller's answer, once the writes are done."""
        raise NotImplementedError

    def carry_out(self, store: RecordStore) -> R:
        """Commit, and answer; Busy at the present call's limit."""
        try:
            store.commit(self.writes, self.rebase)
        except (Moved, Taken):
            _insist(store, self.rebase)
        return self.finish()


def commit(store: RecordStore, rebase: Rebase, writes: Sequence[Write] | None = None) -> None:
    """Commit hopeful writes, or what `rebase` makes of what is there, and plan anew after each refusal.

    At the deadline Busy, with nothing written.
    """
    try:
        store.commit(writes, rebase)
    except (Moved, Taken):
        _insist(store, rebase)


def _insist(store: RecordStore, rebase: Rebase) -> None:
    until, pause = deadline(), _FIRST_PAUSE_S
    while True:
        seen = Watching(store)
        writes = rebase(seen)
        try:
            store.commit([*writes, *seen.requirements(writes)] if writes else writes, rebase)
            return
        except (Moved, Taken) as refusal:
            if time.monotonic() >= until:
                raise Busy("other writers were faster until the timeout; nothing was written") from refusal
        time.sleep(random.uniform(0, pause))
        pause = min(pause * 2, _LONGEST_PAUSE_S)


class Watching:
    """A reader that remembers what it gave, so that a commit can require it to be there still."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._given: dict[tuple[str, Key], Require] = {}

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        found = self._reader.get(kind, keys)
        for key, record in zip(keys, found, strict=True):
            self._given[kind.name, key] = Require(kind, key, None if record is None else record.digest)
        return found

    def scan(self, query: Query) -> Iterator[Record]:
        return self._reader.scan(query)

    def count(self, query: Query) -> int:
        return self._reader.count(query)

    def requirements(self, writes: Sequence[Write]) -> list[Require]:
        """What was given, less the records that the writes name themselves."""
        named = {(one.kind.name, one.key) for one in map(_named, writes)}
        return [require for place, require in self._given.items() if place not in named]


def _named(write: Write) -> Record | Delete | Require:
    return write.record if isinstance(write, Insert | Put) else write


def get(reader: Reader, kind: Kind, *key: str | int) -> Record | None:
    """The one record with this key, or None."""
    return reader.get(kind, (key,))[0]


def next_number(reader: Reader, kind: Kind, owner: str) -> int:
    """The number behind the last of an owner's records, for kinds whose key is (owner, number)."""
    newest = reader.scan(Query(kind=kind, prefix=(owner,), reverse=True, limit=1))
    return max((int(record.key[1]) for record in newest), default=0) + 1
