"""Reading an export back: all of it is checked, in a store of its own, before the first record comes to its place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from holdfast import archive_lines, codec
from holdfast.archive_files import BLOBS, MANIFEST, MAX_LINE, MAX_MANIFEST, PIECE, RECORDS, Source, blob_name
from holdfast.archives import FORMAT, VERSION, BlobLine, Contents, Manifest, manifest_bytes
from holdfast.arrivals import within_limits
from holdfast.blob_checks import with_blobs
from holdfast.contracts import Blob, Insert, RecordStore, Taken
from holdfast.cuts import BLOB_FIELDS, take
from holdfast.errors import CorruptData, IntegrityError, InvalidInput, MigrationError, NotFound, Unsupported
from holdfast.integrity import Verifier
from holdfast.kinds import Kind

_HEX = 64


class ArchiveBlobs:
    """The bytes in an export, by digest; they can only be read."""

    def __init__(self, source: Source, sizes: dict[bytes, int]) -> None:
        self._source = source
        self._sizes = sizes

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The bytes from start up to stop, in pieces; NotFound at once if there are none."""
        if digest not in self._sizes:
            raise NotFound(f"the export has no bytes {digest.hex()}")
        end = self._sizes[digest] if stop is None else min(stop, self._sizes[digest])
        return self._pieces(digest, start, end)

    def _pieces(self, digest: bytes, start: int, end: int) -> Iterator[bytes]:
        with self._source.open(blob_name(digest)) as file:
            at = 0
            while at < end and (piece := file.read(min(PIECE, end - at))):
                if at + len(piece) > start:
                    yield piece[max(0, start - at) :]
                at += len(piece)

    def list(self) -> Iterator[Blob]:
        """Everything there is, by digest."""
        return (Blob(digest=digest, size=size, put_at=0) for digest, size in self._sizes.items())

    def put(self, chunks: Iterable[bytes]) -> Blob:  # noqa: ARG002 — the same for whatever is given
        """Unsupported: an export is read only."""
        raise Unsupported("an export is not written to; import it into a store")

    def delete(self, digest: bytes, before: int | None = None) -> bool:  # noqa: ARG002 — the same for any
        """Unsupported: an export is read only."""
        raise Unsupported("an export is not written to; import it into a store")


class Check:
    """Checks an export, file by file, and fills an empty store with its records."""

    def __init__(self, source: Source, scratch: RecordStore) -> None:
        self._source = source
        self._scratch = scratch
        self._referred: set[bytes] = set()

    def run(self) -> ArchiveBlobs:
        """Check everything; returns its bytes."""
        manifest = self._manifest()
        for name, kind in RECORDS.items():
            self._fill(name, kind, manifest.files[name])
        blobs = ArchiveBlobs(self._source, dict(self._blobs(manifest.files[BLOBS])))
        self._check_files(blobs)
        report = with_blobs(Verifier(self._scratch).run(), self._scratch, blobs)
        if report.problems:
            one = report.problems[0]
            raise IntegrityError(f"the export is damaged: {one.kind} {one.key}: {one.what}")
        self._check_homes(manifest)
        return blobs

    def _manifest(self) -> Manifest:
        if MANIFEST not in self._source.sizes:
            raise InvalidInput(f"there is no {MANIFEST}; an export is a folder or a .zip that hf.export has made")
        with self._source.open(MANIFEST) as file:
            body = file.read(MAX_MANIFEST + 1)
        manifest = _read_manifest(body)
        if list(manifest.files) != [*RECORDS, BLOBS] or manifest_bytes(manifest) != body:
            raise CorruptData(f"{MANIFEST} is not written as an export writes it; export again")
        return manifest

    def _lines(self, name: str, said: Contents) -> Iterator[bytes]:
        """The lines of a file, which is then known to be the one the manifest speaks of."""
        if self._source.sizes.get(name) != said.bytes:
            raise CorruptData(f"{name} is missing or has another size than {MANIFEST} says; export again")
        found, count, size = hashlib.sha256(), 0, 0
        with self._source.open(name) as file:
            while line := _next_line(file, name, said.bytes - size):
                found.update(line)
                count, size = count + 1, size + len(line)
                yield line[:-1]
        if (count, size, found.hexdigest()) != (said.lines, said.bytes, said.sha256):
            raise IntegrityError(f"{name} is not what {MANIFEST} says; export again")

    def _fill(self, name: str, kind: Kind, said: Contents) -> None:
        records = (archive_lines.read(kind, line) for line in self._lines(name, said))
        last: tuple[object, ...] | None = None
        for batch in within_limits(records):
            for record in batch:
                if last is not None and not last < record.key:
                    raise CorruptData(f"{name} is not in the order of its keys at {record.key}; export again")
                last = record.key
                if kind.name in BLOB_FIELDS:
                    digest = record.fields[BLOB_FIELDS[kind.name]]
                    self._referred |= {digest} if isinstance(digest, bytes) else set()
            try:
                self._scratch.commit([Insert(record) for record in batch])
            except Taken as cause:
                raise CorruptData(f"{name} has something twice that there can be once: {cause}") from cause

    def _blobs(self, said: Contents) -> Iterator[tuple[bytes, int]]:
        last = b""
        for line in self._lines(BLOBS, said):
            try:
                blob = codec.reader_of(BlobLine)(line)
                digest = bytes.fromhex(blob.sha256)
            except (msgspec.MsgspecError, ValueError) as cause:
                raise CorruptData(f"a line of {BLOBS} cannot be read: {cause}") from cause
            if msgspec.json.encode(blob) != line or len(blob.sha256) != _HEX or digest <= last:
                raise CorruptData(f"a line of {BLOBS} is not written as an export writes it; export again")
            if self._source.sizes.get(blob_name(digest)) != blob.bytes:
                raise CorruptData(f"blob {blob.sha256} is missing or has another size than {BLOBS} says; export again")
            last = digest
            yield digest, blob.bytes

    def _check_files(self, blobs: ArchiveBlobs) -> None:
        """CorruptData for a file that nothing speaks of."""
        listed = {blob.digest for blob in blobs.list()}
        named = {MANIFEST, BLOBS, *RECORDS, *map(blob_name, listed)}
        for name in self._source.sizes.keys() - named:
            raise CorruptData(f"{name!r} is not in {BLOBS}; take it out, or export again")
        for digest in listed ^ self._referred:
            raise CorruptData(f"blob {digest.hex()} is not both there and referred to; export again")

    def _check_homes(self, manifest: Manifest) -> None:
        """CorruptData for records that belong to no session and no agent of the export: nobody could see them."""
        cut = take(self._scratch)
        try:
            for name, kind in RECORDS.items():
                count = sum(1 for _ in cut.records(kind))
                if count != manifest.files[name].lines:
                    raise CorruptData(f"{name} has records that belong to nothing in the export; export again")
        finally:
            cut.close()


def _read_manifest(body: bytes) -> Manifest:
    if len(body) > MAX_MANIFEST:
        raise CorruptData(f"{MANIFEST} is larger than one can be; export again")
    try:
        said = msgspec.json.decode(body)
        if isinstance(said, dict) and said.get("format") == FORMAT and said.get("version") != VERSION:
            raise MigrationError(
                f"the export has version {said.get('version')!r}, this Holdfast reads {VERSION}; update it"
            )
        manifest = msgspec.convert(said, Manifest)
    except codec.UNREADABLE as cause:
        raise CorruptData(f"{MANIFEST} cannot be read: {cause}") from cause
    if manifest.format != FORMAT:
        raise CorruptData(f"{MANIFEST} is of something else than an export of Holdfast")
    return manifest


def _next_line(file: BinaryIO, name: str, left: int) -> bytes:
    """The next line with its end; nothing at the end of the file, which must be where it was said to be."""
    line = file.readline(min(MAX_LINE, left + 1))
    if line and not line.endswith(b"\n"):
        raise CorruptData(f"{name} has a line that is cut off or too long; export again")
    if len(line) > left:
        raise CorruptData(f"{name} is larger than {MANIFEST} says; export again")
    return line
