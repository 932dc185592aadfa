"""Killing an agent of a framework: at a commit, before or after it, again and again until it has done its work.

A program imports its framework once and gives `run` what a life of the agent does and what is wrong at the end; each
life is a fork. It prints what is wrong, one finding a line, and the number of kills at the end.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from pages import ROOT

import holdfast
from holdfast import Holdfast

KILLS = os.environ.get("HOLDFAST_ADAPTER_KILLS", "30")

Live = Callable[[Holdfast, TextIO], None]
Findings = Callable[[Holdfast, list[str]], list[str]]


def run(live: Live, findings: Findings, commits: int) -> None:
    """Kill lives of an agent, which has about so many commits to make and notes what is acknowledged, line by line."""
    folder, kills, chance, killed = Path(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3]), 0
    for trial in itertools.count():
        if killed >= kills:
            break
        url, log = f"sqlite:///{folder}/{trial}.db", folder / f"{trial}.log"
        log.touch()
        while _fork(live, url, log, chance.randint(1, commits), chance.random() < 0.5):
            killed += 1
        with holdfast.open(url) as hf:
            problems = [problem.what for problem in hf.verify().problems]
            for wrong in (*findings(hf, log.read_text().split()), *problems):
                print(wrong)
    print(killed)


def _fork(live: Live, url: str, log: Path, dies_at: int, after: bool) -> bool:
    """One life of the agent; whether it was killed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with holdfast.open(url) as hf, log.open("a") as acknowledged:
                _kill_at(hf, dies_at, after)
                live(hf, acknowledged)
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if os.WIFEXITED(ended) and os.WEXITSTATUS(ended):
        print("a life of the agent ended with an error")
    return os.WIFSIGNALED(ended)


def _kill_at(hf: Holdfast, number: int, after: bool) -> None:
    commit, commits = hf._store.commit, itertools.count(1)

    def counted(*given: Any) -> Any:
        here = next(commits)
        if here == number and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = commit(*given)
        if here == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    hf._store.commit = counted  # type: ignore[method-assign, assignment]


def findings_of(program: Path, folder: Path) -> list[str]:
    """Run such a program; what it found wrong."""
    command: list[str | Path] = [sys.executable, program, folder, KILLS, "7"]
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'examples'}"}
    done = subprocess.run(command, timeout=600, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    *wrong, killed = done.stdout.split("\n")[:-1]
    assert int(killed) >= int(KILLS)
    return wrong
