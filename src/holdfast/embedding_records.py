"""What is stored of embeddings: each with its exact float32 vector, and one small record per model.

The record of a model is its *space*: the dimension that its first vector fixed, how many vectors there are, and
the number of the last write, by which a reader learns with one `get` whether it has seen everything.
"""

from __future__ import annotations

import hashlib
import math
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from holdfast import codec
from holdfast.commits import commit, get
from holdfast.contracts import Delete, Key, Put, Query, Reader, Record, RecordStore, Write
from holdfast.errors import CorruptData, InvalidInput
from holdfast.filters import Filter
from holdfast.ids import check_id, new_id
from holdfast.kinds import EMBEDDING_SPACES, EMBEDDINGS
from holdfast.model import Embedding, Json, Moment, Value

BATCH = 200
BATCH_BYTES = 4 * 1024 * 1024


class StoredEmbedding(Value, frozen=True, kw_only=True):
    """An embedding as it is written: `at` numbers the writes of its model, `owner` is its session's uid."""

    id: str
    vector: bytes
    at: int
    created_at: Moment
    session_id: str | None = None
    owner: str | None = None
    model: str = ""
    metadata: dict[str, Json] | None = None


class Space(Value, frozen=True, kw_only=True):
    """All vectors of one model; `uid` tells it from an earlier one of the same model that was emptied."""

    model: str
    uid: str
    dimension: int
    count: int = 0
    at: int = 0


class Gone(Value, frozen=True, kw_only=True):
    """A write of an embedding that is no longer what is stored: it was replaced or deleted."""

    id: str
    at: int
    space: Space | None


# vectors


def float32(vector: Sequence[float], what: str = "vector") -> array[float]:
    """The vector rounded once to float32; InvalidInput for what is no row of finite numbers."""
    if isinstance(vector, str | bytes | bytearray | Mapping) or getattr(vector, "ndim", 1) != 1:
        raise InvalidInput(f"{what} is a row of numbers, not {type(vector).__name__}")
    try:
        rounded = array("f", vector.tolist() if hasattr(vector, "tolist") else vector)
    except (TypeError, ValueError, OverflowError) as cause:
        raise InvalidInput(f"{what} is a row of numbers: {cause}") from cause
    if not rounded:
        raise InvalidInput(f"{what} is empty; it needs at least one number")
    # A sum of so many float32 values cannot overflow a double, so it is finite exactly if all of them are.
    if not math.isfinite(sum(rounded)):
        raise InvalidInput(f"{what} has a NaN, an infinity or a number beyond float32")
    return rounded


def to_bytes(vector: array[float]) -> bytes:
    """The vector as little-endian float32."""
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return vector.tobytes()


def from_bytes(stored: bytes) -> array[float]:
    """The vector that these bytes say."""
    vector = array("f")
    try:
        vector.frombytes(stored)
    except ValueError as cause:
        raise CorruptData("the vector of an embedding ends within a number") from cause
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


def check_model(model: object) -> str:
    """The name of a model itself, which may be empty."""
    return "" if model == "" and isinstance(model, str) else check_id(model, "model")


# records


def read_stored(record: Record) -> StoredEmbedding:
    """What an embedding's record says."""
    return codec.decode(record.body, StoredEmbedding, f"embedding {record.key[0]!r}")


def read_sound(record: Record, dimension: int) -> StoredEmbedding | None:
    """What an embedding's record says, or None if it is damaged: one bad number would spoil a whole search."""
    if codec.digest(record.body) != record.digest:
        return None
    try:
        stored = read_stored(record)
    except CorruptData:
        return None
    return stored if len(stored.vector) == 4 * dimension else None


def record_of(stored: StoredEmbedding) -> Record:
    """The record of an embedding that was checked before."""
    body = codec.encode(stored, f"embedding {stored.id!r}")
    return Record(EMBEDDINGS, (stored.id,), body, codec.digest(body), (stored.owner, stored.model, stored.at))


def view(stored: StoredEmbedding) -> Embedding:
    """An embedding as its reader sees it."""
    return Embedding(
        id=stored.id,
        vector=from_bytes(stored.vector).tolist(),
        session_id=stored.session_id,
        model=stored.model,
        metadata=stored.metadata,
        created_at=stored.created_at,
    )


def read_space(record: Record) -> Space:
    """What the record of a model says."""
    return codec.decode(record.body, Space, f"the space of model {record.key[0]!r}")


def space_record(space: Space) -> Record:
    """The record of a model."""
    body = codec.encode(space, "the space of a model")
    return Record(EMBEDDING_SPACES, (space.model,), body, codec.digest(body))


def look_up_space(reader: Reader, model: str) -> Space | None:
    """The vectors of a model, or None if there are none."""
    record = get(reader, EMBEDDING_SPACES, model)
    return None if record is None else read_space(record)


# what filters can ask for


def labels_of(owner: str | None, metadata: Mapping[str, Json] | None) -> list[str]:
    """What an embedding can be filtered by: its session and each pair of its metadata, as short strings."""
    session = [] if owner is None else [f"session {owner}"]
    return session + [_label(name, value) for name, value in (metadata or {}).items()]


def _label(name: str, value: Json) -> str:
    return hashlib.blake2b(codec.encode({name: value}, "metadata"), digest_size=12).hexdigest()


# counting


class Tally:
    """The spaces that one commit changes: counts what comes and goes, and numbers the writes."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[str, Space | None] = {}
        self._changed: dict[str, Space] = {}

    def space(self, model: str) -> Space | None:
        """The space of a model as this commit will leave it."""
        if model not in self._known:
            self._known[model] = look_up_space(self._reader, model)
        return self._changed.get(model) or self._known[model]

    def add(self, model: str, dimension: int) -> int:
        """Count a vector in and return the number of its write; InvalidInput for a wrong dimension."""
        space = self.space(model) or Space(model=model, uid=new_id(), dimension=dimension)
        if space.dimension != dimension:
            raise InvalidInput(f"a vector of model {model!r} has {space.dimension} dimensions, not {dimension}")
        self._changed[model] = replace(space, count=space.count + 1, at=space.at + 1)
        return space.at + 1

    def remove(self, record: Record) -> Gone:
        """Count a vector out."""
        _, model, at = record.fields
        space = self.space(str(model))
        if space is not None:
            self._changed[space.model] = replace(space, count=space.count - 1)
        return Gone(id=str(record.key[0]), at=int(at or 0), space=space)

    def writes(self) -> Iterator[Write]:
        """The spaces with their new counts; an empty one goes."""
        for space in self._changed.values():
            if space.count > 0:
                yield Put(space_record(space))
            elif self._known[space.model] is not None:
                yield Delete(EMBEDDING_SPACES, (space.model,))


def delete(store: RecordStore, keys: Sequence[Key], owner: str | None = None) -> list[Gone]:
    """Remove these embeddings in one commit, only an owner's if one is named; returns what went."""
    gone: list[Gone] = []

    def place(reader: Reader) -> list[Write]:
        present = [one for one in reader.get(EMBEDDINGS, keys) if one is not None and owner in (None, one.fields[0])]
        tally = Tally(reader)
        gone[:] = [tally.remove(record) for record in present]
        return [*(Delete(EMBEDDINGS, record.key) for record in present), *tally.writes()]

    commit(store, place)
    return gone


def clear(store: RecordStore, owner: str) -> list[Gone]:
    """Remove all embeddings of a session, by its uid, in batches that hold no lock for long; returns what went."""
    gone: list[Gone] = []
    mine = store.scan(Query(kind=EMBEDDINGS, where=(Filter("owner", "=", owner),)))
    while batch := [record.key for record in islice(mine, BATCH)]:
        gone += delete(store, batch, owner)
    return gone
