"""Artifacts of any size take little memory, and what a crash has left of them goes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import apsw
import pytest

from holdfast.backends._file.blobs import FileBlobs
from holdfast.backends._sqlite_blobs import SqliteBlobs
from holdfast.backends.file import FileStore
from holdfast.backends.sqlite import SqliteStore
from holdfast.client import Holdfast
from holdfast.errors import IntegrityError

MEGABYTES = int(os.environ.get("HOLDFAST_ARTIFACT_MB", "64"))
ROOM_MB = 16

STREAMING = """
    import hashlib, resource, sys
    from pathlib import Path
    from holdfast.backends.file import FileStore
    from holdfast.backends.sqlite import SqliteStore
    from holdfast.client import Holdfast

    def pieces(count):
        for n in range(count):
            yield n.to_bytes(4) * (1024 * 256)

    def used():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    stores = {"SqliteStore": SqliteStore, "FileStore": FileStore}
    store, path, count = stores[sys.argv[1]], sys.argv[2], int(sys.argv[3])
    with Holdfast(store(path)) as hf:
        hf.artifacts.put(pieces(2), name="warm up")
        before = used()
        put = hf.artifacts.put(pieces(count), name="large")
        again = hf.artifacts.put(pieces(count), name="the same")
        digest = hashlib.sha256()
        for piece in hf.artifacts.stream(put.id):
            digest.update(piece)
        assert digest.hexdigest() == put.digest == again.digest and put.size == count << 20
        hf.artifacts.save(put.id, Path(path).with_name("out"))
        assert hf.verify().ok
        hf.artifacts.delete(put.id)
        hf.artifacts.delete(again.id)
        assert hf.gc(grace_s=0).blobs == 1
        print(used() - before)
"""


WRITING = """
    import sys
    from holdfast.backends.file import FileStore
    from holdfast.backends.sqlite import SqliteStore
    from holdfast.client import Holdfast

    hf = Holdfast({"SqliteStore": SqliteStore, "FileStore": FileStore}[sys.argv[1]](sys.argv[2]))
    for n in range(1_000):
        content = (bytes([n % 256, piece]) * 200_000 for piece in range(8))
        put = hf.artifacts.put(content, name=f"{n % 2}")
        print(put.id, flush=True)
        if n % 3 == 0:
            hf.artifacts.delete(put.id)
            print("gone", put.id, flush=True)
"""


@pytest.mark.parametrize("acknowledged", range(1, 9))
@pytest.mark.parametrize("store", [SqliteStore, FileStore])
def test_a_killed_writer_loses_nothing_acknowledged_and_leaves_nothing_else(
    store: type[SqliteStore] | type[FileStore], acknowledged: int, tmp_path: Path
) -> None:
    path = str(tmp_path / "store")
    program = [sys.executable, "-c", textwrap.dedent(WRITING), store.__name__, path]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline().split() for _ in range(acknowledged)]
        writer.kill()
        said += [line.split() for line in writer.stdout]
    gone = {line[1] for line in said if line[0] == "gone"}
    with Holdfast(store(path)) as hf:
        assert hf.verify().ok
        for id in {line[0] for line in said} - gone - {"gone"} - {said[-1][0]}:
            assert len(hf.artifacts.read(id)) == 3_200_000
        hf.gc(grace_s=0)
        kept = [one for name in ("0", "1") for one in hf.artifacts.versions(name)]
        assert gone.isdisjoint(one.id for one in kept)
        assert sum(one.size for one in kept) <= hf.stats().bytes < sum(one.size for one in kept) + 100_000


@pytest.mark.parametrize("store", [SqliteStore, FileStore])
def test_a_large_artifact_takes_little_memory(store: type, tmp_path: Path) -> None:
    program = [
        sys.executable,
        "-c",
        textwrap.dedent(STREAMING),
        store.__name__,
        str(tmp_path / "store"),
        str(MEGABYTES),
    ]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert int(done.stdout) < ROOM_MB


def test_what_a_killed_put_has_left_in_sqlite_goes_with_gc(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "agents.db"))
    hf = Holdfast(store)
    blobs = SqliteBlobs(store)
    staged = None
    for n in range(20):
        staged = blobs._stage(staged, n, bytes(1000))
    hf.gc()
    left = [_count(store, "chunks")]
    hf.gc(grace_s=0)
    assert [*left, _count(store, "chunks"), _count(store, "blobs")] == [20, 0, 0]
    hf.close()


def test_what_a_killed_put_has_left_in_files_goes_with_gc(tmp_path: Path) -> None:
    hf = Holdfast(FileStore(str(tmp_path / "agents")))
    hf.artifacts.put(b"kept", name="x")
    upload = tmp_path / "agents" / ".holdfast" / "uploads" / "begun"
    upload.write_bytes(b"half")
    hf.gc()
    there = upload.exists()
    hf.gc(grace_s=0)
    assert (there, upload.exists(), len(list(FileBlobs(str(tmp_path / "agents")).list()))) == (True, False, 1)
    hf.close()


def test_a_flipped_byte_in_a_sqlite_file_is_found(tmp_path: Path) -> None:
    path = str(tmp_path / "agents.db")
    with Holdfast(SqliteStore(path)) as hf:
        put = hf.artifacts.put(bytes(3_000_000), name="x")
    with apsw.Connection(path) as con:
        con.execute("UPDATE chunks SET bytes = ? WHERE n = 1", (bytes(1_048_575) + b"\1",))
    con.close()
    with Holdfast(SqliteStore(path)) as hf:
        _must_be_found(hf, put.id)


def test_a_flipped_byte_in_a_file_is_found(tmp_path: Path) -> None:
    with Holdfast(FileStore(str(tmp_path / "agents"))) as hf:
        put = hf.artifacts.put(bytes(3_000_000), name="x")
        (path,) = (tmp_path / "agents" / "blobs").glob("*/*")
        path.write_bytes(bytes(2_000_000) + b"\1" + bytes(999_999))
        _must_be_found(hf, put.id)


def _must_be_found(hf: Holdfast, artifact_id: str) -> None:
    with pytest.raises(IntegrityError):
        list(hf.artifacts.stream(artifact_id))
    assert [problem.kind for problem in hf.verify().problems] == ["artifacts"]


def _count(store: SqliteStore, table: str) -> int:
    with store.reading() as reader:
        (count,) = reader.con.execute(f"SELECT count(*) FROM {table}").fetchone()  # type: ignore[misc]
    return int(count)
