"""Artifacts: files, pictures and other bytes, stored once, by name and version."""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from holdfast import artifact_records as records
from holdfast import blobs as bytes_by_digest
from holdfast import codec, cursors, history, parts
from holdfast.artifact_records import StoredArtifact, artifact_record, read_artifact, view
from holdfast.blobs import Content
from holdfast.commits import commit, get
from holdfast.contracts import Blob, BlobStore, Delete, Insert, Query, Reader, Record, Write
from holdfast.errors import AlreadyExists, InvalidInput, NotFound, Unsupported
from holdfast.filters import Filter
from holdfast.ids import check_id, check_whole, new_id
from holdfast.kinds import ARTIFACTS
from holdfast.model import Artifact, Json, Page
from holdfast.nouns import Noun


class Artifacts(Noun):
    """`hf.artifacts`: put, read, list, and go back to earlier versions."""

    def put(
        self,
        content: Content,
        *,
        name: str,
        session_id: str | None = None,
        content_type: str | None = None,
        metadata: dict[str, Json] | None = None,
        id: str | None = None,
        timeout: float | None = None,
    ) -> Artifact:
        """Store bytes, a binary file, a path or an iterable of bytes under a name, as its next version.

        It is read a megabyte at a time. With an `id` the put is safe to repeat: the same again succeeds, and
        anything else under that id is AlreadyExists.
        """
        draft = StoredArtifact(
            owner="",
            name=check_id(name, "artifact name"),
            version=0,
            id=new_id() if id is None else _check_new_id(id),
            session_id=None if session_id is None else check_id(session_id, "session id"),
            content_type=content_type,
            size=0,
            blob=b"",
            metadata=metadata,
            created_at=0,
        )
        codec.check_json(metadata, "artifact metadata")
        codec.encode_value(draft, StoredArtifact, "artifact")
        # Without a timeout only waiting for the store is limited: a large source may take its time.
        with contextlib.nullcontext() if timeout is None else self._within(timeout):
            if session_id is not None:
                history.must_see(self._store, session_id)
            return self._keep(draft, self._blobs().put(bytes_by_digest.pieces(content)))

    def _blobs(self) -> BlobStore:
        if self._ground.blobs is None:
            raise Unsupported("this store keeps no artifacts; open one that does, or give Holdfast(blobs=…)")
        return self._ground.blobs

    def _keep(self, draft: StoredArtifact, blob: Blob) -> Artifact:
        kept: list[Artifact] = []

        def place(reader: Reader) -> list[Write]:
            stored, writes = self._place(reader, draft, blob)
            kept[:] = [view(stored)]
            return writes

        with self._within(None):
            commit(self._store, place)
        return kept[-1]

    def _place(self, reader: Reader, draft: StoredArtifact, blob: Blob) -> tuple[StoredArtifact, list[Write]]:
        owner = records.owner_of(reader, draft.session_id)
        if owner is None:
            raise NotFound(f"there is no session {draft.session_id!r}; create it with sessions.create(id=…)")
        present = records.find(reader, draft.id)
        if present is not None:
            return _same(read_artifact(present), draft, owner, blob), []
        before = records.newest(reader, owner, draft.name)
        version, at = (0, 0) if before is None else (int(before.key[2]), read_artifact(before).created_at)
        stored = replace(
            draft, owner=owner, version=version + 1, size=blob.size, blob=blob.digest, created_at=self._stamps.next(at)
        )
        return stored, [*records.mark(before, False), Insert(artifact_record(stored))]

    # finding

    def get(
        self,
        id: str | None = None,
        *,
        name: str | None = None,
        session_id: str | None = None,
        version: int | None = None,
        timeout: float | None = None,
    ) -> Artifact | None:
        """An artifact by its id, or by its name the newest or the given version; None if it is not there."""
        if (id is None) == (name is None):
            raise InvalidInput("name either an artifact's id or its name")
        if version is not None:
            check_whole(version, "version")
        with self._within(timeout):
            if id is not None:
                return self._find(check_id(id, "artifact id"))
            record = self._named(check_id(name, "artifact name"), session_id, version)
            return None if record is None else view(read_artifact(record))

    def _named(self, name: str, session_id: str | None, version: int | None) -> Record | None:
        if session_id is not None:
            check_id(session_id, "session id")
        owner = records.owner_of(self._store, session_id)
        if owner is None:
            return None
        if version is None:
            return records.newest(self._store, owner, name)
        return get(self._store, ARTIFACTS, owner, name, version) if 0 < version < 2**63 else None

    def _find(self, id: str) -> Artifact | None:
        digest = parts.digest_of(id)
        if digest is not None:
            found = parts.with_blob(self._store, digest)
            kept = (part.kept for part in found if history.is_alive(self._store, part.history))
            return next(map(records.part_view, kept), None)
        record = records.find(self._store, id)
        stored = None if record is None else read_artifact(record)
        if stored is None or records.owner_of(self._store, stored.session_id) != stored.owner:
            return None  # its session is gone, and it is about to go
        return view(stored)

    def _must_find(self, id: str) -> Artifact:
        found = self._find(check_id(id, "artifact id"))
        if found is None:
            raise NotFound(f"there is no artifact {id!r}")
        return found

    def versions(
        self,
        name: str,
        session_id: str | None = None,
        *,
        limit: int = 100,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Sequence[Artifact]:
        """All versions of a name, newest first; nothing for an unknown name or session."""
        cursors.check_range(limit, offset)
        check_id(name, "artifact name")
        if session_id is not None:
            check_id(session_id, "session id")
        with self._within(timeout):
            owner = records.owner_of(self._store, session_id)
            if owner is None:
                return []
            rows = self._store.scan(Query(kind=ARTIFACTS, prefix=(owner, name), reverse=True, limit=offset + limit))
            return [view(read_artifact(row)) for row in islice(rows, offset, None)]

    def list(
        self,
        *,
        session_id: str | None = None,
        name: str | None = None,
        limit: int = 100,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> Page[Artifact]:
        """The newest version of each name, newest first, without the bytes; of one session, or of all and none."""
        cursors.check_range(limit, offset)
        where = [Filter("newest", "=", 1)]
        if name is not None:
            where.append(Filter("name", "=", check_id(name, "artifact name")))
        listing = ["artifacts", None if session_id is None else check_id(session_id, "session id"), name]
        after = None if cursor is None else tuple(cursors.read(listing, cursor))
        with self._within(timeout):
            owner = None if session_id is None else records.owner_of(self._store, session_id)
            if session_id is not None and owner is None:
                return Page([], None)
            prefix = () if owner is None else (owner,)
            query = Query(
                kind=ARTIFACTS, prefix=prefix, where=tuple(where), order="created_at", reverse=True, after=after
            )
            found = islice(self._living(query), offset, None)
            first = builtins.list(islice(found, limit))
            more = bool(first) and next(found, None) is not None
        position = [first[-1].created_at, first[-1].owner, first[-1].name, first[-1].version] if more else None
        return Page([view(one) for one in first], None if position is None else cursors.make(listing, position))

    def _living(self, query: Query) -> Iterator[StoredArtifact]:
        """What a query finds, without what belongs to sessions that are being deleted."""
        alive: dict[str, bool] = {}
        for row in self._store.scan(query):
            stored = read_artifact(row)
            if stored.owner not in alive:
                alive[stored.owner] = records.owner_of(self._store, stored.session_id) == stored.owner
            if alive[stored.owner]:
                yield stored

    # reading

    def read(self, id: str, *, timeout: float | None = None) -> bytes:
        """The bytes, checked against their digest; NotFound if there is no such artifact."""
        with self._within(timeout):
            return b"".join(self._stream(self._must_find(id), 0, None))

    def stream(
        self, id: str, *, start: int = 0, stop: int | None = None, timeout: float | None = None
    ) -> Iterator[bytes]:
        """The bytes from start up to stop, a piece at a time; NotFound if there is no such artifact.

        Where the whole is read, it ends in IntegrityError if it does not match its digest.
        """
        for value, what in ((start, "start"), (stop, "stop")):
            if value is not None and check_whole(value, what) < 0:
                raise InvalidInput(f"{what} is a whole number from 0, not {value}")
        with self._within(timeout):
            return self._stream(self._must_find(id), start, stop)

    def _stream(self, found: Artifact, start: int, stop: int | None) -> Iterator[bytes]:
        digest = bytes.fromhex(found.digest)
        return bytes_by_digest.checked(self._blobs(), digest, found.size, start, stop, f"artifact {found.id!r}")

    def save(self, id: str, path: str | Path, *, timeout: float | None = None) -> Artifact:
        """Write the bytes to a file, which is there when they are whole and checked, or not at all."""
        if not isinstance(path, str | Path):
            raise InvalidInput(f"path is a string or a pathlib.Path, not {type(path).__name__}")
        with self._within(timeout):
            found = self._must_find(id)
            partial = Path(f"{path}.{new_id()}.part")
            try:
                _write(partial, self._stream(found, 0, None))
                os.replace(partial, path)
            except (OSError, ValueError) as cause:
                raise InvalidInput(f"{path} cannot be written: {cause}") from cause
            finally:
                with contextlib.suppress(OSError, ValueError):
                    partial.unlink(missing_ok=True)
        return found

    # deleting

    def delete(self, id: str, *, timeout: float | None = None) -> None:
        """Remove one version, and the bytes with the last that has them; fine if there is none."""
        check_id(id, "artifact id")
        if parts.digest_of(id) is not None:
            raise InvalidInput(f"{id!r} is part of a message; redact the message instead")

        unkept: builtins.list[bytes] = []

        def place(reader: Reader) -> builtins.list[Write]:
            record = records.find(reader, id)
            if record is None:
                return []
            unkept[:] = [read_artifact(record).blob]
            owner, name, version = record.key
            older = Query(kind=ARTIFACTS, prefix=(owner, name), high=int(version) - 1, reverse=True, limit=1)
            next_newest = next(iter(reader.scan(older)), None) if read_artifact(record).newest else None
            return [Delete(ARTIFACTS, record.key, over=record.digest), *records.mark(next_newest, True)]

        with self._within(timeout):
            commit(self._store, place)
            bytes_by_digest.let_go(self._store, self._ground.blobs, unkept)


def _check_new_id(id: str) -> str:
    if parts.digest_of(check_id(id, "artifact id")) is not None:
        raise InvalidInput(f"{id!r} names the part of a message; choose another id")
    return id


def _same(present: StoredArtifact, draft: StoredArtifact, owner: str, blob: Blob) -> StoredArtifact:
    """The artifact that is there, if it is the one given; AlreadyExists if not."""
    told = (owner, draft.name, blob.digest, draft.content_type, draft.metadata)
    if not codec.same(told, (present.owner, present.name, present.blob, present.content_type, present.metadata)):
        raise AlreadyExists(f"artifact {draft.id!r} exists with other content; give the new one its own id", present)
    return present


def _write(path: Path, pieces: Iterator[bytes]) -> None:
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
