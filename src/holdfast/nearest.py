"""Which embeddings are nearest: by an index that this client keeps of a model's vectors, or by reading them all.

The index is a cache within a byte limit. The space record of a model says how far its writes have come; what the
index has not seen is read behind that number. So an index may hold too much (what others have deleted), never too
little, and every neighbour it names is looked up before it is believed.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

from msgspec import Struct

from holdfast.contracts import Near, Query, RecordStore, Settles, Vector, VectorIndex
from holdfast.deadlines import remaining
from holdfast.embedding_records import Space, StoredEmbedding, from_bytes, holds, labels_of, read_sound
from holdfast.errors import Busy
from holdfast.filters import Filter
from holdfast.history import see
from holdfast.ids import check_whole
from holdfast.kinds import EMBEDDINGS, HEADS
from holdfast.model import Json

MakeIndex = Callable[[int], VectorIndex]

CACHE_BYTES = 1024 * 1024 * 1024
_BESIDE_VECTOR = 500  # what a row costs besides its numbers: ids, labels, the graph's links
_BLOCK = 2_000
_MORE = 4
_ROUNDS = 20  # 4 ** 20 vectors are more than there are


class Wanted(Struct, frozen=True):
    """What neighbours must be: of this session (by its uid, which may be detached) or any, with these pairs."""

    owner: str | None = None
    metadata: Mapping[str, Json] = {}

    def labels(self) -> list[str]:
        return labels_of(self.owner, self.metadata)

    def admits(self, stored: StoredEmbedding) -> bool:
        return self.owner in (None, stored.owner) and holds(stored.metadata, self.metadata)


class Scored(Struct, frozen=True):
    """A stored embedding and its cosine."""

    stored: StoredEmbedding
    score: float

    def order(self) -> tuple[float, str]:
        return -self.score, self.stored.id


class _Kept:
    """An index and how far it has come: the space it is of, its last write, and which write each vector is of."""

    def __init__(self, space: Space, index: VectorIndex) -> None:
        self.uid = space.uid
        self.model = space.model
        self.dimension = space.dimension
        self.at = 0
        self.bytes = _bytes_of(space)
        self.index = index
        self.writes: dict[str, int] = {}

    def take(self, stored: Sequence[StoredEmbedding]) -> None:
        """Add these, or put them in the place of what they replace."""
        self.index.upsert([_vector_of(one) for one in stored])
        self.writes.update((one.id, one.at) for one in stored)

    def drop(self, ids: Sequence[str]) -> None:
        """Leave these out from now on."""
        self.index.delete(ids)
        for id in ids:
            self.writes.pop(id, None)


class Nearest:
    """The indexes of one client; the least used go when the byte limit is reached."""

    def __init__(self, store: RecordStore, make: MakeIndex, cache_bytes: int = CACHE_BYTES) -> None:
        self._store = store
        self._make = make
        self._limit = check_whole(cache_bytes, "vector_cache_bytes")
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=remaining()):
            raise Busy("another thread is loading or searching vectors; repeat, or raise timeout=")
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def _if_free(self) -> Iterator[Mapping[str, _Kept]]:
        """The indexes, or none while somebody searches: what they then miss, the next search finds out by itself."""
        free = self._lock.acquire(blocking=False)
        try:
            yield self._kept if free else {}
        finally:
            if free:
                self._lock.release()

    def search(self, space: Space, vector: array[float], limit: int, wanted: Wanted) -> list[Scored]:
        """The nearest of a model, best first, ties by id."""
        if _bytes_of(space) > self._limit:
            self._let_go(space.model)
            return self._stream(space, vector, limit, wanted)
        with self._alone():
            kept = self._current(space)
            asked = limit
            for _ in range(_ROUNDS):
                near = kept.index.search(vector, asked, wanted.labels())
                found, settled = self._believed(kept, near, wanted)
                if settled and (len(found) >= limit or len(near) < asked):
                    break
                asked *= _MORE  # some have changed, were deleted or detached, so look further; at last at all
            return found[:limit]

    def warm(self, space: Space) -> None:
        """Load a model's vectors, and wait for the index of them; nothing where they are too many to be kept."""
        if _bytes_of(space) > self._limit:
            return
        with self._alone():
            index = self._current(space).index
        if isinstance(index, Settles) and not index.settle(remaining()):
            raise Busy(f"the index of model {space.model!r} is still being made; searches are exact meanwhile")

    # keeping an index current

    def learn(self, model: str, uid: str, before: int, stored: Sequence[StoredEmbedding]) -> None:
        """Take over writes of this client's own, if the index had seen all before them."""
        with self._if_free() as indexes:
            kept = indexes.get(model)
            if kept is not None and (kept.uid, kept.at) == (uid, before):
                kept.take(stored)
                kept.at = stored[-1].at

    def forget(self, ids: Sequence[str]) -> None:
        """Drop what this client has deleted."""
        with self._if_free() as indexes:
            for kept in indexes.values():
                kept.drop(ids)

    def close(self) -> None:
        """Give the indexes back."""
        with self._lock:
            for kept in self._kept.values():
                kept.index.close()
            self._kept.clear()

    def _current(self, space: Space) -> _Kept:
        """The index of a space, with every write up to the space's last."""
        kept = self._kept.get(space.model)
        if kept is None or kept.uid != space.uid:
            self._let_go(space.model)
            kept = _Kept(space, self._make(space.dimension))
        self._kept.pop(space.model, None)
        self._kept[space.model] = kept  # at the end, as the last used
        kept.bytes = _bytes_of(space)
        self._make_room()
        if kept.at < space.at:
            for block in self._blocks(space, kept.at + 1, Wanted()):
                kept.take(block)
            kept.at = space.at
        return kept

    def _make_room(self) -> None:
        """Let the least used indexes go until the others fit; the last used alone always does."""
        while len(self._kept) > 1 and sum(kept.bytes for kept in self._kept.values()) > self._limit:
            self._let_go(next(iter(self._kept)))

    def _let_go(self, model: str) -> None:
        kept = self._kept.pop(model, None)
        if kept is not None:
            kept.index.close()

    def _blocks(self, space: Space, first: int, wanted: Wanted) -> Iterator[list[StoredEmbedding]]:
        """What a model holds from a write on, in the order of writing, so that what is written again is met later."""
        where = [Filter("model", "=", space.model), Filter("at", ">=", first)]
        if wanted.owner is not None:
            where.append(Filter("owner", "=", wanted.owner))
        rows = self._store.scan(Query(kind=EMBEDDINGS, where=tuple(where), order="at"))
        while block := list(islice(rows, _BLOCK)):
            yield [one for row in block if (one := read_sound(row, space.dimension)) is not None]

    # looking up what an index names

    def _believed(self, kept: _Kept, near: Sequence[Near], wanted: Wanted) -> tuple[list[Scored], bool]:
        """Those that are still what the index knows, and whether it had to learn that others are now something else."""
        records = self._store.get(EMBEDDINGS, [(one.id,) for one in near])
        found: list[Scored] = []
        changed: list[StoredEmbedding] = []
        gone: list[str] = []
        for one, record in zip(near, records, strict=True):
            stored = None if record is None else read_sound(record, kept.dimension)
            if stored is None or stored.model != kept.model:
                gone.append(one.id)
            elif kept.writes[one.id] == stored.at:
                found.append(Scored(stored, one.score))
            else:
                changed.append(stored)
        kept.drop(gone)
        kept.take(changed)
        return _visible(self._store, found, wanted), not changed

    # reading everything

    def _stream(self, space: Space, vector: array[float], limit: int, wanted: Wanted) -> list[Scored]:
        """The same answer without an index: all vectors pass by in blocks, and the best so far are kept."""
        best: dict[str, Scored] = {}
        for block in self._blocks(space, 0, wanted):
            for one in block:
                best.pop(one.id, None)  # it was written again while we read, and this is what it is now
            shown = sessions_shown(self._store, block, with_detached=wanted.owner is not None)
            seen = {one.id: one for one in block if one.owner in shown and wanted.admits(one)}
            index = self._make(space.dimension)
            index.upsert([_vector_of(one) for one in seen.values()])
            found = [Scored(seen[near.id], near.score) for near in index.search(vector, limit)]
            index.close()
            best = {one.stored.id: one for one in sorted([*best.values(), *found], key=Scored.order)[:limit]}
        return list(best.values())


def _visible(store: RecordStore, found: Sequence[Scored], wanted: Wanted) -> list[Scored]:
    """Those that pass the filters and whose session is there; detached ones only if they were asked for by name."""
    shown = sessions_shown(store, [one.stored for one in found], with_detached=wanted.owner is not None)
    return [one for one in found if wanted.admits(one.stored) and one.stored.owner in shown]


def sessions_shown(store: RecordStore, found: Sequence[StoredEmbedding], with_detached: bool) -> set[str | None]:
    """The uids of these embeddings' sessions that are there, and None for those without a session."""
    names = sorted({one.session_id for one in found if one.session_id is not None})
    heads = [see(head).pointer for head in store.get(HEADS, [(name,) for name in names]) if head is not None]
    return {None, *(head.uid for head in heads if with_detached or head.detached_by is None)}


def _vector_of(stored: StoredEmbedding) -> Vector:
    return Vector(id=stored.id, values=from_bytes(stored.vector), labels=labels_of(stored.owner, stored.metadata))


def _bytes_of(space: Space) -> int:
    return space.count * (4 * space.dimension + _BESIDE_VECTOR)
