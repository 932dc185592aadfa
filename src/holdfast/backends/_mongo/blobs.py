"""Blobs as documents of a megabyte each, staged under an id and published under their digest."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from bson import Binary, Int64
from pymongo import IndexModel
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from holdfast.backends._chunks import chunks_of, in_chunks
from holdfast.backends._mongo.answers import answering, patiently
from holdfast.backends._mongo.documents import PART, PAST, Document, place
from holdfast.backends._mongo.space import new_token
from holdfast.backends._opened import Opened
from holdfast.contracts import Blob
from holdfast.errors import Busy, HoldfastError, NotFound

R = TypeVar("R")

PAGE = 500
TRIES = 20

INDEXES = (IndexModel("name", name="name", unique=True, sparse=True), IndexModel("space", name="space"))
PIECE_INDEX = IndexModel("blob", name="blob")


class MongoBlobs:
    """A blob store beside the records; a blob without a name is one whose put never finished, or that is going."""

    def __init__(self, database: Database[Document], namespace: str, opened: Opened) -> None:
        self._blobs = database["blobs"]
        self._pieces = database["pieces"]
        self._namespace = namespace
        self._opened = opened

    def put(self, chunks: Iterable[bytes]) -> Blob:
        self._opened.to_write()
        digest, size, staged = hashlib.sha256(), 0, new_token()
        published = False
        try:
            for n, piece in enumerate(in_chunks(chunks)):
                digest.update(piece)
                size += len(piece)
                self._stage(staged, n, piece)
            blob, published = self._publish(staged, digest.digest(), size)
        finally:
            if not published:
                self._let_go(staged)
        return blob

    def _stage(self, staged: str, n: int, piece: bytes) -> None:
        begun: Document = {"space": self._namespace, "size": Int64(0), "put_at": _now()}
        self._ask(lambda: self._blobs.update_one({"_id": staged}, {"$set": begun}, upsert=True))
        name, content = {"_id": _piece(staged, n)}, {"blob": staged, "bytes": Binary(piece)}
        self._ask(lambda: self._pieces.update_one(name, {"$set": content}, upsert=True))

    def _publish(self, staged: str, digest: bytes, size: int) -> tuple[Blob, bool]:
        """Give the staged pieces their name, or renew the blob that has it; says whether they are in use now."""
        name = self._name(digest)
        for _ in range(TRIES):
            put_at = _now()
            blob = Blob(digest=digest, size=size, put_at=int(put_at))
            renewed = self._change({"name": name}, {"$set": {"put_at": put_at}})
            if renewed is not None:
                return blob, renewed["_id"] == staged  # as after an answer that was lost
            with suppress(DuplicateKeyError):  # somebody has just put the same bytes
                self._change({"_id": staged}, {"$set": {"name": name, "size": Int64(size), "put_at": put_at}})
                return blob, True
        raise Busy("the same bytes are being put and deleted all the time; repeat")

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        self._opened.to_read()
        name = self._name(digest)
        found = self._ask(lambda: self._blobs.find_one({"name": name}))
        if found is None:
            raise NotFound(f"no blob {digest.hex()}")
        size = int(found["size"])
        return self._read(found["_id"], start, size if stop is None else min(stop, size))

    def _read(self, staged: str, start: int, stop: int) -> Iterator[bytes]:
        for n, wanted in chunks_of(start, stop):
            name = _piece(staged, n)
            found = self._ask(lambda name=name: self._pieces.find_one({"_id": name}))  # type: ignore[misc]
            if found is None:
                raise NotFound("the blob was deleted while it was read")
            yield bytes(found["bytes"])[wanted]

    def delete(self, digest: bytes, before: int | None = None) -> bool:
        self._opened.to_write()
        doomed: Document = {"name": self._name(digest)}
        if before is not None:
            doomed["put_at"] = {"$lt": Int64(before)}
        gone = self._change(doomed, {"$unset": {"name": 1}})
        if gone is not None:
            self._let_go(gone["_id"])
        return gone is not None

    def tidy(self, before: int) -> None:
        """Remove what unfinished puts, and deletions that broke off, have left."""
        self._opened.to_write()
        left = {"space": self._namespace, "name": {"$exists": False}, "put_at": {"$lt": Int64(before)}}
        for one in self._ask(lambda: list(self._blobs.find(left, {"_id": 1}))):
            self._let_go(one["_id"])

    def _let_go(self, staged: str) -> None:
        """Remove the pieces of a blob without a name, then the blob; what cannot go now goes with `tidy`."""
        with suppress(HoldfastError):
            last = self._ask(lambda: list(self._pieces.find({"blob": staged}, {"_id": 1})))
            for one in last:
                self._ask(lambda one=one: self._pieces.delete_one({"_id": one["_id"]}))  # type: ignore[misc]
            self._ask(lambda: self._blobs.delete_one({"_id": staged, "name": {"$exists": False}}))

    def list(self) -> Iterator[Blob]:
        self._opened.to_read()
        start = place(self._namespace)
        after, end = start, start[:-1] + PAST
        while True:
            page = self._page(after, end)
            for one in page:
                yield self._blob(one)
            if len(page) < PAGE:
                return
            after = page[-1]["name"]

    def _page(self, after: str, end: str) -> Sequence[Document]:
        wanted = {"name": {"$gt": after, "$lt": end}}
        return self._ask(lambda: list(self._blobs.find(wanted, sort=[("name", 1)], limit=PAGE)))

    def _blob(self, found: Document) -> Blob:
        digest = bytes.fromhex(found["name"].split(PART)[-2])
        return Blob(digest=digest, size=int(found["size"]), put_at=int(found["put_at"]))

    def _name(self, digest: bytes) -> str:
        return place(self._namespace, digest.hex())

    def _change(self, wanted: Document, change: Document) -> Document | None:
        return self._ask(lambda: self._blobs.find_one_and_update(wanted, change))

    def _ask(self, question: Callable[[], R]) -> R:
        """Ask what may be asked twice."""

        def ask() -> R:
            with answering():
                return question()

        return patiently(ask)


def _piece(staged: str, n: int) -> str:
    return f"{staged} {n}"


def _now() -> Int64:
    return Int64(time.time_ns() // 1000)
