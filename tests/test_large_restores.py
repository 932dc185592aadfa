"""Restores and checkpoints of more sessions than a commit holds, at the true sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import Holdfast
from holdfast.testing.domain_checkpoints import begin
from holdfast.testing.driving import texts, users
from holdfast.testing.planting import crowd


@pytest.fixture(params=["memory:", "sqlite:///{}/agents.db", "file:///{}/agents"])
def hf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    with holdfast.open(request.param.format(tmp_path)) as hf:
        yield hf


def test_twelve_hundred_sessions_are_moved_and_detached_and_back(hf: Holdfast) -> None:
    begin(hf)
    old = crowd(hf._store, 600)
    made = hf.checkpoints.create("scout")
    for name in old:
        hf.sessions.append(name, *users(f"later {name}"))
    new = crowd(hf._store, 600, "new")
    result = hf.checkpoints.restore(made.id)
    assert (sorted(result.sessions), sorted(result.detached), result.missing) == (old, new, [])
    assert {len(texts(hf, name)) for name in old} == {0}
    undone = hf.checkpoints.restore(result.recovery.id)
    assert (len(undone.sessions), undone.detached, hf.stats().sessions) == (1200, [], 1200)
    assert [texts(hf, name) for name in old] == [[f"later {name}"] for name in old]
    assert hf.verify().problems == []


def test_hundreds_of_sessions_are_restored_in_one_commit_and_back(hf: Holdfast) -> None:
    begin(hf, "a")
    made = hf.checkpoints.create("scout")
    names = crowd(hf._store, 450)
    result = hf.checkpoints.restore(made.id)
    assert (sorted(result.detached), [one.id for one in hf.sessions.list(agent_id="scout")]) == (names, ["a"])
    hf.checkpoints.restore(result.recovery.id)
    assert hf.stats().sessions == 451
