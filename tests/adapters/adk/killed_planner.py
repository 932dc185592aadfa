"""A program that runs the example agent and kills it: at a commit, before or after it, again and again until it ends.

    python killed_planner.py FOLDER KILLS SEED

It imports ADK once and forks for each life of the agent. It prints what is wrong, one finding a line, and the number of
kills at the end.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import adk_agent
from google.adk.sessions import InMemorySessionService, Session

import holdfast
from holdfast.adapters.adk import HoldfastSessionService

ROOMS = ("one", "two", "three")
NAMES: dict[str, Any] = {"app_name": "trips", "user_id": "ada", "session_id": "kyoto"}


def live(url: str, log: Path, dies_at: int, after: bool) -> None:
    """Go on with the turns that are left, and write down every event that ADK has handed out."""
    with holdfast.open(url) as hf, log.open("a") as acknowledged:
        kill_at(hf, dies_at, after)
        runner = adk_agent.runner(hf)
        asyncio.run(turns(runner, acknowledged))


async def turns(runner: Any, acknowledged: Any) -> None:
    run = runner.run_async

    async def noted(**given: Any) -> Any:
        async for event in run(**given):
            if not event.partial:
                print(event.id, file=acknowledged, flush=True)
            yield event

    runner.run_async = noted
    while (asked := await answered(runner)) < len(ROOMS):
        await adk_agent.ask(runner, "kyoto", ROOMS[asked])


async def answered(runner: Any) -> int:
    session = await runner.session_service.get_session(**NAMES)
    events = [] if session is None else session.events
    return sum(bool(event.content and (event.content.parts[0].text or "").startswith("Done")) for event in events)


def kill_at(hf: holdfast.Holdfast, number: int, after: bool) -> None:
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


def fork(url: str, log: Path, dies_at: int, after: bool) -> bool:
    """One life of the agent; whether it was killed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            live(url, log, dies_at, after)
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if os.WIFEXITED(ended) and os.WEXITSTATUS(ended):
        print("a life of the agent ended with an error")
    return os.WIFSIGNALED(ended)


async def findings(hf: holdfast.Holdfast, acknowledged: list[str]) -> list[str]:
    service: Any = HoldfastSessionService(hf)
    session = await service.get_session(**NAMES)
    ids = [event.id for event in session.events]
    wrong = [f"acknowledged, but lost: {name}" for name in acknowledged if ids.count(name) != 1]
    if acknowledged != [name for name in ids if name in acknowledged]:
        wrong.append("the events are in another order")
    asked = [event.content.parts[0].text for event in session.events if event.author == "user"]
    if asked != list(ROOMS):
        wrong.append(f"asked {asked}")
    again = await replayed(session)
    if (again.state, again.events) != (session.state, session.events):
        wrong.append(f"state {session.state}, but by its events {again.state}")
    if session.state.get("user:booked") != list(ROOMS):
        wrong.append(f"booked {session.state.get('user:booked')}")
    return [*wrong, *(problem.what for problem in hf.verify().problems)]


async def replayed(session: Session) -> Session:
    """The same events in ADK's own service."""
    service = InMemorySessionService()
    copy = await service.create_session(**NAMES)
    for event in session.events:
        await service.append_event(copy, event)
    return await service.get_session(**NAMES)


def warm_up() -> None:
    """Have ADK import what it imports late, once and not in each life."""
    warnings.filterwarnings("ignore")
    with holdfast.open("memory:") as hf:
        asyncio.run(adk_agent.ask(adk_agent.runner(hf), "kyoto", "one"))


def main(folder: Path, kills: int, seed: int) -> None:
    warm_up()
    chance, killed = random.Random(seed), 0
    for trial in itertools.count():
        if killed >= kills:
            break
        url, log = f"sqlite:///{folder}/{trial}.db", folder / f"{trial}.log"
        log.touch()
        while fork(url, log, chance.randint(1, 14), chance.random() < 0.5):
            killed += 1
        with holdfast.open(url) as hf:
            print("\n".join(asyncio.run(findings(hf, log.read_text().split()))), end="")
    print(killed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
