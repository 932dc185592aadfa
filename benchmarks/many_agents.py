"""32 agents of one process that append at the same time, on the disk: rates, paired round by round."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import floors
from append import opened
from figures import Section, table
from peers import PEERS
from rounds import DISK, TEXT, folder
from syncs import counted

import holdfast
from holdfast import Message

WORKLOAD = "32 async agents, disk"
AGENTS = 32
BARE, OURS, SAVER = "one commit each", "Holdfast", "LangGraph AsyncSqliteSaver"

Round = Callable[[int], float]  # every agent appends so often; appends per second of all
Append = Callable[[int], Coroutine[Any, Any, object]]


def at_once(runner: asyncio.Runner, append: Append) -> Round:
    async def agent(session: int, each: int) -> None:
        for _ in range(each):
            await append(session)

    async def run(each: int) -> float:
        start = time.perf_counter()
        await asyncio.gather(*(agent(session, each) for session in range(AGENTS)))
        return AGENTS * each / (time.perf_counter() - start)

    return lambda each: runner.run(run(each))


def one_by_one(append: Callable[[], None]) -> Round:
    def run(each: int) -> float:
        start = time.perf_counter()
        for _ in range(AGENTS * each):
            append()
        return AGENTS * each / (time.perf_counter() - start)

    return run


@contextmanager
def ours(url: str, runner: asyncio.Runner) -> Iterator[Round]:
    async def begin() -> tuple[holdfast.AsyncHoldfast, list[str]]:
        hf = await holdfast.aopen(url)
        return hf, [(await hf.sessions.create(title="bench")).id for _ in range(AGENTS)]

    hf, sessions = runner.run(begin())
    yield at_once(runner, lambda session: hf.sessions.append(sessions[session], Message.user(TEXT)))
    runner.run(hf.close())


@contextmanager
def saver(path: Path, runner: asyncio.Runner) -> Iterator[Round]:
    """LangGraph's own calls for one message each, without its loop: an empty checkpoint and a write."""
    aio: Any = import_module("langgraph.checkpoint.sqlite.aio")
    checkpoints: Any = import_module("langgraph.checkpoint.base")
    entered: Any = aio.AsyncSqliteSaver.from_conn_string(str(path))
    made = runner.run(entered.__aenter__())
    runner.run(made.setup())
    configs: list[Any] = [{"configurable": {"thread_id": f"t{n}", "checkpoint_ns": ""}} for n in range(AGENTS)]

    async def append(session: int) -> None:
        checkpoint = checkpoints.empty_checkpoint()
        configs[session] = await made.aput(configs[session], checkpoint, {"source": "loop", "step": 1}, {})
        await made.aput_writes(configs[session], [("messages", TEXT)], "task")

    yield at_once(runner, append)
    runner.run(entered.__aexit__(None, None, None))


def results(quick: bool) -> Section:
    section = Section(title="32 agents in one process, SQLite, on the disk")
    rounds, each = (2, 2) if quick else (7, 12)
    rates: dict[str, list[float]] = {}
    with folder(DISK) as at, asyncio.Runner() as runner, ExitStack() as stack:
        ways: dict[str, Round] = {
            BARE: one_by_one(stack.enter_context(floors.bare(at))),
            OURS: stack.enter_context(ours(f"sqlite:///{at / 'ours.db'}", runner)),
            SAVER: stack.enter_context(saver(at / "saver.db", runner)),
        }
        for name in PEERS:
            peer = stack.enter_context(opened(name, at, runner, AGENTS))
            ways[name] = at_once(runner, peer.append)
        rates = taken(ways, rounds, each)
    told(section, rates)
    synced = counted("holdfast, async", AGENTS * each, AGENTS)
    if synced.per_call is not None:
        section.tell(WORKLOAD, "syncs per append", synced.per_call, "")
    return section


def taken(ways: dict[str, Round], rounds: int, each: int) -> dict[str, list[float]]:
    """The rates of every round but the first; one that ends in an error counts as 0."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            try:
                rate = ways[name](each)
            except (sqlite3.Error, import_module("sqlalchemy.exc").SQLAlchemyError) as cause:
                print(f"{name}: {cause}")
                rate = 0.0
            if number:
                rates[name].append(rate)
    return rates


def told(section: Section, rates: dict[str, list[float]]) -> None:
    rows = []
    for name, found in rates.items():
        median = statistics.median(found)
        section.note(WORKLOAD, name, median, "appends/s")
        ratio = over(rates[OURS], found)
        rows.append([name, f"{median:,.0f}", "–" if ratio is None else f"{ratio:,.1f} ×"])
    section.say(*table(["way", "appends/s", "Holdfast's rate, of it"], rows))
    for name, against in (("OpenAI SQLiteSession's rate", "OpenAI SQLiteSession"), (f"the rate of {BARE}", BARE)):
        ratio = over(rates[OURS], rates[against])
        if ratio is not None:
            section.note(WORKLOAD, f"of {name}", ratio, "×")


def over(ours: list[float], others: list[float]) -> float | None:
    """The median of paired ratios; None if the other failed in some round."""
    return statistics.median(one / other for one, other in zip(ours, others, strict=True)) if all(others) else None
