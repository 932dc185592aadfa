"""An agent run by ADK itself on Holdfast: it goes on after kill -9, the example and the page are true."""

from __future__ import annotations

import asyncio
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from adapter_kills import findings_of
from google.adk.artifacts import InMemoryArtifactService
from google.adk.memory import InMemoryMemoryService
from google.adk.sessions import InMemorySessionService
from pages import ROOT, run_snippets

from holdfast import Holdfast

pytest_plugins = ["adapter_stores"]


def test_the_framework_is_the_promised_version() -> None:
    assert version("google-adk").startswith("2.")


def test_a_killed_agent_goes_on_and_has_lost_nothing(tmp_path: Path) -> None:
    assert findings_of(Path(__file__).parent / "killed_planner.py", tmp_path) == []


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL")
def test_the_example_runs_and_goes_on_where_it_ended(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    import adk_agent  # noqa: PLC0415

    for life in (1, 2):
        asyncio.run(adk_agent.main(f"sqlite:///{tmp_path}/trips.db"))
        shown = capsys.readouterr().out.split("\n")
        assert shown[:2] == ["Done: the first ryokan is booked.", "Done: a table by the river is booked."]
        assert len(shown) == 2 + 10 * life + 3
        assert f"tokens: {100 * life}" in shown


async def travel(runner: Any) -> list[Any]:
    """The example's agent in a longer life, which has a step back in time; what there is to see at the end."""
    import adk_agent  # noqa: PLC0415

    names = {"app_name": "trips", "user_id": "ada", "session_id": "kyoto"}
    said = [await adk_agent.ask(runner, "kyoto", room) for room in ("one", "two", "three")]
    session = await runner.session_service.get_session(**names)
    third = [event.invocation_id for event in session.events if event.author == "user"][2]
    await runner.rewind_async(user_id="ada", session_id="kyoto", rewind_before_invocation_id=third)
    said.append(await adk_agent.ask(runner, "kyoto", "four"))
    session = await runner.session_service.get_session(**names)
    await runner.memory_service.add_session_to_memory(session)
    files = runner.artifact_service
    versions = await files.list_versions(**names, filename="voucher.txt")
    vouchers = [await files.load_artifact(**names, filename="voucher.txt", version=one) for one in versions]
    found = await runner.memory_service.search_memory(app_name="trips", user_id="ada", query="Done two")
    remembered = [entry.content for entry in found.memories]
    return [said, session.state, [*map(without_ids, session.events)], vouchers, remembered]


def without_ids(event: Any) -> Any:
    said = event.model_dump(mode="json", exclude_none=True, exclude={"id", "timestamp", "invocation_id"})
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "an id", json.dumps(said))


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL")
def test_an_agent_lives_the_same_life_as_on_adks_own_services(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    import adk_agent  # noqa: PLC0415

    ours = asyncio.run(travel(adk_agent.runner(hf)))
    runner = adk_agent.runner(hf)
    runner.session_service = InMemorySessionService()
    runner.artifact_service = InMemoryArtifactService()
    runner.memory_service = InMemoryMemoryService()
    assert ours == asyncio.run(travel(runner))


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_snippets("docs/google-adk.md")
