"""Exports: a namespace as files that any backend reads back, byte for byte the same for the same content.

manifest.json says what every other file holds; a file of lines for each kind; bytes under their digest. Nothing in
them depends on the backend, the namespace or the moment of the export. docs/export.md describes them for others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast import archive_lines
from holdfast.archive_files import BLOBS, MANIFEST, RECORDS, Target, blob_name, writing
from holdfast.contracts import BlobStore, Query, Reader, Record
from holdfast.cuts import BLOB_FIELDS, Cut, take
from holdfast.deadlines import remaining
from holdfast.errors import Busy, HoldfastError, IntegrityError, NotFound
from holdfast.kinds import PARTS
from holdfast.model import Exported, Progress
from holdfast.nouns import Ground
from holdfast.shipments import Report

FORMAT = "holdfast export"
VERSION = 1
_ATTEMPTS = 10
_REPORT_EVERY = 500


class Contents(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the manifest says of a file of lines."""

    lines: int
    bytes: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an export has in it."""

    format: str
    version: int
    files: dict[str, Contents]


class BlobLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What blobs.jsonl says of each blob."""

    sha256: str
    bytes: int


def manifest_bytes(manifest: Manifest) -> bytes:
    """The manifest as it stands in its file."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


class _Changed(HoldfastError):
    """Something was deleted from the source while it was exported."""


def export(ground: Ground, path: Path, progress: Report | None) -> Exported:
    """Write one moment of a namespace to a new .zip or folder, whole or not at all."""
    for _ in range(_ATTEMPTS):
        cut = take(ground.store)
        try:
            with writing(path) as target:
                return _Export(cut, ground, target, progress).run()
        except _Changed:
            continue
        finally:
            cut.close()
    raise Busy("sessions are deleted faster than they can be exported; repeat when it is calmer")


class _Export:
    """One attempt to write everything."""

    def __init__(self, cut: Cut, ground: Ground, target: Target, progress: Report | None) -> None:
        self._cut = cut
        self._reader: Reader = ground.store
        self._blobs = ground.blobs
        self._target = target
        self._progress = progress
        self._referred: dict[bytes, Record] = {}
        self._bytes = 0
        self._records = 0

    def run(self) -> Exported:
        """Write the records, then the bytes they refer to, then what all of it is; _Changed if some of it has gone."""
        files = {name: self._write(name, self._lines(name)) for name in RECORDS}
        digests = sorted(self._referred)
        files[BLOBS] = self._write(BLOBS, (self._ship(digest, done) for done, digest in enumerate(digests, 1)))
        if not self._cut.stands() or self._redacted(files):
            raise _Changed("the source has changed meanwhile")
        body = manifest_bytes(Manifest(format=FORMAT, version=VERSION, files=files))
        with self._target.file(MANIFEST) as write:
            write(body)
        digest = hashlib.sha256(body).hexdigest()
        return Exported(records=self._records, blobs=len(digests), bytes=self._bytes, digest=digest)

    def _write(self, name: str, lines: Iterable[bytes]) -> Contents:
        found, count, size = hashlib.sha256(), 0, 0
        # Bytes are files of their own, so the list of them is written when they are.
        kept = list(lines) if name == BLOBS else lines
        with self._target.file(name) as write:
            for line in kept:
                write(line)
                found.update(line)
                count, size = count + 1, size + len(line)
        self._bytes += size
        return Contents(lines=count, bytes=size, sha256=found.hexdigest())

    def _lines(self, name: str) -> Iterator[bytes]:
        kind = RECORDS[name]
        total, done = self._reader.count(Query(kind=kind)), 0
        for record in self._cut.records(kind):
            if kind.name in BLOB_FIELDS:
                digest = record.fields[BLOB_FIELDS[kind.name]]
                if not isinstance(digest, bytes):
                    raise IntegrityError(
                        f"{record.kind.name} {record.key} does not say which bytes are its own; run verify"
                    )
                self._referred[digest] = record
            yield _line(record)
            done += 1
            if done % _REPORT_EVERY == 0:
                self._tell(kind.name, done, max(done, total))
        self._records += done
        self._tell(kind.name, done, done)

    def _tell(self, what: str, done: int, total: int) -> None:
        if remaining() == 0:
            raise Busy("not exported at the timeout; repeat with a longer timeout=")
        if self._progress is not None:
            self._progress(Progress(what=what, done=done, total=total, bytes=self._bytes))

    def _ship(self, digest: bytes, done: int) -> bytes:
        """Write the bytes of a digest to their file; returns the line that says so."""
        found, size = hashlib.sha256(), 0
        with self._target.file(blob_name(digest)) as write:
            for piece in self._pieces(digest):
                write(piece)
                found.update(piece)
                size += len(piece)
        if found.digest() != digest:
            raise IntegrityError(f"blob {digest.hex()} does not match its digest; run verify")
        self._bytes += size
        self._tell("blobs", done, len(self._referred))
        return msgspec.json.encode(BlobLine(sha256=digest.hex(), bytes=size)) + b"\n"

    def _pieces(self, digest: bytes) -> Iterator[bytes]:
        blobs: BlobStore | None = self._blobs
        record = self._referred[digest]
        try:
            if blobs is None:
                raise NotFound("the store was opened without blobs")
            yield from blobs.get(digest)
        except NotFound as cause:
            if self._cut.find(record.kind, [record.key]) == [None]:
                raise _Changed("a record has been deleted meanwhile") from cause
            raise IntegrityError(f"the bytes of {record.kind.name} {record.key} are missing; run verify") from cause

    def _redacted(self, files: dict[str, Contents]) -> bool:
        """Whether messages have lost parts meanwhile, which would then be missing beside them."""
        found = hashlib.sha256()
        for record in self._cut.records(PARTS):
            found.update(_line(record))
        return found.hexdigest() != files[f"{PARTS.name}.jsonl"].sha256


def _line(record: Record) -> bytes:
    if hashlib.sha256(record.body).digest() != record.digest:
        raise IntegrityError(f"{record.kind.name} {record.key} does not match its checksum; run verify")
    try:
        return archive_lines.write(record) + b"\n"
    except UnicodeEncodeError as cause:
        raise IntegrityError(f"{record.kind.name} {record.key} is damaged; run verify: {cause}") from cause
