"""Vectors in Qdrant keep the promises of the kit: on the client's local mode, and on a server by its address."""

from __future__ import annotations

import os

import pytest

from holdfast.backends.qdrant import QdrantVectors, open_vectors
from holdfast.contracts import VectorIndex
from holdfast.ids import new_id
from holdfast.testing.vector_index import VectorIndexKit

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
