"""The tables of SQLite's text index: who is in it, how far, and how words come in and go out again.

Words of a single message are cut out of the index's pages at once. Cutting costs milliseconds each, so many at
once are only struck out, and the index is marked as one to be merged: `merge` rewrites it without them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Literal

import apsw
from msgspec import Struct

from holdfast.backends._sqlite_logs import LAST, POSITIONS
from holdfast.backends._sqlite_rows import bytes_of, checked, whole
from holdfast.contracts import Query
from holdfast.kinds import MESSAGES
from holdfast.matching import VERSION, indexed, plain

State = Literal["absent", "stale", "usable"]
CUT = 32  # messages that one commit cuts out at once

_SEARCHES = (
    "CREATE TABLE IF NOT EXISTS searches"
    " (space INTEGER PRIMARY KEY, version TEXT NOT NULL, unmerged INTEGER NOT NULL DEFAULT 0)"
)
_SEARCHED = "CREATE TABLE IF NOT EXISTS searched (log INTEGER PRIMARY KEY, upto INTEGER NOT NULL)"
# The text given to it is folded and spaced out already, so the plainest tokenizer keeps its words as they are.
_INDEX = "CREATE VIRTUAL TABLE {name} USING fts5(text, content = '', tokenize = \"ascii tokenchars '_'\")"
_FIELDS = ", ".join(f'messages."{field.name}"' for field in MESSAGES.fields)
_LOGS = "SELECT log FROM logs WHERE space = ? AND kind = 'messages'"
_BEHIND = f"""
SELECT log, owner, branch, upto,
  (SELECT place FROM messages WHERE place > log << {POSITIONS} | upto ORDER BY place LIMIT 1), last
FROM (
  SELECT logs.log, owner, branch, {{upto}} AS upto,
    (SELECT place FROM messages WHERE place < (logs.log + 1) << {POSITIONS} ORDER BY place DESC LIMIT 1) AS last
  FROM logs {{joined}} WHERE space = ? AND kind = 'messages'{{scoped}}
) WHERE last > log << {POSITIONS} | upto
"""


class Log(Struct, frozen=True, gc=False):
    """A log that has messages behind the position up to which it is indexed."""

    log: int
    owner: str
    branch: int
    upto: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """How many positions are not indexed."""
        return self.last - self.first + 1

    def query(self) -> Query:
        """What of it is not indexed."""
        return Query(kind=MESSAGES, prefix=(self.owner, self.branch), low=self.first)


def name(space: int) -> str:
    """The index of a namespace."""
    return f"search_{int(space)}"


@checked()
def state(con: apsw.Connection, space: int) -> State:
    """Whether a namespace has an index, and whether its words are those that this version makes."""
    if con.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'searches'").fetchone() is None:
        return "absent"
    row = con.execute("SELECT version FROM searches WHERE space = ?", (space,)).fetchone()
    if row is None:
        return "absent"
    return "usable" if row[0] == VERSION else "stale"


def make(con: apsw.Connection, space: int) -> None:
    """Make the index of a namespace if it is not there, or is one of another version."""
    con.execute(_SEARCHES)
    con.execute(_SEARCHED)
    if state(con, space) != "usable":
        drop(con, space)
        con.execute(_INDEX.format(name=name(space)))
        con.execute("INSERT INTO searches (space, version) VALUES (?, ?)", (space, VERSION))


def drop(con: apsw.Connection, space: int) -> None:
    """Remove the index of a namespace; the next search makes it again."""
    con.execute(f"DROP TABLE IF EXISTS {name(space)}")
    con.execute(f"DELETE FROM searched WHERE log IN ({_LOGS})", (space,))
    con.execute("DELETE FROM searches WHERE space = ?", (space,))


# how far


@checked()
def behind(con: apsw.Connection, space: int, owners: Sequence[str] | None) -> list[Log]:
    """The logs with messages that are not indexed."""
    usable = state(con, space) == "usable"
    sql = _BEHIND.format(
        upto="coalesce(searched.upto, 0)" if usable else "0",
        joined="LEFT JOIN searched ON searched.log = logs.log" if usable else "",
        scoped="" if owners is None else " AND owner IN (SELECT value FROM json_each(?))",
    )
    values = (space,) if owners is None else (space, json.dumps(list(owners)))
    found = []
    for log, owner, branch, upto, first, last in con.execute(sql, values):
        found.append(Log(log, owner, branch, upto, first & LAST, last & LAST))
    return found


@checked()
def upto(con: apsw.Connection, log: int) -> int:
    """The position up to which a log is indexed."""
    row = con.execute("SELECT upto FROM searched WHERE log = ?", (log,)).fetchone()
    return 0 if row is None else whole(row[0])


def unindexed(con: apsw.Connection, log: Log, limit: int) -> list[tuple[int, bytes]]:
    """The places and bodies of a log's next messages, however far somebody else has come with it."""
    start = log.log << POSITIONS
    found = con.execute(
        f"SELECT place, {bytes_of('body')} FROM messages WHERE place > ? AND place <= ? ORDER BY place LIMIT ?",
        (start | upto(con, log.log), start | log.last, limit),
    )
    return [(int(place), bytes(body)) for place, body in found]


def mark(con: apsw.Connection, log: int, position: int) -> None:
    """A log is indexed up to here."""
    con.execute("INSERT OR REPLACE INTO searched (log, upto) VALUES (?, ?)", (log, position))


def add(con: apsw.Connection, space: int, place: int, body: bytes) -> None:
    """Put the words of a message in; one without words needs no place."""
    words = indexed(plain(body))
    if not words.isspace() and words:
        con.execute(f"INSERT INTO {name(space)} (rowid, text) VALUES (?, ?)", (place, words))


# looking


def scope(con: apsw.Connection, space: int, owners: Sequence[str] | None) -> tuple[str, tuple[int | str, ...]]:
    """The condition that a place belongs to one of these owners, and its values."""
    if owners is None:
        return "", ()
    mine = f"{_LOGS} AND owner IN (SELECT value FROM json_each(?))"
    logs = [int(log) for (log,) in con.execute(mine, (space, json.dumps(list(owners))))]
    low, high = min(logs, default=0), max(logs, default=0)
    index = name(space)
    condition = (
        f" AND {index}.rowid BETWEEN ? AND ? AND {index}.rowid >> {POSITIONS} IN (SELECT value FROM json_each(?))"
    )
    return condition, (low << POSITIONS, high << POSITIONS | LAST, json.dumps(logs))


def ranked(space: int, condition: str) -> str:
    """The query for what matches, best first: owner, branch, rank, place, fields, digest, body."""
    index = name(space)
    columns = f"logs.owner, logs.branch, {index}.rank, place, {_FIELDS}, messages.digest, {bytes_of('body')}"
    return (
        f"SELECT {columns} FROM {index}"
        f" CROSS JOIN messages ON place = {index}.rowid CROSS JOIN logs ON logs.log = {index}.rowid >> {POSITIONS}"
        f" WHERE {index} MATCH ?{condition} ORDER BY {index}.rank"
    )


# what goes


class Leaving:
    """The messages that a commit takes away or changes: noted before, taken out of the index at its end."""

    def __init__(self, space: int) -> None:
        self._space = space
        self.some = False
        self._noted: list[tuple[int, bytes, bytes]] = []
        self._changed: list[int] = []
        self._logs: list[int] = []

    def clear(self) -> None:
        """Forget what a commit that failed has noted."""
        self.some = False
        self._noted, self._changed, self._logs = [], [], []

    def note(self, con: apsw.Connection, low: int, high: int, changes: bool) -> None:
        """What is indexed between two places of a log is about to go, or to change."""
        if state(con, self._space) == "absent":
            return
        log = low >> POSITIONS
        high = min(high, log << POSITIONS | upto(con, log))
        columns = f"place, {bytes_of('digest')}, {bytes_of('body')}"
        found = con.execute(f"SELECT {columns} FROM messages WHERE place BETWEEN ? AND ?", (low, high))
        self._noted += [(int(place), bytes(digest), bytes(body)) for place, digest, body in found]
        self.some = True
        if changes:
            self._changed += [low] if low <= high else []
        elif high & LAST:
            self._logs.append(log)

    def carry_out(self, con: apsw.Connection) -> None:
        """Take their words out; an index of another version, or of damaged messages, goes as a whole."""
        noted, changed, logs = self._noted, self._changed, self._logs
        self.clear()
        sound = all(hashlib.sha256(body).digest() == digest for _, digest, body in noted)
        if not sound or state(con, self._space) != "usable":
            drop(con, self._space)
            return
        gone = [(place, words) for place, _, body in noted if (words := indexed(plain(body))).split()]
        try:
            with con:  # a savepoint
                self._take_out(con, gone)
        except apsw.CorruptError:
            drop(con, self._space)
            return
        for place in changed:
            row = con.execute("SELECT body FROM messages WHERE place = ?", (place,)).fetchone()
            if row is not None:
                add(con, self._space, place, bytes(row[0]))
        con.executemany(
            "DELETE FROM searched WHERE log = ? AND NOT EXISTS (SELECT 1 FROM logs WHERE logs.log = searched.log)",
            [(log,) for log in logs],
        )

    def _take_out(self, con: apsw.Connection, gone: list[tuple[int, str]]) -> None:
        index, cut = name(self._space), len(gone) <= CUT
        con.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('secure-delete', ?)", (int(cut),))
        con.executemany(f"INSERT INTO {index} ({index}, rowid, text) VALUES ('delete', ?, ?)", gone)
        # Now, while the setting is this one: another commit of the same transaction may need the other.
        con.execute(f"INSERT INTO {index} ({index}) VALUES ('flush')")
        if not cut:
            set_unmerged(con, self._space, True)


@checked()
def unmerged(con: apsw.Connection, space: int) -> bool:
    """Whether words are only struck out of an index."""
    if state(con, space) != "usable":
        return False
    row = con.execute("SELECT unmerged FROM searches WHERE space = ?", (space,)).fetchone()
    return row is not None and bool(row[0])


def set_unmerged(con: apsw.Connection, space: int, there_is_more: bool) -> None:
    """Say whether an index is to be merged."""
    con.execute("UPDATE searches SET unmerged = ? WHERE space = ?", (int(there_is_more), space))


def merge(con: apsw.Connection, space: int, pages: int) -> bool:
    """Go on merging the index if words are only struck out of it; whether there is more to do.

    A negative number of pages begins to merge all of it into one piece.
    """
    if not unmerged(con, space):
        return False
    index, before = name(space), con.total_changes()
    con.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (pages,))
    if con.total_changes() - before >= 2:
        return True
    set_unmerged(con, space, False)
    return False
