"""ADK's artifacts on Holdfast are those of ADK's own service: the same calls, the same results."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.artifacts.artifact_util import get_artifact_uri
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from holdfast import Holdfast
from holdfast.adapters.adk import HoldfastArtifactService, HoldfastSessionService

pytest_plugins = ["adapter_stores"]

NAMES: dict[str, Any] = {"app_name": "app", "user_id": "ada"}
HERE: dict[str, Any] = {**NAMES, "session_id": "s"}
PARTS = [
    types.Part(inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png", display_name="Map")),
    types.Part(inline_data=types.Blob(data=b"", mime_type="image/png")),
    types.Part(text="a text with ü"),
    types.Part(text=""),
    types.Part(file_data=types.FileData(file_uri="gs://b/film.mp4", mime_type="video/mp4")),
    types.Part(inline_data=types.Blob(data=b"x", mime_type="text/x"), thought_signature=b"\xff"),
]
REWOUND = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))


async def keep(service: BaseArtifactService) -> list[Any]:
    """A scenario with every kind of call, and what it shows."""
    seen: list[Any] = []
    for part in PARTS:
        seen.append(await service.save_artifact(**HERE, filename="a/b.png", artifact=part, custom_metadata={"n": 1}))
    await service.save_artifact(**HERE, filename="user:notes", artifact={"text": "mine"})
    await service.save_artifact(**NAMES, filename="user:notes", artifact=PARTS[2])
    await service.save_artifact(app_name="app", user_id="bob", session_id="s", filename="b", artifact=PARTS[0])
    for version in (None, -1, 0, 1, 2, 3, 4, 5, 6):
        seen.append(await service.load_artifact(**HERE, filename="a/b.png", version=version))
        found = await service.get_artifact_version(**HERE, filename="a/b.png", version=version)
        seen.append(found and (found.version, found.mime_type, found.custom_metadata))
    for names in (HERE, NAMES, {**NAMES, "session_id": "other"}, {"app_name": "app", "user_id": "bob"}):
        seen.append(await service.list_artifact_keys(**names))
    for name in ("a/b.png", "user:notes", "none"):
        seen.append(await service.list_versions(**HERE, filename=name))
        seen.append([one.version for one in await service.list_artifact_versions(**HERE, filename=name)])
    seen.append(await service.load_artifact(**{**NAMES, "session_id": "other"}, filename="user:notes"))
    seen.append(await service.load_artifact(**{**NAMES, "session_id": "other"}, filename="a/b.png"))
    uri = get_artifact_uri("app", "ada", "a/b.png", 2, "s")
    refers = types.Part(file_data=types.FileData(file_uri=uri, mime_type="x/y"))
    await service.save_artifact(**HERE, filename="ref", artifact=refers)
    seen.append(await service.load_artifact(**HERE, filename="ref"))
    await service.save_artifact(**HERE, filename="a/b.png", artifact=REWOUND)
    seen.append(await service.load_artifact(**HERE, filename="a/b.png"))
    await service.delete_artifact(**HERE, filename="a/b.png")
    await service.delete_artifact(**HERE, filename="a/b.png")
    await service.delete_artifact(**NAMES, filename="user:none")
    seen.append(await service.list_artifact_keys(**HERE))
    seen.append(await service.save_artifact(**HERE, filename="a/b.png", artifact=PARTS[0]))
    seen += [await refused(service, types.Part()), await refused(service, _call())]
    with pytest.raises(InputValidationError):
        await service.save_artifact(**NAMES, filename="of no session", artifact=PARTS[0])
    return seen


async def refused(service: BaseArtifactService, part: types.Part) -> str:
    with pytest.raises(InputValidationError) as error:
        await service.save_artifact(**HERE, filename="odd", artifact=part)
    return str(error.value)


def _call() -> types.Part:
    return types.Part(function_call=types.FunctionCall(name="f"))


def test_the_same_calls_have_the_same_results_as_with_adks_service(hf: Holdfast) -> None:
    assert asyncio.run(keep(HoldfastArtifactService(hf))) == asyncio.run(keep(InMemoryArtifactService()))


@pytest.mark.parametrize("uri", ["artifact://odd", get_artifact_uri("app", "bob", "b", 0, "s")])
def test_a_reference_stays_with_its_user(uri: str, hf: Holdfast) -> None:
    part = types.Part(file_data=types.FileData(file_uri=uri, mime_type="x/y"))
    assert asyncio.run(refused(HoldfastArtifactService(hf), part))


def test_references_that_go_round_end_in_an_error(hf: Holdfast) -> None:
    async def scenario() -> None:
        service = HoldfastArtifactService(hf)
        for name, other in (("a", "b"), ("b", "a")):
            uri = get_artifact_uri("app", "ada", other, 0, "s")
            refers = types.Part(file_data=types.FileData(file_uri=uri, mime_type="x/y"))
            await service.save_artifact(**HERE, filename=name, artifact=refers)
        with pytest.raises(InputValidationError):
            await service.load_artifact(**HERE, filename="a")

    asyncio.run(scenario())


def test_files_that_were_there_before_their_session_are_its_own(hf: Holdfast) -> None:
    async def scenario() -> None:
        files, sessions = HoldfastArtifactService(hf), HoldfastSessionService(hf)
        await files.save_artifact(**HERE, filename="early", artifact=PARTS[0])
        assert await sessions.get_session(**HERE) is None
        assert (await sessions.list_sessions(**NAMES)).sessions == []
        assert (await sessions.create_session(**HERE, state={"n": 1})).state == {"n": 1}
        assert await files.load_artifact(**HERE, filename="early") == PARTS[0]
        await sessions.delete_session(**HERE)
        assert await files.load_artifact(**HERE, filename="early") is None

    asyncio.run(scenario())


def test_a_users_files_outlive_their_sessions_and_go_with_the_user(hf: Holdfast) -> None:
    async def scenario() -> None:
        files, sessions = HoldfastArtifactService(hf), HoldfastSessionService(hf)
        await sessions.create_session(**HERE, state={"user:x": 1})
        await files.save_artifact(**HERE, filename="user:notes", artifact=PARTS[2])
        await sessions.delete_session(**HERE)
        assert await files.load_artifact(**NAMES, filename="user:notes") == PARTS[2]
        hf.sessions.delete(user_id="ada")
        assert await files.load_artifact(**NAMES, filename="user:notes") is None
        hf.gc(grace_s=0)
        assert hf.stats().sessions == 0

    asyncio.run(scenario())
