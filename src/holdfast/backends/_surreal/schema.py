"""The tables of a store: one per kind, one per index of ours, and those of the blobs.

Rows are found by record id alone, an array that begins with the namespace. The engine's own indexes are not used:
an `ORDER BY` over one came out in the order of another, and none is read backwards.
"""

from __future__ import annotations

import hashlib
from functools import cache

from msgspec import Struct

from holdfast.contracts import Record
from holdfast.filters import Scalar
from holdfast.kinds import KINDS, Field, Kind

FORMAT = 1
Parts = tuple[Scalar, ...]  # of a record id, behind the namespace
_TYPES = {"text": "string", "int": "int", "bytes": "bytes"}


class Index(Struct, frozen=True):
    """A table of pointers at [namespace, values of the fields, and the key unless those are unique]."""

    table: str
    fields: tuple[str, ...]
    unique: bool = False

    def place(self, record: Record) -> Parts | None:
        """Where this record's pointer stands; None if one of its values is None."""
        values = record.values()
        found = tuple(values[name] for name in self.fields)
        return None if None in found else (*found, *(() if self.unique else record.key))


@cache
def indexes_of(kind: Kind) -> tuple[Index, ...]:
    """The indexes of a kind, what must be unique first."""
    several = dict.fromkeys((*kind.indexes, *((field,) for field in kind.orders)))
    made = [Index(f"{kind.name}_by_{'_'.join(fields)}", fields) for fields in several]
    return (Index(f"{kind.name}_unique", kind.unique, unique=True), *made) if kind.unique else tuple(made)


def unique_of(kind: Kind) -> Index | None:
    """The index of what must be unique, if anything must."""
    return indexes_of(kind)[0] if kind.unique else None


def column(name: str) -> str:
    """The name of a field in the table; `id` by itself is the engine's."""
    return f"{name}_"


@cache
def selection(kind: Kind) -> str:
    """What is read of each record, as one array."""
    return f"[{', '.join((*(column(field.name) for field in kind.columns()), 'digest', 'body'))}]"


def row_of(record: Record) -> dict[str, Scalar]:
    """What is stored of a record; what is None is left out."""
    values = {column(name): value for name, value in record.values().items() if value is not None}
    return {**values, "digest": record.digest, "body": record.body}


def record_of(kind: Kind, row: list[Scalar]) -> Record:
    """The record that was read as `selection` says."""
    *values, digest, body = row
    depth = len(kind.key)
    return Record(kind, tuple(values[:depth]), body, digest, tuple(values[depth:]))  # type: ignore[arg-type]


@cache
def definition() -> str:
    """Every statement that makes the tables; each leaves alone what is there."""
    statements = [
        *_table("holdfast", number="int", tables="string"),
        *_table("turns", number="int"),
        *_table("blobs", digest="string", size="int", put_at="int", staged="string"),
        *_table("staging", staged="string", written_at="int"),
        *_table("chunks", bytes="bytes"),
    ]
    for kind in KINDS:
        columns = {column(field.name): _type(kind, field) for field in kind.columns()}
        statements += _table(kind.name, digest="bytes", body="bytes", **columns)
        for index in indexes_of(kind):
            statements += _table(index.table, row=f"record<{kind.name}>")
    return "; ".join(statements)


@cache
def fingerprint() -> str:
    """What tells whether a store has the tables of this version."""
    return hashlib.sha256(definition().encode()).hexdigest()


def _type(kind: Kind, field: Field) -> str:
    return _TYPES[field.type] if field in kind.key else f"option<{_TYPES[field.type]}>"


def _table(name: str, **fields: str) -> list[str]:
    made = [f"DEFINE TABLE IF NOT EXISTS {name} SCHEMAFULL"]
    return made + [f"DEFINE FIELD IF NOT EXISTS {field} ON {name} TYPE {type}" for field, type in fields.items()]
