"""Records set aside in a temporary file, so that many of them take no memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

import msgspec

from holdfast import codec
from holdfast.contracts import Record
from holdfast.errors import IntegrityError
from holdfast.kinds import Kind

T = TypeVar("T")

_PAGE = 200


def in_batches(rows: Iterable[T], size: int = _PAGE) -> Iterator[list[T]]:
    """The rows, so many at a time."""
    left = iter(rows)
    while batch := list(islice(left, size)):
        yield batch


class Spool:
    """Records of one kind in a temporary file, in the order they were added."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 — `close` closes it
        self._lengths: list[int] = []

    def add(self, record: Record) -> None:
        """Keep a record as it is now; IntegrityError if it is damaged."""
        if codec.digest(record.body) != record.digest:
            raise IntegrityError(f"{record.kind.name} {record.key} does not match its checksum; run verify")
        try:
            packed = msgspec.msgpack.encode((record.key, record.body, record.digest, record.fields))
        except UnicodeEncodeError as cause:
            raise IntegrityError(f"{record.kind.name} {record.key} is damaged; run verify: {cause}") from cause
        self._lengths.append(len(packed))
        self._file.write(packed)

    def __iter__(self) -> Iterator[Record]:
        at = 0
        for length in self._lengths:
            self._file.seek(at)
            at += length
            key, body, digest, fields = msgspec.msgpack.decode(self._file.read(length))
            yield Record(self._kind, tuple(key), body, digest, tuple(fields))
        self._file.seek(at)

    def close(self) -> None:
        """Give the file back."""
        self._file.close()
