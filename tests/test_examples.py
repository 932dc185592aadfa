"""The examples run offline, as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUN_BY = [*(ROOT / "tests" / "adapters").glob("*/test_*.py"), ROOT / "tests" / "test_openai_agents.py"]
ELSEWHERE = "".join(test.read_text() for test in RUN_BY)  # what frameworks' own tests run, where those are installed
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if f"import {path.stem}" not in ELSEWHERE]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path) -> None:
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout
