"""Blobs in a SQLite file: chunks of a megabyte, staged under a number and published under their digest."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import apsw

from holdfast.backends._chunks import chunks_of, in_chunks
from holdfast.backends._sqlite_rows import bytes_of, checked, whole
from holdfast.contracts import Blob, Reader, Write
from holdfast.errors import HoldfastError, NotFound

if TYPE_CHECKING:
    from holdfast.backends.sqlite import SqliteStore

BATCH = 16  # pieces that one transaction removes
Work: TypeAlias = Callable[[apsw.Connection], None]

TABLES = (
    "CREATE TABLE blobs (blob INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, digest BLOB,"
    " size INTEGER NOT NULL, put_at INTEGER NOT NULL, UNIQUE (space, digest))",
    "CREATE TABLE chunks (blob INTEGER NOT NULL, n INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (blob, n))",
)


_CHUNK = f"SELECT {bytes_of('bytes')} FROM chunks WHERE blob = ? AND n = ?"


class SqliteBlobs:
    """A blob store in the file of a record store; a blob without a digest is one whose put never finished."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._space = store.space

    def put(self, chunks: Iterable[bytes]) -> Blob:
        digest, size, staged = hashlib.sha256(), 0, None
        try:
            for n, piece in enumerate(in_chunks(chunks)):
                digest.update(piece)
                size += len(piece)
                staged = self._stage(staged, n, piece)
            blob, staged = self._publish(digest.digest(), size, staged)
        finally:
            if staged is not None:
                self._let_go(staged)
        return blob

    def _stage(self, staged: int | None, n: int, piece: bytes) -> int:
        """Write a piece under the number of its blob, which the first one gets."""
        number: list[int] = []

        def stage(con: apsw.Connection) -> None:
            number[:] = [_stage(con, self._space, staged, n, piece)]

        self._write(stage)
        return number[0]

    def _publish(self, digest: bytes, size: int, staged: int | None) -> tuple[Blob, int | None]:
        """Give the staged pieces their digest; what is to go instead if the same bytes have it."""
        done: list[tuple[Blob, int | None]] = []

        def publish(con: apsw.Connection) -> None:
            blob = Blob(digest=digest, size=size, put_at=time.time_ns() // 1000)
            done[:] = [(blob, _publish(con, self._space, staged, blob))]

        self._write(publish)
        return done[0]

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        with self._store.reading() as reader, checked():
            row = reader.con.execute(
                "SELECT blob, size FROM blobs WHERE space = ? AND digest = ?", (self._space, digest)
            ).fetchone()
        if row is None:
            raise NotFound(f"no blob {digest.hex()}")
        blob, size = map(whole, row)
        return self._read(blob, start, size if stop is None else min(stop, size))

    def _read(self, blob: int, start: int, stop: int) -> Iterator[bytes]:
        for n, wanted in chunks_of(start, stop):
            with self._store.reading() as reader:
                row = reader.con.execute(_CHUNK, (blob, n)).fetchone()
            if row is None:
                raise NotFound("the blob was deleted while it was read")
            yield bytes(row[0])[wanted]

    def delete(self, digest: bytes, before: int | None = None) -> bool:
        hidden: list[int] = []

        def hide(con: apsw.Connection) -> None:
            hidden[:] = _hide(con, self._space, digest, before)

        self._write(hide)
        for blob in hidden:
            self._let_go(blob)
        return bool(hidden)

    def tidy(self, before: int) -> None:
        """Remove what unfinished puts, and deletions that broke off, have left."""
        left = "SELECT blob FROM blobs WHERE space = ? AND digest IS NULL AND put_at < ?"
        with self._store.reading() as reader:
            rows = reader.con.execute(left, (self._space, before)).fetchall()
        for (blob,) in rows:
            self._let_go(whole(blob))

    def _let_go(self, blob: int) -> None:
        """Remove a blob without a digest, some pieces at a time; what cannot go now goes with `tidy`."""
        with contextlib.suppress(HoldfastError):
            while self._discard(blob) == BATCH:
                pass

    def _discard(self, blob: int) -> int:
        gone: list[int] = []

        def discard(con: apsw.Connection) -> None:
            gone[:] = [_discard(con, blob)]

        self._write(discard)
        return gone[0]

    def list(self) -> Iterator[Blob]:
        with self._store.reading() as reader, checked():
            rows = reader.con.execute(
                "SELECT digest, size, put_at FROM blobs WHERE space = ? AND digest IS NOT NULL ORDER BY digest",
                (self._space,),
            ).fetchall()
        for row in rows:
            digest, size, put_at = row
            yield Blob(digest=digest, size=whole(size), put_at=whole(put_at))  # type: ignore[arg-type]

    def _write(self, work: Work) -> None:
        """Do something on the writing connection, inside a commit."""

        def inside(reader: Reader) -> list[Write]:
            work(reader.con)  # type: ignore[attr-defined]
            return []

        self._store.commit(None, inside)


def _stage(con: apsw.Connection, space: int, staged: int | None, n: int, piece: bytes) -> int:
    written_at = time.time_ns() // 1000
    if staged is None:
        con.execute("INSERT INTO blobs (space, size, put_at) VALUES (?, 0, ?)", (space, written_at))
        staged = con.last_insert_rowid()
    else:
        con.execute("UPDATE blobs SET put_at = ? WHERE blob = ?", (written_at, staged))
    con.execute("INSERT INTO chunks VALUES (?, ?, ?)", (staged, n, piece))
    return staged


def _publish(con: apsw.Connection, space: int, staged: int | None, blob: Blob) -> int | None:
    known = con.execute("SELECT blob FROM blobs WHERE space = ? AND digest = ?", (space, blob.digest)).fetchone()
    con.execute(
        "UPDATE blobs SET digest = ?, size = ?, put_at = ? WHERE blob = ?",
        (blob.digest, blob.size, blob.put_at, staged if known is None else known[0]),
    )
    return None if known is None else staged


def _hide(con: apsw.Connection, space: int, digest: bytes, before: int | None) -> list[int]:
    """Take the digest from a blob, after which it is one whose put never finished."""
    row = con.execute("SELECT blob, put_at FROM blobs WHERE space = ? AND digest = ?", (space, digest)).fetchone()
    if row is None or (before is not None and whole(row[1]) >= before):
        return []
    con.execute("UPDATE blobs SET digest = NULL WHERE blob = ?", (row[0],))
    return [whole(row[0])]


def _discard(con: apsw.Connection, blob: int) -> int:
    """Remove some pieces of a blob without a digest, with the last of them the blob; returns how many went."""
    if con.execute("SELECT 1 FROM blobs WHERE blob = ? AND digest IS NULL", (blob,)).fetchone() is None:
        return 0
    some = "SELECT n FROM chunks WHERE blob = ? LIMIT ?"
    con.execute(f"DELETE FROM chunks WHERE blob = ? AND n IN ({some})", (blob, blob, BATCH))
    gone = con.changes()
    if gone < BATCH:
        con.execute("DELETE FROM blobs WHERE blob = ?", (blob,))
    return gone
