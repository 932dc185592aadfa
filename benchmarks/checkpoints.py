"""What checkpoints cost: bytes and time against the number of steps, messages, sessions and checkpoints."""

from __future__ import annotations

import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw

import holdfast
from holdfast import Agent, Holdfast, Message

TEXT = os.urandom(550).hex()


def timed(call: Callable[[], object], times: int = 30) -> float:
    """The median seconds of a call."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def filled(folder: Path, messages: int, name: str) -> Holdfast:
    """A store with one session of so many messages."""
    hf = holdfast.open(f"sqlite:///{folder / name}.db")
    hf.sessions.create(id="s", title="bench")
    for start in range(0, messages, 500):
        hf.sessions.append("s", *(Message.user(TEXT) for _ in range(min(500, messages - start))))
    return hf


def steps(folder: Path) -> Iterator[str]:
    hf = holdfast.open(f"sqlite:///{folder / 'steps.db'}")
    hf.sessions.create(id="s", title="bench")
    taken = []
    for step in range(1_000):
        start = time.perf_counter()
        hf.checkpoints.create(session_id="s", messages=[Message.user(TEXT)], step=step)
        taken.append(time.perf_counter() - start)
    hf.close()
    size = (folder / "steps.db").stat().st_size / 1e6
    ratio = statistics.median(taken[-50:]) / statistics.median(taken[10:60])
    yield f"1,000 steps of append + checkpoint take {size:.2f} MB after close."
    yield f"The median of the last 50 steps is {ratio:.2f} × that of steps 10–60."


def agents(folder: Path) -> Iterator[str]:
    taken: dict[int, list[float]] = {}
    stores = {}
    for sessions in (10, 10_000):
        hf = stores[sessions] = holdfast.open(f"sqlite:///{folder / f'agent{sessions}.db'}", durability="normal")
        hf.agents.save(Agent(id="a", name="A"))
        for number in range(sessions):
            hf.sessions.create(id=f"s{number}", agent_id="a", title="bench")
        hf.checkpoints.create("a")
    for _ in range(30):
        for sessions, hf in stores.items():
            for number in range(3):
                hf.sessions.append(f"s{number}", Message.user(TEXT))
            start = time.perf_counter()
            hf.checkpoints.create("a")
            taken.setdefault(sessions, []).append(time.perf_counter() - start)
    ratio = statistics.median(taken[10_000]) / statistics.median(taken[10])
    yield f"An agent-wide checkpoint with 3 of 10,000 sessions changed takes {ratio:.2f} × one with 3 of 10."


def lengths(folder: Path) -> Iterator[str]:
    small, large = filled(folder, 100, "short"), filled(folder, 10_000, "long")
    calls: dict[str, dict[int, list[float]]] = {}
    marks = {}
    for hf in (small, large):
        first = hf.checkpoints.create(session_id="s")
        hf.sessions.append("s", Message.user(TEXT))
        marks[hf] = (first, hf.checkpoints.create(session_id="s"))
    for _ in range(30):
        for size, hf in ((100, small), (10_000, large)):
            first, second = marks[hf]
            ways: dict[str, Callable[[], object]] = {
                "restore with verify='pointers'": partial(hf.checkpoints.restore, first.id, verify="pointers"),
                "fork": partial(hf.checkpoints.fork, first.id),
                "diff": partial(hf.checkpoints.diff, first.id, second.id),
            }
            for name, call in ways.items():
                calls.setdefault(name, {}).setdefault(size, []).append(timed(call, 1))
    for name, taken in calls.items():
        ratio = statistics.median(taken[10_000]) / statistics.median(taken[100])
        yield f"{name}: {ratio:.2f} × as long with 10,000 messages as with 100."
    yield verification(folder, large)


def verification(folder: Path, hf: Holdfast) -> str:
    con = apsw.Connection(str(folder / "long.db"))

    def by_hand() -> None:
        link = bytes(32)
        for digest, body in con.execute("SELECT digest, body FROM messages ORDER BY place"):
            found = hashlib.sha256(body).digest()
            if found != digest:
                raise RuntimeError("damaged")
            link = hashlib.sha256(link + found).digest()

    latest = hf.checkpoints.latest(session_id="s")
    assert latest is not None
    ours, hand = [], []
    for _ in range(7):
        hand.append(timed(by_hand, 1))
        ours.append(timed(lambda: hf.checkpoints.restore(latest.id), 1))
    return (
        f"Restore with full verification of 10,000 messages: {statistics.median(ours) / statistics.median(hand):.2f} ×"
        " reading and hashing the rows by hand."
    )


def many(folder: Path) -> Iterator[str]:
    few, lots = (holdfast.open(f"sqlite:///{folder / name}.db", durability="normal") for name in ("few", "lots"))
    for hf, count in ((few, 100), (lots, 10_000)):
        hf.sessions.create(id="s", title="bench")
        for step in range(count):
            hf.checkpoints.create(session_id="s", id=f"step-{step}", step=step)
    calls: dict[str, Callable[[Holdfast], object]] = {
        "latest": lambda hf: hf.checkpoints.latest(session_id="s"),
        "has": lambda hf: hf.checkpoints.has("step-50"),
        "list of 20": lambda hf: hf.checkpoints.list(session_id="s", limit=20),
        "list of 20 of all": lambda hf: hf.checkpoints.list(limit=20),
    }
    for name, call in calls.items():
        taken = {hf: [timed(partial(call, hf), 1) for _ in range(50)] for hf in (few, lots)}
        ratio = statistics.median(taken[lots]) / statistics.median(taken[few])
        yield f"{name}: {ratio:.2f} × as long with 10,000 checkpoints as with 100."
    pruned = lots.checkpoints.prune(session_id="s", keep=10).count
    lots.gc()
    lots.close()
    bare = holdfast.open(f"sqlite:///{folder / 'bare.db'}")
    bare.sessions.create(id="s", title="bench")
    for step in range(10):
        bare.checkpoints.create(session_id="s", step=step)
    bare.close()
    ratio = (folder / "lots.db").stat().st_size / (folder / "bare.db").stat().st_size
    yield f"After pruning {pruned:,} of them and gc, the file is {ratio:.2f} × one that never had them."


def results() -> list[str]:
    """The section of the results page."""
    lines = ["## Checkpoints, SQLite, synchronous=FULL, RAM disk", ""]
    for part in (steps, agents, lengths, many):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            lines += [f"- {line}" for line in part(Path(folder))]
    return [*lines, ""]


if __name__ == "__main__":
    print("\n".join(results()))
