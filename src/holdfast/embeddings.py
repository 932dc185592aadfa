"""`hf.embeddings`: vectors by id, and the nearest to a vector or a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice

from msgspec.structs import replace

from holdfast import codec, history
from holdfast import embedding_records as records
from holdfast.commits import commit, get
from holdfast.contracts import Put, Query, Reader, Write
from holdfast.embedding_records import Gone, Space, StoredEmbedding, Tally
from holdfast.errors import InvalidInput
from holdfast.filters import Filter
from holdfast.ids import check_count, check_id, micros, moment
from holdfast.kinds import EMBEDDING_SPACES, EMBEDDINGS
from holdfast.model import Embedding, Json, Neighbour
from holdfast.nearest import Nearest, Scored, Wanted, sessions_shown
from holdfast.nouns import Ground, Noun

Embed = Callable[[str], Sequence[float]]


class Embeddings(Noun):
    """`hf.embeddings`: upsert, search, delete."""

    def __init__(self, ground: Ground, nearest: Nearest, embed: Embed | None = None) -> None:
        super().__init__(ground)
        if embed is not None and not callable(embed):
            raise InvalidInput(f"embed is a function from text to vector, not {type(embed).__name__}")
        self._nearest = nearest
        self._embed = embed

    # writing

    def upsert(
        self,
        given: Embedding | Sequence[Embedding] | str,
        vector: Sequence[float] | None = None,
        *,
        session_id: str | None = None,
        model: str = "",
        metadata: dict[str, Json] | None = None,
        timeout: float | None = None,
    ) -> list[Embedding]:
        """Add embeddings or replace those with the same id: an Embedding, a list of them, or an id and a vector.

        Vectors are rounded to float32. A session must exist, and the first vector of a model fixes its dimension.
        Up to 200 are written in one commit; of more, some may be there if it fails, and repeating is safe.
        """
        if isinstance(given, str):
            at = moment(self._stamps.next())
            named = {"session_id": session_id, "model": model, "metadata": metadata, "created_at": at}
            given = Embedding(id=given, vector=vector, **named)  # type: ignore[arg-type]  # all of it is checked below
        elif (vector, session_id, model, metadata) != (None, None, "", None):
            raise InvalidInput("an Embedding says everything itself; give the rest only with an id")
        chosen = [given] if isinstance(given, Embedding) else given
        if not isinstance(chosen, list | tuple):
            raise InvalidInput(f"upsert takes an Embedding, a list of them, or an id, not {type(given).__name__}")
        drafts = {one.id: one for one in map(_draft, chosen)}
        with self._within(timeout):
            for batch in _batches(drafts.values()):
                self._write(batch)
        return [records.view(draft) for draft in drafts.values()]

    def _write(self, batch: Sequence[StoredEmbedding]) -> None:
        """Write a batch in one commit, and let the indexes know."""
        written: dict[str, list[StoredEmbedding]] = {}
        spaces: dict[str, Space] = {}
        replaced: list[Gone] = []

        def place(reader: Reader) -> list[Write]:
            for planned in (written, spaces, replaced):
                planned.clear()
            tally = Tally(reader)
            for stored in _placed(reader, tally, batch, replaced):
                written.setdefault(stored.model, []).append(stored)
            changed = list(tally.writes())
            spaces.update((model, space) for model in written if (space := tally.space(model)) is not None)
            return [*(Put(records.record_of(one)) for some in written.values() for one in some), *changed]

        commit(self._store, place)
        for model, stored in written.items():
            self._nearest.learn(spaces[model], stored[0].at - 1, stored)
        self._nearest.forget(replaced)

    def delete(
        self, embedding_id: str | None = None, *, session_id: str | None = None, timeout: float | None = None
    ) -> int:
        """Remove an embedding, or all of a session, and return how many went; fine if there is none."""
        if (embedding_id is None) == (session_id is None):
            raise InvalidInput("name either an embedding id or a session_id")
        with self._within(timeout):
            if embedding_id is not None:
                gone = records.delete(self._store, [(check_id(embedding_id, "embedding id"),)])
            else:
                owner = self._owner(check_id(session_id, "session id"))
                gone = [] if owner is None else records.clear(self._store, owner)
            self._nearest.forget(gone)
            return len(gone)

    # reading

    def get(self, embedding_id: str, *, timeout: float | None = None) -> Embedding | None:
        """The embedding, or None."""
        with self._within(timeout):
            record = get(self._store, EMBEDDINGS, check_id(embedding_id, "embedding id"))
            if record is None:
                return None
            stored = records.read_stored(record)
            there = stored.owner in sessions_shown(self._store, [stored], with_detached=True)
            return records.view(stored) if there else None

    def search(
        self,
        vector: Sequence[float] | None = None,
        *,
        text: str | None = None,
        limit: int = 10,
        session_id: str | None = None,
        model: str | None = None,
        metadata: dict[str, Json] | None = None,
        timeout: float | None = None,
    ) -> list[Neighbour]:
        """The nearest by cosine, best first, ties by id; a text is looked for by the `embed` function of the store.

        Without a model, all whose dimension fits are searched. Detached sessions are left out unless named.
        """
        check_count(limit, "limit")
        wanted = _check_filters(session_id, model, metadata)
        looked_for = records.float32(self._vector(vector, text))
        with self._within(timeout):
            owner = None if session_id is None else self._owner(session_id)
            if limit == 0 or (session_id is not None and owner is None):
                return []
            wanted = replace(wanted, owner=owner)
            found = [
                self._nearest.search(space, looked_for, limit, wanted)
                for space in self._fitting(model, len(looked_for))
            ]
        best = found[0] if len(found) == 1 else islice(merge(*found, key=Scored.order), limit)
        return [Neighbour(embedding=records.view(one.stored), score=one.score) for one in best]

    def warm(self, model: str | None = None, *, timeout: float | None = None) -> int:
        """Load a model's vectors, or all, before the first search does, and return how many there are.

        It waits for the approximate index where there is one; Busy if that takes longer than the timeout.
        """
        wanted = None if model is None else records.check_model(model)
        with self._within(timeout):
            spaces = self._spaces(wanted)
            for space in spaces:
                self._nearest.warm(space)
            return sum(space.count for space in spaces)

    def list(
        self,
        *,
        session_id: str | None = None,
        model: str | None = None,
        metadata: dict[str, Json] | None = None,
        timeout: float | None = None,
    ) -> Iterator[Embedding]:
        """Embeddings that match, by id, lazily; those of detached sessions only if the session is named."""
        wanted = _check_filters(session_id, model, metadata)
        with self._within(timeout):
            owner = None if session_id is None else self._owner(session_id)
        if session_id is not None and owner is None:
            return iter(())
        given = {"owner": owner, "model": model}
        where = tuple(Filter(name, "=", value) for name, value in given.items() if value is not None)
        return self._listed(Query(kind=EMBEDDINGS, where=where), replace(wanted, owner=owner))

    def _listed(self, query: Query, wanted: Wanted) -> Iterator[Embedding]:
        rows = map(records.read_stored, self._store.scan(query))
        while block := [*islice(rows, records.BATCH)]:
            shown = sessions_shown(self._store, block, with_detached=wanted.owner is not None)
            yield from (records.view(one) for one in block if one.owner in shown and wanted.admits(one))

    def _owner(self, session_id: str) -> str | None:
        """The uid of a session, or None if there is none."""
        seen = history.look_up(self._store, session_id)
        return None if seen is None else seen.pointer.uid

    def _vector(self, vector: Sequence[float] | None, text: str | None) -> Sequence[float]:
        if (vector is None) == (text is None):
            raise InvalidInput("name either a vector or a text to look for")
        if vector is not None:
            return vector
        if not isinstance(text, str):
            raise InvalidInput(f"text is a string, not {type(text).__name__}")
        if self._embed is None:
            raise InvalidInput("to search by text, open the store with embed=, a function from text to vector")
        return self._embed(text)

    def _spaces(self, model: str | None) -> Sequence[Space]:
        """The model's space, if it has vectors, or all."""
        if model is None:
            return [records.read_space(one) for one in self._store.scan(Query(kind=EMBEDDING_SPACES))]
        present = records.look_up_space(self._store, model)
        return [] if present is None else [present]

    def _fitting(self, model: str | None, dimension: int) -> Iterator[Space]:
        """The model's space, or all of this dimension; InvalidInput if there are only others."""
        spaces = self._spaces(model)
        fitting = [space for space in spaces if space.dimension == dimension]
        if spaces and not fitting:
            known = " or ".join(sorted({str(space.dimension) for space in spaces}))
            raise InvalidInput(f"the stored vectors have {known} dimensions, the one looked for has {dimension}")
        return iter(fitting)


def _draft(embedding: Embedding) -> StoredEmbedding:
    """What will be stored, but for its place; InvalidInput where it cannot be."""
    if not isinstance(embedding, Embedding):
        raise InvalidInput(f"upsert takes an Embedding, a list of them, or an id, not {type(embedding).__name__}")
    check_id(embedding.id, "embedding id")
    _check_filters(embedding.session_id, embedding.model, embedding.metadata)
    draft = StoredEmbedding(
        id=embedding.id,
        vector=records.to_bytes(records.float32(embedding.vector)),
        at=0,
        created_at=moment(micros(embedding.created_at, "created_at")),
        session_id=embedding.session_id,
        model=embedding.model,
        metadata=embedding.metadata,
    )
    codec.encode_value(draft, StoredEmbedding, f"embedding {embedding.id!r}")
    return draft


def _check_filters(session_id: str | None, model: str | None, metadata: Mapping[str, Json] | None) -> Wanted:
    """The pairs that are wanted; InvalidInput for what nothing can have."""
    if session_id is not None:
        check_id(session_id, "session id")
    if model is not None:
        records.check_model(model)
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidInput(f"metadata is a dict, not {type(metadata).__name__}")
    codec.check_json(metadata, "embedding metadata")
    return Wanted(metadata=metadata or {})


def _batches(drafts: Iterable[StoredEmbedding]) -> Iterator[list[StoredEmbedding]]:
    batch: list[StoredEmbedding] = []
    size = 0
    for draft in drafts:
        own = 2 * len(draft.vector)
        if batch and (len(batch) == records.BATCH or size + own > records.BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(draft)
        size += own
    if batch:
        yield batch


def _placed(
    reader: Reader, tally: Tally, batch: Sequence[StoredEmbedding], replaced: list[Gone]
) -> Iterator[StoredEmbedding]:
    """The embeddings that change anything, each with its session's uid and the number of its write."""
    names = sorted({draft.session_id for draft in batch if draft.session_id is not None})
    owners = {name: history.must_see(reader, name).pointer.uid for name in names}
    for draft, before in zip(batch, reader.get(EMBEDDINGS, [(one.id,) for one in batch]), strict=True):
        stored = replace(draft, owner=owners.get(draft.session_id or ""))
        if before is not None:
            if records.record_of(replace(stored, at=before.fields[2])).digest == before.digest:
                continue
            replaced.append(tally.remove(before))
        yield replace(stored, at=tally.add(stored.model, len(stored.vector) // 4))
