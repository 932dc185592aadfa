"""An agent run by pydantic-ai itself on Holdfast: it goes on after kill -9, the example and the page are true."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from pathlib import Path

import pytest
from adapter_kills import findings_of
from pages import ROOT, run_snippets


def test_the_framework_is_the_promised_version() -> None:
    assert version("pydantic-ai-slim").startswith("2.")


def test_a_killed_agent_goes_on_and_has_lost_nothing(tmp_path: Path) -> None:
    assert findings_of(Path(__file__).parent / "killed_talker.py", tmp_path) == []


def test_the_example_runs_and_goes_on_where_it_ended(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    import pydantic_ai_agent  # noqa: PLC0415

    for life in (1, 2):
        asyncio.run(pydantic_ai_agent.main(f"sqlite:///{tmp_path}/trips.db"))
        shown = capsys.readouterr().out.split("\n")
        assert shown[:3] == [
            f"Done: {room} is booked." for room in ("the first ryokan", "a table by the river", "a tea house")
        ]
        assert len(shown) == 3 + 8 * life + 3


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_snippets("docs/pydantic-ai.md")
