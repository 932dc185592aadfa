"""Vectors in Qdrant keep the promises of the kit: on the client's local mode, and on a server by its address."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from servers.silent import silence

import holdfast
from holdfast.backends.qdrant import QdrantVectors, open_vectors
from holdfast.contracts import Vector, VectorIndex
from holdfast.deadlines import within
from holdfast.errors import ConnectionFailed
from holdfast.ids import new_id
from holdfast.testing.vector_index import VectorIndexKit

SHORT_S, FAR_S = 0.3, 60.0
SERVER = os.environ.get("HOLDFAST_TEST_QDRANT_URL", "")


def index_in(vectors: QdrantVectors, dimension: int) -> VectorIndex:
    index = vectors.index(new_id(), dimension)
    index.seen()
    return index


class TestLocal(VectorIndexKit):
    def open(self, dimension: int) -> VectorIndex:
        return index_in(open_vectors("qdrant:"), dimension)


@pytest.mark.skipif(not SERVER, reason="HOLDFAST_TEST_QDRANT_URL names no server")
class TestServer(VectorIndexKit):
    def open(self, dimension: int) -> VectorIndex:
        return index_in(open_vectors(SERVER), dimension)


def test_a_call_ends_at_its_own_timeout_where_a_server_never_answers() -> None:
    began = time.monotonic()
    with silence() as port, closing(open_vectors(f"qdrant://127.0.0.1:{port}", timeout=FAR_S)) as vectors:
        index = vectors.index("space", 3)
        uses: list[Callable[[], object]] = [
            index.seen,
            lambda: index.upsert([Vector(id="a", values=[1.0, 0.0, 0.0])]),
            lambda: index.search([1.0, 0.0, 0.0], 1),
            lambda: index.delete(["a"]),
            vectors.spaces,
        ]
        for use in uses:
            with within(SHORT_S), pytest.raises(ConnectionFailed):
                use()
    assert time.monotonic() - began < FAR_S / 2


def test_a_search_ends_at_its_own_timeout_and_a_write_is_made_all_the_same() -> None:
    began = time.monotonic()
    with (
        silence() as port,
        holdfast.open("memory:", embeddings=f"qdrant://127.0.0.1:{port}", timeout=FAR_S) as hf,
    ):
        hf.embeddings.upsert("a", [1.0, 0.0, 0.0], timeout=SHORT_S)
        with pytest.raises(ConnectionFailed):
            hf.embeddings.search([1.0, 0.0, 0.0], timeout=SHORT_S)
        found = hf.embeddings.get("a")
        assert (found is not None, time.monotonic() - began < FAR_S / 2) == (True, True)
