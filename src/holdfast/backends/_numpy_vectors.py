"""Vectors in one matrix: exact by a product with all rows, or by a graph of them when there are many.

Rows are unit vectors. A float32 product finds who may be among the nearest, and those few are scored again in
float64; so the order does not depend on how the product was added up.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.contracts import Near, Vector

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]

_FIRST_ROWS = 64
_BLOCK = 4096
_FEW = 0.2
CANDIDATES = 3
_SORTED = 100  # rows at most that are sorted at once, without a look for the highest
_ROUNDING = 2.0**-23


class Approximate(Protocol):
    """Finds rows that are probably near, once it has been filled."""

    ready: bool

    def fill(self, rows: Floats) -> None:
        """Begin to take in all rows, in the background."""
        ...

    def put(self, row: int, unit: Floats) -> None:
        """Take in a row, or another vector at a row."""
        ...

    def drop(self, row: int) -> None:
        """Leave a row out from now on."""
        ...

    def search(self, unit: Floats, count: int) -> Rows:
        """Some rows that are probably the nearest."""
        ...

    def settle(self, timeout_s: float) -> bool:
        """Wait until it is filled, at most so long; False if it is not."""
        ...

    def close(self) -> None:
        """Stop filling and give everything back."""
        ...


class MakeApproximate(Protocol):
    """How an approximate index is made."""

    def __call__(self, dimension: int) -> Approximate: ...


class Labels:
    """Who carries which label."""

    def __init__(self) -> None:
        self._carriers: dict[str, set[int]] = {}

    def add(self, who: int, labels: Iterable[str]) -> None:
        """Let somebody carry these."""
        for label in labels:
            self._carriers.setdefault(label, set()).add(who)

    def remove(self, who: int, labels: Iterable[str]) -> None:
        """Take these from somebody."""
        for label in labels:
            carriers = self._carriers.get(label, set())
            carriers.discard(who)
            if not carriers:
                self._carriers.pop(label, None)

    def carriers(self, labels: Sequence[str]) -> list[set[int]]:
        """Who carries each of these, the fewest first."""
        return sorted((self._carriers.get(label, set()) for label in labels), key=len)


class NumpyVectors:
    """A matrix of unit vectors, kept without holes."""

    def __init__(self, dimension: int, graph: MakeApproximate | None = None, graph_from: int | None = None) -> None:
        self._units: Floats = np.empty((_FIRST_ROWS, dimension), np.float32)
        self._lengths: Doubles = np.empty(_FIRST_ROWS, np.float64)  # which as float32 are not quite 1
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._carried: list[Sequence[str]] = []
        self._labels = Labels()
        self._margin = np.float32(2 * dimension * _ROUNDING)
        self._make_graph = graph
        self._graph_from = graph_from
        self._graph: Approximate | None = None
        self._lock = threading.Lock()

    # filling

    def upsert(self, vectors: Sequence[Vector]) -> None:
        if not vectors:
            return
        given = np.stack([np.asarray(one.values, np.float32) for one in vectors])
        units = units_of(given).astype(np.float32)
        lengths = lengths_of(units).tolist()
        with self._lock:
            self._make_room(len(self._ids) + len(vectors))
            for one, unit, length in zip(vectors, units, lengths, strict=True):
                self._set(one, unit, length)

    def _make_room(self, rows: int) -> None:
        present = len(self._units)
        if rows > present:
            grown = np.empty((max(rows, 2 * present), self._units.shape[1]), np.float32)
            grown[: len(self._ids)] = self._units[: len(self._ids)]
            self._units = grown
            self._lengths = np.resize(self._lengths, len(grown))

    def _set(self, vector: Vector, unit: Floats, length: float) -> None:
        row = self._rows.get(vector.id, len(self._ids))
        if row == len(self._ids):
            self._ids.append(vector.id)
            self._carried.append(())
            self._rows[vector.id] = row
        self._place(row, unit, length, vector.labels)

    def _place(self, row: int, unit: Floats, length: float, labels: Sequence[str]) -> None:
        self._labels.remove(row, self._carried[row])
        self._labels.add(row, labels)
        self._carried[row] = labels
        self._units[row] = unit
        self._lengths[row] = length
        if self._graph is not None:
            self._graph.put(row, unit)

    def delete(self, ids: Sequence[str]) -> None:
        with self._lock:
            for id in ids:
                if id in self._rows:
                    self._remove(self._rows.pop(id))

    def _remove(self, row: int) -> None:
        """Put the last row where this one was."""
        last = len(self._ids) - 1
        if row != last:
            self._ids[row] = self._ids[last]
            self._rows[self._ids[row]] = row
            self._place(row, self._units[last], self._lengths[last], self._carried[last])
        self._labels.remove(last, self._carried.pop())
        self._ids.pop()
        if self._graph is not None:
            self._graph.drop(last)

    def settle(self, timeout_s: float) -> bool:
        """Wait until the graph answers, if there is to be one."""
        with self._lock:
            self._begin_graph()
            graph = self._graph
        return graph is None or graph.settle(timeout_s)

    def close(self) -> None:
        with self._lock:
            if self._graph is not None:
                self._graph.close()
                self._graph, self._make_graph = None, None

    # searching

    def search(self, vector: Sequence[float], limit: int, labels: Sequence[str] = ()) -> list[Near]:
        exact = unit_of(np.asarray(vector, np.float32))
        with self._lock:
            self._begin_graph()
            found = self._candidates(exact.astype(np.float32), limit, self._labels.carriers(labels))
            return self._best(found, exact, limit)

    def _begin_graph(self) -> None:
        if self._make_graph is None or self._graph_from is None or self._graph is not None:
            return
        if len(self._ids) >= self._graph_from:
            self._graph = self._make_graph(self._units.shape[1])
            self._graph.fill(self._units[: len(self._ids)].copy())

    def _candidates(self, unit: Floats, limit: int, carriers: Sequence[set[int]]) -> Rows:
        """The rows among which the nearest are: of those in all these sets, or of all."""
        everybody = len(self._ids)
        size = len(carriers[0]) if carriers else everybody
        if self._graph is not None and self._graph.ready and self._is_worth_it(size, limit):
            found = self._graph.search(unit, CANDIDATES * limit * everybody // size)
            keep = [all(row in some for some in carriers) for row in found.tolist()] if carriers else slice(None)
            if len(found[keep]) >= limit:
                return found[keep]
        if not carriers:
            return _top(self._units[:everybody] @ unit, limit, self._margin)
        rows = np.fromiter(carriers[0].intersection(*carriers[1:]), np.int64)
        if len(rows) > _FEW * everybody:
            return rows[_top((self._units[:everybody] @ unit)[rows], limit, self._margin)]
        rows.sort()  # so that they are read from one end to the other
        return rows[_top(self._units[rows] @ unit, limit, self._margin)]

    def _is_worth_it(self, size: int, limit: int) -> bool:
        """Whether the graph is asked: not for a few rows, nor for so many neighbours that it would walk far."""
        assert self._graph_from is not None
        return size >= max(self._graph_from, _FEW * len(self._ids)) and limit * CANDIDATES <= size // 100

    def _best(self, rows: Rows, unit: Doubles, limit: int) -> list[Near]:
        scores = self._cosines(rows, unit)
        if len(rows) > _SORTED:
            keep = _top(scores, limit, np.float32(0))
            rows, scores = rows[keep], scores[keep]
        ids = map(self._ids.__getitem__, rows.tolist())
        best = sorted(zip((-scores).tolist(), ids, strict=True))[:limit]
        return [Near(id=id, score=-negated) for negated, id in best]

    def _cosines(self, rows: Rows, unit: Doubles) -> Floats:
        if len(rows) <= _BLOCK:
            return cosines(self._units.take(rows, axis=0), self._lengths.take(rows), unit)
        blocks = (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))
        return np.concatenate([cosines(self._units[some], self._lengths[some], unit) for some in blocks])


def unit_of(vector: Floats) -> Doubles:
    """The vector at length 1, in float64: squares of large or tiny float32 values do not fit into float32."""
    wide = vector.astype(np.float64)
    length = math.sqrt(np.vecdot(wide, wide))
    return wide / length if length > 0 else wide


def units_of(vectors: Floats) -> Doubles:
    """The same of many."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    units: Doubles = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)
    return units


def lengths_of(units: Floats) -> Doubles:
    """How long rows of float32 are, which were made to be 1 and are not quite; 1 for a row of zeros."""
    wide = units.astype(np.float64)
    lengths: Doubles = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    lengths[lengths == 0] = 1
    return lengths


def cosines(units: Floats, lengths: Doubles, unit: Doubles) -> Floats:
    """Cosines as float32 values."""
    # For so few, a product by BLAS would wake threads that then spin.
    products: Doubles = np.vecdot(units.astype(np.float64), unit)
    return (products / lengths).clip(-1, 1).astype(np.float32)


def _top(scores: Floats, limit: int, margin: np.float32) -> Rows:
    """Where the highest scores are, with all that come within the margin of the last of them."""
    if limit >= len(scores):
        return np.arange(len(scores))
    least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    return np.flatnonzero(scores >= least - margin)
