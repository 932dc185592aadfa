"""The promises of a BlobStore: bytes by their digest, stored once, whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from holdfast.contracts import BlobStore
from holdfast.errors import NotFound
from holdfast.ids import new_id
from holdfast.testing.opening import Promises, new_namespace

MEGABYTE = 1024 * 1024
EVERY_BYTE = bytes(range(256))


class BlobStoreKit(Promises):
    """Subclass it as `TestMyBlobs` and say how to `open` the store; never override a test."""

    def open(self, namespace: str) -> BlobStore:
        """Open the store; opening a namespace again finds what was put there."""
        raise NotImplementedError("say how the blobs are opened: def open(self, namespace): …")

    def reopen(self, blobs: BlobStore, namespace: str) -> BlobStore:  # noqa: ARG002 — others close it first
        """The same blobs as whoever comes later finds them."""
        return self.open(namespace)

    @pytest.fixture
    def namespace(self) -> str:
        return new_namespace()

    @pytest.fixture
    def blobs(self, namespace: str) -> BlobStore:
        return self.open(namespace)

    @pytest.mark.parametrize("content", [b"", b"\0", b"hello", EVERY_BYTE, EVERY_BYTE * 1000])
    def test_what_was_put_comes_back(self, blobs: BlobStore, namespace: str, content: bytes) -> None:
        blob = blobs.put([content])
        blobs = self.reopen(blobs, namespace)
        assert b"".join(blobs.get(blob.digest)) == content
        assert (blob.digest, blob.size) == (hashlib.sha256(content).digest(), len(content))

    def test_chunks_are_put_together(self, blobs: BlobStore) -> None:
        chunks = [EVERY_BYTE * 37, b"", b"x", *(bytes([n % 256]) * 1000 for n in range(3000))]
        blob = blobs.put(iter(chunks))
        assert b"".join(blobs.get(blob.digest)) == b"".join(chunks)
        assert blob.size == sum(map(len, chunks))

    def test_several_megabytes_come_back(self, blobs: BlobStore) -> None:
        blob = blobs.put(bytes([n]) * MEGABYTE for n in range(9))
        digest = hashlib.sha256()
        for piece in blobs.get(blob.digest):
            digest.update(piece)
        assert (digest.digest(), blob.size) == (blob.digest, 9 * MEGABYTE)

    @pytest.mark.parametrize(
        ("start", "stop"), [(0, None), (0, 5), (3, 7), (5, None), (255, 256), (4, 4), (0, 0), (250, 999), (999, None)]
    )
    def test_a_range_comes_back(self, blobs: BlobStore, start: int, stop: int | None) -> None:
        blob = blobs.put([EVERY_BYTE[:100], EVERY_BYTE[100:]])
        assert b"".join(blobs.get(blob.digest, start, stop)) == EVERY_BYTE[start:stop]

    def test_the_same_bytes_are_stored_once(self, blobs: BlobStore) -> None:
        content = new_id().encode()
        first = blobs.put([content])
        again = blobs.put([content[:5], content[5:]])
        found = [blob for blob in blobs.list() if blob.digest == first.digest]
        assert found == [again]
        assert again.put_at >= first.put_at

    def test_getting_what_is_not_there_is_not_found_at_once(self, blobs: BlobStore) -> None:
        with pytest.raises(NotFound):
            blobs.get(hashlib.sha256(new_id().encode()).digest())

    def test_a_deleted_blob_is_gone(self, blobs: BlobStore, namespace: str) -> None:
        gone, kept = blobs.put([new_id().encode()]), blobs.put([new_id().encode()])
        blobs.delete(gone.digest)
        blobs = self.reopen(blobs, namespace)
        assert {blob.digest for blob in blobs.list()} & {gone.digest, kept.digest} == {kept.digest}
        with pytest.raises(NotFound):
            blobs.get(gone.digest)

    def test_deleting_bytes_that_are_not_there_succeeds(self, blobs: BlobStore) -> None:
        kept = blobs.put([new_id().encode()])
        blobs.delete(hashlib.sha256(new_id().encode()).digest())
        assert kept in list(blobs.list())

    def test_bytes_put_since_a_moment_are_not_deleted(self, blobs: BlobStore) -> None:
        content = [new_id().encode()]
        old, blob = blobs.put(content), blobs.put(content)
        assert [blobs.delete(blob.digest, before=at) for at in (old.put_at, blob.put_at)] == [False, False]
        assert b"".join(blobs.get(blob.digest)) == content[0]
        assert [blobs.delete(blob.digest, before=blob.put_at + 1), blobs.delete(blob.digest)] == [True, False]

    def test_a_deleted_blob_can_be_put_again(self, blobs: BlobStore) -> None:
        content = new_id().encode()
        blobs.delete(blobs.put([content]).digest)
        blob = blobs.put([content])
        assert b"".join(blobs.get(blob.digest)) == content

    def test_blobs_are_listed_by_digest(self, blobs: BlobStore) -> None:
        put = [blobs.put([new_id().encode()]) for _ in range(20)]
        listed = list(blobs.list())
        assert [blob.digest for blob in listed] == sorted(blob.digest for blob in listed)
        assert sorted(put, key=lambda blob: blob.digest) == [blob for blob in listed if blob in put]

    def test_a_source_that_breaks_off_stores_nothing(self, blobs: BlobStore) -> None:
        before = list(blobs.list())

        def broken() -> Iterator[bytes]:
            yield new_id().encode()
            raise OSError("the source broke off")

        with pytest.raises(OSError, match="the source broke off"):
            blobs.put(broken())
        assert list(blobs.list()) == before
