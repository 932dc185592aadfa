"""What one durable append costs, against its floor, in one interleaved run.

bare     prepared INSERT of the body + commit
by hand  the statements of an append written out with apsw: encode, hash, link, compare-and-set of the head
         row, INSERT with a unique id, one transaction
holdfast hf.sessions.append
"""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import apsw
import msgspec
from uuid_utils import uuid7

import holdfast
from holdfast import Message

TEXT = os.urandom(550).hex()
ROUNDS = 400
IN_A_ROW = 10
_encode = msgspec.json.Encoder(order="sorted").encode


def connect(path: Path) -> apsw.Connection:
    con = apsw.Connection(str(path))
    con.execute("PRAGMA journal_mode = WAL")
    con.execute("PRAGMA synchronous = FULL")
    return con


def bare(folder: Path) -> Callable[[], None]:
    con = connect(folder / "bare.db")
    con.execute("CREATE TABLE messages (place INTEGER PRIMARY KEY, body BLOB)")

    def append() -> None:
        con.execute("BEGIN IMMEDIATE")
        con.execute("INSERT INTO messages (body) VALUES (?)", (TEXT,))
        con.execute("COMMIT")

    return append


HEADS = (
    "CREATE TABLE heads (space INTEGER NOT NULL, session_id TEXT, agent_id TEXT, user_id TEXT, status TEXT,"
    " detached_by TEXT, archived INTEGER, created_at INTEGER, updated_at INTEGER, digest BLOB NOT NULL,"
    " body BLOB NOT NULL, PRIMARY KEY (space, session_id)) WITHOUT ROWID"
)
MESSAGES = (
    "CREATE TABLE messages (place INTEGER PRIMARY KEY, family INTEGER NOT NULL, id TEXT, n INTEGER, link BLOB,"
    " digest BLOB NOT NULL, body BLOB NOT NULL, UNIQUE (family, id))"
)
UPDATE = (
    "UPDATE heads SET status = ?, detached_by = ?, archived = ?, created_at = ?, updated_at = ?, digest = ?,"
    " body = ? WHERE space = ? AND session_id = ? AND digest = ? AND agent_id IS ? AND user_id IS ?"
)
INSERT = (
    "INSERT INTO messages (place, family, id, n, link, digest, body) SELECT ?, family, ?, ?, ?, ?, ?"
    " FROM logs WHERE log = ?"
)


def by_hand(folder: Path) -> Callable[[], None]:
    con = connect(folder / "hand.db")
    for statement in (HEADS, MESSAGES, "CREATE TABLE logs (log INTEGER PRIMARY KEY, family INTEGER)"):
        con.execute(statement)
    for index in ("agent_id", "user_id"):
        con.execute(f"CREATE INDEX heads_by_{index} ON heads (space, {index})")
    con.execute("INSERT INTO logs VALUES (1, 1)")
    session = str(uuid7())
    con.execute("INSERT INTO heads (space, session_id, digest, body) VALUES (1, ?, x'00', x'00')", (session,))
    n, link, head_digest = 0, bytes(32), b"\0"

    def append() -> None:
        nonlocal n, link, head_digest
        n, now, message_id = n + 1, datetime.now(UTC), str(uuid7())
        body = _encode(
            {"content": [{"text": TEXT, "type": "text"}], "created_at": now, "id": message_id, "role": "user"}
        )
        digest = hashlib.sha256(body).digest()
        link = hashlib.sha256(link + digest + n.to_bytes(8)).digest()
        at = time.time_ns() // 1000
        ids = {"history": session, "message_id": message_id, "session_id": session, "uid": session}
        place = {"branch": 1, "created_at": 1, "last_message_at": now, "link": link, "n": n, "seq": n, "titled": True}
        head = _encode({**ids, **place, "updated_at": at})
        over, head_digest = head_digest, hashlib.sha256(head).digest()
        con.execute("BEGIN IMMEDIATE")
        con.execute(UPDATE, ("active", None, 0, 1, at, head_digest, head, 1, session, over, None, None))
        if con.changes() != 1:
            raise RuntimeError("lost the race")
        con.execute(INSERT, (1 << 32 | n, message_id, n, link, digest, body, 1))
        con.execute("COMMIT")

    return append


def ours(folder: Path) -> Callable[[], None]:
    hf = holdfast.open(f"sqlite:///{folder / 'holdfast.db'}")
    session = hf.sessions.create(title="bench").id

    def append() -> None:
        hf.sessions.append(session, Message.user(TEXT))

    return append


def timed(append: Callable[[], None]) -> float:
    """Seconds per append over a few in a row, as an agent's turn appends them."""
    start = time.perf_counter()
    for _ in range(IN_A_ROW):
        append()
    return (time.perf_counter() - start) / IN_A_ROW


def side_by_side(folder: Path, rounds: int) -> dict[str, list[float]]:
    ways = {"bare": bare(folder), "by hand": by_hand(folder), "holdfast": ours(folder)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, append in ways.items():
            times[name].append(timed(append))
    return times


def report(place: str, folder: Path, rounds: int) -> list[str]:
    times = side_by_side(folder, rounds)
    lines = [
        f"### {place}",
        "",
        "| way | median µs | p99 µs | of bare | of by hand |",
        "|---|---|---|---|---|",
    ]
    for name, taken in times.items():
        ratios = [_ratio(taken, times[floor]) for floor in ("bare", "by hand")]
        p99 = statistics.quantiles(taken, n=100)[98]
        median = statistics.median(taken)
        lines.append(f"| {name} | {median * 1e6:.1f} | {p99 * 1e6:.1f} | {ratios[0]:.2f} × | {ratios[1]:.2f} × |")
    return [*lines, ""]


def _ratio(taken: list[float], floor: list[float]) -> float:
    """The median of paired ratios: each pair ran within the same moments."""
    return statistics.median(one / other for one, other in zip(taken, floor, strict=True))


def growth(folder: Path) -> list[str]:
    """The same append early and late in a session, interleaved between two stores."""
    young, old = (holdfast.open(f"sqlite:///{folder / name}") for name in ("young.db", "old.db"))
    sessions = {hf: hf.sessions.create(title="bench").id for hf in (young, old)}
    for hf, count in ((young, 100), (old, 10_000)):
        for start in range(0, count, 500):
            hf.sessions.append(sessions[hf], *(Message.user(TEXT) for _ in range(min(500, count - start))))
    times: dict[holdfast.Holdfast, list[float]] = {young: [], old: []}
    for _ in range(500):
        for hf, session in sessions.items():
            times[hf].append(timed(lambda hf=hf, session=session: hf.sessions.append(session, Message.user(TEXT))))  # type: ignore[misc]
    ratio = statistics.median(times[old]) / statistics.median(times[young])
    return [f"Append behind 10,000 messages: {ratio:.2f} × the append behind 100.", ""]


SYNCS = """
import asyncio, sys, holdfast
from holdfast import Message
async def main(folder, agents, each):
    async with holdfast.aopen(f"sqlite:///{folder}/syncs.db") as hf:
        sessions = [await hf.sessions.create(title="bench") for _ in range(agents)]
        print("BEGIN", file=sys.stderr, flush=True)
        async def agent(session):
            for _ in range(each):
                await hf.sessions.append(session.id, Message.user("x" * 1100))
        await asyncio.gather(*(agent(session) for session in sessions))
        print("END", file=sys.stderr, flush=True)
asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


def syncs(agents: int, each: int) -> list[str]:
    """Syncs per append, counted by strace, with one async agent and with many."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        command = ["strace", "-f", "-e", "trace=fdatasync,fsync,write", "-o", str(trace), sys.executable]
        subprocess.run([*command, "-c", SYNCS, folder, str(agents), str(each)], check=True, stderr=subprocess.DEVNULL)
        between = trace.read_text().split('"BEGIN')[1].split('"END')[0]
    count = sum("sync(" in line for line in between.splitlines())
    return [f"{agents} async agents: {count / (agents * each):.2f} syncs per append.", ""]


def results() -> list[str]:
    """The section of the results page."""
    lines = ["## One append of 1,100 characters, SQLite, synchronous=FULL", ""]
    for place, parent in (("RAM disk", "/dev/shm"), ("disk", str(Path(__file__).parent))):
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            lines += report(place, Path(folder), ROUNDS)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        lines += growth(Path(folder))
    return [*lines, *syncs(1, 400), *syncs(32, 50)]


if __name__ == "__main__":
    print("\n".join(results()))
