"""A store as it grows to 1 million messages in 10,000 sessions of one agent: what each call costs on the way.

At the end: restore, fork, diff and prune of the whole agent, verify of everything, and what opening such a store takes
in time and memory beside an empty one. It is built by batches, in the quickest way there is (`durability="normal"`).
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from figures import Section, shown, table
from rounds import DISK, RAM, TEXT, burst, folder, interleaved, peak_mb, seconds

import holdfast
from holdfast import Agent, Holdfast, Message

WORKLOAD, GROWTH = "a store of 1 million messages", "as a store grows"
AGENT = "a"
PER_SESSION = 100
MARKS = (1_000, 10_000, 100_000, 1_000_000)
LONG_S = 1_800.0
BYTES_EACH = 2_500  # roughly; with room for what is made of it


def opened(path: Path) -> Holdfast:
    return holdfast.open(f"sqlite:///{path}", durability="normal", timeout=LONG_S)


def grow(hf: Holdfast, begin: int, end: int) -> None:
    """Sessions of a hundred messages and a checkpoint, from one number of messages to another."""
    for number in range(begin // PER_SESSION, end // PER_SESSION):
        hf.sessions.create(id=f"s{number}", agent_id=AGENT, title="bench")
        hf.sessions.append(f"s{number}", *(Message.user(TEXT) for _ in range(PER_SESSION)))
        hf.checkpoints.create(session_id=f"s{number}")


def calls(path: Path, hf: Holdfast, sessions: int) -> dict[str, Callable[[], object]]:
    """What is timed at every mark, on sessions in the middle; none is restored and appended to, which would branch."""
    chat, other = f"s{sessions // 2}", f"s{sessions // 2 + 1}"
    kept = hf.checkpoints.create(session_id=other).id
    hf.sessions.append(other, Message.user(TEXT))
    there_and_back = itertools.cycle((kept, hf.checkpoints.create(session_id=other).id))

    def changed() -> object:
        for number in range(3):
            hf.sessions.append(f"s{number}", Message.user(TEXT))
        return hf.checkpoints.create(AGENT)

    return {
        "append": lambda: hf.sessions.append(chat, Message.user(TEXT)),
        "last 50 messages": lambda: list(hf.sessions.messages(chat, last=50)),
        "newest 20 sessions": lambda: hf.sessions.list(limit=20),
        "newest 20 checkpoints of all": lambda: hf.checkpoints.list(limit=20),
        "checkpoint of a session": lambda: hf.checkpoints.create(session_id=chat),
        "3 appends + checkpoint of the agent": changed,
        "restore of a session": lambda: hf.checkpoints.restore(next(there_and_back)),
        "fork of a session": lambda: hf.checkpoints.fork(kept),
        "open and close": lambda: opened(path).close(),
    }


def growing(section: Section, path: Path, marks: tuple[int, ...]) -> None:
    points: dict[str, list[tuple[float, float]]] = {}
    size: list[tuple[float, float]] = []
    built, begin = 0.0, 0
    with opened(path) as hf:
        hf.agents.save(Agent(id=AGENT, name="A"))
        for mark in marks:
            start, before = time.perf_counter(), begin
            grow(hf, before, mark)
            built, begin = built + time.perf_counter() - start, mark
            hf.checkpoints.create(AGENT)
            ways = {name: burst(call) for name, call in calls(path, hf, mark // PER_SESSION).items()}
            for name, way in interleaved(ways, 15, in_a_row=1).items():
                points.setdefault(name, []).append((mark, way.median_us / 1000))
            size.append((mark, sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / 1e6))
    section.tell(WORKLOAD, "built by batches of 100", marks[-1] / built, "messages/s")
    for name, found in points.items():
        section.curve(GROWTH, name, "ms", found)
    section.curve("bytes as a store grows", "SQLite", "MB", size)
    rows = [[name, *(shown(value, "ms") for _, value in found)] for name, found in points.items()]
    rows.append(["bytes on disk", *(shown(value, "MB") for _, value in size)])
    section.say("", *table(["", *(f"{mark:,} messages" for mark in marks)], rows))


def whole(section: Section, path: Path) -> None:
    """What concerns all sessions of the agent at once."""
    with opened(path) as hf:
        first = hf.checkpoints.create(AGENT)
        for number in range(3):
            hf.sessions.append(f"s{number}", Message.user(TEXT))
        second = hf.checkpoints.create(AGENT)
        timed: dict[str, Callable[[], object]] = {
            "diff of two checkpoints of the agent": lambda: hf.checkpoints.diff(first.id, second.id),
            "restore of the agent, pointers": lambda: hf.checkpoints.restore(first.id, verify="pointers"),
            "restore of the agent, everything verified": lambda: hf.checkpoints.restore(second.id),
            "fork of the agent": lambda: hf.checkpoints.fork(first.id, id="b"),
            "prune of the agent's checkpoints": lambda: hf.checkpoints.prune(AGENT, keep=2),
            "gc": hf.gc,
            "verify": _sound(hf),
        }
        for name, call in timed.items():
            section.tell(WORKLOAD, name, seconds(call), "s")


def _sound(hf: Holdfast) -> Callable[[], None]:
    def verify() -> None:
        if not hf.verify().ok:
            raise RuntimeError("the store is damaged")

    return verify


def opening(section: Section, path: Path, empty: Path, rounds: int) -> None:
    with opened(empty) as hf:
        hf.agents.save(Agent(id=AGENT, name="A"))
        grow(hf, 0, PER_SESSION)
    ways = {"large": burst(lambda: opened(path).close()), "empty": burst(lambda: opened(empty).close())}
    taken = interleaved(ways, rounds, in_a_row=1)
    for name, way in taken.items():
        section.tell(WORKLOAD, f"open and close, {name}", way.median_us / 1000, "ms")
    section.tell(WORKLOAD, "open, of opening an empty one", taken["large"].of(taken["empty"]), "×")
    memory = {name: _memory(file) for name, file in (("large", path), ("empty", empty))}
    for name, megabytes in memory.items():
        section.tell(WORKLOAD, f"memory after open, {name}", megabytes, "MB")
    section.tell(WORKLOAD, "memory after open, of an empty one's", memory["large"] / memory["empty"], "×")


def _memory(path: Path) -> float:
    """Of a process that opens it, appends and reads the last messages of a session."""
    done = subprocess.run([sys.executable, __file__, str(path)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def place(messages: int) -> Path:
    """The RAM disk, where it has the room."""
    return RAM if RAM.is_dir() and shutil.disk_usage(RAM).free > 2 * messages * BYTES_EACH else DISK


def results(quick: bool, messages: int = MARKS[-1]) -> Section:
    marks = (1_000, 3_000) if quick else (*(mark for mark in MARKS if mark < messages), messages)
    where = place(marks[-1])
    section = Section(
        title=f"A store that grows to {marks[-1]:,} messages, SQLite, {'RAM' if where == RAM else 'disk'}"
    )
    with folder(where) as at:
        growing(section, at / "large.db", marks)
        opening(section, at / "large.db", at / "empty.db", 5 if quick else 40)
        whole(section, at / "large.db")
    return section


if __name__ == "__main__":
    with opened(Path(sys.argv[1])) as hf:
        hf.sessions.append("s0", Message.user(TEXT))
        read = list(hf.sessions.messages("s0", last=50))
        print(peak_mb())
