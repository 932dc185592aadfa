"""Vectors in RAM: nearest neighbours without any library, with numpy where it is there, with a graph where that is.

`open_vectors` takes the best that is installed (the extra `vectors`), and imports nothing before it is asked.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from operator import mul
from typing import Any, cast

from holdfast.contracts import Near, Vector, VectorIndex

INDEX_FROM = 20_000


def open_vectors(dimension: int, index_from: int | None = INDEX_FROM) -> VectorIndex:
    """An empty index for vectors of this dimension; from `index_from` vectors on approximate, None is always exact."""
    if find_spec("numpy") is None:
        return PlainVectors()
    graph = None if index_from is None or find_spec("usearch") is None else _attribute("_graph", "Graph")
    return cast(VectorIndex, _attribute("_numpy_vectors", "NumpyVectors")(dimension, graph, index_from))


def _attribute(module: str, name: str) -> Callable[..., Any]:
    return cast(Callable[..., Any], getattr(import_module(f"holdfast.backends.{module}"), name))


class PlainVectors:
    """Exact, and slow beyond some thousands: every vector is looked at in Python."""

    def __init__(self) -> None:
        self._vectors: dict[str, tuple[Sequence[float], float, frozenset[str]]] = {}

    def upsert(self, vectors: Sequence[Vector]) -> None:
        for one in vectors:
            self._vectors[one.id] = (one.values, length_of(one.values), frozenset(one.labels))

    def search(self, vector: Sequence[float], limit: int, labels: Sequence[str] = ()) -> list[Near]:
        length = length_of(vector)
        found = [
            Near(id=id, score=cosine(sum(map(mul, vector, values)), length * own))
            for id, (values, own, carried) in self._vectors.items()
            if carried.issuperset(labels)
        ]
        return sorted(found, key=lambda near: (-near.score, near.id))[:limit]

    def delete(self, ids: Sequence[str]) -> None:
        for id in ids:
            self._vectors.pop(id, None)

    def close(self) -> None:
        self._vectors = {}


def length_of(vector: Sequence[float]) -> float:
    """The length of a vector."""
    return math.sqrt(sum(map(mul, vector, vector)))


def cosine(product: float, lengths: float) -> float:
    """A float32 value, so that vectors of one direction have exactly 1.0 whatever their lengths."""
    if lengths == 0:
        return 0.0
    return array("f", [max(-1.0, min(1.0, product / lengths))])[0]
