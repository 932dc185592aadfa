"""Text search in MySQL and MariaDB: a row of terms for each indexed message, under a FULLTEXT index.

InnoDB's index shows what is committed, whatever a transaction has seen before. So whoever looks asks twice what is not
indexed, before and after: what has come or gone in between is scanned.

And it loses sight of rows for a moment when some connection moves them from its cache to its tables, once in the life
of each: the cache is emptied before the tables are committed. So whoever looks asks twice what matches, too, which
makes such a miss rare and not impossible: the moment is as long as a commit of the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from holdfast.backends._mysql_connection import Connection
from holdfast.backends._mysql_writes import BEGIN, COMMIT, one_of, portions, table
from holdfast.backends._sql_reading import Rows
from holdfast.backends._sql_search import Log, Looked, SqlSearch, Terms, reached, row_of
from holdfast.backends._sql_terms import LENGTH
from holdfast.errors import Busy
from holdfast.kinds import MESSAGES
from holdfast.matching import VERSION

_LOG = "space INT NOT NULL, history VARBINARY(1400) NOT NULL, branch BIGINT NOT NULL"
TABLES = {
    "searches": ("space INT PRIMARY KEY, version VARBINARY(255) NOT NULL", "the version of a namespace's text index"),
    "searched": (
        f"{_LOG}, upto BIGINT NOT NULL, PRIMARY KEY (space, history, branch)",
        "up to which position messages are in the text index",
    ),
    "texts": (
        f"{_LOG}, seq BIGINT NOT NULL, terms LONGTEXT CHARACTER SET ascii NOT NULL,"
        " PRIMARY KEY (space, history, branch, seq), FULLTEXT KEY by_terms (terms)",
        "the text index of messages, by digests of their words; filled by searches",
    ),
}
MOST_TIMES = 8  # that a term is noted: more would not change the order much

_MESSAGES, _BRANCHES = table("messages"), table("branches")
_SEARCHES, _SEARCHED, _TEXTS = table("searches"), table("searched"), table("texts")
# A server that leaves out words as short as a term cannot be asked.
_USABLE = f"""
@@innodb_ft_min_token_size <= {LENGTH}
AND EXISTS (SELECT 1 FROM {_SEARCHES} WHERE space = {{space}} AND version = %s)"""
# Every log of messages has a record of its branch; to group the messages a server may read all of them.
_BEHIND = f"""
SELECT history, branch, upto, (
    SELECT MIN(seq) FROM {_MESSAGES} m
    WHERE m.space = {{space}} AND m.history = ends.history AND m.branch = ends.branch AND m.seq > upto
), last FROM (
    SELECT t.history, t.branch, IF({_USABLE}, COALESCE(s.upto, 0), 0) AS upto, (
        SELECT MAX(seq) FROM {_MESSAGES} m
        WHERE m.space = {{space}} AND m.history = t.history AND m.branch = t.branch
    ) AS last
    FROM {_BRANCHES} t LEFT JOIN {_SEARCHED} s
    ON s.space = {{space}} AND s.history = t.history AND s.branch = t.branch
    WHERE t.space = {{space}}{{among}}
) ends WHERE last > upto"""
_MATCH = "MATCH (terms) AGAINST (CONVERT(%s USING ascii) IN BOOLEAN MODE)"
_BEST = f"""
SELECT history, branch, seq, {_MATCH} AS score FROM {_TEXTS} t
WHERE {_MATCH} AND space = {{space}}{{among}} AND {_USABLE} ORDER BY score DESC{{limit}}"""
_FIRST = f"INSERT IGNORE INTO {_SEARCHES} (space, version) VALUES ({{space}}, %s)"
_VERSION = f"SELECT version FROM {_SEARCHES} WHERE space = {{space}}"
_TURN = f"SELECT version, @@innodb_ft_min_token_size FROM {_SEARCHES} WHERE space = {{space}} FOR UPDATE NOWAIT"
_ANEW = (
    f"DELETE FROM {_SEARCHED} WHERE space = {{space}}",
    f"DELETE FROM {_TEXTS} WHERE space = {{space}}",
)
_RENEWED = f"UPDATE {_SEARCHES} SET version = %s WHERE space = {{space}}"
_UPTO = f"SELECT history, branch, upto FROM {_SEARCHED} WHERE space = {{space}} AND ({{which}}) FOR UPDATE NOWAIT"
# Each by its whole key: at the end of a range the server would also want the row behind it, which may be a writer's.
_BODIES = f"""
SELECT history, branch, seq, body FROM {_MESSAGES} t FORCE INDEX (PRIMARY)
WHERE space = {{space}} AND ({{which}}) FOR UPDATE NOWAIT"""
_ADD = f"REPLACE INTO {_TEXTS} (space, history, branch, seq, terms) VALUES {{rows}}"
_MARK = f"REPLACE INTO {_SEARCHED} (space, history, branch, upto) VALUES {{rows}}"


class MysqlSearch(SqlSearch[Connection]):
    """The text index of one namespace in MySQL."""

    def _ask(self, con: Connection, statement: str, *values: object, **texts: str) -> Rows:
        return con.carry_out([(statement.format(space=self._space, **texts), values)])

    def _look(self, con: Connection, asked: Sequence[str], owners: Sequence[str] | None, limit: int | None) -> Looked:
        query = f"(+{' +'.join(asked)}) {self._any_text}"
        among, of = ("", ()) if owners is None else (f" AND t.history IN ({_marks(owners)})", tuple(owners))
        bounded = "" if limit is None else f" LIMIT {int(limit)}"
        look = partial(self._ask, con, _BEST, query, query, *of, VERSION, among=among, limit=bounded)
        early = look()
        before = self._behind(con, among, of)
        found = dict(row_of(history.decode(), *row) for history, *row in (*early, *look()))
        behind = _either(before, self._behind(con, among, of))
        best = sorted(found.items(), key=itemgetter(1), reverse=True)
        return Looked(behind, best[:limit])

    def _behind(self, con: Connection, among: str, owners: Sequence[str]) -> list[Log]:
        found = self._ask(con, _BEHIND, VERSION, *owners, among=among)
        return [Log(history.decode(), *map(int, row)) for history, *row in found if None not in row]

    def _take(self, con: Connection, logs: Sequence[Log]) -> None:
        if not self._ask(con, _VERSION):
            self._ask(con, _FIRST, VERSION)
        con.carry_out([BEGIN])
        self._enter(con)
        logs = self._still_there(con, logs)
        if logs:
            self._add(con, logs)
        con.carry_out([COMMIT])

    def _enter(self, con: Connection) -> None:
        """Keep others from filling, and begin anew where the index is one of another version."""
        ((version, shortest),) = self._ask(con, _TURN)
        if shortest > LENGTH:
            raise Busy("innodb_ft_min_token_size is too large for an index")
        if version != VERSION.encode():
            for statement in _ANEW:
                self._ask(con, statement)
            self._ask(con, _RENEWED, VERSION)

    def _still_there(self, con: Connection, logs: Sequence[Log]) -> list[Log]:
        """Those of the logs that are indexed just as far as they were when somebody looked."""
        which = " OR ".join(["(history = %s AND branch = %s)"] * len(logs))
        values = [value for log in logs for value in (log.history, log.branch)]
        found = self._ask(con, _UPTO, *values, which=which)
        present = {(history.decode(), branch): upto for history, branch, upto in found}
        return [log for log in logs if present.get((log.history, log.branch), 0) == log.upto]

    def _add(self, con: Connection, logs: Sequence[Log]) -> None:
        places = [(log.history, log.branch, seq) for log in logs for seq in range(log.first, log.last + 1)]
        which, values = one_of(MESSAGES, places)
        bodies = self._ask(con, _BODIES, *values, which=which)
        texts = [(*place, _repeated(terms)) for *place, body in bodies if (terms := self._terms_of(body))]
        for some in portions(texts):
            self._put(con, _ADD, some)
        self._put(con, _MARK, reached(place for *place, _ in bodies))

    def _put(self, con: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        row = f"({self._space}, {_marks(rows[0])})"
        self._ask(con, statement, *(value for row in rows for value in row), rows=", ".join([row] * len(rows)))


def _marks(values: Sequence[object]) -> str:
    return ", ".join(["%s"] * len(values))


def _repeated(terms: Terms) -> bytes:
    """The terms as a text of words, each as often as it counts."""
    return " ".join(word for word, places in terms.items() for _ in places[:MOST_TIMES]).encode()


def _either(before: Sequence[Log], after: Sequence[Log]) -> list[Log]:
    """The logs that are behind by one of two looks, from where the lower of them says."""
    logs = {(log.history, log.branch): log for log in before}
    for log in after:
        known = logs.setdefault((log.history, log.branch), log)
        if log.first < known.first:
            logs[log.history, log.branch] = log
    return [*logs.values()]
