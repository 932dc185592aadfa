"""Artifacts in S3 and Azure keep the promises of the kit, whoever else puts and deletes meanwhile."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import obstore
import pytest
from obstore.store import S3Store
from servers import azure, free_port, s3, shared
from servers.silent import silence

import holdfast
from holdfast.backends.objects import PART, ObjectBlobs, open_blobs
from holdfast.contracts import Blob, BlobStore
from holdfast.deadlines import within
from holdfast.errors import BackendError, ConnectionFailed, InvalidInput, NotFound, Unsupported
from holdfast.ids import new_id
from holdfast.testing.blob_store import BlobStoreKit
from holdfast.testing.opening import new_namespace

MEGABYTES = int(os.environ.get("HOLDFAST_ARTIFACT_MB", "100"))
ROOM_MB = 64
LARGE = PART + 1
SHORT_S, FAR_S = 0.3, 60.0

STREAMING = """
    import hashlib, re, sys
    from pathlib import Path
    from holdfast.backends.objects import open_blobs

    def pieces(count):
        for n in range(count):
            yield n.to_bytes(4) * (1024 * 256)

    def used():  # the peak of this program alone: getrusage would begin with that of whoever started it
        return int(re.search(r"VmHWM:\\s+([0-9]+)", Path("/proc/self/status").read_text())[1]) // 1024

    blobs, count = open_blobs(sys.argv[1], namespace=sys.argv[2]), int(sys.argv[3])
    blobs.put(pieces(1))
    before = used()
    put = blobs.put(pieces(count))
    digest = hashlib.sha256()
    for piece in blobs.get(put.digest):
        digest.update(piece)
    assert digest.digest() == put.digest and put.size == count << 20
    assert blobs.delete(put.digest)
    print(used() - before)
"""


def s3_url() -> str:
    return shared("s3", s3.start)


class TestS3(BlobStoreKit):
    def open(self, namespace: str) -> BlobStore:
        return open_blobs(s3_url(), namespace=namespace)


class TestAzure(BlobStoreKit):
    def open(self, namespace: str) -> BlobStore:
        return open_blobs(shared("azure", azure.start), namespace=namespace)


@pytest.fixture
def blobs() -> ObjectBlobs:
    return open_blobs(s3_url(), namespace=new_namespace())


def stored(blobs: ObjectBlobs) -> list[str]:
    """The paths of all objects."""
    return sorted(path for prefix in ("blobs", "large") for path, *_ in blobs._objects(prefix))


def large() -> Iterator[bytes]:
    """New bytes, too many for one request."""
    yield new_id().encode()
    yield bytes(LARGE)


class Slow(ObjectBlobs):
    """One that is held up before it removes something: the same bytes are put meanwhile."""

    meanwhile: Blob | None = None

    def _remove(self, put: object) -> None:
        if self.meanwhile is None:
            self.meanwhile = ObjectBlobs(self._store).put([b"precious"])
        super()._remove(put)  # type: ignore[arg-type]


def test_bytes_put_while_they_are_being_deleted_stay(blobs: ObjectBlobs) -> None:
    old = blobs.put([b"precious"])
    slow = Slow(blobs._store)
    assert slow.delete(old.digest, before=old.put_at + 1)
    assert slow.meanwhile is not None
    assert (list(blobs.list()), b"".join(blobs.get(old.digest))) == ([slow.meanwhile], b"precious")


def test_of_two_puts_at_a_time_one_remains(blobs: ObjectBlobs) -> None:
    blobs.put([b"precious"])
    slow = Slow(blobs._store)
    slow.put([b"precious"])
    assert list(blobs.list()) == [slow.meanwhile]
    assert len(stored(blobs)) == 1


@pytest.mark.parametrize("times", [1, 2])
def test_many_bytes_are_stored_once_and_go_whole(blobs: ObjectBlobs, times: int) -> None:
    content = list(large())
    for _ in range(times):
        put = blobs.put(content)
    assert [path.split("/")[0] for path in stored(blobs)] == ["blobs", "large"]
    assert b"".join(blobs.get(put.digest)) == b"".join(content)
    assert b"".join(blobs.get(put.digest, 30, 40)) == b"".join(content)[30:40]
    assert blobs.delete(put.digest)
    assert stored(blobs) == []


def test_a_reader_goes_on_when_the_bytes_are_put_again(blobs: ObjectBlobs) -> None:
    content = list(large())
    pieces = blobs.get(blobs.put(content).digest)
    first = next(pieces)
    blobs.put(content)
    assert first + b"".join(pieces) == b"".join(content)


def test_a_reader_is_told_when_the_bytes_are_deleted(blobs: ObjectBlobs) -> None:
    put = blobs.put(large())
    pieces = blobs.get(put.digest)
    next(pieces)
    blobs.delete(put.digest)
    with pytest.raises(NotFound):
        next(pieces)


def test_a_large_source_that_breaks_off_leaves_nothing(blobs: ObjectBlobs) -> None:
    def broken() -> Iterator[bytes]:
        yield from large()
        raise FileNotFoundError("the source broke off")

    with pytest.raises(FileNotFoundError, match="the source broke off"):
        blobs.put(broken())
    assert stored(blobs) == []


def test_what_a_killed_put_has_uploaded_is_tidied(blobs: ObjectBlobs) -> None:
    kept = blobs.put(large())
    obstore.put(blobs._store, "large/nameless", b"whose writer died")
    blobs.tidy(before=kept.put_at - 3600 * 1_000_000)
    left = "large/nameless" in stored(blobs)
    blobs.tidy(before=kept.put_at + 3600 * 1_000_000)
    assert (left, "large/nameless" in stored(blobs), list(blobs.list())) == (True, False, [kept])


def test_what_is_no_name_of_ours_is_left_alone(blobs: ObjectBlobs) -> None:
    obstore.put(blobs._store, "blobs/readme.txt", b"hands off")
    assert list(blobs.list()) == []
    blobs.tidy(before=2**52)
    assert stored(blobs) == ["blobs/readme.txt"]


def test_namespaces_are_apart_whatever_their_names() -> None:
    mark = new_namespace()
    names = [f"{mark}{end}" for end in ("", "/x", "/../x", "%2fx", ".", "..", " ", "é", "e\u0301", "A", "a", "x" * 200)]
    opened = {name: open_blobs(s3_url(), namespace=name) for name in names}
    for name, blobs in opened.items():
        blobs.put([name.encode()])
    assert [[b"".join(blobs.get(one.digest)) for one in blobs.list()] for blobs in opened.values()] == [
        [name.encode()] for name in names
    ]


def test_a_prefix_of_an_address_is_where_everything_is() -> None:
    place = new_namespace()
    blobs = open_blobs(s3_url().replace("?", f"/some%20folder/{place}/?"), namespace="acme")
    put = blobs.put([b"x"])
    whole = open_blobs(s3_url())
    listed = [path for path, *_ in whole._objects(f"some folder/{place}")]
    assert [path.rpartition("/")[0] for path in listed] == [
        f"some folder/{place}/namespaces/acme/blobs/{put.digest.hex()}"
    ]


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="nothing says here what a program takes")
def test_a_large_blob_takes_little_memory() -> None:
    program = [sys.executable, "-c", textwrap.dedent(STREAMING), s3_url(), new_namespace(), str(MEGABYTES)]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < ROOM_MB


def test_a_closed_or_read_only_store_says_so(blobs: ObjectBlobs) -> None:
    watched = ObjectBlobs(blobs._store, read_only=True)
    for write in (partial(watched.put, [b"x"]), partial(watched.delete, bytes(32)), partial(watched.tidy, 0)):
        with pytest.raises(Unsupported, match="read-only"):
            write()
    blobs.close()
    blobs.close()
    with pytest.raises(BackendError, match="closed"):
        blobs.get(bytes(32))


def test_a_store_that_cannot_be_reached_is_a_failed_connection() -> None:
    store = S3Store(
        "nobody",
        config={"endpoint": "http://127.0.0.1:9", "access_key_id": "x", "secret_access_key": "y"},
        client_options={"allow_http": True, "timeout": timedelta(seconds=5)},
        retry_config={"max_retries": 0},
    )
    with pytest.raises(ConnectionFailed) as reading:
        list(ObjectBlobs(store).list())
    with pytest.raises(ConnectionFailed) as writing:
        ObjectBlobs(store).put([b"x"])
    assert (reading.value.outcome, writing.value.outcome) == ("none", "unknown")


# servers that do not answer


@pytest.fixture(params=["silent", "absent"])
def unheard(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a store that never answers, or of none; the driver would try for much longer than the call."""
    with silence() as port:
        place = port if request.param == "silent" else free_port()
        yield f"s3://bucket?endpoint=http://127.0.0.1:{place}&access_key_id=x&secret_access_key=y&region=us-east-1"


@contextmanager
def given_up(outcome: str) -> Iterator[None]:
    """What is done inside ends at its limit."""
    began = time.monotonic()
    with pytest.raises(ConnectionFailed, match="timeout") as failure, within(SHORT_S):
        yield
    assert (failure.value.outcome, time.monotonic() - began < FAR_S / 2) == (outcome, True)


def test_a_call_ends_at_its_own_timeout(unheard: str) -> None:
    blobs = open_blobs(unheard, timeout=FAR_S)
    for content in ([b"x"], large()):
        with given_up("unknown"):
            blobs.put(content)
    with given_up("none"):
        list(blobs.list())
    with given_up("none"):
        blobs.get(bytes(32))
    with given_up("none"):
        blobs.delete(bytes(32))


def test_a_timeout_of_the_client_holds_for_artifacts_elsewhere(unheard: str) -> None:
    with holdfast.open("memory:", artifacts=unheard, timeout=FAR_S) as hf:
        began = time.monotonic()
        with pytest.raises(ConnectionFailed) as writing:
            hf.artifacts.put(b"x", name="map.png", timeout=SHORT_S)
        with pytest.raises(ConnectionFailed):
            hf.health(timeout=SHORT_S)
        assert (writing.value.outcome, time.monotonic() - began < FAR_S / 2) == ("unknown", True)
        assert list(hf.artifacts.list()) == []


def test_it_is_asked_from_inside_of_an_event_loop_as_well(blobs: ObjectBlobs) -> None:
    async def use() -> bytes:
        return b"".join(blobs.get(blobs.put(large()).digest, 36, 40))

    assert asyncio.run(use()) == bytes(4)


def test_a_source_is_read_by_the_thread_that_gave_it(blobs: ObjectBlobs) -> None:
    readers = set[int]()

    def watched() -> Iterator[bytes]:
        for piece in large():
            readers.add(threading.get_ident())
            yield piece

    blobs.put(watched())
    assert readers == {threading.get_ident()}


def test_a_missing_bucket_is_named() -> None:
    with pytest.raises(BackendError, match="bucket or container does not exist"):
        list(open_blobs(s3_url().replace("s3://", "s3://other-")).list())


@pytest.mark.parametrize("url", ["s3://", "s3:///prefix", "s3://bucket?nonsense=1", "s3://bucket?nonsense", "gs:"])
def test_an_address_that_says_nothing_usable_is_invalid(url: str) -> None:
    with pytest.raises(InvalidInput):
        open_blobs(url)
