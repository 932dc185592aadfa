"""Blobs as files named after their digest: blobs/ab/ab12…

Readers need no lock: a name says what is in the file, and a file gets its name when it is whole and synced.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from holdfast.backends._file.disk import Disk, sync_file
from holdfast.backends._file.folder import folder_of, make_root
from holdfast.backends._file.journal import FOLDER
from holdfast.contracts import Blob
from holdfast.errors import BackendError, NotFound, Unsupported
from holdfast.ids import new_id

BLOBS = "blobs"
CHUNK = 1024 * 1024
_UPLOADS = f"{FOLDER}/uploads"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class FileBlobs:
    """A blob store in the folder of a namespace; `put_at` is the file's time."""

    def __init__(self, path: str, *, namespace: str = "", durable: bool = True, read_only: bool = False) -> None:
        self._disk = Disk(folder_of(path, namespace), durable)
        self._path = path
        self._read_only = read_only

    def _make_folder(self, name: str) -> None:
        for folder in self._disk.make_folder(name):
            self._disk.sync_folder(folder)

    def tidy(self, before: int) -> None:
        """Remove what a dead process began to put."""
        self._check_writable()
        for name in self._disk.names(_UPLOADS):
            for upload in self._found(f"{_UPLOADS}/{name}", b""):
                if upload.put_at < before:
                    self._disk.remove(f"{_UPLOADS}/{name}")

    def put(self, chunks: Iterable[bytes]) -> Blob:
        self._check_writable()
        make_root(self._path, self._disk)
        self._make_folder(_UPLOADS)
        upload = f"{_UPLOADS}/{new_id()}"
        try:
            blob = self._write(upload, _guarded(chunks))
            name = _name(blob.digest)
            self._make_folder(os.path.dirname(name))
            with self._naming():
                self._disk.rename(upload, name)
            self._disk.sync_folder(os.path.dirname(name))
        except _SourceBroke as broke:
            raise broke.why from None
        except OSError as cause:
            raise BackendError(f"the bytes cannot be written: {cause}") from cause
        finally:
            self._disk.remove(upload)
        return blob

    def _write(self, upload: str, chunks: Iterable[bytes]) -> Blob:
        digest, size = hashlib.sha256(), 0
        with open(self._disk.path(upload), "xb", buffering=CHUNK) as file:
            for chunk in chunks:
                digest.update(chunk)
                size += file.write(chunk)
            file.flush()
            put_at = time.time_ns() // 1000
            os.utime(file.fileno(), ns=(put_at * 1000, put_at * 1000))
            if self._disk.durable:
                sync_file(file.fileno())
        return Blob(digest=digest.digest(), size=size, put_at=put_at)

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        try:
            file = open(self._disk.path(_name(digest)), "rb")  # noqa: SIM115 — closed when the last piece is taken
        except FileNotFoundError as cause:
            raise NotFound(f"no blob {digest.hex()}") from cause
        except OSError as cause:
            raise BackendError(f"the bytes cannot be read: {cause}") from cause
        return _pieces(file, start, stop)

    def delete(self, digest: bytes, before: int | None = None) -> bool:
        self._check_writable()
        if not any(self._found(_name(digest), digest)):
            return False
        self._make_folder(_UPLOADS)
        with self._naming():
            found = list(self._found(_name(digest), digest))
            if not found or (before is not None and found[0].put_at >= before):
                return False
            self._disk.remove(_name(digest))
        self._disk.sync_folder(os.path.dirname(_name(digest)))
        return True

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """The right to give a file its name or take it: a delete must not meet a put of the same bytes."""
        folder = os.open(self._disk.path(_UPLOADS), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)  # held for a rename or an unlink, and goes with its holder
            yield
        finally:
            os.close(folder)

    def _check_writable(self) -> None:
        if self._read_only:
            raise Unsupported("the store was opened read-only; open it without read_only to write")

    def list(self) -> Iterator[Blob]:
        for folder in self._disk.names(BLOBS):
            for name in self._disk.names(f"{BLOBS}/{folder}"):
                if _DIGEST.fullmatch(name) is not None:
                    yield from self._found(f"{BLOBS}/{folder}/{name}", bytes.fromhex(name))

    def _found(self, name: str, digest: bytes) -> Iterator[Blob]:
        try:
            found = os.stat(self._disk.path(name))
        except FileNotFoundError:
            return  # deleted meanwhile
        yield Blob(digest=digest, size=found.st_size, put_at=found.st_mtime_ns // 1000)


class _SourceBroke(Exception):
    """The caller's own source has failed, which is for the caller to see as it is."""

    def __init__(self, why: Exception) -> None:
        super().__init__(why)
        self.why = why


def _guarded(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks, with failures of their source told apart from those of the disk."""
    try:
        yield from chunks
    except Exception as why:  # whatever it is, it goes back to whose source it was
        raise _SourceBroke(why) from why


def _name(digest: bytes) -> str:
    spelled = digest.hex()
    return f"{BLOBS}/{spelled[:2]}/{spelled}"


def _pieces(file: BinaryIO, start: int, stop: int | None) -> Iterator[bytes]:
    with file:
        file.seek(start)
        left = stop - start if stop is not None else os.fstat(file.fileno()).st_size
        while left > 0 and (piece := file.read(min(CHUNK, left))):
            left -= len(piece)
            yield piece
