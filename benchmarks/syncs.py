"""How often a way syncs, counted by strace: the same calls in a process of their own.

python benchmarks/syncs.py NAME APPENDS AGENTS FOLDER
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import floors
import graphs
import msgspec
import rounds
from peers import PEERS

import holdfast
from holdfast import Message

BEGIN, END = "BEGIN", "END"
GRAPHS = {"LangGraph SqliteSaver": False, "LangGraph DeltaChannel": True}


class Synced(msgspec.Struct, frozen=True):
    """What a store does for durability; `per_call` is None where nobody could count."""

    journal: str
    per_call: float | None

    @property
    def shown(self) -> str:
        return "not counted" if self.per_call is None else f"{self.per_call:.2f}"


def counted(name: str, calls: int, agents: int = 1) -> Synced:
    """Journal mode and syncs per call of a way, on the real disk."""
    with rounds.folder(rounds.DISK) as folder:
        trace = folder / "trace"
        traced = ["strace", "-f", "-e", "trace=fdatasync,fsync,write", "-o", str(trace)]
        command = [sys.executable, __file__, name, str(calls), str(agents), str(folder)]
        can_trace = shutil.which("strace") is not None
        run = [*traced, *command] if can_trace else command
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"counting the syncs of {name}: {done.stderr[-2000:]}")
        between = trace.read_text().split(f'"{BEGIN}')[1].split(f'"{END}')[0] if can_trace else ""
        count = sum("sync(" in line for line in between.splitlines())
        return Synced(_journal(folder), count / calls if can_trace else None)


def _mark(word: str) -> None:
    print(word, end="", file=sys.stderr, flush=True)


def _journal(folder: Path) -> str:
    """The mode of the database that a way has left behind, if it made one."""
    for path in folder.glob("*.db"):
        with closing(sqlite3.connect(path)) as con:
            mode: str = con.execute("PRAGMA journal_mode").fetchone()[0]
            return mode
    return "none"


def _plain(name: str, folder: Path, calls: int) -> None:
    with getattr(floors, name)(folder) as append:
        append()
        _marked(append, calls)


def _marked(call: Callable[[], object], calls: int) -> None:
    _mark(BEGIN)
    for _ in range(calls):
        call()
    _mark(END)


def _steps(folder: Path, calls: int) -> None:
    with holdfast.open(f"sqlite:///{folder / 'steps.db'}") as hf:
        hf.sessions.create(id="s", title="bench")
        hf.checkpoints.create(session_id="s", messages=[Message.user("x")])
        _marked(lambda: hf.checkpoints.create(session_id="s", messages=[Message.user(rounds.TEXT)]), calls)


def _ours(folder: Path, calls: int) -> None:
    with holdfast.open(f"sqlite:///{folder / 'ours.db'}") as hf:
        session = hf.sessions.create(title="bench").id
        hf.sessions.append(session, Message.user("x"))
        _marked(lambda: hf.sessions.append(session, Message.user(rounds.TEXT)), calls)


def _graph(folder: Path, calls: int, delta: bool) -> None:
    with graphs.on_sqlite(folder / "graph.db", delta) as graph:
        graph.step()
        _marked(graph.step, calls)


async def _ours_awaited(folder: Path, calls: int, agents: int) -> None:
    async with holdfast.aopen(f"sqlite:///{folder / 'awaited.db'}") as hf:
        sessions = [(await hf.sessions.create(title="bench")).id for _ in range(agents)]

        async def agent(session: str) -> None:
            for _ in range(calls // agents):
                await hf.sessions.append(session, Message.user(rounds.TEXT))

        _mark(BEGIN)
        await asyncio.gather(*map(agent, sessions))
        _mark(END)


async def _peer(name: str, folder: Path, calls: int, agents: int) -> None:
    peer = PEERS[name](folder, agents)
    await peer.open()
    for session in range(agents):
        await peer.append(session)

    async def agent(session: int) -> None:
        for _ in range(calls // agents):
            await peer.append(session)

    _mark(BEGIN)
    await asyncio.gather(*map(agent, range(agents)))
    _mark(END)
    await peer.close()


def main(name: str, calls: int, agents: int, folder: Path) -> None:
    if name in ("synced", "bare"):
        _plain(name, folder, calls)
    elif name in GRAPHS:
        _graph(folder, calls, GRAPHS[name])
    elif name == "steps":
        _steps(folder, calls)
    elif name == "holdfast":
        _ours(folder, calls)
    elif name == "holdfast, async":
        asyncio.run(_ours_awaited(folder, calls, agents))
    else:
        asyncio.run(_peer(name, folder, calls, agents))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
