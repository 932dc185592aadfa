"""An index of vectors and how far it has come: one in this client's memory, or one that several clients share.

A shared one is filled by whoever comes along, in no order that anybody could promise. So every write of an
embedding is a vector of its own there, and none is ever replaced: a late writer adds what is out of date, which is
found out when it is looked up, and takes nothing away.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import Struct

from holdfast.contracts import Query, Reader, Record, RecordStore, SharedIndex, Vector, VectorIndex, VectorStore
from holdfast.embedding_records import (
    Gone,
    Space,
    StoredEmbedding,
    from_bytes,
    labels_of,
    look_up_space,
    read_space,
)
from holdfast.errors import ConnectionFailed, NotFound
from holdfast.kinds import EMBEDDING_SPACES, EMBEDDINGS

_BESIDE_VECTOR = 500  # what a row costs besides its numbers: ids, labels, the graph's links
_BLOCK = 2_000
_BETWEEN = "\0"  # which no id has, and before which nothing sorts: ties stay in the order of ids


class Known(Struct, frozen=True):
    """What an index knows: a write of an embedding, and its cosine."""

    id: str
    at: int
    score: float


class Index:
    """An index of one space: with all its writes up to `at`, and maybe with others that are out of date."""

    bytes = 0

    def __init__(self, space: Space, index: VectorIndex) -> None:
        self.space = space
        self.index = index
        self.at = 0

    def reach(self, at: int) -> None:
        """Say that it has every write up to this."""
        self.at = at

    def refresh(self) -> None:
        """Find out how far others have brought it."""

    def take(self, stored: Sequence[StoredEmbedding]) -> None:
        """Add these writes."""
        raise NotImplementedError

    def drop(self, gone: Sequence[Gone | Known]) -> None:
        """Leave these writes out from now on, but no later ones."""
        raise NotImplementedError

    def search(self, vector: array[float], limit: int, labels: Sequence[str]) -> list[Known]:
        """The nearest, best first, ties by id; an embedding may be there by several of its writes."""
        raise NotImplementedError

    def close(self) -> None:
        """Give it back; a shared one stays where it is."""
        self.index.close()


class OwnIndex(Index):
    """An index in memory, where a write takes the place of the one before."""

    def __init__(self, space: Space, index: VectorIndex) -> None:
        super().__init__(space, index)
        self._writes: dict[str, int] = {}

    def take(self, stored: Sequence[StoredEmbedding]) -> None:
        self.index.upsert([vector_of(one) for one in stored])
        self._writes.update((one.id, one.at) for one in stored)

    def drop(self, gone: Sequence[Gone | Known]) -> None:
        ids = [one.id for one in gone if self._writes.get(one.id, one.at) <= one.at]
        self.index.delete(ids)
        for id in ids:
            self._writes.pop(id, None)

    def search(self, vector: array[float], limit: int, labels: Sequence[str]) -> list[Known]:
        return [Known(one.id, self._writes[one.id], one.score) for one in self.index.search(vector, limit, labels)]


class CommonIndex(Index):
    """An index that others fill, too; its mark says how far it has come."""

    index: SharedIndex

    def __init__(self, space: Space, index: SharedIndex) -> None:
        super().__init__(space, index)
        self.at = index.seen()

    def reach(self, at: int) -> None:
        # Clients mark in any order: a mark that is too low costs the next one some reading, and none is too high.
        self.index.mark(at)
        self.at = at

    def refresh(self) -> None:
        self.at = self.index.seen()

    def take(self, stored: Sequence[StoredEmbedding]) -> None:
        self.index.upsert([vector_of(one, _name(one)) for one in stored])

    def drop(self, gone: Sequence[Gone | Known]) -> None:
        self.index.delete([_name(one) for one in gone])

    def search(self, vector: array[float], limit: int, labels: Sequence[str]) -> list[Known]:
        found = self.index.search(vector, limit, labels)
        return [Known(*_read_name(one.id), one.score) for one in found]

    def writes(self) -> Iterator[Known]:
        """Every write that is there, in no order."""
        return (Known(*_read_name(name), 0.0) for name in self.index.ids())


class CommonIndexes:
    """The indexes of a namespace elsewhere, and what is to be done there besides searching."""

    def __init__(self, store: RecordStore, elsewhere: VectorStore) -> None:
        self._store = store
        self._elsewhere = elsewhere

    def takes(self, space: Space) -> bool:
        """Whether a space can be kept there."""
        return space.dimension <= self._elsewhere.largest

    def open(self, space: Space) -> CommonIndex:
        """The index of a space, made if there is none."""
        index = CommonIndex(space, self._elsewhere.index(space.uid, space.dimension))
        now = look_up_space(self._store, space.model)
        if now is not None and now.uid == space.uid and now.at < index.at:
            # It is ahead of the records, which were brought back from a copy: what it has is not to be trusted.
            self._elsewhere.drop(space.uid)
            index.refresh()
        return index

    def forget(self, gone: Sequence[Gone]) -> None:
        """Remove these writes, if that can be done now."""
        spaces = {one.space.uid: one.space for one in gone if one.space is not None and self.takes(one.space)}
        for space in spaces.values():
            names = [_name(one) for one in gone if one.space is not None and one.space.uid == space.uid]
            with suppress(ConnectionFailed, NotFound):  # no search believes what is left there, and gc removes it
                self._elsewhere.index(space.uid, space.dimension).delete(names)

    def tidy(self) -> None:
        """Remove what is there of embeddings that are no more."""
        there = self._elsewhere.spaces()  # before the records are read: what they do not know then is dead
        alive = {space.uid: space for space in map(read_space, self._store.scan(Query(kind=EMBEDDING_SPACES)))}
        for uid in there:
            if uid in alive:
                self._tidy(CommonIndex(alive[uid], self._elsewhere.index(uid, alive[uid].dimension)))
            else:
                self._elsewhere.drop(uid)

    def _tidy(self, index: CommonIndex) -> None:
        writes = index.writes()
        while block := list(islice(writes, _BLOCK)):
            records = look_up(self._store, block)
            index.drop([one for one in block if not is_of(records[one.id], one, index.space)])

    def close(self) -> None:
        """Give everything back."""
        self._elsewhere.close()


def look_up(reader: Reader, writes: Sequence[Known]) -> dict[str, Record | None]:
    """The records of the embeddings that these are writes of."""
    ids = list(dict.fromkeys(one.id for one in writes))
    return dict(zip(ids, reader.get(EMBEDDINGS, [(id,) for id in ids]), strict=True))


def is_of(record: Record | None, write: Known, space: Space) -> bool:
    """Whether a record is what this write of the space has made."""
    return record is not None and record.fields[1:] == (space.model, write.at)


def vector_of(stored: StoredEmbedding, name: str | None = None) -> Vector:
    """A stored embedding as an index takes it."""
    labels = labels_of(stored.owner, stored.metadata)
    return Vector(id=stored.id if name is None else name, values=from_bytes(stored.vector), labels=labels)


def bytes_of(space: Space) -> int:
    """What all vectors of a space take in memory."""
    return space.count * (4 * space.dimension + _BESIDE_VECTOR)


def _name(write: StoredEmbedding | Gone | Known) -> str:
    return f"{write.id}{_BETWEEN}{write.at}"


def _read_name(name: str) -> tuple[str, int]:
    id, _, at = name.partition(_BETWEEN)
    return id, int(at)
