"""A SQLite store survives power loss, and the harness that says so notices one that does not."""

from __future__ import annotations

import os

import pytest

from holdfast.backends.sqlite import SqliteStore
from holdfast.testing import power

STATES = int(os.environ.get("HOLDFAST_POWER_STATES", "2000"))


def open_normal(path: str, vfs: str) -> SqliteStore:
    """Open a store that syncs only its checkpoints."""
    store = SqliteStore(path, vfs=vfs, durability="normal")
    store._con.wal_autocheckpoint(power.CHECKPOINT_PAGES)
    return store


def open_unsynced(path: str, vfs: str) -> SqliteStore:
    """Open a store that never syncs, as a store must not."""
    store = power.open_often_checkpointed(path, vfs)
    store._con.execute("PRAGMA synchronous = OFF")
    return store


def test_a_power_loss_loses_nothing_acknowledged_and_tears_nothing() -> None:
    tally = power.run(STATES)
    assert tally.problems == []
    assert tally.crashes == STATES


def test_with_durability_normal_a_power_loss_takes_at_most_the_last_steps() -> None:
    assert power.run(STATES // 4, may_lose=True, opener=open_normal).problems == []


@pytest.mark.parametrize("opener", [open_unsynced, open_normal])
def test_a_store_that_acknowledges_before_it_syncs_is_caught(opener: power.StoreOpener) -> None:
    tally = power.run(100, opener=opener)
    assert "lost" in {problem.broken for problem in tally.problems}


def test_a_store_without_syncs_is_torn_and_not_only_behind() -> None:
    assert power.run(100, may_lose=True, opener=open_unsynced).problems != []
