"""What reading a session costs: its last messages, and all of them beside decoding the same rows by hand."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import msgspec

import holdfast
from holdfast import Holdfast, Message

TEXT = os.urandom(550).hex()
ROUNDS, ROUNDS_OF_ALL = 300, 15
ROWS = "SELECT id, n, body FROM messages WHERE place BETWEEN ? AND ?"


def filled(hf: Holdfast, count: int) -> str:
    """A session with so many messages."""
    session = hf.sessions.create(title="bench").id
    for _ in range(0, count, 100):
        hf.sessions.append(session, *(Message.user(TEXT) for _ in range(100)))
    return session


def paired(ours: Callable[[], object], floor: Callable[[], object], rounds: int) -> float:
    """The median ratio of two calls that take turns."""
    ratios = []
    for _ in range(rounds):
        taken = []
        for call in (ours, floor):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
        ratios.append(taken[0] / taken[1])
    return statistics.median(ratios)


def figures(folder: Path) -> Iterator[str]:
    path = folder / "agents.db"
    with holdfast.open(f"sqlite:///{path}", durability="normal") as hf:
        short, long = filled(hf, 100), filled(hf, 10_000)
        ratio = paired(
            lambda: list(hf.sessions.messages(long, last=50)),
            lambda: list(hf.sessions.messages(short, last=50)),
            ROUNDS,
        )
        yield f"The last 50 of 10,000 messages: {ratio:.2f} × as long as the last 50 of 100."
        con = apsw.Connection(str(path))
        log = con.execute("SELECT max(place) >> 32 FROM messages").get
        decode: Callable[[bytes], object]
        for what, decode in (
            ("into messages", msgspec.json.Decoder(Message).decode),
            ("into plain dicts", msgspec.json.Decoder().decode),
        ):

            def by_hand(decode: Callable[[bytes], object] = decode) -> list[object]:
                rows = con.execute(ROWS, (log << 32, log + 1 << 32))
                return [(id, n, decode(body)) for id, n, body in rows]

            assert len(by_hand()) == 10_000
            ratio = paired(lambda: list(hf.sessions.messages(long)), by_hand, ROUNDS_OF_ALL)
            yield f"All 10,000 messages: {ratio:.2f} × reading and decoding the rows by hand {what}."
        con.close()


def results() -> list[str]:
    """The section of the results page."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        return ["## Reading, SQLite, RAM disk", "", *(f"- {line}" for line in figures(Path(folder))), ""]


if __name__ == "__main__":
    print("\n".join(results()))
