"""An index of vectors that several clients fill never lacks anything, whoever is late, gone or brought back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

import holdfast
from holdfast.backends.qdrant import QdrantIndex, QdrantVectors
from holdfast.backends.sqlite import SqliteStore
from holdfast.client import Holdfast
from holdfast.contracts import Vector
from holdfast.errors import ConnectionFailed
from holdfast.testing.domain_embeddings import E1, E2, E3, found, three

NOBODY = "qdrant://127.0.0.1:9"

Client = Callable[[], Holdfast]

DYING = """
    import os, signal, sys
    import holdfast
    from holdfast.backends.qdrant import QdrantIndex

    path, where = sys.argv[1], sys.argv[2]
    hf = holdfast.open(f"sqlite:///{path}/agents.db", embeddings=f"qdrant:///{path}/vectors")
    hf.embeddings.upsert("before", [1, 0, 0])
    setattr(QdrantIndex, where, lambda *given: os.kill(os.getpid(), signal.SIGKILL))
    hf.embeddings.upsert("after", [1, 0, 0])
"""


class Lasting(QdrantVectors):
    """Indexes of a server that goes on when a client is closed."""

    def close(self) -> None:
        pass


class Late(Lasting):
    """A client that is held up before it adds vectors: something happens meanwhile."""

    meanwhile: Callable[[], object] | None = None

    def index(self, space: str, dimension: int) -> QdrantIndex:
        return LateIndex(self, f"{self._collection}-{dimension}", space, dimension)


class LateIndex(QdrantIndex):
    def upsert(self, vectors: list[Vector]) -> None:  # type: ignore[override]
        store = self._store
        assert isinstance(store, Late)
        meanwhile, store.meanwhile = store.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super().upsert(vectors)


@pytest.fixture
def server() -> Iterator[QdrantClient]:
    client = QdrantClient(":memory:")
    yield client
    client.close()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "agents.db")


@pytest.fixture
def client(server: QdrantClient, path: str) -> Iterator[Client]:
    opened: list[Holdfast] = []

    def open() -> Holdfast:
        opened.append(Holdfast(SqliteStore(path), vectors=Lasting(server, local=True)))
        return opened[-1]

    yield open
    for hf in opened:
        hf.close()


def points(server: QdrantClient) -> list[str]:
    """The ids of the embeddings that are there, in any version."""
    names = [one.name for one in server.get_collections().collections]
    said = [point.payload or {} for name in names for point in server.scroll(name, limit=10_000)[0]]
    return sorted(str(one["id"]).partition("\0")[0] for one in said if "id" in one)


def test_writes_go_to_the_index_at_once(client: Client, server: QdrantClient) -> None:
    hf = client()
    three(hf)
    hf.embeddings.upsert("e1", E3)
    hf.embeddings.delete("e2")
    assert points(server) == ["e1", "e3"]


def test_a_deleted_session_leaves_nothing_there(client: Client, server: QdrantClient) -> None:
    hf = client()
    hf.sessions.create(id="s")
    three(hf, session_id="s")
    hf.embeddings.upsert("kept", E1)
    hf.sessions.delete("s")
    assert points(server) == ["kept"]


def test_clients_that_write_by_turns_find_everything(client: Client) -> None:
    clients = [client() for _ in range(3)]
    for n in range(30):
        clients[n % 3].embeddings.upsert(f"v{n:02}", [1.0, n / 100, 0.0])
        near = clients[(n + 1) % 3].embeddings.search([1.0, n / 100, 0.0], limit=100)
        assert (near[0].embedding.id, len(near)) == (f"v{n:02}", n + 1)


def test_a_late_writer_hides_nothing_newer(client: Client, server: QdrantClient, path: str) -> None:
    late = Late(server, local=True)
    slow, fast = Holdfast(SqliteStore(path), vectors=late), client()
    three(fast)
    late.meanwhile = lambda: fast.embeddings.upsert("x", E1)
    slow.embeddings.upsert("x", E2)
    for hf in (client(), fast, slow):
        near = hf.embeddings.search(E1, limit=2)
        assert [(one.embedding.id, one.score) for one in near] == [("e1", 1.0), ("x", 1.0)]
    slow.close()


def test_an_index_that_was_removed_is_made_again(client: Client, server: QdrantClient) -> None:
    first, second = client(), client()
    three(first)
    assert len(second.embeddings.search(E1)) == 3
    server.delete_collection("holdfast-3")
    assert [found(hf.embeddings.search(E1)) for hf in (first, second)] == [["e1", "e2", "e3"]] * 2
    server.delete_collection("holdfast-3")
    first.embeddings.upsert("e4", E1)
    assert found(second.embeddings.search(E1)) == ["e1", "e4", "e2", "e3"]


def test_an_index_that_another_has_begun_anew_is_filled(client: Client, server: QdrantClient) -> None:
    hf = client()
    three(hf)
    begin_anew(hf, server)
    assert found(hf.embeddings.search(E1)) == ["e1", "e2", "e3"]


def begin_anew(hf: Holdfast, server: QdrantClient) -> None:
    """Remove the index, and make it as one who has not filled it yet."""
    (space,) = hf.embeddings._spaces(None)
    server.delete_collection("holdfast-3")
    assert QdrantVectors(server, local=True).index(space.uid, 3).seen() == 0


def test_whoever_filled_a_removed_index_does_not_mark_the_new_one(
    client: Client, server: QdrantClient, path: str
) -> None:
    late = Late(server, local=True)
    slow, other = Holdfast(SqliteStore(path), vectors=late), client()
    three(slow)

    late.meanwhile = lambda: begin_anew(other, server)
    slow.embeddings.upsert("e4", E1)
    assert found(other.embeddings.search(E1)) == ["e1", "e4", "e2", "e3"]
    slow.close()


def test_records_brought_back_from_a_copy_are_searched_as_they_are(
    client: Client, server: QdrantClient, tmp_path: Path
) -> None:
    hf = client()
    three(hf)
    hf.backup(str(tmp_path / "copy.db"))
    hf.embeddings.upsert("e2", E1)
    hf.embeddings.upsert("e4", E1)
    with Holdfast(SqliteStore(str(tmp_path / "copy.db")), vectors=Lasting(server, local=True)) as old:
        old.embeddings.upsert("x", E1)
        near = old.embeddings.search(E1)
        assert [(one.embedding.id, one.score) for one in near] == [("e1", 1.0), ("x", 1.0), ("e2", 0.0), ("e3", 0.0)]
    assert points(server) == ["e1", "e2", "e3", "x"]


def test_gc_removes_what_nobody_told_the_index(client: Client, server: QdrantClient, path: str) -> None:
    hf = client()
    three(hf)
    hf.embeddings.upsert("small", [1.0], model="small")
    with Holdfast(SqliteStore(path)) as untold:
        untold.embeddings.upsert("e1", E2)
        untold.embeddings.delete("e3")
        untold.embeddings.delete("small")
    assert points(server) == ["e1", "e2", "e3", "small"]
    hf.gc()
    assert points(server) == ["e2"]
    assert found(hf.embeddings.search(E2)) == ["e1", "e2"]


def test_gc_leaves_other_namespaces_and_collections_alone(client: Client, server: QdrantClient, tmp_path: Path) -> None:
    others = [Lasting(server, namespace="other", local=True), Lasting(server, "holdfast-other", local=True)]
    stores = [Holdfast(SqliteStore(str(tmp_path / f"{n}.db")), vectors=one) for n, one in enumerate(others)]
    for hf in stores:
        three(hf)
    client().gc()
    assert len(points(server)) == 6
    for hf in stores:
        assert found(hf.embeddings.search(E1)) == ["e1", "e2", "e3"]
        hf.close()


@pytest.mark.parametrize("where", ["upsert", "mark"])
def test_what_a_killed_writer_did_not_tell_the_index_is_found(where: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", textwrap.dedent(DYING), str(tmp_path), where]
    assert subprocess.run(program, check=False).returncode == -signal.SIGKILL
    with holdfast.open(f"sqlite:///{tmp_path}/agents.db", embeddings=f"qdrant:///{tmp_path}/vectors") as hf:
        assert found(hf.embeddings.search(E1)) == ["after", "before"]
        assert hf.verify().ok


def test_records_are_written_while_the_index_cannot_be_reached(path: str) -> None:
    with holdfast.open(f"sqlite:///{path}", embeddings=NOBODY) as hf:
        three(hf)
        hf.embeddings.delete("e1")
        with pytest.raises(ConnectionFailed):
            hf.embeddings.search(E1)
        with pytest.raises(ConnectionFailed):
            hf.health()
    with holdfast.open(f"sqlite:///{path}") as hf:
        assert found(hf.embeddings.search(E1)) == ["e2", "e3"]


def test_one_who_only_reads_leaves_the_index_alone(path: str) -> None:
    with holdfast.open(f"sqlite:///{path}") as hf:
        three(hf)
    with holdfast.open(f"sqlite:///{path}", embeddings=NOBODY, read_only=True) as hf:
        assert found(hf.embeddings.search(E1)) == ["e1", "e2", "e3"]
        assert hf.health().backend == "sqlite"


def test_a_real_server_is_used_by_its_address(path: str) -> None:
    url = os.environ.get("HOLDFAST_TEST_QDRANT_URL")
    if not url:
        pytest.skip("HOLDFAST_TEST_QDRANT_URL names no server")
    with holdfast.open(f"sqlite:///{path}", embeddings=url, namespace="shared-vectors") as hf:
        three(hf)
        hf.embeddings.upsert("e1", E2)
        assert found(hf.embeddings.search(E2)) == ["e1", "e2", "e3"]
        for id in ("e1", "e2", "e3"):
            hf.embeddings.delete(id)
        hf.gc()
