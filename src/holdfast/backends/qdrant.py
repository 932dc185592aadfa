"""Vectors in Qdrant: a collection for each dimension, in which every index is a tenant.

Vectors are stored at length 1 and compared by their product, which is the cosine. Qdrant proposes, with as many more
as may be as near; their cosines are then worked out anew, as for vectors in memory. A point without a vector of
anybody's, the mark, says how far an index has come.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote

import numpy as np
from httpx import Request, Response
from qdrant_client import QdrantClient
from qdrant_client.http.api_client import Send
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse
from qdrant_client.models import (
    Condition,
    Distance,
    FieldCondition,
    Filter,
    IsEmptyCondition,
    KeywordIndexParams,
    KeywordIndexType,
    MatchValue,
    PayloadField,
    PointStruct,
    ScoredPoint,
    SearchParams,
    VectorParams,
)

from holdfast.backends._addresses import parts_of
from holdfast.backends._numpy_vectors import cosines, lengths_of, unit_of, units_of
from holdfast.backends._opened import Opened
from holdfast.backends._proposals import SPARE, Proposal, nearest
from holdfast.contracts import Near, Vector
from holdfast.deadlines import DEFAULT_TIMEOUT_S, deadline, remaining
from holdfast.errors import AccessDenied, BackendError, Busy, ConnectionFailed, HoldfastError, InvalidInput, NotFound
from holdfast.ids import check_id, new_id

COLLECTION = "holdfast"
LARGEST = 65_536  # dimensions
LEAST_S = 0.001
_BATCH = 200
_PAGE = 1_000
_MANY = 10_000  # a server makes room for as many as are asked for
_NAMES = uuid.UUID("0f6f0a52-5f0e-4c43-9d0c-2f6d3a1c7b11")
_INDEXED = {"namespace": False, "space": True, "mark": False, "labels": False}


class QdrantVectors:
    """The indexes of a namespace, in the collections `<collection>-<dimension>`; one in a folder or in RAM is local."""

    largest = LARGEST

    def __init__(self, client: QdrantClient, collection: str = COLLECTION, *, namespace: str = "", local: bool) -> None:
        self._client = client
        self._collection = collection
        self._namespace = namespace
        self._local = local
        # Local mode always looks at all, and warns whoever asks for it.
        self.efforts = [None] if local else [SearchParams(exact=False), SearchParams(exact=True)]
        self._opened = Opened()
        self._turn = threading.RLock()

    def index(self, space: str, dimension: int) -> QdrantIndex:
        return QdrantIndex(self, f"{self._collection}-{dimension}", space, dimension)

    def spaces(self) -> list[str]:
        marked = Filter(must=[self.mine()], must_not=[IsEmptyCondition(is_empty=PayloadField(key="mark"))])
        return [str(point["mark"]) for name in self._collections() for point in self.scroll(name, marked, "mark")]

    def drop(self, space: str) -> None:
        either: list[Condition] = [_match("space", space), _match("mark", space)]
        for name in self._collections():
            with self.asking() as client:
                client.delete(name, Filter(must=[self.mine()], should=either))

    def close(self) -> None:
        if self._opened.close():
            self._client.close()

    # for its indexes

    def mine(self) -> Condition:
        """What the points of this namespace have."""
        return _match("namespace", self._namespace)

    @contextmanager
    def asking(self) -> Iterator[QdrantClient]:
        """The client, while time is left; its errors as ours, and NotFound for a collection that is not there."""
        self._opened.to_read()
        if remaining() <= 0:
            raise ConnectionFailed("Qdrant did not answer within the timeout; raise timeout=", outcome="unknown")
        try:
            if self._local:  # which is not made for several threads
                with self._turn:
                    yield self._client
            else:
                yield self._client
        except ApiException as cause:
            raise _ours(cause) from cause
        except ValueError as cause:
            if self._local and "not found" in str(cause):
                raise NotFound(f"Qdrant: {cause}") from cause
            raise

    def scroll(self, name: str, wanted: Filter, field: str) -> Iterator[dict[str, Any]]:
        """The payloads of all points that match, each with this field only."""
        place: Any = None
        while True:
            with self.asking() as client:
                points, place = client.scroll(name, wanted, limit=_PAGE, offset=place, with_payload=[field])
            yield from (point.payload or {} for point in points)
            if place is None:
                return

    def make(self, name: str, dimension: int) -> None:
        """Have the collection there."""
        with self.asking() as client:
            if client.collection_exists(name):
                return
        try:
            with self.asking() as client:
                client.create_collection(name, VectorParams(size=dimension, distance=Distance.DOT))
        except BackendError:
            with self.asking() as client:
                if not client.collection_exists(name):  # else another client was faster
                    raise
        self._make_payload_indexes(name)

    def _make_payload_indexes(self, name: str) -> None:
        for field, tenant in () if self._local else _INDEXED.items():
            with self.asking() as client:
                schema = KeywordIndexParams(type=KeywordIndexType.KEYWORD, is_tenant=tenant)
                client.create_payload_index(name, field, schema)

    def payload(self, **fields: Any) -> dict[str, Any]:
        """What a point of this namespace says."""
        return {"namespace": self._namespace, **fields}

    def _collections(self) -> list[str]:
        with self.asking() as client:
            names = [one.name for one in client.get_collections().collections]
        return [name for name in names if _is_of(name, self._collection)]


class QdrantIndex:
    """The vectors of one space."""

    def __init__(self, store: QdrantVectors, collection: str, space: str, dimension: int) -> None:
        self._store = store
        self._collection = collection
        self._space = space
        self._dimension = dimension
        self._making = ""

    # how far it has come

    def seen(self) -> int:
        self._store.make(self._collection, self._dimension)
        with self._store.asking() as client:
            found = client.retrieve(self._collection, [self._point("mark", self._space)])
        if not found:
            return self._begin()
        said = found[0].payload or {}
        self._making = str(said["making"])
        return int(said["seen"])

    def _begin(self) -> int:
        self._making = new_id()
        said = self._store.payload(mark=self._space, making=self._making, seen=0)
        point = PointStruct(id=self._point("mark", self._space), vector=[0.0] * self._dimension, payload=said)
        with self._store.asking() as client:
            client.upsert(self._collection, [point], wait=True)
        return 0

    def mark(self, seen: int) -> None:
        # Only where it is still the mark of this making: one that was begun anew does not have what we have added.
        same = Filter(must=[_match("mark", self._space), _match("making", self._making)])
        with self._store.asking() as client:
            client.set_payload(self._collection, {"seen": seen}, same, wait=True)

    def ids(self) -> Iterator[str]:
        for said in self._store.scroll(self._collection, self._carrying(()), "id"):
            yield str(said["id"])

    # vectors

    def upsert(self, vectors: Sequence[Vector]) -> None:
        for start in range(0, len(vectors), _BATCH):
            points = self._points(vectors[start : start + _BATCH])
            with self._store.asking() as client:
                client.upsert(self._collection, points, wait=True)

    def _points(self, vectors: Sequence[Vector]) -> list[PointStruct]:
        units = units_of(np.stack([np.asarray(one.values, np.float32) for one in vectors])).astype(np.float32)
        return [
            PointStruct(
                id=self._point("id", one.id),
                vector=unit,
                payload=self._store.payload(space=self._space, id=one.id, labels=list(one.labels)),
            )
            for one, unit in zip(vectors, units.tolist(), strict=True)
        ]

    def delete(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), _PAGE):
            with self._store.asking() as client:
                points: Any = [self._point("id", id) for id in ids[start : start + _PAGE]]
                client.delete(self._collection, points, wait=True)

    def search(self, vector: Sequence[float], limit: int, labels: Sequence[str] = ()) -> list[Near]:
        unit = unit_of(np.asarray(vector, np.float32))
        looked_for, wanted = unit.astype(np.float32).tolist(), self._carrying(labels)
        limit = min(limit, self._count(wanted)) if limit > _MANY else limit

        def propose(count: int) -> list[Proposal]:
            return _scored(self._query(looked_for, wanted, count), unit)

        return nearest(propose, limit, self._dimension)

    def _count(self, wanted: Filter) -> int:
        with self._store.asking() as client:
            return client.count(self._collection, wanted, exact=True).count

    def _query(self, vector: list[float], wanted: Filter, limit: int) -> list[ScoredPoint]:
        """The best that Qdrant finds; if they are few, then after looking at all."""
        for params in self._store.efforts:
            with self._store.asking() as client:
                points = client.query_points(
                    self._collection,
                    vector,
                    query_filter=wanted,
                    search_params=params,
                    limit=limit,
                    with_payload=["id"],
                    with_vectors=True,
                ).points
            if len(points) >= limit - SPARE:
                break
        return points

    def close(self) -> None:
        """Nothing is held."""

    def _carrying(self, labels: Sequence[str]) -> Filter:
        return Filter(must=[_match("space", self._space), *(_match("labels", label) for label in labels)])

    def _point(self, kind: str, name: str) -> str:
        """The id of a point: Qdrant takes UUIDs, so it is one that is made of the name."""
        return str(uuid.uuid5(_NAMES, f"{self._space}\0{kind}\0{name}"))


def _scored(points: Sequence[ScoredPoint], unit: Any) -> list[Proposal]:
    """The points with their true cosines."""
    if not points:
        return []
    units = np.asarray([point.vector for point in points], np.float32)
    scores = cosines(units, lengths_of(units), unit).tolist()
    return [
        Proposal(Near(id=str((point.payload or {})["id"]), score=score), point.score)
        for point, score in zip(points, scores, strict=True)
    ]


def _match(field: str, value: str) -> FieldCondition:
    return FieldCondition(key=field, match=MatchValue(value=value))


def _is_of(name: str, collection: str) -> bool:
    return name.startswith(f"{collection}-") and name.removeprefix(f"{collection}-").isdecimal()


def _ours(cause: ApiException) -> HoldfastError:
    if not isinstance(cause, UnexpectedResponse):
        return ConnectionFailed(f"Qdrant cannot be reached: {cause}", outcome="unknown")
    if cause.status_code == 404:
        return NotFound(f"Qdrant has no such collection: {cause}")
    if cause.status_code in (401, 403):
        return AccessDenied(f"Qdrant refuses; give the address an ?api_key=… that has the right: {cause}")
    return BackendError(f"Qdrant failed: {cause}")


# opening


def open_vectors(url: str, *, namespace: str = "", timeout: float = DEFAULT_TIMEOUT_S, **_: object) -> QdrantVectors:
    """The vectors at `qdrant://host:6333`, in a folder (`qdrant:///path`) or in RAM (`qdrant:`).

    Settings are `?collection=`, `?api_key=` and `?tls=true`. Two stores must not have the same collection.
    """
    parsed = parts_of(url)
    settings = dict(parse_qsl(parsed.query))
    unknown = settings.keys() - {"collection", "api_key", "tls"}
    if unknown:
        raise InvalidInput(f"a qdrant: address has no setting {min(unknown)!r}; known are collection, api_key and tls")
    collection = check_id(settings.get("collection", COLLECTION), "collection")
    client = _remote(parsed, settings, timeout) if parsed.netloc else _local(unquote(parsed.path))
    return QdrantVectors(client, collection, namespace=namespace, local=not parsed.netloc)


def _remote(parsed: SplitResult, settings: dict[str, str], timeout: float) -> QdrantClient:
    client = QdrantClient(
        host=parsed.hostname,
        port=parsed.port or 6333,
        https=settings.get("tls") == "true",
        api_key=settings.get("api_key"),
        timeout=max(1, math.ceil(timeout)),
        check_compatibility=False,  # it would ask the server now; the first search does, and says what is wrong
    )
    client.http.client.add_middleware(partial(_within_the_call, timeout))
    return client


def _within_the_call(timeout: float, request: Request, send: Send) -> Response:
    """Send a request that waits for its server no longer than the present call may: the driver knows whole seconds."""
    left = max(LEAST_S, deadline(timeout) - time.monotonic())
    request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), left)
    return send(request)


def _local(path: str) -> QdrantClient:
    if not path:
        return QdrantClient(":memory:")
    try:
        return QdrantClient(path=path.removeprefix("/"), force_disable_check_same_thread=True)
    except RuntimeError as cause:
        raise Busy(f"another process has the vectors in {path!r}; a folder has one user, a server many") from cause
