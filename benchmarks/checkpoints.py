"""What checkpoints cost against the number of messages, sessions and checkpoints."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import apsw
from figures import Section
from rounds import RAM, TEXT, burst, folder, interleaved, paired

import holdfast
from holdfast import Agent, Holdfast, Message

LONG = "10,000-message session"


def filled(at: Path, messages: int, name: str) -> Holdfast:
    """A store with one session of so many messages."""
    hf = holdfast.open(f"sqlite:///{at / name}.db")
    hf.sessions.create(id="s", title="bench")
    for start in range(0, messages, 500):
        hf.sessions.append("s", *(Message.user(TEXT) for _ in range(min(500, messages - start))))
    return hf


def lengths(section: Section, at: Path, quick: bool) -> None:
    """Each call with many messages, beside an append and beside the same with few."""
    with closing(filled(at, 100, "short")) as short, closing(filled(at, 1_000 if quick else 10_000, "long")) as long:
        calls = {name: _calls(hf) for name, hf in (("short", short), ("long", long))}
        long.sessions.create(id="other", title="bench")
        append = burst(lambda: long.sessions.append("other", Message.user(TEXT)))
        for call in calls["long"]:
            ways = {name: burst(made[call]) for name, made in calls.items()}
            taken = interleaved({**ways, "append": append}, 5 if quick else 40, in_a_row=1)
            section.tell(LONG, f"{call}, of an append", taken["long"].of(taken["append"]), "×")
            section.tell(LONG, f"{call}, of the same with 100 messages", taken["long"].of(taken["short"]), "×")
        section.tell(LONG, "restore, of reading and hashing the rows by hand", verification(at, long, quick), "×")


def _calls(hf: Holdfast) -> dict[str, Callable[[], object]]:
    first = hf.checkpoints.create(session_id="s").id
    hf.sessions.append("s", Message.user(TEXT))
    second = hf.checkpoints.create(session_id="s").id
    there_and_back = itertools.cycle((first, second))
    return {
        "restore with verify='pointers'": lambda: hf.checkpoints.restore(next(there_and_back), verify="pointers"),
        "fork": partial(hf.checkpoints.fork, first),
        "diff of heads": partial(hf.checkpoints.diff, first, second),
    }


def verification(at: Path, hf: Holdfast, quick: bool) -> float:
    with closing(apsw.Connection(str(at / "long.db"))) as con:

        def by_hand() -> None:
            link = bytes(32)
            for digest, body in con.execute("SELECT digest, body FROM messages ORDER BY place"):
                found = hashlib.sha256(body).digest()
                if found != digest:
                    raise RuntimeError("damaged")
                link = hashlib.sha256(link + found).digest()

        latest = hf.checkpoints.create(session_id="s").id
        return paired(lambda: hf.checkpoints.restore(latest), by_hand, 3 if quick else 9)


def agents(section: Section, at: Path, quick: bool) -> None:
    """An agent's checkpoint, with few sessions and with many, of which three have changed."""
    many = 200 if quick else 10_000
    with ExitStack() as stack:
        ways = {}
        for sessions in (10, many):
            url = f"sqlite:///{at / f'agent{sessions}.db'}"
            hf = stack.enter_context(holdfast.open(url, durability="normal"))
            hf.agents.save(Agent(id="a", name="A"))
            for number in range(sessions):
                hf.sessions.create(id=f"s{number}", agent_id="a", title="bench")
            hf.checkpoints.create("a")
            ways[str(sessions)] = partial(_captured, hf)
        taken = interleaved(ways, 30, in_a_row=1)
    section.tell(
        "agent-wide checkpoint", f"3 of {many:,} sessions changed, of 3 of 10", taken[str(many)].of(taken["10"]), "×"
    )


def _captured(hf: Holdfast, count: int) -> list[float]:
    taken = []
    for _ in range(count):
        for number in range(3):
            hf.sessions.append(f"s{number}", Message.user(TEXT))
        taken += burst(lambda: hf.checkpoints.create("a"))(1)
    return taken


def many(section: Section, at: Path, quick: bool) -> None:
    """Looking up, with few checkpoints and with many; then pruning the many."""
    count = 1_000 if quick else 10_000
    workload = f"{count:,} checkpoints of a session"
    few, lots = (holdfast.open(f"sqlite:///{at / name}.db", durability="normal") for name in ("few", "lots"))
    for hf, steps in ((few, 100), (lots, count)):
        hf.sessions.create(id="s", title="bench")
        for step in range(steps):
            hf.checkpoints.create(session_id="s", id=f"step-{step}", step=step)
    calls: dict[str, Callable[[Holdfast], object]] = {
        "latest": lambda hf: hf.checkpoints.latest(session_id="s"),
        "has": lambda hf: hf.checkpoints.has("step-50"),
        "list of 20": lambda hf: hf.checkpoints.list(session_id="s", limit=20),
        "list of 20 of all": lambda hf: hf.checkpoints.list(limit=20),
    }
    for name, call in calls.items():
        section.tell(
            workload, f"{name}, of the same with 100", paired(partial(call, lots), partial(call, few), 50), "×"
        )
    lots.checkpoints.prune(session_id="s", keep=10)
    lots.gc()
    for hf in (few, lots):
        hf.close()
    with holdfast.open(f"sqlite:///{at / 'bare.db'}") as bare:
        bare.sessions.create(id="s", title="bench")
        for step in range(10):
            bare.checkpoints.create(session_id="s", step=step)
    ratio = (at / "lots.db").stat().st_size / (at / "bare.db").stat().st_size
    section.tell(workload, "bytes after pruning all but 10, of a file that never had them", ratio, "×")


def results(quick: bool) -> Section:
    section = Section(title="Checkpoints, SQLite, RAM disk")
    for part in (lengths, agents, many):
        with folder(RAM) as at:
            part(section, at, quick)
    return section
