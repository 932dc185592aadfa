"""A SQLite store survives power loss, and the harness that says so notices one that does not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random

import pytest

from holdfast import Message
from holdfast.backends.sqlite import SqliteStore
from holdfast.client import Holdfast
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
    store = open_normal(path, vfs)
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
    tally = power.run(100, opener=opener, until="lost")
    assert "lost" in {problem.broken for problem in tally.problems}


def test_a_store_without_syncs_is_torn_and_not_only_behind() -> None:
    assert power.run(100, may_lose=True, opener=open_unsynced, until="torn").problems != []


class Overtaken(SqliteStore):
    """Lets another store commit, sync and answer while its own commit waits for its sync."""

    meanwhile: Callable[[], None] | None = None

    def _sync(self) -> None:
        if self.meanwhile is not None:
            self.meanwhile()
        super()._sync()


def test_a_commit_that_syncs_after_a_later_one_is_kept_and_so_is_the_later_one(tmp_path: Path) -> None:
    vfs, chance = power.RecordingVFS("holdfast-overtaken"), Random(0)
    path, answered = str(tmp_path / "agents.db"), dict[int, str]()
    first, second = Overtaken(path, vfs=vfs.name), SqliteStore(path, vfs=vfs.name)
    with Holdfast(first) as hf, Holdfast(second) as other:
        for store in (first, second):
            store._con.wal_autocheckpoint(power.CHECKPOINT_PAGES)
        for name in ("first", "second"):
            hf.sessions.create(id=name, title="t")
        begun = len(vfs.log)
        for number in range(20):
            first.meanwhile = partial(_say, other, "second", number, vfs.log, answered)
            _say(hf, "first", number, vfs.log, answered)
        first.meanwhile = None
    vfs.unregister()
    for length, files in _crashed(vfs.log, begun, chance):
        said = _said_after(files, tmp_path / "after")
        for point, name in answered.items():
            if point <= length:
                assert name in said
        assert all(f"first {name.split()[1]}" in said for name in said if name.startswith("second"))


def _say(hf: Holdfast, session: str, number: int, log: list[power.Event], answered: dict[int, str]) -> None:
    hf.sessions.append(session, Message.user(f"{session} {number}"))
    answered[len(log)] = f"{session} {number}"


def _crashed(log: list[power.Event], begun: int, chance: Random) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Crash states with the lengths of the log at which the power failed."""
    disk = power.Disk()
    for length, event in enumerate(log, 1):
        disk.take(event)
        if length >= begun:
            yield length, disk.crashed(chance)


def _said_after(files: dict[str, bytes], folder: Path) -> set[str]:
    """What can be read after a reboot, of a store in which nothing is torn."""
    folder.mkdir()
    for file, content in files.items():
        (folder / file).write_bytes(content)
    with Holdfast(SqliteStore(str(folder / "agents.db"))) as hf:
        assert hf.verify().problems == []
        said = {one.text for name in ("first", "second") for one in hf.sessions.messages(name)}
    shutil.rmtree(folder)
    return said


def test_a_store_that_tears_a_restore_is_caught() -> None:
    assert "torn" in {problem.broken for problem in power.run(600, opener=open_tearing, until="torn").problems}
