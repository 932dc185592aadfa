"""A store whose parts are in several places: the same promises, and nothing half there after a crash."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient
from servers import s3, shared

import holdfast
from holdfast.backends.objects import PART, ObjectBlobs, open_blobs
from holdfast.backends.qdrant import QdrantVectors
from holdfast.backends.sqlite import SqliteStore
from holdfast.contracts import RecordStore
from holdfast.errors import Busy, ConnectionFailed, InvalidInput
from holdfast.testing.domain_artifacts import ArtifactKit
from holdfast.testing.domain_embedding_searches import EmbeddingSearchKit
from holdfast.testing.domain_embeddings import EmbeddingKit
from holdfast.testing.domain_parts import PartKit
from holdfast.testing.opening import new_namespace


class InS3(SqliteStore):
    """Records in a file, artifacts in S3."""

    place = ""

    def blobs(self) -> ObjectBlobs:  # type: ignore[override]
        return open_blobs(shared("s3", s3.start), namespace=self.place)


class OpensInS3:
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "agents.db")

    def open(self, namespace: str) -> RecordStore:
        store = InS3(self.path, namespace=namespace)
        store.place = namespace
        return store


class TestArtifactsInS3(OpensInS3, ArtifactKit):
    pass


class TestPartsInS3(OpensInS3, PartKit):
    pass


class Lasting(QdrantVectors):
    """Indexes of a server that goes on when a client is closed."""

    def close(self) -> None:
        pass


class InQdrant(SqliteStore):
    """Records in a file, an index of their vectors in Qdrant."""

    client: QdrantClient
    place = ""

    def vectors(self) -> QdrantVectors:
        return Lasting(self.client, namespace=self.place, local=True)


class OpensInQdrant:
    @pytest.fixture(autouse=True)
    def _server(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "agents.db")
        self.client = QdrantClient(":memory:")

    def open(self, namespace: str) -> RecordStore:
        store = InQdrant(self.path, namespace=namespace)
        store.client, store.place = self.client, namespace
        return store


class TestEmbeddingsInQdrant(OpensInQdrant, EmbeddingKit):
    pass


class TestSearchesInQdrant(OpensInQdrant, EmbeddingSearchKit):
    pass


DYING = """
    import os, signal, sys
    from holdfast.backends.objects import open_blobs
    from holdfast.backends.sqlite import SqliteStore
    from holdfast.client import Holdfast

    path, url, namespace, size = sys.argv[1:]
    hf = Holdfast(SqliteStore(path), blobs=open_blobs(url, namespace=namespace))
    hf.artifacts.put(b"kept", name="kept")
    SqliteStore.commit = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
    hf.artifacts.put(bytes(int(size)), name="lost")
"""

MISSING = """
    import sys
    sys.modules["obstore"] = sys.modules["qdrant_client"] = None
    import holdfast
    for part in ({"artifacts": "s3://bucket"}, {"embeddings": "qdrant://host"}):
        try:
            holdfast.open("memory:", **part)
        except holdfast.Unsupported as error:
            print(error)
"""


def s3_at(place: str) -> str:
    return shared("s3", s3.start).replace("?", f"/{place}?")


@pytest.mark.parametrize("size", [5, PART + 1])
def test_a_kill_between_bytes_and_record_leaves_only_what_gc_sweeps(size: int, tmp_path: Path) -> None:
    url, namespace, path = shared("s3", s3.start), new_namespace(), str(tmp_path / "agents.db")
    program = [sys.executable, "-c", textwrap.dedent(DYING), path, url, namespace, str(size)]
    assert subprocess.run(program, check=False).returncode == -signal.SIGKILL
    with holdfast.open(f"sqlite:///{path}", artifacts=s3_at(f"namespaces/{namespace}")) as hf:
        assert ([one.name for one in hf.artifacts.list()], hf.verify().ok) == (["kept"], True)
        assert [hf.gc().blobs, hf.gc(grace_s=0).blobs, hf.gc(grace_s=0).blobs] == [0, 1, 0]
        assert hf.artifacts.read(hf.artifacts.list()[0].id) == b"kept"


def test_each_part_is_found_again_where_it_was_put(tmp_path: Path) -> None:
    records, place = f"sqlite:///{tmp_path}/agents.db", new_namespace()
    elsewhere: dict[str, Any] = {"artifacts": s3_at(place), "embeddings": f"qdrant:///{tmp_path}/vectors"}
    for _ in range(2):
        with holdfast.open(records, namespace="acme", **elsewhere) as hf:
            put = hf.artifacts.put(bytes(100_000), name="map")
            hf.embeddings.upsert("e", [1.0, 0.0])
            assert hf.health().backend == "sqlite"
    with holdfast.open(records, namespace="acme", **elsewhere) as hf:
        assert hf.artifacts.read(put.id) == bytes(100_000)
        assert [one.embedding.id for one in hf.embeddings.search([1, 0])] == ["e"]
        assert 100_000 < hf.stats().bytes < 110_000
    assert os.path.getsize(tmp_path / "agents.db") < 400_000
    assert [blob.size for blob in open_blobs(s3_at(place), namespace="acme").list()] == [100_000]


def test_artifacts_can_be_in_any_backend_that_keeps_some(tmp_path: Path) -> None:
    with holdfast.open(f"sqlite:///{tmp_path}/agents.db", artifacts=f"file:///{tmp_path}/files") as hf:
        put = hf.artifacts.put(b"plan", name="plan")
        assert hf.artifacts.read(put.id) == b"plan"
        assert hf.health()
    assert [path.read_bytes() for path in (tmp_path / "files" / "blobs").glob("*/*")] == [b"plan"]


def test_the_async_surface_takes_the_same_places(tmp_path: Path) -> None:
    async def use() -> bytes:
        places: dict[str, Any] = {
            "artifacts": f"file:///{tmp_path}/files",
            "embeddings": f"qdrant:///{tmp_path}/vectors",
        }
        async with holdfast.aopen(f"sqlite:///{tmp_path}/agents.db", **places) as hf:
            put = await hf.artifacts.put(b"plan", name="plan")
            await hf.embeddings.upsert("e", [1.0, 0.0])
            assert len(await hf.embeddings.search([1.0, 0.0])) == 1
            return await hf.artifacts.read(put.id)

    assert asyncio.run(use()) == b"plan"
    assert list((tmp_path / "vectors").iterdir())


def test_all_parts_are_closed_even_if_opening_fails(tmp_path: Path) -> None:
    places: dict[str, Any] = {"artifacts": f"file:///{tmp_path}/files", "embeddings": f"qdrant:///{tmp_path}/vectors"}
    with pytest.raises(InvalidInput):
        holdfast.open(f"sqlite:///{tmp_path}/agents.db", inline_limit=-1, **places)
    for _ in range(2):
        hf = holdfast.open(f"sqlite:///{tmp_path}/agents.db", **places)
        hf.close()
        hf.close()


# The driver forgets its own handle of the lock file that it did not get.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_folder_of_vectors_has_one_user(tmp_path: Path) -> None:
    with holdfast.open("memory:", embeddings=f"qdrant:///{tmp_path}/vectors"):
        with pytest.raises(Busy, match="one user"):
            holdfast.open("memory:", embeddings=f"qdrant:///{tmp_path}/vectors")


@pytest.mark.parametrize(
    "places",
    [{"artifacts": "ftp://x"}, {"embeddings": "s3://x"}, {"embeddings": "sqlite:///x.db"}],
)
def test_an_unknown_place_is_invalid_and_names_those_known(places: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="known are"):
        holdfast.open("memory:", **places)


@pytest.mark.parametrize(
    "places",
    [
        {"artifacts": 1},
        {"artifacts": "s3"},
        {"artifacts": "s3://[::1/x"},
        {"embeddings": Path("x")},
        {"embeddings": "qdrant://h?x=1"},
        {"embeddings": "qdrant://h:many"},
    ],
)
def test_an_address_that_is_none_is_invalid(places: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        holdfast.open("memory:", **places)


def test_a_missing_driver_is_named_with_what_installs_it() -> None:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(MISSING)], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "s3: needs a driver; pip install 'holdfast[cloud]'\nqdrant: needs a driver; pip install 'holdfast[qdrant]'\n"
    )


def test_health_asks_every_part() -> None:
    nowhere = "s3://bucket?endpoint=http%3A%2F%2F127.0.0.1%3A9&access_key_id=x&secret_access_key=y"
    with holdfast.open("memory:", artifacts=nowhere, timeout=1) as hf:
        with pytest.raises(ConnectionFailed):
            hf.health()
