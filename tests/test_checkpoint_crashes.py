"""A checkpoint, a restore, a prune or a gc that dies between any two of its commits leaves the old state or the new."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import Agent, Holdfast, Message
from holdfast.testing.planting import crowd

URLS = ["sqlite:///{folder}/agents.db", "file:///{folder}/agents"]
DEEDS = {
    "checkpoint": 'hf.checkpoints.create("scout", id="new")',
    "restore": 'hf.checkpoints.restore("start")',
    "undo": 'hf.checkpoints.restore("before")',
    "prune": 'hf.checkpoints.prune(session_id="kyoto", keep=2)',
    "gc": "hf.gc()",
    "delete": 'hf.sessions.delete("osaka")',
}
MOST_COMMITS = 40
CROWD = 520

# A process that forks one for each line it reads. That one does a deed on a store, and is gone before the commit after
# so many; how it ended is said.
MORTALS = """
import json, os, signal, sys, traceback
import holdfast, holdfast.backends.file, holdfast.backends.sqlite

def live(url, deed, left):
    hf = holdfast.open(url)
    commit = hf._store.commit
    def mortal(*given):
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return commit(*given)
    hf._store.commit = mortal
    eval(deed)

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        try:
            live(*json.loads(line))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture
def mortals() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", MORTALS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


def furnish(url: str) -> None:
    with holdfast.open(url) as hf:
        hf.agents.save(Agent(id="scout", name="Scout", state={"budget": 400}))
        for city in ("kyoto", "osaka"):
            hf.sessions.create(id=city, agent_id="scout", title=city)
            hf.sessions.append(city, Message.user("one", id=f"{city}-1"), Message.assistant("two", id=f"{city}-2"))
        hf.checkpoints.create("scout", id="start", name="start")
        hf.sessions.append("kyoto", Message.user("three", id="kyoto-3"))
        hf.sessions.create(id="nara", agent_id="scout", title="nara")
        hf.agents.set_state("scout", "budget", 40)
        hf.checkpoints.create("scout", id="before", name="before")
        for step in range(6):
            hf.checkpoints.create(session_id="kyoto", step=step)
        hf.sessions.append("osaka", Message.user("three", id="osaka-3"))


def furnish_crowd(url: str) -> None:
    """An agent whose restore detaches more sessions than one commit can."""
    furnish(url)
    with holdfast.open(url) as hf:
        crowd(hf._store, CROWD)


def look(hf: Holdfast) -> tuple[object, ...]:
    """What a user sees: the agent's state, each session's path, and how many checkpoints there are of what."""
    agent = hf.agents.get("scout")
    assert agent is not None
    sessions = {
        one.id: [message.id for message in hf.sessions.messages(one.id)] for one in hf.sessions.list(limit=1000)
    }
    own = sorted(one.kind for one in hf.checkpoints.list("scout"))
    return agent.state, sessions, own, [one.step for one in hf.checkpoints.list(session_id="kyoto")]


def seen(url: str) -> tuple[object, ...]:
    with holdfast.open(url) as hf:
        assert hf.verify().problems == []
        return look(hf)


def die(mortals: subprocess.Popen[str], url: str, deed: str, commits: int) -> bool:
    """Do the deed, dying before the commit after so many; False if it was done with fewer."""
    assert mortals.stdin is not None
    assert mortals.stdout is not None
    print(json.dumps([url, DEEDS[deed], commits]), file=mortals.stdin, flush=True)
    ended = int(mortals.stdout.readline())
    assert ended in (0, -signal.SIGKILL)
    return ended != 0


def outcomes_of(mortals: subprocess.Popen[str], url: str, deed: str, original: Path) -> list[tuple[object, ...]]:
    """What is seen after a death before each of the deed's commits, and at last after the whole deed."""
    outcomes, trial = [], original.with_name("trial")
    for commits in range(MOST_COMMITS):
        shutil.copytree(original, trial)
        died = die(mortals, url.format(folder=trial), deed, commits)
        outcomes.append(seen(url.format(folder=trial)))
        shutil.rmtree(trial)
        if not died:
            return outcomes
    raise AssertionError(f"{deed} takes more than {MOST_COMMITS} commits")


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("url", URLS)
def test_a_deed_that_dies_between_commits_leaves_old_or_new(
    mortals: subprocess.Popen[str], url: str, deed: str, tmp_path: Path
) -> None:
    original = tmp_path / "original"
    original.mkdir()
    furnish(url.format(folder=original))
    old, outcomes = seen(url.format(folder=original)), outcomes_of(mortals, url, deed, original)
    assert all(outcome in (old, outcomes[-1]) for outcome in outcomes)


@pytest.mark.parametrize("url", URLS)
def test_a_restore_of_more_than_one_commit_leaves_old_or_new(
    mortals: subprocess.Popen[str], url: str, tmp_path: Path
) -> None:
    original = tmp_path / "original"
    original.mkdir()
    furnish_crowd(url.format(folder=original))
    old, outcomes = seen(url.format(folder=original)), outcomes_of(mortals, url, "restore", original)
    assert [outcome == old for outcome in outcomes].count(True) > 4
    assert [outcome == outcomes[-1] for outcome in outcomes].count(True) > 2
    assert all(outcome in (old, outcomes[-1]) for outcome in outcomes)
