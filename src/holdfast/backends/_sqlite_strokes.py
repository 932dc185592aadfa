"""Commits of the two commonest shapes, each carried out by one statement.

An append sets a head and inserts a message, a step inserts a checkpoint as well. One by one these take longer to begin
and to end than to carry out. So the connection that writes has a view for each shape, which nobody else sees and
nothing is read from: what is inserted into it is handed to a trigger, which does all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TypeAlias

import apsw

from holdfast.backends._sqlite_logs import LogTable
from holdfast.backends._sqlite_tables import PlainTable, Table
from holdfast.contracts import MAX_BYTES, Insert, Put, Write
from holdfast.filters import Scalar
from holdfast.kinds import CHECKPOINTS, HEADS, MESSAGES

Stroke: TypeAlias = tuple[str, tuple[Scalar, ...]]  # a statement, and what is bound to it

_REFUSED = "SELECT RAISE(ABORT, 'refused') WHERE changes() <> 1"


class Strokes:
    """The statements of one connection."""

    def __init__(self, con: apsw.Connection, layout: dict[str, Table]) -> None:
        heads, messages, checkpoints = (layout[kind.name] for kind in (HEADS, MESSAGES, CHECKPOINTS))
        assert isinstance(heads, PlainTable)
        assert isinstance(messages, LogTable)
        assert isinstance(checkpoints, PlainTable)
        self._heads, self._messages, self._checkpoints = heads, messages, checkpoints
        append = [heads.quiet, _REFUSED, messages.inserting, _REFUSED]
        self._append = _lay(con, "appending", append)
        self._step = _lay(con, "stepping", [*append, checkpoints.inserting])

    def of(self, writes: Sequence[Write]) -> Stroke | None:
        """What carries these out; None if they have another shape."""
        if not 2 <= len(writes) <= 3:
            return None
        moved, said = writes[0], writes[1]
        if type(moved) is not Put or moved.over is None or type(said) is not Insert:
            return None
        head, message = moved.record, said.record
        placed = self._messages.insert_values(message) if message.kind is MESSAGES else None
        if head.kind is not HEADS or placed is None:
            return None
        values = self._heads.quiet_values(head, moved.over) + placed
        size = len(head.body) + len(message.body)
        statement = self._append
        if len(writes) == 3:
            kept = writes[2]
            if type(kept) is not Insert or kept.record.kind is not CHECKPOINTS:
                return None
            values += self._checkpoints.insert_values(kept.record)
            size += len(kept.record.body)
            statement = self._step
        return (statement, values) if size <= MAX_BYTES else None


def _lay(con: apsw.Connection, name: str, statements: Sequence[str]) -> str:
    """Make a view whose trigger runs these statements, and give the one that hands it their values."""
    numbers = count(1)
    pieces = "; ".join(statements).split("?")
    body = "".join(f"{piece}new.v{next(numbers)}" for piece in pieces[:-1]) + pieces[-1]
    columns = ", ".join(f"NULL AS v{number}" for number in range(1, len(pieces)))
    con.execute(f"CREATE TEMP VIEW {name} AS SELECT {columns}")
    con.execute(f"CREATE TEMP TRIGGER {name}_now INSTEAD OF INSERT ON {name} BEGIN {body}; END")
    return f"INSERT INTO {name} VALUES ({', '.join('?' * (len(pieces) - 1))})"
