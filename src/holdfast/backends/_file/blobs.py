"""Blobs as files named after their digest: blobs/ab/ab12…

No lock is needed: a name says what is in the file, and a file gets its name when it is whole and synced.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from holdfast.backends._file.disk import Disk, sync_file
from holdfast.backends._file.folder import folder_of, make_root
from holdfast.backends._file.journal import FOLDER
from holdfast.contracts import Blob
from holdfast.errors import NotFound
from holdfast.ids import new_id

BLOBS = "blobs"
CHUNK = 1024 * 1024
_UPLOADS = f"{FOLDER}/uploads"
_ABANDONED_S = 24 * 3600
_DIGEST = re.compile(r"[0-9a-f]{64}")


class FileBlobs:
    """A blob store in the folder of a namespace; `put_at` is the file's time."""

    def __init__(self, path: str, *, namespace: str = "", durable: bool = True) -> None:
        self._disk = Disk(folder_of(path, namespace), durable)
        make_root(path, self._disk)
        self._make_folder(_UPLOADS)
        self._clear_uploads()

    def _make_folder(self, name: str) -> None:
        for folder in self._disk.make_folder(name):
            self._disk.sync_folder(folder)

    def _clear_uploads(self) -> None:
        """Remove what a dead process began to put."""
        for name in self._disk.names(_UPLOADS):
            begun_at = os.path.getmtime(self._disk.path(f"{_UPLOADS}/{name}"))
            if begun_at < time.time() - _ABANDONED_S:
                self._disk.remove(f"{_UPLOADS}/{name}")

    def put(self, chunks: Iterable[bytes]) -> Blob:
        upload = f"{_UPLOADS}/{new_id()}"
        try:
            blob = self._write(upload, chunks)
            name = _name(blob.digest)
            self._make_folder(os.path.dirname(name))
            self._disk.rename(upload, name)
            self._disk.sync_folder(os.path.dirname(name))
        except BaseException:
            self._disk.remove(upload)
            raise
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
        return _pieces(file, start, stop)

    def delete(self, digest: bytes) -> None:
        self._disk.remove(_name(digest))
        self._disk.sync_folder(os.path.dirname(_name(digest)))

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
