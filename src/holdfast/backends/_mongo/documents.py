"""Records as documents, and queries as MongoDB understands them.

A record's place is one string that sorts as its namespace, kind and key do. It is `_id`, which a deleted record
keeps for a while, and `key`, which it does not: scans go by `key` and never meet what is deleted. Numbers in places
are written in hexadecimal so that they sort by size, and every part ends with a character that sorts below all text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from bson import Binary, Int64
from pymongo import ASCENDING, DESCENDING, IndexModel

from holdfast.contracts import Key, Query, Record
from holdfast.filters import Filter, Scalar
from holdfast.kinds import KINDS, Kind

Document: TypeAlias = dict[str, Any]

PART, PAST = "\x01", "\x02"  # the end of a part, and what sorts behind everything that begins with it
ESCAPES = str.maketrans({chr(code): "\x03" + chr(code + 4) for code in range(4)})
OFFSET = 2**63
TOMBSTONE_S = 24 * 3600
NULLS: Mapping[str, Document] = {"=": {"$exists": False}, "!=": {"$exists": True}}
OPERATORS = {"!=": "$ne", ">=": "$gte", "<": "$lt"}


def place(*parts: str | int) -> str:
    """The string that sorts as these parts do."""
    return "".join(_part(part) + PART for part in parts)


def _part(part: str | int) -> str:
    return part.translate(ESCAPES) if isinstance(part, str) else f"{part + OFFSET:016x}"


def place_of(namespace: str, kind: Kind, key: Key) -> str:
    """Where a record of this key is, or where those begin whose keys begin so."""
    return place(namespace, kind.name, *key)


def everything(namespace: str) -> Document:
    """The places of all records of a namespace."""
    start = place(namespace)
    return {"$gte": start, "$lt": start[:-1] + PAST}


def claim_of(namespace: str, record: Record) -> str | None:
    """What no other record may have: the unique values, as one string."""
    return _claim(namespace, record.kind, record.values())


def _claim(namespace: str, kind: Kind, values: Mapping[str, Scalar]) -> str | None:
    unique = [values.get(name) for name in kind.unique]
    if not unique or None in unique:
        return None
    return place(namespace, kind.name, *(stored(value) for value in unique))


def stored(value: Scalar) -> Any:
    """A value as it is stored: numbers always of 64 bits, bytes as text that every server compares alike."""
    if isinstance(value, int):
        return Int64(value)
    return value.hex() if isinstance(value, bytes) else value


def document(namespace: str, record: Record, version: int) -> Document:
    """A record as the commit of this version leaves it."""
    at = place_of(namespace, record.kind, record.key)
    claim = claim_of(namespace, record)
    return {
        "_id": at,
        "key": at,
        "space": namespace,
        "kind": record.kind.name,
        "version": Int64(version),
        "fields": {name: stored(value) for name, value in record.values().items() if value is not None},
        "digest": Binary(record.digest),
        "body": Binary(record.body),
        "size": Int64(len(record.body)),
        **({} if claim is None else {"claim": claim}),
    }


def record_of(kind: Kind, found: Document) -> Record:
    """The record that a document holds."""
    fields = found["fields"]
    values = [_loaded(fields.get(column.name), column.type) for column in kind.columns()]
    split = len(kind.key)
    key: Any = tuple(values[:split])
    return Record(kind, key, bytes(found["body"]), bytes(found["digest"]), tuple(values[split:]))


def _loaded(value: Any, type: str) -> Scalar:
    if value is None:
        return None
    if type == "int":
        return int(value)
    return bytes.fromhex(value) if type == "bytes" else str(value)


# queries


def condition(namespace: str, query: Query) -> Document:
    """Which documents a query means."""
    conditions = [{"key": _bounds(namespace, query)}, *where(query.where)]
    claim = _claim_in(namespace, query)
    if claim is not None:
        conditions.append({"claim": claim})
    elif _indexed(query):
        conditions += [{"space": namespace}, {"kind": query.kind.name}]
    if query.order is not None and query.after is not None:
        conditions.append(_behind(namespace, query))
    return together(conditions)


def where(filters: Sequence[Filter]) -> list[Document]:
    """What each filter asks for; a field without a value is not in the document."""
    return [{f"fields.{one.field}": _comparison(one)} for one in filters]


def _comparison(one: Filter) -> Any:
    if one.value is None:
        return NULLS[one.compare]
    return stored(one.value) if one.compare == "=" else {OPERATORS[one.compare]: stored(one.value)}


def _bounds(namespace: str, query: Query) -> Document:
    start = place_of(namespace, query.kind, query.prefix)
    low = start if query.low is None else start + _part(query.low)
    high = start[:-1] + PAST if query.high is None else start + _part(query.high) + PAST
    if query.after is None or query.order is not None:
        return {"$gte": low, "$lt": high}
    at = place_of(namespace, query.kind, query.after)  # type: ignore[arg-type]  # a key, where no order is named
    return {"$gte": low, "$lt": min(high, at)} if query.reverse else {"$gt": max(low, at), "$lt": high}


def _behind(namespace: str, query: Query) -> Document:
    assert query.after is not None
    value, *key = query.after
    at = place_of(namespace, query.kind, tuple(key))  # type: ignore[arg-type]  # what follows the order is a key
    field, beyond = f"fields.{query.order}", "$lt" if query.reverse else "$gt"
    same = {field: stored(value), "key": {beyond: at}}
    return {"$or": [{field: {beyond: stored(value)}}, same]}


def _claim_in(namespace: str, query: Query) -> str | None:
    """The unique values that a query asks for, if it names them all."""
    named = dict(zip((column.name for column in query.kind.key), query.prefix, strict=False))
    values: dict[str, Scalar] = {**named, **{one.field: one.value for one in query.where if one.compare == "="}}
    return _claim(namespace, query.kind, values)


def _indexed(query: Query) -> bool:
    """Whether an index of the kind can serve the query better than the order of keys."""
    equal = {one.field for one in query.where if one.compare == "=" and one.value is not None}
    return query.order is not None or any(index[0] in equal for index in query.kind.indexes)


def together(conditions: Sequence[Document]) -> Document:
    """One document of conditions that must all hold, each field named once where that can be."""
    merged: Document = {}
    rest: list[Document] = []
    for one in conditions:
        ((name, test),) = one.items()
        if name not in merged:
            merged[name] = test
        elif isinstance(test, dict) and isinstance(merged[name], dict) and not merged[name].keys() & test.keys():
            merged[name] = {**merged[name], **test}
        else:
            rest.append(one)
    return {**merged, "$and": rest} if rest else merged


def ordering(query: Query) -> list[tuple[str, int]]:
    """The order of a query."""
    direction = DESCENDING if query.reverse else ASCENDING
    by_key = [("key", direction)]
    return by_key if query.order is None else [(f"fields.{query.order}", direction), *by_key]


# indexes


def indexes() -> list[IndexModel]:
    """What finds records: by key, by unique values, by the fields of each kind; and what removes tombstones."""
    found = [
        IndexModel("key", name="key", sparse=True),
        IndexModel("claim", name="claim", sparse=True),
        IndexModel("gone_at", name="gone_at", expireAfterSeconds=TOMBSTONE_S),
    ]
    for kind in KINDS:
        ordered = tuple((name,) for name in kind.orders)
        for names in dict.fromkeys((*kind.indexes, *ordered)):
            found.append(_index(kind, names))
    return found


def _index(kind: Kind, names: tuple[str, ...]) -> IndexModel:
    fields = [(f"fields.{name}", ASCENDING) for name in names]
    return IndexModel(
        [("space", ASCENDING), *fields, ("key", ASCENDING)],
        name=f"{kind.name}_{'_'.join(names)}",
        partialFilterExpression={"kind": kind.name},
    )
