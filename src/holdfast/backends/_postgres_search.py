"""Text search in PostgreSQL: a tsvector for each indexed message, and a GIN index over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.backends._postgres_connection import Connection
from holdfast.backends._sql_reading import Rows
from holdfast.backends._sql_search import PATIENCE_S, Log, Looked, SqlSearch, Terms, reached, row_of
from holdfast.backends._sql_server import SqlServerStore
from holdfast.matching import VERSION

TABLES = {
    "searches": (
        "space integer PRIMARY KEY, version text NOT NULL",
        "the version of each namespace's text index",
    ),
    "searched": (
        'space integer, history text COLLATE "C", branch bigint, upto bigint NOT NULL,'
        " PRIMARY KEY (space, history, branch)",
        "up to which position messages are in the text index",
    ),
    "texts": (
        'space integer, history text COLLATE "C", branch bigint, seq bigint, terms tsvector NOT NULL,'
        " PRIMARY KEY (space, history, branch, seq)",
        "the text index of messages, by digests of their words; filled by searches",
    ),
}
# The row of `searched` goes first: whoever fills the same log holds it, and what it has added is then seen to go, too.
# A row without a digest only kept a place free while a commit was made.
FORGETTING = (
    "CREATE INDEX texts_by_terms ON {0}.texts USING gin (terms)",
    """
    CREATE OR REPLACE FUNCTION {0}.forget_texts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        DELETE FROM {0}.searched t USING (SELECT DISTINCT space, history, branch FROM gone WHERE digest <> '') g
        WHERE (t.space, t.history, t.branch) = (g.space, g.history, g.branch);
        DELETE FROM {0}.texts t USING (SELECT DISTINCT space, history, branch FROM gone WHERE digest <> '') g
        WHERE (t.space, t.history, t.branch) = (g.space, g.history, g.branch);
        RETURN NULL;
    END $$""",
    "CREATE TRIGGER messages_gone AFTER DELETE ON {0}.messages REFERENCING OLD TABLE AS gone"
    " FOR EACH STATEMENT EXECUTE FUNCTION {0}.forget_texts()",
    "CREATE TRIGGER messages_changed AFTER UPDATE ON {0}.messages REFERENCING OLD TABLE AS gone"
    " FOR EACH STATEMENT EXECUTE FUNCTION {0}.forget_texts()",
)

# Every log of messages has a record of its branch. The rest is looked up log by log, each by a key: of a namespace that
# is new the server believes that it has a single row, and would join whole tables by comparing each row with each.
_BEHIND = """
WITH ends AS MATERIALIZED (
    SELECT t.history, t.branch, coalesce((
        SELECT upto FROM {0}.searched s WHERE s.space = %(space)s AND s.history = t.history AND s.branch = t.branch
        AND EXISTS (SELECT FROM {0}.searches WHERE space = %(space)s AND version = %(version)s)
    ), 0) AS upto, (
        SELECT seq FROM {0}.messages m
        WHERE m.space = %(space)s AND m.history = t.history AND m.branch = t.branch ORDER BY seq DESC LIMIT 1
    ) AS last
    FROM {0}.branches t WHERE true{among}
)
SELECT history, branch, upto, (
    SELECT seq FROM {0}.messages m WHERE m.space = %(space)s
    AND m.history = ends.history AND m.branch = ends.branch AND seq > upto ORDER BY seq LIMIT 1
), last FROM ends WHERE last > upto"""
_BEST = """
SELECT history, branch, seq, ts_rank(terms, %(asked)s::tsquery, 1) FROM {0}.texts t
WHERE terms @@ %(asked)s::tsquery{among}
AND EXISTS (SELECT FROM {0}.searches WHERE space = %(space)s AND version = %(version)s)
ORDER BY 4 DESC, history, branch, seq LIMIT %(limit)s"""
# The terms are those of one namespace already; a sum keeps the server from reading all of it by its key.
_ALL = " AND t.space = %(space)s"
_ANYWHERE = " AND t.space + 0 = %(space)s"
_AMONG = " AND t.space = %(space)s AND t.history = ANY(%(owners)s::text[])"
_GIVEN = "unnest(%(histories)s::text[], %(branches)s::bigint[], %(firsts)s::bigint[], %(lasts)s::bigint[])"
_TURN = "SELECT set_config('lock_timeout', '{patience}ms', true)"
_FIRST = "INSERT INTO {0}.searches VALUES (%(space)s, %(version)s) ON CONFLICT DO NOTHING"
_VERSION = "SELECT version FROM {0}.searches WHERE space = %(space)s FOR UPDATE"
_ANEW = (
    "DELETE FROM {0}.searched WHERE space = %(space)s",
    "DELETE FROM {0}.texts WHERE space = %(space)s",
    "UPDATE {0}.searches SET version = %(version)s WHERE space = %(space)s",
)
_UPTO = """
SELECT t.* FROM unnest(%(histories)s::text[], %(branches)s::bigint[]) g (history, branch), LATERAL (
    SELECT history, branch, upto FROM {0}.searched s
    WHERE s.space = %(space)s AND s.history = g.history AND s.branch = g.branch FOR UPDATE
) t"""
_BODIES = f"""
SELECT t.* FROM {_GIVEN} g (history, branch, first, last), LATERAL (
    SELECT history, branch, seq, body FROM {{0}}.messages m
    WHERE m.space = %(space)s AND m.history = g.history AND m.branch = g.branch
    AND m.seq BETWEEN g.first AND g.last FOR SHARE
) t"""
_ADD = """
INSERT INTO {0}.texts SELECT %(space)s, history, branch, seq, terms::tsvector
FROM unnest(%(histories)s::text[], %(branches)s::bigint[], %(seqs)s::bigint[], %(terms)s::text[])
AS g (history, branch, seq, terms)
ON CONFLICT (space, history, branch, seq) DO UPDATE SET terms = EXCLUDED.terms"""
_MARK = """
INSERT INTO {0}.searched SELECT %(space)s, history, branch, upto
FROM unnest(%(histories)s::text[], %(branches)s::bigint[], %(uptos)s::bigint[]) AS g (history, branch, upto)
ON CONFLICT (space, history, branch) DO UPDATE SET upto = EXCLUDED.upto"""

LAST_PLACE = 16_383  # of a word that a tsvector notes
MOST_PLACES = 255
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresSearch(SqlSearch[Connection]):
    """The text index of one namespace in PostgreSQL."""

    def __init__(self, store: SqlServerStore[Connection], schema: str, *, read_only: bool) -> None:
        super().__init__(store, read_only=read_only)
        self._schema = schema

    def _ask(self, con: Connection, statement: str, **values: Any) -> Rows:
        given = {"space": self._space, "version": VERSION, **values}
        cursor = con.execute(statement.format(self._schema).encode(), given, binary=True)
        return [] if cursor.description is None else cursor.fetchall()

    def _look(self, con: Connection, asked: Sequence[str], owners: Sequence[str] | None, limit: int | None) -> Looked:
        query = f"({' & '.join(asked)}) | {self._any_text}"
        of = None if owners is None else list(owners)
        behind = _BEHIND.replace("{among}", _ALL if owners is None else _AMONG)
        best = _BEST.replace("{among}", _ANYWHERE if owners is None else _AMONG)
        con.execute(SNAPSHOT)
        logs = self._ask(con, behind, owners=of)
        found = self._ask(con, best, asked=query, owners=of, limit=limit)
        con.execute("COMMIT")
        return Looked([Log(*row) for row in logs], [row_of(*row) for row in found])

    def _take(self, con: Connection, logs: Sequence[Log]) -> None:
        with con.transaction():
            con.execute(_TURN.format(patience=int(PATIENCE_S * 1000)).encode())
            self._enter(con)
            parts = [(log.history, log.branch, log.first, log.last) for log in self._still_there(con, logs)]
            places = _columns(parts, "histories", "branches", "firsts", "lasts")
            bodies = self._ask(con, _BODIES, **places)
            texts = [(*place, _vector(terms)) for *place, body in bodies if (terms := self._terms_of(body))]
            self._ask(con, _ADD, **_columns(texts, "histories", "branches", "seqs", "terms"))
            marks = reached(place for *place, _ in bodies)
            self._ask(con, _MARK, **_columns(marks, "histories", "branches", "uptos"))

    def _enter(self, con: Connection) -> None:
        """Keep others from filling, and begin anew where the index is one of another version."""
        self._ask(con, _FIRST)
        if self._ask(con, _VERSION) != [(VERSION,)]:
            for statement in _ANEW:
                self._ask(con, statement)

    def _still_there(self, con: Connection, logs: Sequence[Log]) -> list[Log]:
        """Those of the logs that are indexed just as far as they were when somebody looked."""
        found = self._ask(con, _UPTO, **_columns([(log.history, log.branch) for log in logs], "histories", "branches"))
        present = {(history, branch): upto for history, branch, upto in found}
        return [log for log in logs if present.get((log.history, log.branch), 0) == log.upto]


def _columns(rows: Sequence[Sequence[Any]], *names: str) -> dict[str, list[Any]]:
    """Rows as one list for each of their columns, by its name."""
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _vector(terms: Terms) -> str:
    """The terms with their places as PostgreSQL reads them."""
    return " ".join(f"{term}:{_places(places)}" if places[0] <= LAST_PLACE else term for term, places in terms.items())


def _places(places: list[int]) -> str:
    return ",".join(str(place) for place in places[:MOST_PLACES] if place <= LAST_PLACE)
