"""Reading a SQLite file: records on one connection, and connections that go from reader to reader."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType

import apsw

from holdfast.backends._sqlite_opening import translate
from holdfast.backends._sqlite_tables import Table
from holdfast.contracts import Key, Query, Record
from holdfast.kinds import Kind


class SqliteReader:
    """Reads on one connection; inside a commit it is handed to `rebase`.

    Outside of one it is used in a `with` block, behind which it goes back to those that are idle.
    """

    def __init__(self, con: apsw.Connection, layout: dict[str, Table], idle: deque[SqliteReader] | None = None) -> None:
        self.con = con
        self.layout = layout
        self.indexed_at: int | None = None  # the data version at which all text was known to be indexed
        self._idle = idle

    def __enter__(self) -> SqliteReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._idle is not None
        if error is None or isinstance(error, Exception | GeneratorExit):
            self._idle.append(self)
        else:  # what an interrupt has left open would show this moment for ever
            self.con.close()
        if isinstance(error, apsw.Error):
            raise translate(error) from error

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        return self.layout[kind.name].get_all(self.con, keys)

    def get_at_once(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        """The same of one instant: in a transaction of their own, which also costs less than one for each."""
        if self.layout[kind.name].is_one_look(keys):
            return self.get(kind, keys)
        self.con.execute("BEGIN")
        try:
            return self.get(kind, keys)
        finally:
            self.con.execute("COMMIT")

    def scan(self, query: Query) -> Iterator[Record]:
        return self.layout[query.kind.name].select(self.con, query)

    def count(self, query: Query) -> int:
        return self.layout[query.kind.name].count(self.con, query)
