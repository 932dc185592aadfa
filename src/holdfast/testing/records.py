"""Records for the kit to write, of the real kinds, and everything a namespace holds."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.codec import digest
from holdfast.contracts import Insert, Key, Query, Reader, Record, RecordStore
from holdfast.filters import Filter, Scalar
from holdfast.ids import new_id
from holdfast.kinds import (
    AGENTS,
    BRANCHES,
    CHECKPOINTS,
    EXTRA_USAGES,
    HEADS,
    KINDS,
    MESSAGES,
    REVISIONS,
    SESSIONS,
    USAGES,
    Kind,
)

LARGEST = 2**63 - 1
EVERY_BYTE = bytes(range(256))
HOSTILE = ("a'b", 'a"b', "a%b", "a_b", "a\\b", "a/../b", "a;--", "a b", "a ", "ä", "a\u0308", "中文", "😀", "A")


DEFAULTS: dict[str, Scalar] = {"text": None, "int": 0, "bytes": b"bytes"}


def record(kind: Kind, key: Key, body: bytes, **given: Scalar) -> Record:
    """A record with the digest of its body and the fields given."""
    fields = tuple(given.get(field.name, DEFAULTS[field.type]) for field in kind.fields)
    return Record(kind, key, body, digest(body), fields)


def agent(id: str, body: bytes = b"agent") -> Record:
    """A record with a text as its key."""
    return record(AGENTS, (id,), body)


def session(id: str, body: bytes = b"session") -> Record:
    """A record with fields that are indexed."""
    return record(SESSIONS, (id,), body, history="h")


def head(id: str, updated_at: int = 0, body: bytes = b"head", **given: Scalar) -> Record:
    """A record with fields that may be None and fields to sort by."""
    return record(HEADS, (id,), body, **{"updated_at": updated_at, **given})


def revision(owner: str, number: int, body: bytes = b"revision", link: bytes = b"link") -> Record:
    """A record with a text and a number in its key."""
    return record(REVISIONS, (owner, number), body, link=link)


def branch(history: str, number: int, body: bytes = b"branch") -> Record:
    """A record without fields."""
    return record(BRANCHES, (history, number), body)


def usage(history: str, number: int, seq: int) -> Record:
    """A record with three key parts."""
    return record(USAGES, (history, number, seq), b"usage")


def checkpoint(owner: str, number: int, id: str | None, body: bytes = b"checkpoint", at: int = 0) -> Record:
    """A numbered record whose id is unique in the namespace."""
    return record(CHECKPOINTS, (owner, number), body, id=id, at=at)


def extra(session: str, n: int, id: str) -> Record:
    """A record with a number in its key, which is laid out like most."""
    return record(EXTRA_USAGES, (session, n), b"extra", id=id)


def message(history: str, number: int, seq: int, id: str | None = None, body: bytes = b"message", n: int = 1) -> Record:
    """A record of a log, with an id that is unique in its history."""
    return record(MESSAGES, (history, number, seq), body, id=new_id() if id is None else id, n=n)


def insert(store: RecordStore, records: Iterable[Record]) -> None:
    """Write records of any number, in commits within the limit."""
    found = list(records)
    for start in range(0, len(found), 500):
        store.commit([Insert(one) for one in found[start : start + 500]])


def only(reader: Reader, record: Record) -> Record | None:
    """What is stored under a record's key."""
    return reader.get(record.kind, [record.key])[0]


def keys(reader: Reader, query: Query) -> list[Key]:
    """The keys a scan finds, in order."""
    return [found.key for found in reader.scan(query)]


def ids(reader: Reader, *where: Filter) -> list[str]:
    """The heads that pass the filters, by key."""
    return [str(key[0]) for key in keys(reader, Query(kind=HEADS, where=where))]


def dump(reader: Reader) -> list[Record]:
    """Everything a namespace holds, kind by kind."""
    return [found for kind in KINDS for found in reader.scan(Query(kind=kind))]
