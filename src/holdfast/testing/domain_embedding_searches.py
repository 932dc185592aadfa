"""Searching embeddings: filters, the cache, other clients, and what is deleted or detached."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.contracts import KeepsVectors, Put, RecordStore
from holdfast.errors import ConnectionFailed, InvalidInput
from holdfast.kinds import EMBEDDINGS
from holdfast.model import Agent, Embedding
from holdfast.testing.domain_embeddings import E1, E2, E3, found, three
from holdfast.testing.driving import Again, HoldfastKit
from holdfast.testing.planting import BreaksOff, detach, stored
from holdfast.testing.records import dump

SMALL = 10_000  # bytes that a few hundred short vectors exceed


class EmbeddingSearchKit(HoldfastKit):
    """Subclass it as `TestMyEmbeddingSearches` and say how to `open` the store; never override a test."""

    # search

    def test_a_limit_is_kept(self, hf: Holdfast) -> None:
        three(hf)
        assert [len(hf.embeddings.search(E1, limit=limit)) for limit in (0, 1, 2, 3, 4, 2**31 - 1)] == [
            0,
            1,
            2,
            3,
            3,
            3,
        ]

    def test_ties_are_by_id(self, hf: Holdfast) -> None:
        for id in "dbca":
            hf.embeddings.upsert(id, [2.0, 0.0, 0.0], model=id)
        assert found(hf.embeddings.search(E1, limit=3)) == ["a", "b", "c"]

    def test_a_vector_of_zeros_is_near_nothing(self, hf: Holdfast, again: Again) -> None:
        hf.embeddings.upsert([Embedding(id="zero", vector=[0.0] * 3), Embedding(id="one", vector=[-1.0, 0.0, 0.0])])
        hf = again()
        near = hf.embeddings.search(E1)
        assert [(one.embedding.id, one.score) for one in near] == [("zero", 0.0), ("one", -1.0)]
        assert [one.score for one in hf.embeddings.search([0.0] * 3)] == [0.0, 0.0]

    def test_a_search_can_be_of_a_session_a_model_and_metadata(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        hf.embeddings.upsert("a", E1, session_id="s", model="m", metadata={"kind": "note", "n": 1})
        hf.embeddings.upsert("b", E2, session_id="s", model="n", metadata={"kind": "note", "n": 2})
        hf.embeddings.upsert("c", E3, model="m", metadata={"kind": "fact", "n": 1})
        filters: list[dict[str, Any]] = [{"session_id": "s"}, {"model": "m"}, {"metadata": {"n": 1}}]
        filters += [{"metadata": {"kind": "note", "n": 2}}, {"session_id": "s", "model": "m"}, {"metadata": {"x": 1}}]
        expected = [["a", "b"], ["a", "c"], ["a", "c"], ["b"], ["a"], []]
        hf = again()
        assert [sorted(found(hf.embeddings.search(E1, **one))) for one in filters] == expected
        assert [[one.id for one in hf.embeddings.list(**one)] for one in filters] == expected

    def test_a_metadata_filter_tells_42_from_42_and_a_half_and_from_text(self, hf: Holdfast) -> None:
        values = {"int": 42, "float": 42.0, "text": "42", "list": [42], "true": True, "one": 1, "null": None}
        hf.embeddings.upsert([Embedding(id=id, vector=E1, metadata={"v": value}) for id, value in values.items()])
        for id, value in values.items():
            assert found(hf.embeddings.search(E1, metadata={"v": value})) == [id]
            assert [one.id for one in hf.embeddings.list(metadata={"v": value})] == [id]

    def test_a_text_is_looked_for_by_the_function_given(self, store: RecordStore) -> None:
        words = {"dog": E1, "cat": E2}
        hf = Holdfast(store, embed=words.__getitem__)
        three(hf)
        assert found(hf.embeddings.search(text="cat", limit=1)) == ["e2"]
        with pytest.raises(InvalidInput):
            hf.embeddings.search(E1, text="cat")

    def test_without_a_cache_the_answer_is_the_same(self, store: RecordStore) -> None:
        _must_be_in_memory(store)
        cached, streaming = Holdfast(store), Holdfast(store, vector_cache_bytes=SMALL)
        cached.sessions.create(id="s")
        vectors = {f"v{n}": [float(n % 7), float(n % 11), float(n % 13)] for n in range(500)}
        half = {"session_id": "s", "metadata": {"half": True}}
        given = [Embedding(id=id, vector=v, **(half if v[0] > 3 else {})) for id, v in vectors.items()]  # type: ignore[arg-type]
        cached.embeddings.upsert(given)
        for named in ({}, {"session_id": "s"}, {"metadata": {"half": True}}, {"limit": 500}):
            near = cached.embeddings.search([1.0, 2.0, 3.0], **named)
            assert streaming.embeddings.search([1.0, 2.0, 3.0], **named) == near
            assert near
        assert streaming.embeddings.warm() == 500
        assert not streaming._nearest._kept

    def test_the_least_used_models_leave_the_cache(self, store: RecordStore) -> None:
        _must_be_in_memory(store)
        hf = Holdfast(store, vector_cache_bytes=SMALL)
        for model in "abcd":
            hf.embeddings.upsert([Embedding(id=f"{model}{n}", vector=E1, model=model) for n in range(8)])
        for _ in range(2):
            assert [len(hf.embeddings.search(E1, model=model)) for model in "abcd"] == [8] * 4
        assert [*hf._nearest._kept] == ["c", "d"]

    # others

    def test_two_clients_see_each_others_writes(self, hf: Holdfast, store: RecordStore) -> None:
        other = Holdfast(store)
        three(hf)
        assert found(other.embeddings.search(E1)) == found(hf.embeddings.search(E1)) == ["e1", "e2", "e3"]
        other.embeddings.upsert("e1", [0.0, 0.0, -1.0])
        other.embeddings.upsert("e4", E1)
        assert found(hf.embeddings.search(E1)) == ["e4", "e1", "e2", "e3"]
        hf.embeddings.delete("e4")
        assert found(other.embeddings.search(E1, limit=2)) == ["e1", "e2"]
        other.embeddings.upsert("e5", E1)
        assert found(hf.embeddings.search(E1, limit=1)) == ["e5"]

    def test_what_others_have_deleted_hides_nothing_that_is_there(self, hf: Holdfast, store: RecordStore) -> None:
        other = Holdfast(store)
        hf.embeddings.upsert([Embedding(id=f"v{n:03}", vector=[1.0, n / 100]) for n in range(300)])
        assert found(hf.embeddings.search([1.0, 0.0], limit=1)) == ["v000"]
        for n in range(290):
            other.embeddings.delete(f"v{n:03}")
        assert found(hf.embeddings.search([1.0, 0.0], limit=2)) == ["v290", "v291"]
        assert len(hf.embeddings.search([1.0, 0.0], limit=100)) == 10

    def test_a_model_emptied_and_filled_again_by_another_is_read_anew(self, hf: Holdfast, store: RecordStore) -> None:
        other = Holdfast(store)
        three(hf)
        hf.embeddings.search(E1)
        for id in ("e1", "e2", "e3"):
            other.embeddings.delete(id)
        assert hf.embeddings.search(E1) == []
        other.embeddings.upsert([Embedding(id=id, vector=[1.0, 0.0]) for id in ("e1", "e2", "e3")])
        assert found(hf.embeddings.search([0.0, 1.0])) == ["e1", "e2", "e3"]

    def test_tenants_have_their_own(self, hf: Holdfast, namespace: str) -> None:
        other = Holdfast(self.open(f"{namespace}-other"))
        three(hf)
        other.embeddings.upsert("e1", [1.0, 0.0])
        assert found(other.embeddings.search([1.0, 0.0])) == ["e1"]
        assert found(hf.embeddings.search(E1)) == ["e1", "e2", "e3"]
        other.close()

    # deleting

    def test_a_deleted_embedding_is_gone(self, hf: Holdfast, again: Again) -> None:
        three(hf)
        assert found(hf.embeddings.search(E1, limit=1)) == ["e1"]
        assert (hf.embeddings.delete("e1"), hf.embeddings.delete("e1")) == (1, 0)
        assert found(hf.embeddings.search(E1)) == ["e2", "e3"]
        hf = again()
        assert hf.embeddings.get("e1") is None
        assert [one.id for one in hf.embeddings.list()] == ["e2", "e3"]

    def test_deleting_by_session_returns_how_many_went(self, hf: Holdfast, again: Again) -> None:
        for id in ("a", "a_b"):
            hf.sessions.create(id=id)
            hf.embeddings.upsert([Embedding(id=f"{id} {n}", vector=E1, session_id=id) for n in range(250)])
        assert len(hf.embeddings.search(E1, session_id="a", limit=1_000)) == 250
        assert (hf.embeddings.delete(session_id="a"), hf.embeddings.delete(session_id="a")) == (250, 0)
        assert hf.embeddings.search(E1, session_id="a") == []
        assert len(hf.embeddings.search(E1, limit=1_000)) == 250
        assert len(list(again().embeddings.list(session_id="a_b"))) == 250

    @pytest.mark.parametrize("owner", ["session", "agent", "user"])
    def test_embeddings_go_with_their_session_agent_and_user(
        self, hf: Holdfast, store: RecordStore, owner: str
    ) -> None:
        before = dump(store)
        hf.agents.save(Agent(id="scout", name=""))
        hf.sessions.create(id="s", agent_id="scout", user_id="ann")
        hf.embeddings.upsert([Embedding(id=str(n), vector=E1, session_id="s") for n in range(250)])
        hf.embeddings.search(E1)
        if owner == "session":
            hf.sessions.delete("s")
        elif owner == "user":
            hf.sessions.delete(user_id="ann")
        hf.agents.delete("scout")
        assert hf.embeddings.search(E1) == []
        assert dump(store) == before

    def test_a_deleted_session_leaves_the_embeddings_of_others(self, hf: Holdfast, again: Again) -> None:
        three(hf)
        for id in ("gone", "kept"):
            hf.sessions.create(id=id)
            hf.embeddings.upsert(id, E1, session_id=id)
        hf.sessions.delete("gone")
        assert found(hf.embeddings.search(E1)) == ["e1", "kept", "e2", "e3"]
        assert found(again().embeddings.search(E1)) == ["e1", "kept", "e2", "e3"]

    def test_embeddings_are_gone_from_the_first_commit_on(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        hf.embeddings.upsert([Embedding(id=id, vector=E1, session_id="s") for id in "ab"])
        assert len(hf.embeddings.search(E1)) == 2
        with pytest.raises(ConnectionFailed):
            Holdfast(BreaksOff(store, 1)).sessions.delete("s")
        assert len([record for record in dump(store) if record.kind is EMBEDDINGS]) == 2
        assert (hf.embeddings.get("a"), hf.embeddings.search(E1), list(hf.embeddings.list())) == (None, [], [])
        hf.sessions.create(id="s")
        hf.embeddings.upsert("c", E1, session_id="s")
        assert found(hf.embeddings.search(E1)) == ["c"]
        hf.gc()
        assert found(hf.embeddings.search(E1, session_id="s")) == ["c"]

    def test_a_detached_session_is_searched_only_by_name(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        hf.embeddings.upsert([Embedding(id=f"s{n}", vector=E1, session_id="s") for n in range(50)])
        three(hf)
        detach(store, "s")
        assert found(hf.embeddings.search(E1, limit=2)) == ["e1", "e2"]
        assert len(list(hf.embeddings.list())) == 3
        assert len(hf.embeddings.search(E1, session_id="s", limit=100)) == 50
        assert hf.embeddings.get("s1") is not None
        hf.sessions.attach("s")
        assert found(hf.embeddings.search(E1, limit=2)) == ["e1", "s0"]

    def test_a_damaged_embedding_spoils_no_search(self, hf: Holdfast, store: RecordStore) -> None:
        three(hf)
        sound = stored(store, EMBEDDINGS, "e2")
        for spoilt in (sound.body.replace(b"gD8", b"wH8"), sound.body[:-1], b""):
            for searching in (hf, Holdfast(store), Holdfast(store, vector_cache_bytes=0)):
                store.commit([Put(replace(sound, body=spoilt))])
                assert found(searching.embeddings.search(E1)) == ["e1", "e3"]
                assert [problem.key for problem in hf.verify().problems] == [("e2",)]
        store.commit([Put(sound)])
        assert found(Holdfast(store).embeddings.search(E1)) == ["e1", "e2", "e3"]


def _must_be_in_memory(store: RecordStore) -> None:
    if isinstance(store, KeepsVectors) and store.vectors() is not None:
        pytest.skip("this store keeps its vectors in an index of its own, not in the memory of its clients")
