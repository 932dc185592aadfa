"""Whatever happens to a stored value is found and named, and the rest stays readable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import apsw

from holdfast.backends.memory import Contents, MemoryStore
from holdfast.backends.sqlite import SqliteStore
from holdfast.contracts import Delete, Put, Record, RecordStore
from holdfast.kinds import (
    AGENTS,
    ARTIFACTS,
    BRANCHES,
    CAPTURES,
    CHECKPOINTS,
    EXECUTIONS,
    EXTRA_USAGES,
    HEADS,
    MARKS,
    MESSAGES,
    PARTS,
    REVISIONS,
    SESSIONS,
    SWEEPS,
    USAGES,
)
from holdfast.testing.damage import ValueVandal, furnish, survive
from holdfast.testing.records import dump

DAMAGES = int(os.environ.get("HOLDFAST_DAMAGES", "2000"))
FURNISHED = (
    *(AGENTS, REVISIONS, SESSIONS, HEADS, BRANCHES, MESSAGES, USAGES, EXECUTIONS, EXTRA_USAGES),
    *(CHECKPOINTS, CAPTURES, MARKS, SWEEPS, ARTIFACTS, PARTS),
)


class SqliteVandal(ValueVandal):
    """Writes into the tables of a closed store, past everything that would notice."""

    def __init__(self, path: str) -> None:
        self._path = path
        with_content = SqliteStore(path)
        furnish(with_content)
        super().__init__(dump(with_content))
        with_content.close()
        self._con = apsw.Connection(path)

    def open(self) -> RecordStore:
        return SqliteStore(self._path, read_only=True)

    def write(self, records: Sequence[Record]) -> None:
        with self._con:
            for record in records:
                self._put_aside(record)
            for record in records:
                self._set(record)

    def _put_aside(self, record: Record) -> None:
        """Free the unique values, so that two records can change theirs."""
        for name in record.kind.unique:
            if name in {field.name for field in record.kind.fields}:
                self._update(record, {name: None})

    def _set(self, record: Record) -> None:
        names = [field.name for field in record.kind.fields]
        values = dict(zip(names, record.fields, strict=True))
        self._update(record, {**values, "digest": record.digest, "body": record.body})

    def _update(self, record: Record, values: dict[str, object]) -> None:
        changes = ", ".join(f'"{name}" = {_parameter(value)}' for name, value in values.items())
        in_log = record.kind.log or record.kind.numbered
        names = ["place"] if in_log else [part.name for part in record.kind.key]
        where = " AND ".join(f'"{name}" = ?' for name in names)
        key = (self._log_place(record),) if in_log else record.key
        self._con.execute(f"UPDATE {record.kind.name} SET {changes} WHERE {where}", (*map(_raw, values.values()), *key))
        assert self._con.changes() == 1

    def _log_place(self, record: Record) -> int:
        owner, branch, position = record.key if record.kind.log else (record.key[0], 0, record.key[1])
        named = "SELECT log FROM logs WHERE kind = ? AND owner = ? AND branch = ?"
        (log,) = self._con.execute(named, (record.kind.name, owner, branch)).fetchone()  # type: ignore[misc]
        return int(log) << 32 | int(position)


def _parameter(value: object) -> str:
    return "CAST(? AS TEXT)" if isinstance(value, str) else "?"


def _raw(value: object) -> apsw.SQLiteValue:
    """The bytes of a text, whether or not they are UTF-8."""
    assert value is None or isinstance(value, str | int | bytes)
    return value.encode(errors="surrogateescape") if isinstance(value, str) else value


class BitVandal(SqliteVandal):
    """Flips any bit of a text, also where that leaves no text."""

    unreadable = "surrogateescape"


class ContractVandal(ValueVandal):
    """Puts damaged records where sound ones were, as any backend lets it."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        furnish(self.open())
        super().__init__(dump(self.open()))

    def open(self) -> RecordStore:
        return MemoryStore(self._contents)

    def write(self, records: Sequence[Record]) -> None:
        store = self.open()
        store.commit([Delete(record.kind, record.key) for record in records])
        store.commit([Put(record) for record in records])


def test_the_store_to_damage_has_records_of_many_kinds(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "agents.db"))
    furnish(store)
    assert set(FURNISHED) <= {record.kind for record in dump(store)}
    store.close()


def test_damage_to_any_value_in_a_sqlite_file_is_named_and_the_rest_stays_readable(tmp_path: Path) -> None:
    assert survive(SqliteVandal(str(tmp_path / "agents.db")), DAMAGES) == []


def test_text_that_is_no_text_any_more_is_named_and_the_rest_stays_readable(tmp_path: Path) -> None:
    assert survive(BitVandal(str(tmp_path / "agents.db")), DAMAGES // 4) == []


def test_damage_to_any_value_in_memory_is_named_and_the_rest_stays_readable() -> None:
    assert survive(ContractVandal(Contents()), DAMAGES // 4) == []
