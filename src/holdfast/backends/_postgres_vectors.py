"""Vectors in PostgreSQL by pgvector: a row for each, of length 1, compared by their product, which is the cosine.

Every search looks at all rows of its index that carry the labels, at the server. A row of `vector_indexes` says how far
an index has come; whoever adds vectors holds it, so that an index that is dropped takes all of them along.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from operator import mul
from typing import Any

from psycopg import errors as pg

from holdfast.backends._postgres_connection import Connection
from holdfast.backends._proposals import Proposal, nearest
from holdfast.backends._sql_reading import Rows
from holdfast.backends._sql_server import SqlServerStore
from holdfast.backends.vectors import cosine, length_of
from holdfast.contracts import Near, Vector
from holdfast.errors import NotFound
from holdfast.ids import new_id

LARGEST = 16_000  # dimensions
_BATCH = 200
_PAGE = 1_000
_NOTHING = 1e-30  # less than this of a vector of length 1 is not sent

_NOT_MADE = (pg.InsufficientPrivilege, pg.UniqueViolation, pg.DuplicateObject, pg.FeatureNotSupported)
_WHERE = "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = %s"
_MAY_MAKE = """
SELECT 1 FROM pg_available_extensions
WHERE name = %s AND has_database_privilege(current_database(), 'CREATE') AND NOT pg_is_in_recovery()"""
_READY = "SELECT to_regclass('{0}.vectors') IS NOT NULL"
_MAY_USE = """
SELECT bool_and(has_table_privilege('{0}.' || name, privilege))
FROM unnest(ARRAY['vectors', 'vector_indexes']) name, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) privilege"""
_TABLES = (
    "SELECT version FROM {0}.version FOR UPDATE",
    """
    CREATE TABLE IF NOT EXISTS {0}.vector_indexes (space integer, name text COLLATE "C", making text NOT NULL,
        seen bigint NOT NULL, PRIMARY KEY (space, name))""",
    "COMMENT ON TABLE {0}.vector_indexes IS 'up to which write each index of vectors has come'",
    """
    CREATE TABLE IF NOT EXISTS {0}.vectors (space integer, name text COLLATE "C", id bytea,
        labels text[] NOT NULL, unit {1}.vector NOT NULL, PRIMARY KEY (space, name, id))""",
    "COMMENT ON TABLE {0}.vectors IS 'an index of the embeddings, filled by whoever writes or searches them'",
    "CREATE INDEX IF NOT EXISTS vectors_by_labels ON {0}.vectors USING gin (labels)",
)
_MINE = "space = %(space)s AND name = %(name)s"
_SEEN = f"SELECT making, seen FROM {{0}}.vector_indexes WHERE {_MINE}"
_BEGIN = f"""
WITH made AS (
    INSERT INTO {{0}}.vector_indexes VALUES (%(space)s, %(name)s, %(making)s, 0) ON CONFLICT DO NOTHING
    RETURNING making, seen
)
SELECT making, seen FROM made UNION ALL SELECT making, seen FROM {{0}}.vector_indexes WHERE {_MINE}"""
_MARK = f"UPDATE {{0}}.vector_indexes SET seen = %(seen)s WHERE {_MINE} AND making = %(making)s"
_THERE = f"SELECT 1 FROM {{0}}.vector_indexes WHERE {_MINE} AND making = %(making)s"
_PUT = f"""
WITH there AS (SELECT 1 FROM {{0}}.vector_indexes WHERE {_MINE} AND making = %(making)s FOR KEY SHARE), put AS (
    INSERT INTO {{0}}.vectors SELECT %(space)s, %(name)s, g.id, string_to_array(g.labels, ','), g.unit::{{1}}.vector
    FROM unnest(%(ids)s::bytea[], %(labels)s::text[], %(units)s::text[]) g (id, labels, unit), there
    ON CONFLICT (space, name, id) DO UPDATE SET labels = EXCLUDED.labels, unit = EXCLUDED.unit
)
SELECT 1 FROM there"""
# What is sent is made of the best alone, not of every row that is compared.
_NEAREST = f"""
SELECT id, unit::real[], -product FROM (
    SELECT id, unit, unit OPERATOR({{1}}.<#>) %(unit)s::{{1}}.vector AS product FROM {{0}}.vectors
    WHERE {_MINE} AND EXISTS ({_THERE}){{carrying}}
    ORDER BY product LIMIT %(limit)s
) best"""
_CARRYING = " AND labels @> %(labels)s::text[]"
_IDS = f"SELECT id FROM {{0}}.vectors WHERE {_MINE} AND id > %(after)s ORDER BY id LIMIT {_PAGE}"
_DELETE = f"DELETE FROM {{0}}.vectors WHERE {_MINE} AND id = ANY(%(ids)s::bytea[])"
_SPACES = "SELECT name FROM {0}.vector_indexes WHERE space = %(space)s"
_DROP = (f"DELETE FROM {{0}}.vector_indexes WHERE {_MINE}", f"DELETE FROM {{0}}.vectors WHERE {_MINE}")


def prepare(con: Connection, schema: str) -> str | None:
    """The schema in which pgvector is, with our tables made; None if the server has it not, or not for this user."""
    found = _extension(con)
    if found is not None and con.execute(_READY.format(schema).encode()).fetchone() != (True,):
        try:
            with con.transaction():
                for statement in _TABLES:
                    con.execute(statement.format(schema, found).encode())
        except pg.InsufficientPrivilege:
            return None
    if found is not None and con.execute(_MAY_USE.format(schema).encode()).fetchone() != (True,):
        return None  # another user has made them
    return found


def _extension(con: Connection) -> str | None:
    row = con.execute(_WHERE, ("vector",)).fetchone()
    if row is None and con.execute(_MAY_MAKE, ("vector",)).fetchone() is not None:
        with suppress(*_NOT_MADE):  # or made by another at this moment: now it is there, or not
            con.execute("CREATE EXTENSION IF NOT EXISTS vector")
        row = con.execute(_WHERE, ("vector",)).fetchone()
    return None if row is None else str(row[0])


class PostgresVectors:
    """The indexes of a namespace."""

    largest = LARGEST

    def __init__(self, store: SqlServerStore[Connection], schema: str, extension: str) -> None:
        self._store = store
        self._schema = schema
        self._extension = extension

    def ask(self, *statements: str, **values: Any) -> Rows:
        """The rows of the last of some statements, which are one transaction and may be repeated."""
        given = {"space": self._store.space, **values}

        def work(con: Connection) -> Rows:
            with con.transaction():
                for statement in statements:
                    text = statement.format(self._schema, self._extension)
                    cursor = con.execute(text.encode(), given, binary=True)
            return [] if cursor.description is None else cursor.fetchall()

        return self._store.at_server(work)

    def index(self, space: str, dimension: int) -> PostgresIndex:
        return PostgresIndex(self, space, dimension)

    def spaces(self) -> list[str]:
        return [str(name) for (name,) in self.ask(_SPACES)]

    def drop(self, space: str) -> None:
        self.ask(*_DROP, name=space)

    def close(self) -> None:
        """Nothing is held: the connections are those of the records."""


class PostgresIndex:
    """The vectors of one space."""

    def __init__(self, store: PostgresVectors, space: str, dimension: int) -> None:
        self._store = store
        self._space = space
        self._dimension = dimension
        self._making = ""

    def _ask(self, statement: str, **values: Any) -> Rows:
        return self._store.ask(statement, name=self._space, making=self._making, **values)

    # how far it has come

    def seen(self) -> int:
        found = self._ask(_SEEN)
        if not found:
            self._making = new_id()
            found = self._ask(_BEGIN) or self._ask(_SEEN)  # another may have begun it at this moment
        self._making, seen = found[0] if found else ("", 0)
        return int(seen)

    def mark(self, seen: int) -> None:
        self._ask(_MARK, seen=seen)

    def ids(self) -> Iterator[str]:
        after = b""
        while page := self._ask(_IDS, after=after):
            yield from (id.decode() for (id,) in page)
            after = page[-1][0]

    # vectors

    def upsert(self, vectors: Sequence[Vector]) -> None:
        for start in range(0, len(vectors), _BATCH):
            some = {one.id: one for one in vectors[start : start + _BATCH]}.values()
            there = self._ask(
                _PUT,
                ids=[one.id.encode() for one in some],
                labels=[",".join(map(_label, one.labels)) for one in some],
                units=[_written(unit_of(one.values)) for one in some],
            )
            if not there:
                raise self._gone()

    def delete(self, ids: Sequence[str]) -> None:
        if ids:
            self._ask(_DELETE, ids=[id.encode() for id in ids])

    def search(self, vector: Sequence[float], limit: int, labels: Sequence[str] = ()) -> list[Near]:
        unit = unit_of(vector)
        statement = _NEAREST.replace("{carrying}", _CARRYING if labels else "")

        def propose(count: int) -> list[Proposal]:
            rows = self._ask(statement, unit=_written(unit), labels=[*map(_label, labels)], limit=count)
            return [_scored(id.decode(), values, unit, said) for id, values, said in rows]

        found = nearest(propose, limit, self._dimension)
        if not found and not self._ask(_THERE):
            raise self._gone()
        return found

    def close(self) -> None:
        """Nothing is held."""

    def _gone(self) -> NotFound:
        return NotFound(f"the index of vectors {self._space} is no more")


def unit_of(vector: Sequence[float]) -> list[float]:
    """A vector at length 1; one of zeros stays as it is."""
    length = length_of(vector)
    return [value / length for value in vector] if length else [0.0] * len(vector)


def _scored(id: str, values: Sequence[float], unit: Sequence[float], said: float) -> Proposal:
    score = cosine(sum(map(mul, values, unit)), length_of(values) * length_of(unit))
    return Proposal(Near(id=id, score=score), said)


def _written(unit: Sequence[float]) -> str:
    """A vector as pgvector reads it: nine digits are a float32."""
    return f"[{','.join(f'{value:.9g}' if abs(value) > _NOTHING else '0' for value in unit)}]"


def _label(label: str) -> str:
    """What stands for a label, which may have characters that PostgreSQL's text has not."""
    return blake2b(label.encode(), digest_size=16).hexdigest()
