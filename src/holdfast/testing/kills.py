"""Kill -9 and look: nothing acknowledged may be missing, nothing may be there by halves.

A worker process carries out steps that the oracle, outside it, has planned. It says "?" before each step
and "!" after it; shortly after the k-th "!" it is killed. What the store then shows must be what the
acknowledged steps made, with each step in flight done whole or not at all. The next kill goes on with the
same store, so that damage adds up.
"""

from __future__ import annotations

import inspect
import os
import runpy
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from random import Random

import msgspec

from holdfast.client import Holdfast, open
from holdfast.testing.oracle import SILENCE_S, Opener, Problem, Tally, check, judge
from holdfast.testing.oracle_model import State, Step
from holdfast.testing.oracle_steps import perform, plan

# the processes


def template(url: str, source: str, name: str) -> None:
    """Fork workers on the store for each line of plans on standard input; whoever wrote it kills them."""
    opener: Opener = runpy.run_path(source)[name] if source else open
    for line in sys.stdin.buffer:
        plans = msgspec.json.decode(line, type=list[list[Step]])
        pids = [_fork(str(index), opener, url, steps) for index, steps in enumerate(plans)]
        killed = sys.stdin.buffer.readline()
        for pid in pids:
            if not killed:
                os.kill(pid, signal.SIGKILL)
            # Not before: a dead worker's pid is nobody else's until it has been waited for.
            os.waitpid(pid, 0)
        _say("all", "gone")


def _fork(who: str, opener: Opener, url: str, steps: list[Step]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            _work(who, opener, url, steps)
        except BaseException as cause:  # noqa: BLE001 — whatever it was, the oracle must hear of it
            _say(who, f"failed: {cause!r}")
            signal.pause()
        finally:
            os._exit(1)
    return pid


def _work(who: str, opener: Opener, url: str, steps: list[Step]) -> None:
    """Open the store and do the steps, each between its two marks; then wait to be killed."""
    _say(who, str(os.getpid()))
    _say(who, "?")
    hf = opener(url)
    _say(who, "!")
    for step in steps:
        _say(who, "?")
        perform(hf, step)
        _say(who, "!")
    signal.pause()


def _say(who: str, what: str) -> None:
    os.write(1, f"{who} {what}\n".encode())


class _Round:
    """One kill: what the workers are to do, and what is heard of them."""

    def __init__(self, process: subprocess.Popen[bytes], plans: list[list[Step]]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._commands = process.stdin
        self._marks = process.stdout
        self._plans = plans
        self._pids: dict[str, int] = {}
        self._asked = [0] * len(plans)
        self._answered = [0] * len(plans)
        self._failures: list[str] = []

    def kill(self, answers: int, chance: Random) -> None:
        """Let the workers begin, and kill them all shortly after so many answers."""
        self._commands.write(msgspec.json.encode(self._plans) + b"\n")
        began = time.perf_counter()
        while (sum(self._answered) < answers or len(self._pids) < len(self._plans)) and not self._failures:
            self._hear()
        self._linger((time.perf_counter() - began) / (answers + 1), chance)
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        self._commands.write(b"killed\n")
        while self._hear():
            pass

    def _linger(self, pace_s: float, chance: Random) -> None:
        """Wait for nothing, for the next step to begin, or for up to two steps' time after that."""
        manner = chance.choice(("at once", "in the next step", "later"))
        asked = sum(self._asked)
        while manner != "at once" and sum(self._asked) == asked and not self._failures:
            self._hear()
        until = time.perf_counter() + chance.uniform(0, 2 * pace_s)
        while manner == "later" and time.perf_counter() < until:
            pass

    def _hear(self) -> bool:
        """Take in the next mark; False when all workers are gone."""
        ready, _, _ = select.select([self._marks], [], [], SILENCE_S)
        line = self._marks.readline() if ready else b""
        who, _, what = line.decode().rstrip().partition(" ")
        if what.isdigit():
            self._pids[who] = int(what)
        elif what == "?":
            self._asked[int(who)] += 1
        elif what == "!":
            self._answered[int(who)] += 1
        elif who != "all":
            self._failures.append(what or f"no worker has said anything for {SILENCE_S} s")
        return bool(line) and who != "all"

    def check(self, before: State, reopen: Callable[[], Holdfast], tally: Tally) -> State:
        """Note what is broken, count the rest, and return what is there now."""
        acked, flying = self._acknowledged(), self._in_flight()
        tally.acknowledged += len(acked)
        tally.in_flight += len(flying)
        tally.problems += [Problem(tally.crashes, "damaged", failure) for failure in self._failures]
        seen, problems = check(tally.crashes, reopen, lambda seen: judge(before, acked, flying, seen))
        tally.problems += problems
        return seen

    def _acknowledged(self) -> list[Step]:
        """The steps that were answered; the first answer is the opening's."""
        marks = zip(self._plans, self._answered, strict=True)
        return [step for steps, high in marks for step in steps[: max(0, high - 1)]]

    def _in_flight(self) -> list[Step]:
        """The steps that were begun and not answered."""
        marks = zip(self._plans, self._answered, self._asked, strict=True)
        return [step for steps, low, high in marks if low for step in steps[low - 1 : high - 1]]


def run(url: str, kills: int, *, seed: int = 0, workers: int = 3, answers: int = 8, opener: Opener = open) -> Tally:
    """Kill workers on the store at this URL so many times, or until something is found.

    Up to `workers` die at once, after up to so many `answers`. `opener` is a function at the top of a
    module, so that the workers' process can find it, too.
    """
    tally, state, chance, numbers = Tally(), State(), Random(seed), count(1)
    with _template(url, opener) as process:
        while tally.crashes < kills and not tally.problems:
            tally.crashes += 1
            heard = chance.randint(0, answers)
            shared = chance.choice([None, *(id for id, chat in state.chats.items() if chat.detached_by is None)])
            owners = [f"w{index}-" for index in range(chance.randint(1, workers) if shared else 1)]
            plans = [plan(chance, state, numbers, owner, heard + 3, shared) for owner in owners]
            round = _Round(process, plans)
            round.kill(heard, chance)
            state = round.check(state, lambda: opener(url), tally)
    return tally


def _template(url: str, opener: Opener) -> subprocess.Popen[bytes]:
    source = "" if opener is open else inspect.getsourcefile(opener) or ""
    # As a file and not as a module: a template needs neither the kit nor pytest, and starts sooner.
    command = [sys.executable, "-P", __file__, url, source, opener.__name__]
    return subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


if __name__ == "__main__":
    template(*sys.argv[1:])
