"""Embeddings: vectors by id, which come out as they went in, rounded to float32 once."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.embedding_records import read_space
from holdfast.errors import HoldfastError, InvalidId, InvalidInput, NotFound
from holdfast.kinds import EMBEDDING_SPACES
from holdfast.model import Embedding, Neighbour
from holdfast.testing.driving import NOON, Again, HoldfastKit, exact
from holdfast.testing.planting import stored
from holdfast.testing.records import dump

E1, E2, E3 = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
NAN, INF = float("nan"), float("inf")


def found(near: Sequence[Neighbour]) -> list[str]:
    """Who was found, in order."""
    return [one.embedding.id for one in near]


def three(hf: Holdfast, **fields: Any) -> None:
    """e1, e2 and e3."""
    hf.embeddings.upsert([Embedding(id=f"e{n}", vector=v, **fields) for n, v in enumerate((E1, E2, E3), 1)])


class EmbeddingKit(HoldfastKit):
    """Subclass it as `TestMyEmbeddings` and say how to `open` the store; never override a test."""

    # what goes in comes out

    def test_the_nearest_comes_first(self, hf: Holdfast, again: Again) -> None:
        three(hf)
        near = again().embeddings.search(E1, limit=2)
        assert [(one.embedding.id, one.score) for one in near] == [("e1", 1.0), ("e2", 0.0)]

    def test_an_embedding_comes_back_whole(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        metadata = {"n": 42, "x": 42.0, "s": "42", "deep": {"list": [1, None, True]}}
        given = Embedding(
            id="a", vector=[0.5, -1.25, 3.0], session_id="s", model="m", metadata=metadata, created_at=NOON
        )
        assert exact(hf.embeddings.upsert(given)) == exact([given])
        hf = again()
        assert exact(hf.embeddings.get("a")) == exact(given)
        assert exact(hf.embeddings.search(given.vector)[0].embedding) == exact(given)
        assert exact(list(hf.embeddings.list())) == exact([given])

    def test_an_id_and_a_vector_are_enough(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        (made,) = hf.embeddings.upsert("a", E1, session_id="s", model="m", metadata={})
        assert (made.session_id, made.model, made.metadata) == ("s", "m", {})
        assert hf.embeddings.get("a") == made
        assert hf.embeddings.upsert("b", E1)[0].metadata is None

    def test_wider_numbers_are_rounded_to_float32_once(self, hf: Holdfast, again: Again) -> None:
        wide = [0.1, 1 / 3, 1e-40, -3.4028234663852886e38, 16_777_217]
        (made,) = hf.embeddings.upsert("a", wide)
        assert made.vector == array("f", wide).tolist() != wide
        hf.embeddings.upsert("b", made.vector)
        hf = again()
        assert [one.vector for one in hf.embeddings.list()] == [made.vector] * 2

    @pytest.mark.parametrize("vector", [(1, 2, 3), array("f", [1, 2, 3]), array("d", [1, 2, 3]), range(1, 4)])
    def test_any_row_of_numbers_is_a_vector(self, hf: Holdfast, vector: Sequence[float]) -> None:
        assert hf.embeddings.upsert("a", vector)[0].vector == [1.0, 2.0, 3.0]
        assert hf.embeddings.search(vector)[0].score == 1.0

    def test_what_is_not_there_reads_as_nothing(self, hf: Holdfast) -> None:
        assert hf.embeddings.get("none") is None
        assert hf.embeddings.search(E1) == []
        assert hf.embeddings.search(E1, session_id="none", model="none") == []
        assert list(hf.embeddings.list(session_id="none")) == []
        assert (hf.embeddings.delete("none"), hf.embeddings.delete(session_id="none")) == (0, 0)
        assert hf.embeddings.warm() == 0

    # upsert

    def test_the_same_id_is_one_entry_with_the_newest_content(self, hf: Holdfast, again: Again) -> None:
        three(hf)
        hf.embeddings.upsert("e1", [0.0, 0.6, 0.8], metadata={"new": True})
        hf = again()
        assert found(hf.embeddings.search(E1)) == ["e1", "e2", "e3"]
        assert found(hf.embeddings.search([0.0, 0.6, 0.8])) == ["e1", "e3", "e2"]
        assert [one.metadata for one in hf.embeddings.list()] == [{"new": True}, None, None]

    def test_a_repeated_upsert_changes_nothing(self, hf: Holdfast, store: RecordStore) -> None:
        given = [Embedding(id=id, vector=E1, metadata={"a": 1}) for id in "ab"]
        hf.embeddings.upsert(given)
        before = dump(store)
        hf.embeddings.upsert(given)
        hf.embeddings.upsert(given[0])
        assert dump(store) == before

    def test_of_one_id_twice_the_later_counts(self, hf: Holdfast) -> None:
        hf.embeddings.upsert([Embedding(id="a", vector=E1), Embedding(id="a", vector=E2)])
        assert [(one.id, one.vector) for one in hf.embeddings.list()] == [("a", E2)]

    def test_more_than_a_commit_holds_is_written(self, hf: Holdfast, again: Again) -> None:
        given = [Embedding(id=f"v{n:04}", vector=[1.0, n / 1000]) for n in range(1_001)]
        assert len(hf.embeddings.upsert(given)) == 1_001
        hf = again()
        assert found(hf.embeddings.search([1.0, 0.0], limit=3)) == ["v0000", "v0001", "v0002"]
        assert found(hf.embeddings.search([0.0, 1.0], limit=2)) == ["v1000", "v0999"]

    def test_long_vectors_are_spread_over_commits(self, hf: Holdfast) -> None:
        hf.embeddings.upsert([Embedding(id=f"v{n}", vector=[float(n), *[1.0] * 29_999]) for n in range(60)])
        assert found(hf.embeddings.search([1.0, *[0.0] * 29_999], limit=1)) == ["v59"]

    def test_an_unknown_session_is_not_found(self, hf: Holdfast, store: RecordStore) -> None:
        with pytest.raises(NotFound):
            hf.embeddings.upsert("a", E1, session_id="none")
        assert dump(store) == []

    # refusals

    @pytest.mark.parametrize(
        "vector",
        [
            [NAN, 0.0],
            [INF],
            [-INF, 1.0],
            [1e39],
            [],
            None,
            "abc",
            b"abcd",
            7,
            {"a": 1},
            ["a"],
            [[1.0]],
            [None],
            [1e999],
        ],
    )
    def test_what_is_no_vector_is_refused(self, hf: Holdfast, store: RecordStore, vector: Any) -> None:
        with pytest.raises(InvalidInput):
            hf.embeddings.upsert("a", vector)
        with pytest.raises(InvalidInput):
            hf.embeddings.upsert([Embedding(id="good", vector=[1.0]), Embedding(id="a", vector=vector)])
        with pytest.raises(InvalidInput):
            hf.embeddings.search(vector)
        assert dump(store) == []

    def test_a_wrong_dimension_is_refused(self, hf: Holdfast, store: RecordStore) -> None:
        three(hf)
        before = dump(store)
        for vector in ([1.0, 0.0], [1.0, 0.0, 0.0, 0.0]):
            with pytest.raises(InvalidInput, match="3 dimensions"):
                hf.embeddings.upsert("e1", vector)
            for model in ("", None):
                with pytest.raises(InvalidInput, match="3 dimensions"):
                    hf.embeddings.search(vector, model=model)
        assert dump(store) == before

    def test_two_dimensions_in_one_upsert_are_refused(self, hf: Holdfast, store: RecordStore) -> None:
        with pytest.raises(InvalidInput):
            hf.embeddings.upsert([Embedding(id="a", vector=E1), Embedding(id="b", vector=[1.0])])
        assert dump(store) == []

    def test_each_model_has_its_own_dimension(self, hf: Holdfast, again: Again) -> None:
        three(hf)
        hf.embeddings.upsert("f1", [1.0, 0.0], model="small")
        hf.embeddings.upsert("g1", E1, model="other")
        hf = again()
        assert found(hf.embeddings.search([1.0, 0.0])) == ["f1"]
        assert found(hf.embeddings.search(E1, limit=2)) == ["e1", "g1"]
        assert found(hf.embeddings.search(E1, model="other")) == ["g1"]
        assert found(hf.embeddings.search(E1, model="")) == ["e1", "e2", "e3"]

    def test_a_model_that_has_lost_all_its_vectors_is_free_again(self, hf: Holdfast, store: RecordStore) -> None:
        three(hf)
        hf.embeddings.search(E1)
        for id in ("e1", "e2", "e3"):
            hf.embeddings.delete(id)
        assert dump(store) == []
        hf.embeddings.upsert("a", [1.0, 0.0])
        assert found(hf.embeddings.search([1.0, 0.0])) == ["a"]

    def test_an_embedding_can_move_to_another_model(self, hf: Holdfast, store: RecordStore) -> None:
        three(hf)
        hf.embeddings.search(E1)
        hf.embeddings.upsert("e1", [1.0, 0.0], model="small")
        assert found(hf.embeddings.search(E1)) == ["e2", "e3"]
        assert found(hf.embeddings.search([1.0, 0.0])) == ["e1"]
        assert [read_space(stored(store, EMBEDDING_SPACES, model)).count for model in ("", "small")] == [2, 1]

    @pytest.mark.parametrize(
        ("named", "error"),
        [
            ({"session_id": ""}, InvalidId),
            ({"session_id": 7}, InvalidId),
            ({"model": 7}, InvalidInput),
            ({"model": "a\nb"}, InvalidInput),
            ({"metadata": {"a": NAN}}, InvalidInput),
            ({"metadata": {1: 2}}, InvalidInput),
            ({"metadata": [1]}, InvalidInput),
            ({"metadata": {"a": 2**64}}, InvalidInput),
            ({"timeout": "soon"}, InvalidInput),
        ],
    )
    def test_bad_arguments_are_refused(
        self, hf: Holdfast, store: RecordStore, named: dict[str, Any], error: type[HoldfastError]
    ) -> None:
        for call in (lambda: hf.embeddings.upsert("a", E1, **named), lambda: hf.embeddings.search(E1, **named)):
            with pytest.raises(error):
                call()
        assert dump(store) == []

    @pytest.mark.parametrize("limit", [-1, 1.5, "1", None, True, 2**31])
    def test_a_limit_is_a_whole_number(self, hf: Holdfast, limit: Any) -> None:
        with pytest.raises(InvalidInput):
            hf.embeddings.search(E1, limit=limit)

    def test_calls_that_say_too_little_or_too_much_are_refused(self, hf: Holdfast) -> None:
        given = Embedding(id="a", vector=E1)
        calls: list[tuple[Any, ...]] = [(hf.embeddings.upsert, given, E1), (hf.embeddings.upsert, 7)]
        calls += [(hf.embeddings.upsert, [7]), (hf.embeddings.upsert, {"a": 1}), (hf.embeddings.upsert, "")]
        calls += [(hf.embeddings.delete,), (hf.embeddings.search,), (hf.embeddings.get, "")]
        for call, *arguments in calls:
            with pytest.raises(InvalidInput):
                call(*arguments)
        with pytest.raises(InvalidInput, match="embed="):
            hf.embeddings.search(text="hello")
