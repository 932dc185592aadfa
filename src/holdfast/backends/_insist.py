"""Commits at a server: tried, planned again where they do not fit, and repeated where the connection broke.

A commit that may or may not have happened is looked for among the records, with their rows locked, before anything
is tried again: ids and digests tell. Where they do not, the caller is told that the outcome is unknown.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, Protocol, TypeVar

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
    Require,
    Taken,
    Write,
    check_limits,
)
from holdfast.errors import AccessDenied, Busy, ConnectionFailed
from holdfast.filters import Filter
from holdfast.kinds import Kind

R = TypeVar("R")
W = TypeVar("W", bound=Write)
Outcome = Literal["done", "moved", "taken"]

FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.2


class Again(Busy):
    """The server gave this one up in favour of another; nothing was written."""


class Tries(Protocol):
    """What a server does at one go; a lost connection is ConnectionFailed, with what is known of the outcome."""

    def write(self, writes: Sequence[Write]) -> Outcome:
        """Apply all writes or none."""
        ...

    def plan(self, rebase: Rebase) -> Sequence[Write] | None:
        """Apply what `rebase` makes of what it reads and locks; None if that was refused after all."""
        ...


class Pauses:
    """Waits between tries, longer each time and never the same for two, up to a moment."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._pause_s = FIRST_PAUSE_S

    def wait(self, reason: Exception) -> None:
        """Wait a little; at the limit raise the reason instead."""
        if time.monotonic() >= self._until:
            raise reason
        time.sleep(min(random.uniform(0, self._pause_s), max(0.0, self._until - time.monotonic())))
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)


def patiently(work: Callable[[], R], until: float) -> R:
    """Do what changes nothing, or may be repeated, over again while the server cannot be reached."""
    pauses = Pauses(until)
    while True:
        try:
            return work()
        except (Again, ConnectionFailed) as failure:
            pauses.wait(failure)


class Settled(Exception):
    """What was in doubt has happened."""


class Undecided(ConnectionFailed):
    """What was in doubt stays so."""


class Commit:
    """One commit, from the first try to the last."""

    def __init__(self, tries: Tries, writes: Sequence[Write] | None, rebase: Rebase | None) -> None:
        self._tries = tries
        self._writes = writes
        self._rebase = rebase
        self._planned: Sequence[Write] = ()
        self._doubted: list[Sequence[Write]] = []

    def carry_out(self, until: float) -> Sequence[Write]:
        """The writes that were applied."""
        if self._writes is None and self._rebase is None:
            return ()
        check_limits(self._writes or ())
        pauses = Pauses(until)
        while True:
            try:
                applied = self._once()
                if applied is not None:
                    return applied
                pauses.wait(Busy("other writers were faster until the timeout; nothing was written"))
            except Settled:
                return self._planned
            except Undecided:
                raise
            except (Again, ConnectionFailed) as failure:
                self._doubt(failure)
                pauses.wait(self._verdict(failure))
            except (Busy, AccessDenied) as failure:
                raise self._verdict(failure) from failure

    def _once(self) -> Sequence[Write] | None:
        if self._writes is None or self._doubted:
            return self._tries.plan(self._plan)
        self._planned = self._writes
        outcome = self._tries.write(self._writes)
        if outcome == "done":
            return self._writes
        if outcome == "moved" and self._rebase is not None:
            self._writes = None  # never to be tried again as they are
        return self._tries.plan(self._plan)

    def _plan(self, reader: Reader) -> Sequence[Write]:
        """What to write in view of what is there, and of what was tried before."""
        for doubted in self._doubted:
            self._settle(reader, doubted)
        self._planned = self._made(reader)
        return self._planned

    def _settle(self, reader: Reader, doubted: Sequence[Write]) -> None:
        happened = took_effect(reader, doubted)
        if happened is None:
            raise Undecided(
                "the connection broke during a commit, and others have written since: whether it happened cannot be"
                " told. Read what is there, then decide whether to repeat",
                outcome="unknown",
            )
        if happened:
            self._planned = doubted
            raise Settled

    def _made(self, reader: Reader) -> Sequence[Write]:
        if self._writes is not None:
            try:
                return fitting(reader, self._writes)
            except (Moved, Taken):
                if self._rebase is None:
                    raise
                self._writes = None
        assert self._rebase is not None
        return self._rebase(reader)

    def _doubt(self, failure: Exception) -> None:
        if isinstance(failure, ConnectionFailed) and failure.outcome == "unknown" and self._planned:
            self._doubted.append(self._planned)

    def _verdict(self, failure: Exception) -> Exception:
        """What to raise at the limit: nobody is told that nothing was written while that is in doubt."""
        if not self._doubted or (isinstance(failure, ConnectionFailed) and failure.outcome == "unknown"):
            return failure
        return ConnectionFailed(f"{failure}; an earlier try may have been carried out", outcome="unknown")


# what is there


def took_effect(reader: Reader, writes: Sequence[Write]) -> bool | None:
    """Whether these writes have been applied; None if others have written since, so that nobody can tell."""
    inserted = {write.record.digest == digest for write, digest in _present(reader, writes, Insert)}
    if inserted:
        return inserted == {True}
    changes = {_change(write, digest) for write, digest in _present(reader, writes, Put, Delete)} - {"blind"}
    if not changes or changes == {"old"}:
        return False
    return True if changes == {"new"} else None


def _change(write: Insert | Put | Delete | Require, digest: bytes | None) -> str:
    """What a conditional write has found or left: the old record, its own, or somebody else's."""
    if not isinstance(write, Put | Delete) or write.over is None:
        return "blind"  # and may be repeated
    if digest == (write.record.digest if isinstance(write, Put) else None):
        return "new"
    return "old" if digest == write.over else "other"


def fitting(reader: Reader, writes: Sequence[Write]) -> list[Write]:
    """The writes that are left to do; Moved or Taken for the first that does not fit."""
    found = {id(write): record for write, record in _found(reader, writes)}
    return [_fitted(reader, write, found.get(id(write))) for write in writes]


def _fitted(reader: Reader, write: Write, present: Record | None) -> Write:
    digest = None if present is None else present.digest
    if isinstance(write, Require):
        if digest != write.digest:
            raise Moved(write.kind, write.key, present)
    elif isinstance(write, Insert):
        if present is not None and digest != write.record.digest:
            raise Taken(write.record, present)
        if present is not None:
            return Require(present.kind, present.key, digest)
        _check_unique(reader, write.record)
    elif write.over is not None and digest != write.over:
        raise Moved(*_place(write), present)
    elif isinstance(write, Put):
        _check_unique(reader, write.record)
    return write


def _check_unique(reader: Reader, record: Record) -> None:
    """Taken if another record has the same unique values."""
    values = record.values()
    same = tuple(Filter(name, "=", values[name]) for name in record.kind.unique)
    if not same or any(one.value is None for one in same):
        return
    for rival in reader.scan(Query(kind=record.kind, where=same)):
        if rival.key != record.key:
            raise Taken(record, rival)


def _found(reader: Reader, writes: Iterable[W]) -> Iterator[tuple[W, Record | None]]:
    """What is stored under the key of each write; nothing under one that is no whole key."""
    by_kind: dict[Kind, list[W]] = {}
    for write in writes:
        kind, key = _place(write)
        if len(key) == len(kind.key):
            by_kind.setdefault(kind, []).append(write)
    for kind, some in by_kind.items():
        yield from zip(some, reader.get(kind, [_place(write)[1] for write in some]), strict=True)


def _present(reader: Reader, writes: Sequence[Write], *types: type[W]) -> Iterator[tuple[W, bytes | None]]:
    """The digest under the key of each write of these types."""
    for write, record in _found(reader, [write for write in writes if isinstance(write, types)]):
        yield write, None if record is None else record.digest


def _place(write: Write) -> tuple[Kind, Key]:
    named = write.record if isinstance(write, Insert | Put) else write
    return named.kind, named.key
