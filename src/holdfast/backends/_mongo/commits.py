"""One commit, from its conditions to its end: checked, planned again where it does not fit, and tried again where
somebody else was faster or the connection broke."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.backends._mongo.answers import Pauses, overtaken
from holdfast.backends._mongo.batches import Change
from holdfast.backends._mongo.documents import claim_of, place_of
from holdfast.backends._mongo.reading import MongoReader
from holdfast.backends._mongo.space import new_token
from holdfast.backends._mongo.turns import Turn, Turns
from holdfast.contracts import Delete, Insert, Key, Moved, Put, Rebase, Record, Require, Taken, Write, check_limits
from holdfast.errors import AccessDenied, ConnectionFailed, HoldfastError
from holdfast.kinds import Kind

UNQUEUED = 2  # tries without a ticket: what a store remembers may be stale, and that is no reason to queue


class Doubt(Struct, frozen=True):
    """A try of which nobody knows yet whether it was carried out."""

    version: int
    token: str
    writes: Sequence[Write]


class Commit:
    """A commit in progress."""

    def __init__(
        self, turns: Turns, reader: MongoReader, writes: Sequence[Write] | None, rebase: Rebase | None
    ) -> None:
        self._turns = turns
        self._reader = reader
        self._writes = writes
        self._rebase = rebase
        self._doubts: list[Doubt] = []

    def carry_out(self) -> Sequence[Write]:
        """The writes that were applied."""
        if not self._writes and self._rebase is None:
            return ()
        check_limits(self._writes or ())
        pauses, tries = Pauses(), 0
        while True:
            tries += 1
            try:
                done = self._happened() or self._once(queued=tries > UNQUEUED)
                if done is not None:
                    return done
                failure: HoldfastError = overtaken()
            except Undecided:
                raise
            except AccessDenied as refusal:
                raise self._verdict(refusal) from refusal
            except ConnectionFailed as lost:
                failure = lost
            pauses.wait(self._verdict(failure))

    def _once(self, *, queued: bool) -> Sequence[Write] | None:
        """The writes if they were applied, None if somebody else was faster."""
        with self._turns.alone(), self._turns.turn(overtaken=queued) as turn:
            try:
                writes, changes = self._planned()
            except ConnectionFailed:
                raise
            except HoldfastError:
                if self._turns.holds(turn.state):
                    raise
                return None  # it was decided on what is no longer so
            if not changes:
                return writes if self._turns.holds(turn.state) else None
            return writes if self._commit(turn, writes, changes) else None

    def _planned(self) -> tuple[Sequence[Write], list[Change]]:
        if self._writes is not None:
            try:
                return self._writes, fitting(self._reader, self._writes)
            except (Moved, Taken):
                if self._rebase is None:
                    raise
        if self._rebase is None:
            return (), []
        writes = self._rebase(self._reader)
        check_limits(writes)
        return writes, fitting(self._reader, writes)

    def _commit(self, turn: Turn, writes: Sequence[Write], changes: list[Change]) -> bool:
        token = new_token()
        try:
            return self._turns.commit(turn, changes, token)
        except ConnectionFailed as failure:
            if failure.outcome == "unknown":
                self._doubts.append(Doubt(turn.state.version + 1, token, writes))
            raise

    # what became of a try whose connection broke

    def _happened(self) -> Sequence[Write] | None:
        """The writes of an earlier try, if it was carried out after all."""
        for doubt in tuple(self._doubts):
            match self._turns.fate(doubt.version, doubt.token):
                case "done":
                    return doubt.writes
                case "not done":
                    self._doubts.remove(doubt)
                case "unknown":
                    raise Undecided(doubt)
        return None

    def _verdict(self, failure: HoldfastError) -> HoldfastError:
        """What to raise at the deadline."""
        if not self._doubts:
            return failure
        return ConnectionFailed(f"{failure}; an earlier try may have been carried out", outcome="unknown")


class Undecided(ConnectionFailed):
    """A try of which nobody can tell what became of it, because too many have committed since."""

    def __init__(self, doubt: Doubt) -> None:
        what = (
            f"whether commit {doubt.version} is yours cannot be told any more: the connection broke while it was made"
        )
        super().__init__(f"{what}. Read what is there, then decide whether to repeat", outcome="unknown")


# conditions


def fitting(reader: MongoReader, writes: Sequence[Write]) -> list[Change]:
    """What the writes change, in view of what is there; Moved or Taken for the first that does not fit."""
    return Conditions(reader, writes).changes()


class Conditions:
    """The conditions of one commit, and what is there."""

    def __init__(self, reader: MongoReader, writes: Sequence[Write]) -> None:
        self._namespace = reader.namespace
        self._writes = writes
        places = {self._place(*named): named[0] for named in map(_named, writes) if len(named[1]) == len(named[0].key)}
        self._present = reader.at(places)
        self._reader = reader
        self._held: dict[str, Record] | None = None  # not asked for before a claim depends on it
        self._claimed: dict[str, Record] = {}
        self._freed: set[tuple[Kind, Key]] = set()

    def _place(self, kind: Kind, key: Key) -> str:
        return place_of(self._namespace, kind, key)

    def _claims(self) -> dict[str, Kind]:
        """The unique values that records are about to have."""
        records = [write.record for write in self._writes if isinstance(write, Insert | Put)]
        claims = {claim_of(self._namespace, record): record.kind for record in records}
        return {claim: kind for claim, kind in claims.items() if claim is not None}

    def changes(self) -> list[Change]:
        """What is left to do; Moved or Taken for the first write that does not fit."""
        found = (self._change(write) for write in self._writes)
        return [change for change in found if change is not None]

    def _change(self, write: Write) -> Change | None:
        kind, key = _named(write)
        present = self._present.get(self._place(kind, key))
        digest = None if present is None else present.digest
        if isinstance(write, Insert):
            return self._insert(write.record, present)
        if isinstance(write, Require):
            if digest != write.digest:
                raise Moved(kind, key, present)
            return None
        if write.over is not None and digest != write.over:
            raise Moved(kind, key, present)
        if isinstance(write, Put) or not write.where:
            self._freed.add((kind, key))
        if isinstance(write, Delete):
            return write
        self._claim(write.record)
        return write.record

    def _insert(self, record: Record, present: Record | None) -> Record | None:
        if present is None:
            self._claim(record)
            return record
        if present.digest != record.digest:
            raise Taken(record, present)
        return None

    def _claim(self, record: Record) -> None:
        """Take the unique values of a record, from nobody but one whom the same commit has just taken them from."""
        claim = claim_of(self._namespace, record)
        if claim is None:
            return
        if self._held is None:
            self._held = self._reader.claimed(self._claims())
        held = self._held.get(claim)
        if held is not None and held.key != record.key and (held.kind, held.key) not in self._freed:
            raise Taken(record, held)
        rival = self._claimed.setdefault(claim, record)
        if rival.key != record.key:
            raise Taken(record, rival)


def _named(write: Write) -> tuple[Kind, Key]:
    named = write.record if isinstance(write, Insert | Put) else write
    return named.kind, named.key
