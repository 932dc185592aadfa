"""Processes that append to one file or server at the same time: rates, waits, errors, and the first open.

A process opens the store, says so, waits for the word, appends until the time is up, and tells what it saw. The median
commit, by which waits are judged, is what a bare process needs from having the lock to the end of its commit.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import floors
import msgspec
import psycopg
from figures import Section, table
from peers import PEERS
from rounds import DISK, TEXT, folder, quantile

import holdfast
from holdfast import Message

BARE, OURS, OPENAI = "bare SQLite", "Holdfast", "OpenAI SQLiteSession"
BARE_SERVER, OURS_SERVER = "bare psycopg", "Holdfast on the server"
TABLE = "CREATE TABLE bare (place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)"
INSERT, BODY = "INSERT INTO bare (body) VALUES (%s)", TEXT.encode()


class Seen(msgspec.Struct):
    """What one process saw, or some of them together; seconds."""

    calls: list[float] = []
    commits: list[float] = []
    errors: list[str] = []
    at_open: list[str] = []

    def add(self, other: Seen) -> None:
        self.calls += other.calls
        self.commits += other.commits
        self.errors += other.errors
        self.at_open += other.at_open


Append = Callable[[Seen], object]


def bare(folder: str) -> Iterator[Append]:
    con = floors.connect(Path(folder, "bare.db"))
    con.execute("CREATE TABLE IF NOT EXISTS messages (place INTEGER PRIMARY KEY, body BLOB)")

    def append(seen: Seen) -> None:
        con.execute("BEGIN IMMEDIATE")
        start = time.perf_counter()
        con.execute("INSERT INTO messages (body) VALUES (?)", (TEXT,))
        con.execute("COMMIT")
        seen.commits.append(time.perf_counter() - start)

    yield append
    con.close()


def ours(folder: str) -> Iterator[Append]:
    yield from served(f"sqlite:///{folder}/ours.db")


def served(url: str) -> Iterator[Append]:
    with holdfast.open(url) as hf:
        session = hf.sessions.create(title="bench").id
        yield lambda _seen: hf.sessions.append(session, Message.user(TEXT))


def served_bare(url: str) -> Iterator[Append]:
    with psycopg.connect(url, autocommit=True) as con:
        yield lambda _seen: con.execute(INSERT, (BODY,), prepare=True)


def openai(folder: str) -> Iterator[Append]:
    with asyncio.Runner() as runner:
        peer = PEERS[OPENAI](Path(folder), 1)
        runner.run(peer.open())
        yield lambda _seen: runner.run(peer.append(0))
        runner.run(peer.close())


FILES = {BARE: bare, OURS: ours, OPENAI: openai}
SERVERS = {BARE_SERVER: served_bare, OURS_SERVER: served}


def child(way: str, target: str, seconds: float) -> Seen:
    """One process, from open to close."""
    seen = Seen()
    print("here", flush=True)
    sys.stdin.readline()
    opened = {**FILES, **SERVERS}[way](target)
    try:
        append = next(opened)
    except Exception as cause:  # noqa: BLE001 — any way to fail is what is counted
        seen.at_open.append(f"{type(cause).__name__}: {cause}")
        return seen
    print("open", flush=True)
    sys.stdin.readline()
    until = time.perf_counter() + seconds
    while (start := time.perf_counter()) < until:
        try:
            append(seen)
            seen.calls.append(time.perf_counter() - start)
        except Exception as cause:  # noqa: BLE001
            seen.errors.append(f"{type(cause).__name__}: {cause}")
    next(opened, None)
    return seen


def together(way: str, target: str, count: int, seconds: float) -> Seen:
    """So many processes at once: all open at one word, and all append from another."""
    command = [sys.executable, __file__, way, target, str(seconds)]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) for _ in range(count)]
    all_seen = Seen()
    last: list[str] = []
    for _ in ("open", "append"):
        last = [_line(process) for process in running]
        for process in running:
            _go(process)
    for process, said in zip(running, last, strict=True):
        rest = process.communicate()[0]
        found = (rest.strip() or said).splitlines()[-1]
        all_seen.add(msgspec.convert(json.loads(found), Seen))
    return all_seen


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write("go\n")
        process.stdin.flush()
    except BrokenPipeError:  # it failed to open, and has ended
        pass


def measure(section: Section, count: int, rounds: int, seconds: float) -> None:
    workload = f"{count} processes on one file"
    all_seen = {way: Seen() for way in FILES}
    rates: dict[str, list[float]] = {way: [] for way in FILES}
    commits: list[float] = []
    waits: list[float] = []
    for number in range(rounds):  # each in a fresh folder: every round is a first open
        for way in FILES:
            if way == OPENAI and number:
                continue  # its processes take seconds to start, and nothing is held against them
            with folder(DISK) as at:
                seen = together(way, str(at), count, seconds)
            rates[way].append(len(seen.calls) / seconds)
            all_seen[way].add(seen)
            if way == BARE:
                commits = seen.commits
            elif way == OURS and commits and seen.calls:
                waits.append(quantile(seen.calls, 0.999) / (count * statistics.median(commits)))
    ratio = statistics.median(one / other for one, other in zip(rates[OURS], rates[BARE], strict=True))
    section.note(workload, "errors", len(all_seen[OURS].errors), "")
    section.note(workload, "errors at the first open of a fresh file", len(all_seen[OURS].at_open), "")
    section.note(workload, "of bare SQLite's rate", ratio, "×")
    section.note(workload, "p99.9 of a wait, in median commits of all processes", statistics.median(waits), "×")
    _show(section, workload, rates, all_seen)
    section.tell(workload, "p99.9 of a wait, in median commits of all processes, in the worst round", max(waits), "×")
    section.say("")


def _show(section: Section, workload: str, rates: dict[str, list[float]], all_seen: dict[str, Seen]) -> None:
    rows = []
    for way, seen in all_seen.items():
        waits = [f"{quantile(seen.calls, part) * 1000:,.2f}" if seen.calls else "–" for part in (0.5, 0.99, 0.999)]
        failed = [str(len(seen.errors)), str(len(seen.at_open))]
        rows.append([way, f"{statistics.median(rates[way]):,.0f}", *waits, *failed])
    section.say(f"### {workload}", "")
    heading = ["way", "appends/s of all", "median ms", "p99 ms", "p99.9 ms", "errors", "errors at first open"]
    section.say(*table(heading, rows))
    for way, seen in all_seen.items():
        for error in sorted({*seen.errors, *seen.at_open})[:3]:
            section.say(f"- {way}: {error}")
    section.say("")


def on_server(section: Section, url: str, count: int, rounds: int, seconds: float) -> None:
    all_seen = {way: Seen() for way in SERVERS}
    rates: dict[str, list[float]] = {way: [] for way in SERVERS}
    for _ in range(rounds):
        for way in SERVERS:
            seen = together(way, url, count, seconds)
            rates[way].append(len(seen.calls) / seconds)
            all_seen[way].add(seen)
    for way, found in rates.items():
        section.note(f"{count} processes on one server", way, statistics.median(found), "appends/s")
    _show(section, f"{count} processes on one server", rates, all_seen)


def results(quick: bool) -> Section:
    section = Section(title="Processes on one file, SQLite, on the disk")
    for count in (4, 8):
        measure(section, count, 1 if quick else 7, 0.5 if quick else 2.5)
    return section


if __name__ == "__main__":
    try:
        print(msgspec.json.encode(child(sys.argv[1], sys.argv[2], float(sys.argv[3]))).decode(), flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
