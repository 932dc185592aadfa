"""PostgreSQL: appends beside bare psycopg, 32 agents beside a bare pool, and the peers that run there.

The server is the one the tests use, with its own settings of durability: every commit is synced.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import graphs
import processes
import psycopg
from figures import Section, table
from floors import Spoken
from graphs import Graph
from many_agents import AGENTS, HEADING, Round, at_once, taken
from many_agents import ours as ours_at_once
from peers import Alchemy
from rounds import TEXT, Taken, awaited, burst, folder, interleaved
from servers import FOLDER, Server, postgres

import holdfast
from holdfast import Message

WORKLOAD = "PostgreSQL"
BARE, POOL, OURS, ALCHEMY = "bare psycopg", "bare pool", "Holdfast", "OpenAI SQLAlchemySession"
HAND = "the same statements by hand"
TABLES = (
    "CREATE TABLE hand_heads (LIKE holdfast.heads INCLUDING ALL)",
    "CREATE TABLE hand_messages (LIKE holdfast.messages INCLUDING ALL)",
)
BEGUN = "INSERT INTO hand_heads (space, session_id, digest, body) VALUES (1, %s, %s, '')"
APPEND = """
WITH moved AS (
    UPDATE hand_heads SET status = %s, detached_by = %s, archived = %s, created_at = %s, updated_at = %s,
    digest = %s, body = %s WHERE space = %s AND session_id = %s AND digest = %s RETURNING session_id)
INSERT INTO hand_messages (space, history, branch, seq, id, n, link, digest, body)
SELECT 1, session_id, 1, %s, %s, %s, %s, %s, %s FROM moved
"""


class ByHand(Spoken):
    """One session's appends in tables like ours: compare-and-set of the head and INSERT by one statement, one trip."""

    def __init__(self, con: psycopg.Connection[Any]) -> None:
        super().__init__()
        self._con = con
        for statement in TABLES:
            con.execute(statement)
        con.execute(BEGUN, (self._session, self._head_digest))

    def append(self) -> None:
        moved, (_, message_id, n, *rest, _) = self.said()
        done = self._con.execute(APPEND, (*moved[:10], n, message_id, n, *rest), prepare=True)
        if done.rowcount != 1:
            raise RuntimeError("lost the race")


@contextmanager
def served() -> Iterator[Server]:
    """A server of its own on the disk, where the user can get to as whom it runs if we are root."""
    with folder(Path("/var/tmp")) as at:
        at.chmod(0o755)
        os.environ[FOLDER] = str(at)  # for the programs, if they have to be copied to where that user can get
        inner = at / "server"
        inner.mkdir()
        server = postgres.start(inner)
        try:
            yield server
        finally:
            postgres.halt(inner)
            _gone(server.pid)


def _gone(pid: int) -> None:
    """Wait until a process has ended, ten seconds at most."""
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)


def alchemy(url: str, sessions: int) -> Alchemy:
    return Alchemy(Path(), sessions, url.replace("postgresql://", "postgresql+asyncpg://"))


def appends(section: Section, url: str, rounds: int) -> None:
    """One append beside the floors, and then beside the peer; every way has a connection of its own."""
    with asyncio.Runner() as runner, ExitStack() as stack:
        bare, hand = (stack.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(2))
        hf = stack.enter_context(holdfast.open(url))
        session = hf.sessions.create(title="bench").id
        ways = {
            BARE: burst(lambda: bare.execute(processes.INSERT, (processes.BODY,), prepare=True)),
            OURS: burst(lambda: hf.sessions.append(session, Message.user(TEXT))),
        }
        found = interleaved(ways | {HAND: burst(ByHand(hand).append)}, rounds)
        peer = alchemy(url, 1)
        runner.run(peer.open())
        beside = interleaved(ways | {ALCHEMY: awaited(runner, partial(peer.append, 0))}, rounds)
        runner.run(peer.close())
    section.note(WORKLOAD, f"append, of {BARE}", found[OURS].of(found[BARE]), "×")
    section.note(WORKLOAD, f"append, {HAND}, of {BARE}", found[HAND].of(found[BARE]), "×")
    section.note(WORKLOAD, f"append beside a peer, of {BARE}", beside[OURS].of(beside[BARE]), "×")
    section.note(WORKLOAD, f"append beside a peer, {ALCHEMY}, of {BARE}", beside[ALCHEMY].of(beside[BARE]), "×")
    _told(section, "beside the floors", found)
    _told(section, "beside a peer", beside)


def _told(section: Section, where: str, found: dict[str, Taken]) -> None:
    rows = []
    for name, way in found.items():
        section.note(f"{WORKLOAD}, one append {where}", name, way.median_us, "µs")
        rows.append([name, f"{way.median_us:,.0f}", f"{way.p99_us:,.0f}", f"{way.of(found[BARE]):.2f} ×"])
    section.say(f"### One append, {where}", "", *table(["way", "median µs", "p99 µs", f"of {BARE}"], rows))


@contextmanager
def pooled(url: str) -> Iterator[Round]:
    """32 threads, each with a connection of its own from a pool."""
    pools: Any = import_module("psycopg_pool")
    with pools.ConnectionPool(url, min_size=AGENTS, max_size=AGENTS, open=True) as pool:
        pool.wait()
        with ThreadPoolExecutor(AGENTS) as threads:
            yield lambda each: [
                wait for waits in threads.map(partial(_insert, pool), [each] * AGENTS) for wait in waits
            ]


def _insert(pool: Any, each: int) -> list[float]:
    def append() -> None:
        with pool.connection() as con:
            con.execute(processes.INSERT, (processes.BODY,), prepare=True)

    return burst(append)(each)


def many(section: Section, url: str, rounds: int, each: int) -> None:
    with asyncio.Runner() as runner, ExitStack() as stack:
        peer = alchemy(url, AGENTS)
        runner.run(peer.open())
        ways: dict[str, Round] = {
            POOL: stack.enter_context(pooled(url)),
            OURS: stack.enter_context(ours_at_once(url, runner)),
            ALCHEMY: at_once(runner, peer.append),
        }
        rates = taken(ways, rounds, each)
        runner.run(peer.close())
    for name, found in rates.items():
        section.note(f"{WORKLOAD}, 32 agents", name, found.median, "appends/s")
    for whose, name in (("a bare pool", POOL), ("SQLAlchemySession", ALCHEMY)):
        ratio = rates[OURS].of(rates[name])
        if ratio is not None:
            section.note(WORKLOAD, f"32 agents, of {whose}'s rate", ratio, "×")
    rows = (found.row(name, rates[OURS]) for name, found in rates.items())
    section.say("### 32 agents", "", *table(HEADING, rows))


def steps(section: Section, url: str, count: int) -> None:
    """A message and a checkpoint at every step, beside LangGraph's saver in databases of their own."""
    with psycopg.connect(url, autocommit=True) as con:
        for name in ("plain", "delta"):
            con.execute(f"CREATE DATABASE {name}")  # a name of ours, not a value
    with ExitStack() as stack:
        hf = stack.enter_context(holdfast.open(url))
        hf.sessions.create(id="steps", title="bench")
        ways = {OURS: burst(lambda: hf.checkpoints.create(session_id="steps", messages=[Message.user(TEXT)]))}
        for shown, name in (("LangGraph PostgresSaver", "plain"), ("LangGraph DeltaChannel", "delta")):
            elsewhere = url.rsplit("/", 1)[0] + f"/{name}"
            graph: Graph = stack.enter_context(graphs.on_postgres(elsewhere, delta=name == "delta"))
            ways[shown] = burst(graph.step)
        found = interleaved(ways, count // 10)
    rows = []
    for name, way in found.items():
        section.note(f"{WORKLOAD}, append + checkpoint", name, way.median_us, "µs")
        rows.append([name, f"{way.median_us:,.0f}", f"{way.p99_us:,.0f}", f"{way.of(found[OURS]):.2f} ×"])
    section.say(f"### Append + checkpoint, the first {count + 10:,} steps", "")
    section.say(*table(["way", "median µs", "p99 µs", f"of {OURS}"], rows))


def _setting(con: psycopg.Connection[Any], name: str) -> str:
    row = con.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return f"{name} {row[0]}"


def results(quick: bool) -> Section:
    section = Section(title="PostgreSQL, on the disk")
    with served() as server:
        with psycopg.connect(server.url, autocommit=True) as con:
            con.execute(processes.TABLE)
            settings = [_setting(con, name) for name in ("server_version", "fsync", "synchronous_commit")]
        section.say(f"Started for this run on the same machine: {', '.join(settings)}.", "")
        appends(section, server.url, 5 if quick else 100)
        many(section, server.url, 2 if quick else 7, 3 if quick else 20)
        for count in (4, 8):
            processes.on_server(section, server.url, count, 1 if quick else 2, 0.5 if quick else 3.0)
        steps(section, server.url, 30 if quick else 1_000)
    return section
