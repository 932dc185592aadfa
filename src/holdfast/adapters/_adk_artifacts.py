"""ADK's artifacts as Holdfast's: of a session, or with a name that begins with `user:`, of the user."""

from __future__ import annotations

from typing import Any

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts import artifact_util as references
from google.adk.artifacts.base_artifact_service import ArtifactVersion, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from msgspec import Struct

from holdfast import artifact_records as records
from holdfast import blobs
from holdfast.adapters import _adk_places as places
from holdfast.adapters._adk_events import MARK
from holdfast.adapters._awaited import Awaited
from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.commits import commit
from holdfast.contracts import Delete, Query, Reader, Write
from holdfast.kinds import ARTIFACTS
from holdfast.model import Artifact

_USER = "user:"
_MOST = 2**31 - 1
_REFERENCES = 5  # as many as ADK's own services follow


class File(Struct, frozen=True):
    """A file as ADK names it; without a session it is the user's."""

    app: str
    user: str
    session: str | None
    name: str


def _file(app: str, user: str, session: str | None, name: str) -> File:
    if name.startswith(_USER):
        return File(app, user, None, name)
    if session is None:
        raise InputValidationError("Session ID must be provided for session-scoped artifacts.")
    return File(app, user, session, name)


class HoldfastArtifactService(BaseArtifactService):
    """ADK's artifacts in a Holdfast store, their bytes stored once; takes a `Holdfast` or an `AsyncHoldfast`."""

    def __init__(self, hf: Holdfast | AsyncHoldfast) -> None:
        self._awaited = Awaited(hf)
        self._hf = self._awaited.hf

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Keep a file as its next version, and say which that is; the first is 0."""
        file = _file(app_name, user_id, session_id, filename)
        return await self._awaited.call(self._save, file, ensure_part(artifact), custom_metadata)

    def _save(self, file: File, part: types.Part, custom: dict[str, Any] | None) -> int:
        content, mime_type, rest = _taken_apart(part, file)
        note = {"part": rest, **({"custom": custom} if custom else {})}
        owner = self._owner(file) or self._begun(file)
        kept = self._hf.artifacts.put(
            content, name=file.name, session_id=owner, content_type=mime_type, metadata={MARK: note}
        )
        return kept.version - 1

    def _owner(self, file: File) -> str | None:
        """The session that has the file, or None if it is not there."""
        store = self._hf._store
        if file.session is None:
            found = places.user_of(store, file.app, file.user)
        else:
            found = places.session_of(store, file.app, file.user, file.session)
        return None if found is None else found.id

    def _begun(self, file: File) -> str:
        """A session to keep the file in: the user's, or a mere holder where the file's own is not in this store."""
        if file.session is not None:
            return places.hold(self._hf, file.app, file.user, file.session)
        own = places.id_of(file.app, file.user)

        def place(reader: Reader) -> list[Write]:
            known = places.look(reader, own) is not None
            return [] if known else places.new_user(self._hf, file.app, file.user, {})

        self._hf._ground.sweeps.finish_session(own)
        commit(self._hf._store, place)
        return own

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """The newest or the given version, references followed; None if it is not there."""
        file = _file(app_name, user_id, session_id, filename)
        return await self._awaited.call(self._load, file, version)

    def _load(self, file: File, version: int | None) -> types.Part | None:
        for left in range(_REFERENCES, -1, -1):
            kept = self._version(file, version)
            part = None if kept is None else self._put_together(kept)
            if part is None or part == types.Part() or references._is_rewind_tombstone(part):
                return None
            if not references.is_artifact_ref(part):
                return part
            meant = references.resolve_artifact_reference(
                file_uri=part.file_data.file_uri,
                app_name=file.app,
                user_id=file.user,
                session_id=file.session,
                remaining_depth=left,
            )
            file, version = _file(meant.app_name, meant.user_id, meant.session_id, meant.filename), meant.version
        return None

    def _version(self, file: File, version: int | None) -> Artifact | None:
        owner = self._owner(file)
        if owner is None or (version is not None and version < 0):
            return None
        number = None if version is None else version + 1
        return self._hf.artifacts.get(name=file.name, session_id=owner, version=number)

    def _put_together(self, kept: Artifact) -> types.Part:
        rest = _noted(kept).get("part", {"inline_data": {}})
        content = self._hf.artifacts.read(kept.id)
        if "text" in rest:
            return types.Part.model_validate({**rest, "text": content.decode()})
        part = types.Part.model_validate({name: value for name, value in rest.items() if name != "inline_data"})
        if "inline_data" in rest:
            part.inline_data = types.Blob(**rest["inline_data"], mime_type=kept.content_type, data=content)
        return part

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """The names of a session's files and of the user's, or only of the user's."""
        return await self._awaited.call(self._keys, app_name, user_id, session_id)

    def _keys(self, app: str, user: str, session: str | None) -> list[str]:
        files = [File(app, user, None, "")] + ([] if session is None else [File(app, user, session, "")])
        owners = [owner for owner in map(self._owner, files) if owner is not None]
        return sorted(one.name for owner in owners for one in self._hf.artifacts.list(session_id=owner, limit=_MOST))

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Remove all versions of a file at once; fine if there is none."""
        await self._awaited.call(self._delete, _file(app_name, user_id, session_id, filename))

    def _delete(self, file: File) -> None:
        name = self._owner(file)
        unkept: list[bytes] = []

        def place(reader: Reader) -> list[Write]:
            owner = None if name is None else records.owner_of(reader, name)
            if owner is None:
                return []
            rows = reader.scan(Query(kind=ARTIFACTS, prefix=(owner, file.name)))
            unkept[:] = [records.read_artifact(row).blob for row in rows]
            return [Delete(ARTIFACTS, (owner, file.name))] if unkept else []

        commit(self._hf._store, place)
        blobs.let_go(self._hf._store, self._hf._ground.blobs, unkept)

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """The numbers of a file's versions, from 0 on."""
        file = _file(app_name, user_id, session_id, filename)
        return [kept.version - 1 for kept in await self._awaited.call(self._versions, file)]

    def _versions(self, file: File) -> list[Artifact]:
        owner = self._owner(file)
        found = [] if owner is None else self._hf.artifacts.versions(file.name, owner, limit=_MOST)
        return [*reversed(found)]

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """A file's versions with what was said about them, the oldest first."""
        file = _file(app_name, user_id, session_id, filename)
        return [_described(file, kept) for kept in await self._awaited.call(self._versions, file)]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """What was said about the newest or the given version; None if it is not there."""
        file = _file(app_name, user_id, session_id, filename)
        kept = await self._awaited.call(self._version, file, version)
        return None if kept is None else _described(file, kept)


def _taken_apart(part: types.Part, file: File) -> tuple[bytes, str | None, dict[str, Any]]:
    """The bytes of a part, their type, and the rest of it as JSON; it names the field that the bytes are of."""
    if part.inline_data is not None:
        blob = part.inline_data
        bare = part.model_copy(update={"inline_data": None}).model_dump(mode="json", exclude_none=True)
        kept = blob.model_dump(mode="json", exclude_none=True, exclude={"data", "mime_type"})
        return blob.data or b"", blob.mime_type, {**bare, "inline_data": kept}
    rest: dict[str, Any] = part.model_dump(mode="json", exclude_none=True)
    if part.text is not None:
        return part.text.encode(), "text/plain", {**rest, "text": ""}
    if part.file_data is None:
        raise InputValidationError("Not supported artifact type.")
    if references.is_artifact_ref(part):
        _check_reference(part.file_data.file_uri, file)
        return b"", None, rest
    return b"", part.file_data.mime_type, rest


def _check_reference(uri: str, file: File) -> None:
    meant = references.parse_artifact_uri(uri)
    if not meant:
        raise InputValidationError(f"Invalid artifact reference URI: {uri}")
    references.validate_artifact_reference_scope(
        app_name=file.app, user_id=file.user, session_id=file.session, parsed_uri=meant
    )


def _noted(kept: Artifact) -> dict[str, Any]:
    return (kept.metadata or {}).get(MARK) or {}


def _described(file: File, kept: Artifact) -> ArtifactVersion:
    version = kept.version - 1
    return ArtifactVersion(
        version=version,
        canonical_uri=references.get_artifact_uri(file.app, file.user, file.name, version, file.session),
        custom_metadata=_noted(kept).get("custom", {}),
        create_time=kept.created_at.timestamp(),
        mime_type=kept.content_type,
    )
