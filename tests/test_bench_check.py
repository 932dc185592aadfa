"""`make bench-check` can fail: it tells what falls short, what was not measured, and that it has nothing to read.

And sections that need no peers still measure what is promised of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
CHECK = ROOT / "benchmarks/check.py"
APPEND = ("append, sync", "disk, of a bare INSERT + commit")
FLOOR = "disk, the same statements by hand with values, of a bare INSERT + commit"


def _judge(path: Path) -> tuple[int, dict[str, str]]:
    """How it ended, and the word it had for each line."""
    done = subprocess.run([sys.executable, CHECK, path], capture_output=True, text=True, timeout=60, check=False)
    words = ("falls short", "out of reach", "missing", "holds")
    found = [(line, word) for line in done.stdout.splitlines() for word in words if line.startswith(word)]
    return done.returncode, {line.rsplit("  ", 1)[-1]: word for line, word in found}


@pytest.fixture(scope="module")
def promised() -> list[dict[str, Any]]:
    """A figure for every line, each exactly at its limit."""
    asked = (
        "import json, limits;"
        "print(json.dumps([dict(workload=l.workload, name=l.name, value=l.limit, unit='×') for l in limits.LIMITS]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=ROOT / "benchmarks", capture_output=True, text=True, timeout=60, check=True
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _results(path: Path, figures: list[dict[str, Any]], quick: bool = False) -> Path:
    path.write_text(
        json.dumps({"taken": "now", "machine": "m", "versions": {}, "quick": quick, "figures": figures, "curves": []})
    )
    return path


def _with_append(figures: list[dict[str, Any]], value: float) -> list[dict[str, Any]]:
    return [{**one, "value": value} if (one["workload"], one["name"]) == APPEND else one for one in figures]


def test_all_lines_at_their_limits_hold(promised: list[dict[str, Any]], tmp_path: Path) -> None:
    code, words = _judge(_results(tmp_path / "r.json", promised))
    assert (code, set(words.values()), len(words)) == (0, {"holds"}, len(promised))


def test_a_line_above_its_limit_falls_short(promised: list[dict[str, Any]], tmp_path: Path) -> None:
    code, words = _judge(_results(tmp_path / "r.json", _with_append(promised, 1.16)))
    assert code == 1
    assert [line for line, word in words.items() if word == "falls short"] == [": ".join(APPEND)]


def test_a_line_whose_floor_misses_its_limit_is_out_of_reach(promised: list[dict[str, Any]], tmp_path: Path) -> None:
    floor = {"workload": APPEND[0], "name": FLOOR, "unit": "×"}
    short = _with_append(promised, 1.3)
    code, words = _judge(_results(tmp_path / "r.json", [*short, {**floor, "value": 1.2}]))
    assert (code, words[": ".join(APPEND)]) == (1, "out of reach")
    code, words = _judge(_results(tmp_path / "r.json", [*short, {**floor, "value": 1.1}]))
    assert (code, words[": ".join(APPEND)]) == (1, "falls short")
    code, words = _judge(_results(tmp_path / "r.json", [*promised, {**floor, "value": 1.2}]))
    assert (code, words[": ".join(APPEND)]) == (0, "holds")


def test_a_rate_below_its_limit_falls_short(promised: list[dict[str, Any]], tmp_path: Path) -> None:
    slower = [{**one, "value": 4.9} if one["name"] == "of OpenAI SQLiteSession's rate" else one for one in promised]
    code, words = _judge(_results(tmp_path / "r.json", slower))
    assert code == 1
    assert words["32 async agents, disk: of OpenAI SQLiteSession's rate"] == "falls short"


def test_a_line_that_was_not_measured_is_missing(promised: list[dict[str, Any]], tmp_path: Path) -> None:
    left = [one for one in promised if (one["workload"], one["name"]) != APPEND]
    code, words = _judge(_results(tmp_path / "r.json", left))
    assert (code, words[": ".join(APPEND)]) == (1, "missing")


def test_a_figure_that_is_no_number_is_refused(promised: list[dict[str, Any]], tmp_path: Path) -> None:
    path = _results(tmp_path / "r.json", promised)
    path.write_text(path.read_text().replace("1.15", "null"))
    assert _judge(path) == (1, {})


def test_a_quick_run_proves_nothing(promised: list[dict[str, Any]], tmp_path: Path) -> None:
    assert _judge(_results(tmp_path / "r.json", promised, quick=True))[0] == 1


def test_a_figure_just_above_its_limit_does_not_look_like_it(promised: list[dict[str, Any]], tmp_path: Path) -> None:
    path = _results(tmp_path / "r.json", _with_append(promised, 1.1503))
    shown = subprocess.run([sys.executable, CHECK, path], capture_output=True, text=True, timeout=60, check=False)
    (line,) = (line for line in shown.stdout.splitlines() if line.endswith(": ".join(APPEND)))
    assert line.split()[2:4] == ["1.1503", "×"]


def test_without_results_it_says_so_and_fails(tmp_path: Path) -> None:
    assert _judge(tmp_path / "none.json") == (1, {})


@pytest.mark.parametrize("section", ["checkpoints", "search", "large"])
def test_a_section_measures_every_line_that_is_promised_of_its_workloads(section: str) -> None:
    code = (
        f"import limits, {section};"
        f"found = {{(f.workload, f.name) for f in {section}.results(True).figures}};"
        "of = {workload for workload, _ in found};"
        "asked = {(l.workload, l.name) for l in limits.LIMITS if l.workload in of};"
        "assert asked and asked <= found, asked - found"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "benchmarks", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
