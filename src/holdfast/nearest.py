"""Which embeddings are nearest: by an index of a model's vectors, or by reading them all.

The index is a cache, in this client's memory within a byte limit, or elsewhere and shared. The space record of a
model says how far its writes have come; what the index has not seen is read behind that number. So an index may hold
too much (what others have deleted), never too little, and every neighbour it names is looked up before it is believed.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from msgspec import Struct

from holdfast import codec
from holdfast.contracts import Query, RecordStore, Settles, VectorIndex
from holdfast.deadlines import remaining
from holdfast.embedding_records import Gone, Space, StoredEmbedding, labels_of, read_sound
from holdfast.errors import Busy, ConnectionFailed, NotFound
from holdfast.filters import Filter
from holdfast.history import see
from holdfast.ids import check_whole
from holdfast.indexes import CommonIndexes, Index, Known, OwnIndex, bytes_of, is_of, look_up, vector_of
from holdfast.kinds import EMBEDDINGS, HEADS
from holdfast.model import Json

MakeIndex = Callable[[int], VectorIndex]

CACHE_BYTES = 1024 * 1024 * 1024
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
        fits = not self.metadata or codec.holds(stored.metadata, self.metadata)
        return fits and self.owner in (None, stored.owner)


class Scored(Struct, frozen=True):
    """A stored embedding and its cosine."""

    stored: StoredEmbedding
    score: float

    def order(self) -> tuple[float, str]:
        return -self.score, self.stored.id


class Nearest:
    """The indexes of one client; the least used go when the byte limit is reached.

    With `common` ones they are kept elsewhere, for all clients, and take none of this one's memory.
    """

    def __init__(
        self,
        store: RecordStore,
        make: MakeIndex,
        cache_bytes: int = CACHE_BYTES,
        common: CommonIndexes | None = None,
    ) -> None:
        self._store = store
        self._make = make
        self._limit = check_whole(cache_bytes, "vector_cache_bytes")
        self._common = common
        self._kept: dict[str, Index] = {}
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
    def _if_free(self) -> Iterator[bool]:
        """Whether nobody is searching: what the indexes are not told then, the next search finds out by itself."""
        free = self._lock.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._lock.release()

    def search(self, space: Space, vector: array[float], limit: int, wanted: Wanted) -> list[Scored]:
        """The nearest of a model, best first, ties by id."""
        if self._is_too_large(space):
            self._let_go(space.model)
            return self._stream(space, vector, limit, wanted)
        with self._alone():
            try:
                return self._by_index(space, vector, limit, wanted)
            except NotFound:  # somebody has removed what was kept elsewhere; it is made again
                self._let_go(space.model)
                return self._by_index(space, vector, limit, wanted)

    def _is_too_large(self, space: Space) -> bool:
        return self._common_of(space) is None and bytes_of(space) > self._limit

    def _common_of(self, space: Space) -> CommonIndexes | None:
        """The indexes that all clients share, if this space is to be kept there."""
        return self._common if self._common is not None and self._common.takes(space) else None

    def _by_index(self, space: Space, vector: array[float], limit: int, wanted: Wanted) -> list[Scored]:
        index = self._current(space)
        asked = limit
        for _ in range(_ROUNDS):
            near = index.search(vector, asked, wanted.labels())
            found, settled = self._believed(index, near, wanted)
            if settled and (len(found) >= limit or len(near) < asked):
                break
            asked *= _MORE  # some have changed, were deleted or detached, so look further; at last at all
        return found[:limit]

    def warm(self, space: Space) -> None:
        """Load a model's vectors, and wait for the index of them; nothing where they are too many to be kept."""
        if self._is_too_large(space):
            return
        with self._alone():
            index = self._current(space).index
        if isinstance(index, Settles) and not index.settle(remaining()):
            raise Busy(f"the index of model {space.model!r} is still being made; searches are exact meanwhile")

    # keeping an index current

    def learn(self, space: Space, before: int, stored: Sequence[StoredEmbedding]) -> None:
        """Take over writes of this client's own, if the index had seen all before them."""
        with self._if_free() as free, suppress(ConnectionFailed, NotFound):
            index = self._known(space) if free else None
            if index is None:
                return
            if index.at < before:
                index.refresh()
            if index.at == before:
                index.take(stored)
                index.reach(stored[-1].at)

    def _known(self, space: Space) -> Index | None:
        """The index of a space, if there is one already; elsewhere there is always one."""
        index = self._kept.get(space.model)
        if index is not None and index.space.uid == space.uid:
            return index
        return None if self._common_of(space) is None else self._keep(space)

    def forget(self, gone: Sequence[Gone]) -> None:
        """Drop what this client has deleted or replaced."""
        if self._common is not None:
            self._common.forget(gone)
        with self._if_free() as free:
            own = {model: index for model, index in self._kept.items() if isinstance(index, OwnIndex)} if free else {}
            for model, index in own.items():
                index.drop([one for one in gone if one.space is not None and one.space.model == model])

    def tidy(self) -> None:
        """Remove what has stayed elsewhere of embeddings that are no more."""
        if self._common is not None:
            self._common.tidy()

    def close(self) -> None:
        """Give the indexes back."""
        with self._lock:
            for index in self._kept.values():
                index.close()
            self._kept.clear()
            if self._common is not None:
                self._common.close()

    def _current(self, space: Space) -> Index:
        """The index of a space, with every write up to the space's last."""
        index = self._keep(space)
        index.refresh()
        if index.at < space.at:
            self._catch_up(index, space)
        return index

    def _keep(self, space: Space) -> Index:
        """The index of a space as far as it is, kept as the last used."""
        index, common = self._kept.get(space.model), self._common_of(space)
        if index is None or index.space.uid != space.uid:
            self._let_go(space.model)
            index = OwnIndex(space, self._make(space.dimension)) if common is None else common.open(space)
        self._kept.pop(space.model, None)
        self._kept[space.model] = index
        index.bytes = bytes_of(space) if common is None else 0
        self._make_room()
        return index

    def _catch_up(self, index: Index, space: Space) -> None:
        for block in self._blocks(space, index.at + 1, Wanted()):
            if block:
                index.take(block)
                index.reach(min(block[-1].at, space.at))
        index.reach(space.at)

    def _make_room(self) -> None:
        """Let the least used indexes go until the others fit; the last used alone always does."""
        while len(self._kept) > 1 and sum(index.bytes for index in self._kept.values()) > self._limit:
            self._let_go(next(iter(self._kept)))

    def _let_go(self, model: str) -> None:
        index = self._kept.pop(model, None)
        if index is not None:
            index.close()

    def _blocks(self, space: Space, first: int, wanted: Wanted) -> Iterator[list[StoredEmbedding]]:
        """What a model holds from a write on, in the order of writing, so that what is written again is met later."""
        where = [Filter("model", "=", space.model), Filter("at", ">=", first)]
        if wanted.owner is not None:
            where.append(Filter("owner", "=", wanted.owner))
        rows = self._store.scan(Query(kind=EMBEDDINGS, where=tuple(where), order="at"))
        while block := list(islice(rows, _BLOCK)):
            yield [one for row in block if (one := read_sound(row, space.dimension)) is not None]

    # looking up what an index names

    def _believed(self, index: Index, near: Sequence[Known], wanted: Wanted) -> tuple[list[Scored], bool]:
        """Those that are still what the index knows, and whether it had to learn that others are now something else."""
        records = look_up(self._store, near)
        found: list[Scored] = []
        changed: dict[str, StoredEmbedding] = {}
        gone: list[Known] = []
        for one in near:
            record = records[one.id]
            stored = None if record is None else read_sound(record, index.space.dimension)
            if is_of(record, one, index.space):
                found += [] if stored is None else [Scored(stored, one.score)]  # a damaged one may be mended later
                continue
            gone.append(one)
            if stored is not None and stored.model == index.space.model:
                changed[one.id] = stored
        if gone:
            index.drop(gone)
            index.take(list(changed.values()))
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
            index.upsert([vector_of(one) for one in seen.values()])
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
    if not names:
        return {None}
    heads = [see(store, head).pointer for head in store.get(HEADS, [(name,) for name in names]) if head is not None]
    return {None, *(head.uid for head in heads if with_detached or head.detached_by is None)}
