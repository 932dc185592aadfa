"""Blobs in a SQLite file: chunks of a megabyte, staged under a number and published under their digest."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import apsw

from holdfast.contracts import Blob, Reader, Write
from holdfast.errors import NotFound

if TYPE_CHECKING:
    from holdfast.backends.sqlite import SqliteStore

CHUNK = 1024 * 1024
Work: TypeAlias = Callable[[apsw.Connection], None]

TABLES = (
    "CREATE TABLE blobs (blob INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, digest BLOB,"
    " size INTEGER NOT NULL, put_at INTEGER NOT NULL, UNIQUE (space, digest))",
    "CREATE TABLE chunks (blob INTEGER NOT NULL, n INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (blob, n))",
)


class SqliteBlobs:
    """A blob store in the file of a record store; a blob without a digest is one whose put never finished."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._space = store.space

    def put(self, chunks: Iterable[bytes]) -> Blob:
        digest, size, staged = hashlib.sha256(), 0, list[int]()

        def stage(piece: bytes, n: int) -> None:
            self._write(lambda con: _stage(con, self._space, staged, n, piece))

        for n, piece in enumerate(_pieces(chunks)):
            digest.update(piece)
            size += len(piece)
            stage(piece, n)
        blob = Blob(digest=digest.digest(), size=size, put_at=time.time_ns() // 1000)
        self._write(lambda con: _publish(con, self._space, staged[0], blob))
        return blob

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        with self._store.reading() as reader:
            row = reader.con.execute(
                "SELECT blob, size FROM blobs WHERE space = ? AND digest = ?", (self._space, digest)
            ).fetchone()
        if row is None:
            raise NotFound(f"no blob {digest.hex()}")
        blob, size = (int(value) for value in row)
        return self._read(blob, start, size if stop is None else min(stop, size))

    def _read(self, blob: int, start: int, stop: int) -> Iterator[bytes]:
        for n in range(start // CHUNK, -(-stop // CHUNK)):
            with self._store.reading() as reader:
                row = reader.con.execute("SELECT bytes FROM chunks WHERE blob = ? AND n = ?", (blob, n)).fetchone()
            if row is None:
                raise NotFound("the blob was deleted while it was read")
            yield bytes(row[0])[max(0, start - n * CHUNK) : stop - n * CHUNK]

    def delete(self, digest: bytes) -> None:
        self._write(lambda con: _remove(con, self._space, digest))

    def list(self) -> Iterator[Blob]:
        with self._store.reading() as reader:
            rows = reader.con.execute(
                "SELECT digest, size, put_at FROM blobs WHERE space = ? AND digest IS NOT NULL ORDER BY digest",
                (self._space,),
            ).fetchall()
        for row in rows:
            digest, size, put_at = row
            yield Blob(digest=digest, size=size, put_at=put_at)  # type: ignore[arg-type]

    def _write(self, work: Work) -> None:
        """Do something on the writing connection, inside a commit."""

        def inside(reader: Reader) -> list[Write]:
            work(reader.con)  # type: ignore[attr-defined]
            return []

        self._store.commit(None, inside)


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of one size, the last shorter; one empty piece if there are none."""
    waiting, first = bytearray(), True
    for chunk in chunks:
        waiting += chunk
        while len(waiting) > CHUNK:
            yield bytes(waiting[:CHUNK])
            del waiting[:CHUNK]
            first = False
    if waiting or first:
        yield bytes(waiting)


def _stage(con: apsw.Connection, space: int, staged: list[int], n: int, piece: bytes) -> None:
    if not staged:
        con.execute("INSERT INTO blobs (space, size, put_at) VALUES (?, 0, ?)", (space, time.time_ns() // 1000))
        staged.append(con.last_insert_rowid())
    con.execute("INSERT INTO chunks VALUES (?, ?, ?)", (staged[0], n, piece))


def _publish(con: apsw.Connection, space: int, staged: int, blob: Blob) -> None:
    known = con.execute("SELECT blob FROM blobs WHERE space = ? AND digest = ?", (space, blob.digest)).fetchone()
    if known is not None:
        con.execute("DELETE FROM chunks WHERE blob = ?", (staged,))
        con.execute("DELETE FROM blobs WHERE blob = ?", (staged,))
        staged = int(known[0])
    con.execute(
        "UPDATE blobs SET digest = ?, size = ?, put_at = ? WHERE blob = ?",
        (blob.digest, blob.size, blob.put_at, staged),
    )


def _remove(con: apsw.Connection, space: int, digest: bytes) -> None:
    row = con.execute("SELECT blob FROM blobs WHERE space = ? AND digest = ?", (space, digest)).fetchone()
    if row is not None:
        con.execute("DELETE FROM chunks WHERE blob = ?", row)
        con.execute("DELETE FROM blobs WHERE blob = ?", row)
