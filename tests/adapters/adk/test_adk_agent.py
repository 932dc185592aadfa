"""An agent run by ADK itself on Holdfast: it goes on after kill -9, the example and the page are true."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from pathlib import Path

import pytest
from adapter_kills import findings_of
from pages import ROOT, run_snippets


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


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_snippets("docs/google-adk.md")
