"""SurrealDB survives kill -9 of the process that has the folder open, which is one at a time."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.testing import kills

KILLS = int(os.environ.get("HOLDFAST_SURREAL_KILLS", "10"))


def test_a_kill_loses_nothing_acknowledged_and_tears_nothing(tmp_path: Path) -> None:
    tally = kills.run(f"surrealkv:///{tmp_path}/agents", KILLS, workers=1)
    assert tally.problems == []
    assert tally.crashes == KILLS


def test_a_kill_while_a_store_is_made_leaves_one_that_opens(tmp_path: Path) -> None:
    for seed in range(4):
        assert kills.run(f"surrealkv:///{tmp_path}/{seed}", 3, seed=seed, workers=1, answers=0).problems == []
