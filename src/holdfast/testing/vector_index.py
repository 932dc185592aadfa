"""The promises of a VectorIndex: the nearest by cosine, among those that carry the labels asked for."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

import pytest

from holdfast.contracts import Near, Vector, VectorIndex
from holdfast.testing.opening import Promises

E1, E2, E3 = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
LARGEST, TINIEST = 3.4028234663852886e38, 1.401298464324817e-45


def ids(near: Sequence[Near]) -> list[str]:
    """Who was found, in order."""
    return [one.id for one in near]


class VectorIndexKit(Promises):
    """Subclass it as `TestMyVectors` and say how to `open` an index; never override a test."""

    def open(self, dimension: int) -> VectorIndex:
        """An empty index for vectors of this dimension."""
        raise NotImplementedError("say how the index is opened: def open(self, dimension): …")

    @pytest.fixture
    def index(self) -> Iterator[VectorIndex]:
        index = self.open(3)
        yield index
        index.close()
        index.close()

    def test_the_nearest_comes_first(self, index: VectorIndex) -> None:
        index.upsert([Vector(id=id, values=values) for id, values in (("e1", E1), ("e2", E2), ("e3", E3))])
        assert index.search(E1, 2) == [Near(id="e1", score=1.0), Near(id="e2", score=0.0)]
        assert index.search([0.0, 0.1, 1.0], 1)[0].id == "e3"

    def test_an_empty_index_finds_nothing(self, index: VectorIndex) -> None:
        assert index.search(E1, 10) == []
        assert index.search(E1, 10, ["none"]) == []

    def test_the_length_of_a_vector_does_not_matter(self, index: VectorIndex) -> None:
        lengths = {"one": 1.0, "long": LARGEST, "short": TINIEST, "three": 3.0}
        index.upsert([Vector(id=id, values=[0.0, length, length]) for id, length in lengths.items()])
        for length in lengths.values():
            near = index.search([0.0, length, length], 4)
            assert near == [Near(id=id, score=1.0) for id in sorted(lengths)]

    def test_the_opposite_is_the_farthest(self, index: VectorIndex) -> None:
        index.upsert([Vector(id="same", values=[0.3, -0.7, 0.1]), Vector(id="opposite", values=[-0.3, 0.7, -0.1])])
        near = index.search([0.3, -0.7, 0.1], 2)
        assert near == [Near(id="same", score=1.0), Near(id="opposite", score=-1.0)]

    def test_a_vector_of_zeros_is_near_nothing(self, index: VectorIndex) -> None:
        index.upsert([Vector(id="zero", values=[0.0] * 3), Vector(id="e1", values=E1)])
        assert index.search(E1, 2) == [Near(id="e1", score=1.0), Near(id="zero", score=0.0)]
        assert index.search([-1.0, 0.0, 0.0], 2) == [Near(id="zero", score=0.0), Near(id="e1", score=-1.0)]
        assert index.search([0.0] * 3, 2) == [Near(id="e1", score=0.0), Near(id="zero", score=0.0)]

    def test_ties_are_by_id(self, index: VectorIndex) -> None:
        names = [f"v{number:03}" for number in range(300)]
        index.upsert([Vector(id=id, values=E2) for id in random.Random(1).sample(names, 300)])
        assert ids(index.search([0.1, 0.9, 0.0], 10)) == names[:10]
        assert ids(index.search([0.0] * 3, 300)) == names

    def test_the_same_id_is_replaced(self, index: VectorIndex) -> None:
        index.upsert([Vector(id="a", values=E1, labels=["old"]), Vector(id="b", values=E3)])
        index.upsert([Vector(id="a", values=E2, labels=["new"])])
        assert index.search(E2, 10, ["new"]) == [Near(id="a", score=1.0)]
        assert index.search(E1, 10, ["old"]) == []
        assert ids(index.search(E1, 10)) == ["a", "b"]

    def test_a_search_finds_those_with_all_the_labels(self, index: VectorIndex) -> None:
        carried = {"a": ["x"], "b": ["x", "y"], "c": ["y"], "d": []}
        index.upsert([Vector(id=id, values=E1, labels=labels) for id, labels in carried.items()])
        found = [ids(index.search(E1, 10, labels)) for labels in ([], ["x"], ["y"], ["x", "y"], ["x", "z"])]
        assert found == [["a", "b", "c", "d"], ["a", "b"], ["b", "c"], ["b"], []]

    def test_what_is_deleted_is_not_found(self, index: VectorIndex) -> None:
        index.upsert([Vector(id=id, values=E1, labels=[id]) for id in "abcde"])
        index.delete(["a", "c", "none"])
        assert ids(index.search(E1, 10)) == ["b", "d", "e"]
        assert [ids(index.search(E1, 10, [id])) for id in "abcde"] == [[], ["b"], [], ["d"], ["e"]]
        index.delete(["b", "d", "e"])
        assert index.search(E1, 10) == []
        index.upsert([Vector(id="a", values=E3)])
        assert ids(index.search(E1, 10)) == ["a"]

    def test_nothing_at_all_can_be_upserted_and_deleted(self, index: VectorIndex) -> None:
        index.upsert([])
        index.delete([])
        assert index.search(E1, 1) == []

    @pytest.mark.parametrize("dimension", [1, 2, 7, 64])
    def test_the_nearest_are_those_that_counting_finds(self, dimension: int) -> None:
        chance = random.Random(dimension)
        index = self.open(dimension)
        vectors = {f"v{number}": [chance.gauss(0, 1) for _ in range(dimension)] for number in range(500)}
        index.upsert([Vector(id=id, values=values, labels=[f"{len(id)}"]) for id, values in vectors.items()])
        wanted = [chance.gauss(0, 1) for _ in range(dimension)]
        for labels, among in (((), vectors), (("3",), [id for id in vectors if len(id) == 3])):
            near = index.search(wanted, 20, labels)
            best = sorted((cosine(wanted, vectors[id]) for id in among), reverse=True)[:20]
            assert [one.score for one in near] == pytest.approx(best, abs=1e-6)
            assert all(cosine(wanted, vectors[one.id]) == pytest.approx(one.score, abs=1e-6) for one in near)
        index.close()


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """The cosine of two vectors, counted plainly."""
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return product / (math.hypot(*a) * math.hypot(*b))
