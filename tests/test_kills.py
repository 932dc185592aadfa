"""A store survives kill -9, and the harness that says so notices one that does not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import holdfast
from holdfast import Holdfast
from holdfast.backends.sqlite import SqliteStore
from holdfast.contracts import Insert, Key, Query, Rebase, Record, Write
from holdfast.kinds import CHECKPOINTS, Kind
from holdfast.testing import kills
from holdfast.testing.oracle import Opener

KILLS = int(os.environ.get("HOLDFAST_KILLS", "300"))
URLS = ["sqlite:///{folder}/agents.db", "file:///{folder}/agents"]


@pytest.mark.parametrize("url", URLS)
def test_a_kill_loses_nothing_acknowledged_and_tears_nothing(url: str, tmp_path: Path) -> None:
    tally = kills.run(url.format(folder=tmp_path), KILLS)
    assert tally.problems == []
    assert tally.crashes == KILLS


def open_as_on_a_disk(url: str) -> Holdfast:
    """Open a store that takes every sync for a slow one, and so makes its log longer ahead."""
    hf = holdfast.open(url)
    assert isinstance(hf._store, SqliteStore)
    hf._store._log._doubts = 0
    return hf


def test_a_kill_while_the_log_is_made_longer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    tally = kills.run(f"sqlite:///{tmp_path}/agents.db", KILLS // 3, opener=open_as_on_a_disk)
    assert tally.problems == []
    assert tally.crashes == KILLS // 3


@pytest.mark.parametrize("url", URLS)
def test_a_kill_while_a_store_is_made_leaves_one_that_opens(url: str, tmp_path: Path) -> None:
    for seed in range(8):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert kills.run(url.format(folder=folder), 3, seed=seed, answers=0).problems == []


class HastyStore(SqliteStore):
    """Answers at once and commits a moment later, as a store must not."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._thread = ThreadPoolExecutor(1)
        self._later: Future[Sequence[Write]] = self._thread.submit(list)

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        self._later.result()
        decided = rebase(self) if writes is None and rebase is not None else writes or []
        if not self.is_hasty(decided):
            return super().commit(decided)
        self._later = self._thread.submit(super().commit, decided)
        return decided

    def is_hasty(self, _decided: Sequence[Write]) -> bool:
        return True

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        self._later.result()
        return super().get(kind, keys)

    def scan(self, query: Query) -> Iterator[Record]:
        self._later.result()
        return super().scan(query)


class HastyWithCheckpoints(HastyStore):
    """Is hasty only when a checkpoint is made."""

    def is_hasty(self, _decided: Sequence[Write]) -> bool:
        return any(isinstance(write, Insert) and write.record.kind is CHECKPOINTS for write in _decided)


def open_hasty(url: str) -> Holdfast:
    """Open a store that acknowledges before it commits."""
    return Holdfast(HastyStore(url.removeprefix("sqlite:///")))


def open_hasty_with_checkpoints(url: str) -> Holdfast:
    """Open a store that acknowledges checkpoints before it commits them."""
    return Holdfast(HastyWithCheckpoints(url.removeprefix("sqlite:///")))


@pytest.mark.parametrize("opener", [open_hasty, open_hasty_with_checkpoints])
def test_a_store_that_acknowledges_before_it_commits_is_caught(opener: Opener, tmp_path: Path) -> None:
    tally = kills.run(f"sqlite:///{tmp_path}/agents.db", 600, workers=1, opener=opener)
    assert "lost" in {problem.broken for problem in tally.problems}


def open_forgetful(url: str) -> Holdfast:
    """Open a store that is another one for each process."""
    return Holdfast(SqliteStore(f"{url.removeprefix('sqlite:///')}-{os.getpid()}"))


def test_a_store_that_another_process_cannot_see_is_caught(tmp_path: Path) -> None:
    tally = kills.run(f"sqlite:///{tmp_path}/agents.db", 20, workers=1, opener=open_forgetful)
    assert "lost" in {problem.broken for problem in tally.problems}
