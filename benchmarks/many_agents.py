"""32 agents of one process that append at the same time, on the disk: rates, paired round by round."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import floors
import msgspec
from append import opened
from figures import Section, table
from log_pages import per_call
from peers import PEERS
from rounds import DISK, TEXT, burst, folder, quantile, uncollected
from syncs import counted

import holdfast
from holdfast import Message

WORKLOAD = "32 async agents, disk"
AGENTS = 32
BARE, OURS, SAVER = "one commit each", "Holdfast", "LangGraph AsyncSqliteSaver"
KEPT, ADAPTED = "Holdfast, a checkpoint with each", "Holdfast in OpenAI Agents"
HAND = f"the same statements by hand, {AGENTS} in one commit"
VALUES = "the same statements by hand with values"
TASKS = f"{VALUES}, {AGENTS} tasks of a loop"

Round = Callable[[int], list[float]]  # every agent appends so often; the seconds that each append took
Append = Callable[[int], Coroutine[Any, Any, object]]
Way = Callable[[holdfast.AsyncHoldfast, str], Callable[[], Coroutine[Any, Any, object]]]  # of one session of ours


class Rates(msgspec.Struct):
    """Of one way: appends per second of each round, and the seconds of each append."""

    rounds: list[float] = []
    waits: list[float] = []

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def mean(self) -> float:
        """Of all rounds together, since each has as many appends."""
        return statistics.harmonic_mean(self.rounds)

    def of(self, other: Rates) -> float | None:
        """The median of paired ratios; None if the other failed in some round."""
        if not all(other.rounds):
            return None
        return statistics.median(one / two for one, two in zip(self.rounds, other.rounds, strict=True))

    def row(self, name: str, ours: Rates) -> list[str]:
        p99 = f"{quantile(self.waits, 0.99) * 1000:,.1f}" if self.waits else "–"
        ratio = ours.of(self)
        return [name, f"{self.median:,.0f}", f"{self.mean:,.0f}", p99, "–" if ratio is None else f"{ratio:,.2f} ×"]


LOGS = {HAND: "hand", OURS: "ours"}  # the files whose pages are counted
HEADING = ["way", "appends/s", "by the mean", "p99 ms", "Holdfast's rate, of it"]


def at_once(runner: asyncio.Runner, append: Append) -> Round:
    async def agent(session: int, each: int) -> list[float]:
        waits = []
        for _ in range(each):
            start = time.perf_counter()
            await append(session)
            waits.append(time.perf_counter() - start)
        return waits

    async def run(each: int) -> list[float]:
        return [wait for waits in await asyncio.gather(*(agent(n, each) for n in range(AGENTS))) for wait in waits]

    return lambda each: runner.run(run(each))


def one_by_one(append: Callable[[], None]) -> Round:
    return lambda each: burst(append)(AGENTS * each)


def all_together(by_hand: floors.Together) -> Round:
    return lambda each: [wait for wait in burst(by_hand.append)(each) for _ in range(AGENTS)]


def appending(hf: holdfast.AsyncHoldfast, session: str) -> Callable[[], Coroutine[Any, Any, object]]:
    return lambda: hf.sessions.append(session, Message.user(TEXT))


def keeping(hf: holdfast.AsyncHoldfast, session: str) -> Callable[[], Coroutine[Any, Any, object]]:
    return lambda: hf.checkpoints.create(session_id=session, messages=[Message.user(TEXT)])


def adapted(hf: holdfast.AsyncHoldfast, session: str) -> Callable[[], Coroutine[Any, Any, object]]:
    adapter: Any = import_module("holdfast.adapters.openai_agents").HoldfastSession(hf, session)
    return lambda: adapter.add_items([{"role": "user", "content": TEXT}])


@contextmanager
def ours(url: str, runner: asyncio.Runner, way: Way = appending) -> Iterator[Round]:
    async def begin() -> tuple[holdfast.AsyncHoldfast, list[str]]:
        hf = await holdfast.aopen(url)
        return hf, [(await hf.sessions.create(title="bench")).id for _ in range(AGENTS)]

    hf, sessions = runner.run(begin())
    appends = [way(hf, session) for session in sessions]
    yield at_once(runner, lambda session: appends[session]())
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


@contextmanager
def floors_and_ours(at: Path, behind: int) -> Iterator[dict[str, Round]]:
    """The ways in a folder, without the peers, each behind so many appends of every agent."""
    with asyncio.Runner() as runner, ExitStack() as stack:
        tasks = stack.enter_context(closing(floors.OnTasks(at / "tasks.db", AGENTS)))
        ways = {
            BARE: one_by_one(stack.enter_context(floors.bare(at))),
            HAND: all_together(stack.enter_context(closing(floors.Together(at / "hand.db", AGENTS)))),
            TASKS: at_once(runner, lambda session: tasks.append_to(session, Message.user(TEXT))),
            OURS: stack.enter_context(ours(f"sqlite:///{at / 'ours.db'}", runner)),
        }
        for way in ways.values():
            way(behind)
        yield ways


def beside_floors(section: Section, rounds: int, each: int) -> None:
    """With nobody else around, who would leave the caches cold."""
    with folder(DISK) as at, floors_and_ours(at, 2 * each) as ways:
        rates = taken(ways, rounds, each)
        pages = {name: per_call(at / f"{file}.db", partial(ways[name], 1), 4) for name, file in LOGS.items()}
    told(section, "beside the floors", rates)
    beside(section, rates, BARE, f"the rate of {BARE}")
    for name, each_turn in pages.items():
        section.tell("pages of the log per append, 32 agents", name, each_turn / AGENTS, "")
    synced = counted("holdfast, async", AGENTS * each, AGENTS)
    if synced.per_call is not None:
        section.tell(WORKLOAD, "syncs per append", synced.per_call, "")
    section.say("")


def beside_peers(section: Section, rounds: int, each: int) -> None:
    with folder(DISK) as at, asyncio.Runner() as runner, ExitStack() as stack:
        tasks = stack.enter_context(closing(floors.OnTasks(at / "tasks.db", AGENTS)))
        ways: dict[str, Round] = {
            BARE: one_by_one(stack.enter_context(floors.bare(at))),
            TASKS: at_once(runner, lambda session: tasks.append_to(session, Message.user(TEXT))),
            OURS: stack.enter_context(ours(f"sqlite:///{at / 'ours.db'}", runner)),
            KEPT: stack.enter_context(ours(f"sqlite:///{at / 'kept.db'}", runner, keeping)),
            ADAPTED: stack.enter_context(ours(f"sqlite:///{at / 'adapted.db'}", runner, adapted)),
            SAVER: stack.enter_context(saver(at / "saver.db", runner)),
        }
        for name in PEERS:
            peer = stack.enter_context(opened(name, at, runner, AGENTS))
            ways[name] = at_once(runner, peer.append)
        rates = taken(ways, rounds, each)
    told(section, "beside peers", rates)
    beside(section, rates, "OpenAI SQLiteSession", "OpenAI SQLiteSession's rate")


def results(quick: bool) -> Section:
    section = Section(title="32 agents in one process, SQLite, on the disk")
    each = 2 if quick else 12
    beside_floors(section, 2 if quick else 21, each)
    beside_peers(section, 2 if quick else 7, each)
    return section


def beside(section: Section, rates: dict[str, Rates], name: str, shown: str) -> None:
    """Our rate and the floor's, of another way's."""
    for way, whose in ((OURS, ""), (TASKS, f"{VALUES}, ")):
        ratio = rates[way].of(rates[name])
        if ratio is not None:
            section.note(WORKLOAD, f"{whose}of {shown}", ratio, "×")


def taken(ways: dict[str, Round], rounds: int, each: int) -> dict[str, Rates]:
    """Every round but the first; one that ends in an error counts as a rate of 0."""
    rates = {name: Rates() for name in ways}
    names = list(ways)
    for number in range(rounds + 1):
        for name in random.sample(names, len(names)):
            start = time.perf_counter()
            try:
                with uncollected():
                    waits = ways[name](each)
            except (sqlite3.Error, import_module("sqlalchemy.exc").SQLAlchemyError) as cause:
                print(f"{name}: {cause}", file=sys.stderr)
                waits = []
            if number:
                rates[name].rounds.append(len(waits) / (time.perf_counter() - start))
                rates[name].waits.extend(waits)
    return rates


def told(section: Section, beside: str, rates: dict[str, Rates]) -> None:
    for name, found in rates.items():
        section.note(f"{WORKLOAD}, {beside}", name, found.median, "appends/s")
    rows = (found.row(name, rates[OURS]) for name, found in rates.items())
    section.say(f"### {beside.capitalize()}", "", *table(HEADING, rows))
