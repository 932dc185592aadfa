"""Commits of the two commonest shapes, each carried out by one statement.

An append sets a head and inserts a message, a step inserts a checkpoint as well. One by one these take longer to begin
and to end than to carry out. So the connection that writes has a view for each shape, which nobody else sees and
nothing is read from: what is inserted into it is handed to a trigger, which does all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import apsw

from holdfast.backends._sqlite_logs import LogTable
from holdfast.backends._sqlite_tables import PlainTable, Table
from holdfast.contracts import MAX_BYTES, Insert, Put, Write
from holdfast.filters import Scalar
from holdfast.kinds import CHECKPOINTS, HEADS, MESSAGES, Field, Kind

_REFUSED = "SELECT RAISE(ABORT, 'refused') WHERE changes() <> 1"


class Strokes:
    """Carries out commits of these shapes by the one connection that has the views."""

    def __init__(self, con: apsw.Connection, space: int, layout: dict[str, Table]) -> None:
        heads, messages, checkpoints = (layout[kind.name] for kind in (HEADS, MESSAGES, CHECKPOINTS))
        assert isinstance(heads, PlainTable)
        assert isinstance(messages, LogTable)
        assert isinstance(checkpoints, LogTable)
        self._messages, self._checkpoints = messages, checkpoints
        moved = _columns(HEADS, *_names(HEADS.columns()), "digest", "body", "over")
        said = _columns(MESSAGES, "place", *_names(MESSAGES.fields), "digest", "body", "log")
        kept = _columns(CHECKPOINTS, "place", *_names(CHECKPOINTS.fields), "digest", "body", "log")
        append = [
            heads.updating(_handed(HEADS, space)),
            _REFUSED,
            messages.inserting(_handed(MESSAGES, space)),
            _REFUSED,
        ]
        keep = [checkpoints.inserting(_handed(CHECKPOINTS, space)), _REFUSED]
        self._append = _lay(con, "appending", [*moved, *said], append)
        self._step = _lay(con, "stepping", [*moved, *said, *kept], [*append, *keep])

    def carry_out(self, cursor: apsw.Cursor, writes: Sequence[Write]) -> bool:
        """Apply writes of one of the shapes; False, with nothing done, if theirs is another or one of them is refused.

        Outside of a transaction they are committed by that, too.
        """
        count = len(writes)
        if not 2 <= count <= 3:
            return False
        moved, inserted = writes[0], writes[1]
        if type(moved) is not Put or type(inserted) is not Insert:
            return False
        head, over, message = moved.record, moved.over, inserted.record
        if over is None or head.kind is not HEADS or message.kind is not MESSAGES:
            return False
        statement, size = self._append, len(head.body) + len(message.body)
        said = self._messages.insert_values(message)
        more: tuple[Scalar, ...] | None = ()
        if count == 3:
            keeping = writes[2]
            if type(keeping) is not Insert or keeping.record.kind is not CHECKPOINTS:
                return False
            statement, size = self._step, size + len(keeping.record.body)
            more = self._checkpoints.insert_values(keeping.record)
        if said is None or more is None or size > MAX_BYTES:
            return False
        try:
            cursor.execute(statement, (*head.key, *head.fields, head.digest, head.body, over, *said, *more))
        except apsw.ConstraintError:
            return False  # done one by one, it is found out which
        return True


def _names(fields: Sequence[Field]) -> list[str]:
    return [field.name for field in fields]


def _columns(kind: Kind, *names: str) -> list[str]:
    """The columns of a view for these of a kind, in the order in which they are bound."""
    return [f"{kind.name}_{name}" for name in names]


def _handed(kind: Kind, space: int) -> Callable[[str], str]:
    """Where the trigger has the value of a kind's column from."""
    return lambda name: str(space) if name == "space" else f"new.{kind.name}_{name}"


def _lay(con: apsw.Connection, name: str, columns: Sequence[str], statements: Sequence[str]) -> str:
    """Make a view whose trigger runs these statements, and give the one that hands it the values of its columns."""
    nothing = ", ".join(f"NULL AS {column}" for column in columns)
    con.execute(f"CREATE TEMP VIEW {name} AS SELECT {nothing}")
    con.execute(f"CREATE TEMP TRIGGER {name}_now INSTEAD OF INSERT ON {name} BEGIN {'; '.join(statements)}; END")
    return f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})"
