"""What other systems have stored is taken over as it is: every sample, once, and nothing of the source changes."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from importing import FIXTURES, SAMPLES, TRANSCRIPT, counts, stored

import holdfast
from holdfast import Holdfast, importers
from holdfast.importers import Taken

# agents, sessions, messages, checkpoints, tool calls in messages, executions, usages
EXPECTED: dict[tuple[str, str], tuple[int, ...]] = {
    ("aethershell", "samples/aethershell"): (2, 3, 11, 3, 4, 4, 0),
    ("smooth", "samples/smooth"): (2, 2, 12, 6, 3, 0, 0),
    ("smooth", "samples/smooth/checkpoints.db"): (2, 2, 8, 7, 0, 0, 0),
    ("ares", "samples/ares"): (2, 4, 10, 6, 0, 2, 0),
    ("behest", "samples/behest/behest.db"): (0, 2, 13, 0, 3, 3, 2),
    ("langgraph", "imports/langgraph.sqlite"): (0, 2, 17, 20, 4, 0, 4),
    ("openai", "imports/openai.db"): (0, 2, 11, 0, 2, 0, 0),
    ("claude_code", f"imports/{TRANSCRIPT.name}"): (0, 2, 13, 0, 2, 0, 5),
    ("chat", "imports/chat.jsonl"): (0, 1, 5, 0, 1, 0, 0),
}
SOURCES = pytest.mark.parametrize(("format", "path"), EXPECTED, ids=[path for _, path in EXPECTED])


@pytest.fixture
def hf() -> Holdfast:
    return holdfast.open("memory:")


# what holds for every format


@SOURCES
def test_a_sample_comes_over_whole(hf: Holdfast, format: str, path: str) -> None:
    taken = importers.read(hf, FIXTURES / path)
    expected = EXPECTED[format, path]
    assert (taken.format, counts(taken)) == (format, expected[:4] + expected[5:])
    assert stored(hf) == expected
    assert hf.verify().ok


@SOURCES
@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_importing_again_adds_nothing(format: str, path: str, backend: str, tmp_path: Path) -> None:
    url = "memory:" if backend == "memory" else f"sqlite:///{tmp_path}/agents.db"
    with holdfast.open(url) as hf:
        importers.read(hf, FIXTURES / path, format=format)
        before = hf.stats(), hf.sessions.list().items, hf.agents.list().items
        assert counts(importers.read(hf, FIXTURES / path, format=format)) == (0,) * 6
        assert (hf.stats(), hf.sessions.list().items, hf.agents.list().items) == before


@SOURCES
def test_the_source_stays_as_it_is(hf: Holdfast, format: str, path: str, tmp_path: Path) -> None:
    source = tmp_path / Path(path).name
    (shutil.copytree if (FIXTURES / path).is_dir() else shutil.copyfile)(FIXTURES / path, source)
    before = contents(tmp_path)
    importers.read(hf, source, format=format)
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_everything_comes_into_one_store_without_getting_mixed_up(hf: Holdfast) -> None:
    for path in ("aethershell", "smooth", "smooth/checkpoints.db", "ares", "behest/behest.db"):
        importers.read(hf, SAMPLES / path)
    assert stored(hf) == (8, 13, 54, 22, 10, 9, 2)


def test_every_format_is_described_and_progress_is_told(hf: Holdfast) -> None:
    told: list[Taken] = []
    taken = importers.read(hf, SAMPLES / "ares", progress=told.append)
    assert {format for format, _ in EXPECTED} == set(importers.FORMATS)
    assert told[-1] == taken
    assert [one.checkpoints for one in told[:6]] == [1, 2, 3, 4, 5, 6]
