"""What the writing connection of a SQLite file does: commits in transactions, each of them whole or not at all.

Who may write, and when it is durable, is up to the store.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast.backends._group import Request
from holdfast.backends._sqlite_logs import LogTable
from holdfast.backends._sqlite_reading import SqliteReader
from holdfast.backends._sqlite_strokes import Strokes
from holdfast.backends._sqlite_tables import Table, tables
from holdfast.backends._sqlite_words import Leaving
from holdfast.contracts import (
    MAX_BYTES,
    MAX_WRITES,
    Delete,
    Insert,
    Moved,
    Planned,
    Put,
    Query,
    Rebase,
    Require,
    Taken,
    Write,
    check_limits,
)
from holdfast.kinds import KINDS, MESSAGES

Outcome = Sequence[Write] | Exception  # of a commit among others: what was applied, or why it was refused


class Writing:
    """Commits on one connection; nobody else may use it meanwhile."""

    def __init__(self, con: apsw.Connection, space: int, known: dict[str, Table]) -> None:
        self._con = con
        self._cursor = con.cursor()  # one for all writes, since making one takes as long as some of them
        self._layout = tables(KINDS, space, known)
        self._logs = [table for table in self._layout.values() if isinstance(table, LogTable)]
        self._reader = SqliteReader(con, self._layout)
        self._strokes = Strokes(con, space, self._layout)
        self._leaving = Leaving(space)
        for table in self._logs:
            if table.kind is MESSAGES:
                table.note = self._leaving.note

    def alone(self, writes: Sequence[Write] | None, rebase: Rebase | None) -> Sequence[Write]:
        """Commit what was planned or, where that is refused, what `rebase` makes of what is there."""
        if self._con.in_transaction:
            self.undo()  # what an interrupted commit has left open: what joined it would never be committed
        try:
            if writes is not None and self._strokes.carry_out(self._cursor, writes):
                return writes
            return self._one_by_one(writes, rebase)
        except BaseException:
            self.undo()
            raise

    def together(self, batch: Sequence[Request | Planned]) -> Sequence[Outcome]:
        """What came of each commit, in one transaction; a refusal undoes its own alone."""
        if self._con.in_transaction:
            self.undo()
        writes = batch[0].writes
        if len(batch) == 1 and writes is not None and self._strokes.carry_out(self._cursor, writes):
            return [writes]
        try:
            self._begin()
            outcomes = self._hopefully(batch) or self._one_after_another(batch)
            self._cursor.execute("COMMIT")
        except BaseException:
            self.undo()
            raise
        return outcomes

    # transactions

    def _begin(self) -> None:
        self._cursor.execute("BEGIN IMMEDIATE")
        for table in self._logs:
            table.begin()

    def undo(self) -> None:
        """Undo what is not committed; fine if there is nothing."""
        self._forget()  # first, so that an interrupt in between leaves a transaction, which is undone again
        if self._con.in_transaction:
            self._cursor.execute("ROLLBACK")

    def _forget(self) -> None:
        for table in self._logs:
            table.forget()

    def _one_by_one(self, writes: Sequence[Write] | None, rebase: Rebase | None) -> Sequence[Write]:
        self._begin()
        try:
            applied = self._planned(rebase) if writes is None else self._apply(writes)
        except (Moved, Taken):
            if writes is None or rebase is None:
                raise
            self.undo()
            self._begin()
            applied = self._planned(rebase)
        self._cursor.execute("COMMIT")
        return applied

    def _planned(self, rebase: Rebase | None) -> Sequence[Write]:
        """Apply what `rebase` makes of what is there now."""
        return () if rebase is None else self._apply(rebase(self._reader))

    # commits of a batch

    def _hopefully(self, batch: Sequence[Request | Planned]) -> Sequence[Outcome] | None:
        """Apply every request as if none could be refused, which is cheaper; None, with all undone, if one is."""
        hopeful = [request.writes for request in batch if request.writes is not None]
        if len(hopeful) < len(batch):
            return None
        try:
            if len(hopeful) == 1:  # no stroke, then, or a refused one
                return [self._apply(hopeful[0])]
            carry_out, cursor = self._strokes.carry_out, self._cursor
            return [writes if carry_out(cursor, writes) else self._apply(writes) for writes in hopeful]
        except apsw.Error:
            raise
        except Exception:  # noqa: BLE001 — each is done again by itself, and then says it
            self.undo()
            self._begin()
            return None

    def _one_after_another(self, batch: Sequence[Request | Planned]) -> Sequence[Outcome]:
        # Not within the try of `together`: in Python 3.12.1 an interrupt of a comprehension there goes past it.
        return [self._member(request) for request in batch]

    def _member(self, request: Request | Planned) -> Outcome:
        """Apply one request of a batch; a refusal undoes it alone."""
        try:
            if request.writes is not None:
                try:
                    return self._apply_or_undo(request.writes)
                except (Moved, Taken):
                    if request.rebase is None:
                        raise
            return () if request.rebase is None else self._apply_or_undo(request.rebase(self._reader))
        except apsw.Error:
            raise  # the whole transaction may be gone
        except Exception as refusal:  # noqa: BLE001 — whoever waits gets it
            return refusal

    def _apply_or_undo(self, writes: Sequence[Write]) -> Sequence[Write]:
        try:
            with self._con:  # a savepoint
                self._apply(writes)
        except BaseException:
            self._forget()
            raise
        return writes

    # writes

    def _apply(self, writes: Sequence[Write]) -> Sequence[Write]:
        con, layout, leaving, size = self._cursor, self._layout, self._leaving, 0
        if leaving.some:
            leaving.clear()
        for write in writes:
            if type(write) is Insert:
                record = write.record
                layout[record.kind.name].insert(con, record)
            elif type(write) is Put:
                record = write.record
                layout[record.kind.name].put(con, record, write.over)
            else:
                self._rarer(write)
                continue
            size += len(record.body)
        if size > MAX_BYTES or len(writes) > MAX_WRITES:
            check_limits(writes)  # which says so; what was applied is undone
        if leaving.some:
            leaving.carry_out(self._con)
        return writes

    def _rarer(self, write: Write) -> None:
        con, layout = self._cursor, self._layout
        if isinstance(write, Delete):
            if write.over is not None:
                self._rarer(Require(write.kind, write.key, write.over))
            layout[write.kind.name].delete(con, Query(kind=write.kind, prefix=write.key, where=write.where))
        elif isinstance(write, Require):
            present = layout[write.kind.name].get(con, write.key)
            if (None if present is None else present.digest) != write.digest:
                raise Moved(write.kind, write.key, present)
