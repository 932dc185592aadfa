"""An approximate index over rows of a matrix: usearch's HNSW graph of 8-bit vectors, filled in the background.

It only proposes candidates; whoever asks scores them with the true vectors. Measured beside hnswlib and
sqlite-vec by benchmarks/vectors.py.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

_CHUNK = 2_000
_LINKS = 16
_EFFORT_TO_ADD = 64
_EFFORT_TO_SEARCH = 64


class Graph:
    """Rows and who is near whom; until it is ready, changes are kept for later."""

    def __init__(self, dimension: int) -> None:
        self.ready = False
        self._index = Index(
            ndim=dimension,
            metric="ip",  # of unit vectors, which is their cosine, and takes a fifth less than to work out both lengths
            dtype="i8",
            connectivity=_LINKS,
            expansion_add=_EFFORT_TO_ADD,
            expansion_search=_EFFORT_TO_SEARCH,
        )
        self._late: dict[int, NDArray[np.float32] | None] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def fill(self, rows: NDArray[np.float32]) -> None:
        """Begin to take in all rows, in the background."""
        self._thread = threading.Thread(target=self._fill, args=(rows,), name="holdfast-vectors", daemon=True)
        self._thread.start()

    def _fill(self, rows: NDArray[np.float32]) -> None:
        # A row of zeros is near nothing, and would be a dead end in the graph.
        keys = np.flatnonzero(rows.any(axis=1))
        for start in range(0, len(keys), _CHUNK):
            if self._closing.is_set():
                return
            chunk = keys[start : start + _CHUNK]
            self._index.add(chunk, rows[chunk])
        with self._lock:
            for row, unit in self._late.items():
                self._change(row, unit)
            self._late = {}
            self.ready = True

    def put(self, row: int, unit: NDArray[np.float32]) -> None:
        """Take in a row, or another vector at a row."""
        self._change_or_keep(row, unit.copy())

    def drop(self, row: int) -> None:
        """Leave a row out from now on."""
        self._change_or_keep(row, None)

    def _change_or_keep(self, row: int, unit: NDArray[np.float32] | None) -> None:
        with self._lock:
            if self.ready:
                self._change(row, unit)
            else:
                self._late[row] = unit

    def _change(self, row: int, unit: NDArray[np.float32] | None) -> None:
        if row in self._index:
            self._index.remove(row)
        if unit is not None and unit.any():
            self._index.add(row, unit)

    def search(self, unit: NDArray[np.float32], count: int) -> NDArray[np.int64]:
        """Some rows that are probably the nearest."""
        # One query gains nothing from usearch's thread pool, and would wait for it.
        return np.asarray(self._index.search(unit, count, threads=1).keys, np.int64)

    def settle(self, timeout_s: float) -> bool:
        """Wait until it is filled, at most so long; False if it is not."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self.ready

    def close(self) -> None:
        """Stop filling and give everything back."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self.ready = False
