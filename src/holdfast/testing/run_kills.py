"""Kill -9 an agent at work, again and again, and look: nothing done twice, nothing lost, nothing kept quiet.

A worker process drives a run; it says "!" at many points of its life. Shortly after the k-th it is killed, and the
next one enters the run again. What its tools did stands in a file outside the store.
"""

from __future__ import annotations

import faulthandler
import inspect
import os
import runpy
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.client import Holdfast, open
from holdfast.testing.oracle import SILENCE_S, Opener
from holdfast.testing.run_agent import Worker
from holdfast.testing.run_oracle import Watch

DECISIONS = ("retry", "retry", "skip", "fail", "raise")


class Life(Struct, frozen=True):
    """What one worker is to do."""

    task: int
    effects: str
    decision: str


class RunTally(Struct):
    """What a number of kills came to; `interrupted` of them met a run that was not over."""

    kills: int = 0
    interrupted: int = 0
    completed: int = 0
    reported: int = 0
    problems: list[str] = []


# the processes


def template(url: str, source: str, name: str) -> None:
    """Fork a worker for each line on standard input; whoever wrote it kills the worker."""
    opener: Opener = runpy.run_path(source)[name] if source else open
    for line in sys.stdin.buffer:
        pid = _fork(opener, url, msgspec.json.decode(line, type=Life))
        if not sys.stdin.buffer.readline():
            os.kill(pid, signal.SIGKILL)
        # Not before: a dead worker's pid is nobody else's until it has been waited for.
        _, status = os.waitpid(pid, 0)
        _say(f"gone {os.waitstatus_to_exitcode(status)}")


def _fork(opener: Opener, url: str, life: Life) -> int:
    pid = os.fork()
    if pid == 0:
        faulthandler.register(signal.SIGUSR1)  # to tell where it stands, if it says nothing for too long
        try:
            _say(f"pid {os.getpid()}")
            hf = opener(url)
            Worker(life.task, Path(life.effects), life.decision, _say).live(hf)
        except BaseException as cause:  # noqa: BLE001 — whatever it was, the oracle must hear of it
            _say(f"broke {cause!r}")
        finally:
            signal.pause()
            os._exit(1)
    return pid


def _say(what: str) -> None:
    os.write(1, what.encode() + b"\n")


class _Round:
    """One life of the agent, and what is heard of it."""

    def __init__(self, process: subprocess.Popen[bytes], life: Life) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._commands = process.stdin
        self._marks = process.stdout
        self._life = life
        self._pid = 0
        self._points = 0
        self.asked: Counter[str] = Counter()
        self.ending = ""
        self.broken: list[str] = []

    def kill(self, points: int, chance: Random) -> None:
        """Let the worker live, and kill it shortly after so many points."""
        self._commands.write(msgspec.json.encode(self._life) + b"\n")
        began = time.perf_counter()
        while not self._pid or (self._points < points and not self._over()):
            self._hear()
        pace_s = (time.perf_counter() - began) / (points + 1)
        until = time.perf_counter() + chance.choice((0, 0.5, 2)) * chance.uniform(0, pace_s)
        while time.perf_counter() < until:
            pass
        os.kill(self._pid, signal.SIGKILL)
        self._commands.write(b"killed\n")
        while self._hear():
            pass

    def _over(self) -> bool:
        return bool(self.ending or self.broken)

    def _hear(self) -> bool:
        """Take in what the worker says next; False when it is gone."""
        ready, _, _ = select.select([self._marks], [], [], SILENCE_S)
        line = self._marks.readline() if ready else b""
        what, _, rest = line.decode().strip().partition(" ")
        if what == "pid":
            self._pid = int(rest)
        elif what == "asked":
            self.asked[rest] += 1
        elif what in ("completed", "raised"):
            self.ending = what
        elif what == "!":
            self._points += 1
        elif what != "gone":
            self.broken.append(rest or self._silence())
        elif rest != str(-signal.SIGKILL):
            self.broken.append(f"the worker ended with {rest} before it was killed")
        return bool(line) and what != "gone"

    def _silence(self) -> str:
        """Have the worker tell on standard error where it stands, and say what became of it."""
        status = Path(f"/proc/{self._pid}/status").read_text().split("State:")[1].split("\n")[0].strip()
        os.kill(self._pid, signal.SIGUSR1)
        return f"the worker, {status}, has said nothing for {SILENCE_S} s"


def run(url: str, folder: Path, kills: int, *, seed: int = 0, points: int = 9, opener: Opener = open) -> RunTally:
    """Kill an agent on the store at this URL until so many kills have met a run, or something is found.

    Effects go into `folder`. `opener` is a function at the top of a module, so that the workers' process can find
    it, too.
    """
    tally, chance, watch = RunTally(), Random(seed), Watch(0)
    with _template(url, opener) as process, opener(url) as hf:
        while tally.interrupted < kills and tally.kills < 3 * kills and not tally.problems:
            tally.kills += 1
            effects = folder / f"effects {tally.completed}"
            round = _Round(process, Life(tally.completed, str(effects), chance.choice(DECISIONS)))
            round.kill(chance.randint(0, points), chance)
            tally.interrupted += not round.ending
            tally.problems += [*round.broken, *watch.judge(hf, _lines(effects), round.asked)]
            if _has_completed(hf, tally.completed):
                tally.problems += watch.judge_end(hf)
                tally.reported += watch.reported
                tally.completed += 1
                watch = Watch(tally.completed)
        tally.problems += [str(problem) for problem in hf.verify().problems]
    return tally


def _has_completed(hf: Holdfast, task: int) -> bool:
    return any(run.status == "completed" for run in hf.runs.list(f"task {task}"))


def _lines(path: Path) -> Counter[str]:
    return Counter(path.read_text().split()) if path.exists() else Counter()


def _template(url: str, opener: Opener) -> subprocess.Popen[bytes]:
    source = "" if opener is open else inspect.getsourcefile(opener) or ""
    # As a file and not as a module: a template needs neither the kit nor pytest, and starts sooner.
    command: list[Any] = [sys.executable, "-P", __file__, url, source, opener.__name__]
    return subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


if __name__ == "__main__":
    template(*sys.argv[1:])
