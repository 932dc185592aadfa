"""A graph whose process is killed at random points goes on each time, and says what LangGraph's own saver would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import randrange

KILLS = int(os.environ.get("HOLDFAST_TEST_LANGGRAPH_KILLS", "100"))


def test_a_killed_graph_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    seed = randrange(2**32)
    script = Path(__file__).parent / "langgraph_killed.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path, str(KILLS), str(seed)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
