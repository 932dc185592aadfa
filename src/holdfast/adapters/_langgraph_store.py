"""`HoldfastStore`: what LangGraph's graphs remember across threads, with search by meaning and a time to live."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)
from msgspec.structs import replace

from holdfast import codec
from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.commits import commit
from holdfast.contracts import Delete, Put, Query, Reader, Write
from holdfast.errors import InvalidInput
from holdfast.filters import Filter
from holdfast.ids import check_id, moment
from holdfast.item_records import StoredItem, item_record, read_item
from holdfast.kinds import ITEMS
from holdfast.model import Embedding

from ._langgraph_items import admits, is_within, listed, space_of

MODEL = "langgraph"
_MINUTE_US = 60_000_000
_BATCH = 400
Vectors = Mapping[str, Sequence[float]]


class HoldfastStore(BaseStore):
    """Items of LangGraph's graphs in a Holdfast store.

    `index` says how texts become vectors, as LangGraph documents it; `model` names them among the store's embeddings.
    An item whose time to live (in minutes) is over is absent; `sweep_ttl` removes such items. The store stays the
    caller's to close.
    """

    supports_ttl = True

    def __init__(
        self,
        hf: Holdfast | AsyncHoldfast,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        model: str = MODEL,
    ) -> None:
        self._hf = hf._noun if isinstance(hf, AsyncHoldfast) else hf
        self._model = check_id(model, "model")
        self.ttl_config = ttl
        self._embed = None if index is None else ensure_embeddings(index.get("embed"))
        self._fields = [] if index is None else list(index.get("fields") or ["$"])

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations; reads see what was there before the writes, which are all done or none."""
        asked = list(ops)
        documents, queries = self._texts(asked), _queries(asked)
        vectors: dict[str, Sequence[float]] = {}
        if self._embed is not None:
            vectors |= zip(documents, self._embed.embed_documents(documents) if documents else [], strict=True)
            looked_for = {query: self._embed.embed_query(query) for query in queries}
            return self._run(asked, vectors, looked_for)
        return self._run(asked, vectors, {})

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`."""
        asked = list(ops)
        documents, queries = self._texts(asked), _queries(asked)
        if self._embed is None:
            return await asyncio.to_thread(self._run, asked, {}, {})
        told = await self._embed.aembed_documents(documents) if documents else []
        vectors = dict(zip(documents, told, strict=True))
        looked_for = {query: await self._embed.aembed_query(query) for query in queries}
        return await asyncio.to_thread(self._run, asked, vectors, looked_for)

    def sweep_ttl(self) -> int:
        """Remove the items whose time is over, and return how many those were."""
        with self._hf._within(None):
            now = self._hf._ground.stamps.next()
            gone = [one for one in map(read_item, self._hf._store.scan(Query(kind=ITEMS))) if _is_over(one, now)]
            for one in gone:
                self._hf._store.commit([Delete(ITEMS, (one.space, one.key), over=item_record(one).digest)])
                self._forget(one.vectors)
        return len(gone)

    # what is embedded

    def _texts(self, ops: Sequence[Op]) -> list[str]:
        """The texts that vectors are needed for, each once."""
        puts = (op for op in ops if isinstance(op, PutOp) and self._embed is not None)
        return [*{text: None for op in puts for _, text in self._indexed(op)}]

    def _indexed(self, op: PutOp) -> Iterator[tuple[str, str]]:
        """The texts of an item that are indexed, with their paths."""
        if op.value is None or op.index is False or self._embed is None:
            return
        for path in self._fields if op.index is None else op.index:
            for n, text in enumerate(get_text_at_path(op.value, tokenize_path(path))):
                yield f"{path}.{n}", text

    # carrying out

    def _run(self, ops: Sequence[Op], vectors: Vectors, looked_for: Vectors) -> list[Result]:
        with self._hf._within(None):
            now = self._hf._ground.stamps.next()
            read: dict[tuple[str, str], StoredItem] = {}
            results = [self._answer(op, now, looked_for, read) for op in ops]
            puts = {(space_of(op.namespace), op.key): op for op in ops if isinstance(op, PutOp)}
            self._refresh([one for key, one in read.items() if key not in puts], now)
            self._put(puts, now, vectors)
            return results

    def _answer(self, op: Op, now: int, looked_for: Vectors, read: dict[tuple[str, str], StoredItem]) -> Result:
        if isinstance(op, PutOp):
            return None
        if isinstance(op, ListNamespacesOp):
            return listed((one.space for one in self._there((), now)), op)
        if isinstance(op, GetOp):
            (record,) = self._hf._store.get(ITEMS, [(space_of(op.namespace), check_id(op.key, "key"))])
            found = [read_item(record)] if record is not None else []
            found = [one for one in found if not _is_over(one, now)]
        elif isinstance(op, SearchOp):
            scored = self._search(op, now, looked_for)
            found = [one for one, _ in scored]
        else:
            raise InvalidInput(f"a store knows no operation {type(op).__name__}")
        if op.refresh_ttl:
            read.update({(one.space, one.key): one for one in found})
        if isinstance(op, GetOp):
            return Item(**_shown(found[0])) if found else None
        return [SearchItem(**_shown(one), score=score) for one, score in scored]

    def _there(self, prefix: Sequence[str], now: int) -> Iterator[StoredItem]:
        """The items under a prefix, by namespace and key."""
        where = (Filter("root", "=", prefix[0]),) if prefix else ()
        for record in self._hf._store.scan(Query(kind=ITEMS, where=where)):
            item = read_item(record)
            if is_within(item, prefix) and not _is_over(item, now):
                yield item

    def _search(self, op: SearchOp, now: int, looked_for: Vectors) -> list[tuple[StoredItem, float | None]]:
        end = op.offset + op.limit
        matching = [one for one in self._there(op.namespace_prefix, now) if admits(one.value, op.filter)]
        if op.query is None or op.query not in looked_for:
            matching.sort(key=lambda one: one.updated_at, reverse=True)
            return [(one, None) for one in matching[op.offset : end]]
        ranked = self._ranked(matching, looked_for[op.query], end)
        return ranked[op.offset : end]

    def _ranked(
        self, items: Sequence[StoredItem], vector: Sequence[float], end: int
    ) -> list[tuple[StoredItem, float | None]]:
        """The nearest first, each by its best text; behind them those without a vector."""
        owners = {name: one for one in items for name in one.vectors}
        best: dict[tuple[str, str], tuple[StoredItem, float | None]] = {}
        limit, seen = 4 * end, -1
        while len(best) < end and seen < limit:
            found = self._hf.embeddings.search(vector, limit=limit, model=self._model)
            for one in found:
                item = owners.get(one.embedding.id)
                if item is not None:
                    best.setdefault((item.space, item.key), (item, one.score))
            if len(found) < limit:
                break
            seen, limit = limit, 4 * limit
        rest: list[tuple[StoredItem, float | None]] = [(one, None) for one in items if not one.vectors]
        return [*best.values(), *rest]

    # writing

    def _refresh(self, items: Sequence[StoredItem], now: int) -> None:
        """Let the time to live of items begin anew; whoever writes one meanwhile is right."""
        lasting = [one for one in items if one.ttl_us is not None]

        def place(reader: Reader) -> list[Write]:
            present = reader.get(ITEMS, [(one.space, one.key) for one in lasting])
            writes: list[Write] = []
            for record in filter(None, present):
                one = read_item(record)
                if one.ttl_us is not None:
                    writes.append(Put(item_record(replace(one, expires_at=now + one.ttl_us)), record.digest))
            return writes

        if lasting:
            commit(self._hf._store, place)

    def _put(self, puts: Mapping[tuple[str, str], PutOp], now: int, vectors: Vectors) -> None:
        if len(puts) > _BATCH:
            raise InvalidInput(f"a batch writes at most {_BATCH} items, not {len(puts)}; split it")
        named = {key: list(self._embeddings(*key, op, vectors)) for key, op in puts.items()}
        fresh = [one for some in named.values() for one in some]
        if fresh:
            self._hf.embeddings.upsert(fresh)
        replaced: list[str] = []

        def place(reader: Reader) -> list[Write]:
            replaced.clear()
            writes: list[Write] = []
            for (key, op), present in zip(puts.items(), reader.get(ITEMS, list(puts)), strict=True):
                before = None if present is None else read_item(present)
                ids = [one.id for one in named[key]]
                replaced.extend(name for name in (before.vectors if before else ()) if name not in ids)
                if op.value is not None:
                    writes.append(Put(item_record(_stored(*key, op, before, now, ids))))
                elif present is not None:
                    writes.append(Delete(ITEMS, key, over=present.digest))
            return writes

        if puts:
            commit(self._hf._store, place)
            self._forget(replaced)

    def _embeddings(self, space: str, key: str, op: PutOp, vectors: Vectors) -> Iterator[Embedding]:
        for path, text in self._indexed(op):
            name = hashlib.sha256("\0".join((self._model, space, key, path)).encode()).hexdigest()
            yield Embedding(id=name, vector=list(vectors[text]), model=self._model)

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._hf.embeddings.delete(name)


def _queries(ops: Sequence[Op]) -> list[str]:
    return [*{op.query: None for op in ops if isinstance(op, SearchOp) and op.query}]


def _is_over(item: StoredItem, now: int) -> bool:
    return item.expires_at is not None and item.expires_at <= now


def _stored(space: str, key: str, op: PutOp, before: StoredItem | None, now: int, vectors: list[str]) -> StoredItem:
    if not isinstance(op.value, dict):
        raise InvalidInput(f"an item's value is a dict, not {type(op.value).__name__}")
    codec.check_json(op.value, f"item {key!r}")
    lasts = None if op.ttl is None else int(op.ttl * _MINUTE_US)
    alive = before is not None and not _is_over(before, now)
    return StoredItem(
        space=space,
        key=check_id(key, "key"),
        value=op.value,
        created_at=before.created_at if before is not None and alive else now,
        updated_at=now,
        expires_at=None if lasts is None else now + lasts,
        ttl_us=lasts,
        vectors=vectors,
    )


def _shown(item: StoredItem) -> dict[str, Any]:
    """What LangGraph's items say."""
    times: dict[str, datetime] = {"created_at": moment(item.created_at), "updated_at": moment(item.updated_at)}
    return {"namespace": tuple(item.space.split(".")), "key": item.key, "value": item.value, **times}
