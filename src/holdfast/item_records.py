"""What is stored of items: values that a framework's graphs remember across threads, by namespace and key."""

from __future__ import annotations

from holdfast import codec
from holdfast.contracts import Record
from holdfast.kinds import ITEMS
from holdfast.model import Json, Value


class StoredItem(Value, frozen=True, kw_only=True):
    """An item as it is kept; its namespace is `space`, labels with dots between. Stamps are microseconds.

    `ttl_us` after its last write, or its last reading if that counts, it is gone. `vectors` are its embeddings' ids.
    """

    space: str
    key: str
    value: dict[str, Json]
    created_at: int
    updated_at: int
    expires_at: int | None = None
    ttl_us: int | None = None
    vectors: list[str] = []


def root_of(space: str) -> str:
    """The first label of a namespace, by which items are found."""
    return space.partition(".")[0]


def item_record(stored: StoredItem) -> Record:
    """The record of an item."""
    body = codec.encode_value(stored, StoredItem, "item")
    return Record(ITEMS, (stored.space, stored.key), body, codec.digest(body), (root_of(stored.space),))


def read_item(record: Record) -> StoredItem:
    """What the record of an item says."""
    return codec.decode(record.body, StoredItem, f"item {record.key}")
