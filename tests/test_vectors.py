"""The indexes of vectors in RAM keep the promises of the kit, with and without libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.backends._graph import Graph
from holdfast.backends._numpy_vectors import NumpyVectors
from holdfast.backends.vectors import PlainVectors, open_vectors
from holdfast.contracts import Vector, VectorIndex
from holdfast.testing.vector_index import VectorIndexKit, ids

COUNT, DIMENSION, LONG_S = 4_000, 48, 120.0


class TestPlain(VectorIndexKit):
    def open(self, dimension: int) -> VectorIndex:  # noqa: ARG002 — any will do
        return PlainVectors()


class TestNumpy(VectorIndexKit):
    def open(self, dimension: int) -> VectorIndex:
        return NumpyVectors(dimension)


class TestNumpyWithGraph(VectorIndexKit):
    def open(self, dimension: int) -> VectorIndex:
        return NumpyVectors(dimension, Graph, 1)


def clustered(count: int, seed: int) -> NDArray[np.float32]:
    """Vectors around 100 places, as those of texts are."""
    places = np.random.default_rng(1).standard_normal((100, DIMENSION))
    chance = np.random.default_rng(seed)
    vectors = places[chance.integers(0, 100, count)] + 0.5 * chance.standard_normal((count, DIMENSION))
    return vectors.astype(np.float32)


def fill(index: VectorIndex, vectors: NDArray[np.float32], first: int = 0) -> None:
    labels = ["even"], ["odd"]
    index.upsert([Vector(id=f"v{n}", values=row, labels=labels[n % 2]) for n, row in enumerate(vectors, first)])


def recall(index: VectorIndex, exact: VectorIndex, *labels: str) -> float:
    """How many of the true nearest 10 are found, on average."""
    found = []
    for wanted in clustered(50, seed=3).tolist():
        truth = ids(exact.search(wanted, 10, labels))
        found.append(len({*truth} & {*ids(index.search(wanted, 10, labels))}) / 10)
    return sum(found) / len(found)


class TestGraph:
    """An index that answers by its graph."""

    @pytest.fixture
    def exact(self) -> VectorIndex:
        return NumpyVectors(DIMENSION)

    @pytest.fixture
    def index(self) -> Iterator[NumpyVectors]:
        index = NumpyVectors(DIMENSION, Graph, 1_000)
        yield index
        index.close()

    def test_a_graph_finds_nearly_all(self, index: NumpyVectors, exact: VectorIndex) -> None:
        for one in (index, exact):
            fill(one, clustered(COUNT, seed=2))
        assert index.settle(LONG_S)
        assert recall(index, exact) >= 0.98
        assert recall(index, exact, "odd") >= 0.98

    def test_a_graph_follows_what_changes(self, index: NumpyVectors, exact: VectorIndex) -> None:
        fill(index, clustered(COUNT, seed=2))
        index.search([1.0] * DIMENSION, 1)  # the graph begins to be made, and changes come meanwhile
        for one in (index, exact):
            fill(one, clustered(COUNT, seed=4))
            one.delete([f"v{number}" for number in range(0, COUNT, 3)])
        assert index.settle(LONG_S)
        assert recall(index, exact) >= 0.98
        for one in (index, exact):
            one.delete([f"v{number}" for number in range(1, COUNT, 3)])
            fill(one, clustered(COUNT, seed=5), first=COUNT)
        assert recall(index, exact) >= 0.98

    def test_scores_are_exact_though_the_candidates_are_not(self, index: NumpyVectors, exact: VectorIndex) -> None:
        for one in (index, exact):
            fill(one, clustered(COUNT, seed=2))
        index.settle(LONG_S)
        wanted = clustered(1, seed=3)[0].tolist()
        truth = {near.id: near.score for near in exact.search(wanted, COUNT)}
        assert all(truth[near.id] == near.score for near in index.search(wanted, 10))

    def test_a_graph_can_be_left_while_it_is_made(self, index: NumpyVectors) -> None:
        fill(index, clustered(COUNT, seed=2))
        index.search([1.0] * DIMENSION, 1)
        index.close()
        assert len(index.search([1.0] * DIMENSION, 10)) == 10


def test_without_a_size_no_graph_is_made() -> None:
    index = open_vectors(DIMENSION, index_from=None)
    fill(index, clustered(COUNT, seed=2))
    assert isinstance(index, NumpyVectors)
    assert index.settle(0)
    assert index._graph is None


def test_opening_a_store_imports_no_vector_library() -> None:
    code = "import sys, holdfast; holdfast.open('memory:').close(); print({'numpy', 'usearch'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_without_numpy_a_search_is_right_all_the_same() -> None:
    code = """
import sys
sys.modules["numpy"] = None
import holdfast
with holdfast.open("memory:") as hf:
    for n in range(50):
        hf.embeddings.upsert(f"v{n:02}", [1.0, n / 10, 0.0], metadata={"even": n % 2 == 0})
    hf.embeddings.upsert("zero", [0, 0, 0])
    near = hf.embeddings.search([1, 0, 0], limit=3)
    print([(one.embedding.id, one.score) for one in near][:1], [one.embedding.id for one in near])
    print([one.embedding.id for one in hf.embeddings.search([0, 1, 0], limit=2, metadata={"even": True})])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[('v00', 1.0)] ['v00', 'v01', 'v02']\n['v48', 'v46']\n"
