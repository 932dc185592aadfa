"""A SQLite store survives power loss, and the harness that says so notices one that does not."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from holdfast.backends.sqlite import SqliteStore
from holdfast.contracts import Insert, Put, Rebase, Write
from holdfast.kinds import HEADS
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


class TearingStore(SqliteStore):
    """Moves the heads of a restore in one commit and writes the rest of it in another, as a store must not."""

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        decided = rebase(self) if writes is None and rebase is not None else writes or []
        heads = [write for write in decided if isinstance(write, Put) and write.record.kind is HEADS]
        if any(isinstance(write, Insert) and b'"recovery"' in write.record.body for write in decided):
            super().commit(heads)
            super().commit([write for write in decided if write not in heads])
            return decided
        return super().commit(decided)


def open_tearing(path: str, vfs: str) -> SqliteStore:
    """Open a store that tears restores."""
    return TearingStore(path, vfs=vfs)


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


def test_a_store_that_tears_a_restore_is_caught() -> None:
    assert "torn" in {problem.broken for problem in power.run(600, opener=open_tearing).problems}
