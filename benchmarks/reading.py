"""What reading a session costs: its last messages and all of them, beside the same rows by hand and beside peers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import apsw
import graphs
import msgspec
from append import opened
from figures import Section, table
from peers import PEERS, Peer
from rounds import RAM, TEXT, Burst, Taken, awaited, burst, folder, interleaved

import holdfast
from holdfast import Holdfast, Message

OURS, HAND, DICTS = "Holdfast", "by hand, into messages", "by hand, into plain dicts"
ROWS = "SELECT id, n, body FROM messages WHERE place BETWEEN ? AND ?"
LAST = "SELECT id, n, body FROM messages WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 50"
SLOW = ("ADK DatabaseSessionService", "Agno SqliteDb")  # take a message at a time, so the long session is not for them

Ways = dict[str, Burst]


def filled(hf: Holdfast, count: int) -> str:
    """A session with so many messages."""
    session = hf.sessions.create(title="bench").id
    for start in range(0, count, 500):
        hf.sessions.append(session, *(Message.user(TEXT) for _ in range(min(500, count - start))))
    return session


class Shelf:
    """One session in our store and the bare reading of its rows."""

    def __init__(self, at: Path, count: int, stack: ExitStack) -> None:
        path = at / f"ours-{count}.db"
        self.hf = stack.enter_context(holdfast.open(f"sqlite:///{path}", durability="normal"))
        self.session = filled(self.hf, count)
        self._con = stack.enter_context(closing(apsw.Connection(str(path))))
        log: int = self._con.execute("SELECT max(place) >> 32 FROM messages").get
        self._range = (log << 32, log + 1 << 32)

    def by_hand(self, rows: str, decode: Callable[[bytes], object]) -> list[object]:
        return [(id, n, decode(body)) for id, n, body in self._con.execute(rows, self._range)]

    def whole(self) -> Ways:
        return {
            HAND: burst(partial(self.by_hand, ROWS, msgspec.json.Decoder(Message).decode)),
            DICTS: burst(partial(self.by_hand, ROWS, msgspec.json.Decoder().decode)),
            OURS: burst(lambda: list(self.hf.sessions.messages(self.session))),
        }

    def last(self) -> Ways:
        return {
            HAND: burst(partial(self.by_hand, LAST, msgspec.json.Decoder(Message).decode)),
            OURS: burst(lambda: list(self.hf.sessions.messages(self.session, last=50))),
        }


def resume(section: Section, at: Path, count: int, name: str, rounds: int) -> None:
    """The whole conversation, and its last fifty messages."""
    with asyncio.Runner() as runner, ExitStack() as stack:
        shelf = Shelf(at, count, stack)
        peers: dict[str, Peer] = {}
        for peer in PEERS:
            if count <= 1_000 or peer not in SLOW:
                peers[peer] = stack.enter_context(opened(peer, at, runner))
                runner.run(peers[peer].fill(0, count))
        whole = shelf.whole() | {peer: awaited(runner, partial(made.read, 0)) for peer, made in peers.items()}
        whole |= _graph(at, count, stack)
        last = shelf.last() | {peer: awaited(runner, partial(made.last, 0, 50)) for peer, made in peers.items()}
        floor = interleaved({way: whole[way] for way in (HAND, DICTS, OURS)}, rounds, in_a_row=1)
        taken = interleaved(whole, 3, in_a_row=1)
        few = interleaved({way: last[way] for way in (HAND, OURS)}, rounds * 15)
        taken_few = interleaved(last, 4, in_a_row=3)
    workload = f"resume {name} messages"
    worse = max(floor[OURS].of(floor[HAND]), floor[OURS].of(floor[DICTS]))
    section.note(workload, "of decoding the rows by hand", worse, "×")
    section.note(f"last 50 of {name}", "of the bare SELECT + decode", few[OURS].of(few[HAND]), "×")
    _show(section, workload, {**taken, **floor})
    _show(section, f"last 50 of {name}", {**taken_few, **few})


def _graph(at: Path, count: int, stack: ExitStack) -> Ways:
    """LangGraph's newest checkpoint, with all messages in it."""
    graph = stack.enter_context(graphs.on_sqlite(at / "graph.db", delta=False, first=count - 1))
    graph.step()
    found = graph.saver.get_tuple(graphs.THREAD).checkpoint["channel_values"]["messages"]
    if len(found) != count:
        raise RuntimeError(f"{len(found)} messages in the checkpoint")
    return {"LangGraph SqliteSaver": burst(lambda: graph.saver.get_tuple(graphs.THREAD))}


def _show(section: Section, workload: str, taken: dict[str, Taken]) -> None:
    floor = taken[HAND].median_us
    rows = []
    for way, found in taken.items():
        section.note(workload, way, found.median_us / 1000, "ms")
        p99 = found.p99_us / 1000
        rows.append([way, f"{found.median_us / 1000:,.2f}", f"{p99:,.2f}", f"{found.median_us / floor:,.2f} ×"])
    section.say(f"### {workload[0].upper()}{workload[1:]}", "")
    if left := [peer for peer in SLOW if peer not in taken]:
        section.say(f"Without {' and '.join(left)}, which take a message at a time.", "")
    section.say(*table(["way", "median ms", "p99 ms", f"of {HAND}"], rows))


def independence(section: Section, at: Path, long: int, rounds: int) -> None:
    with holdfast.open(f"sqlite:///{at / 'both.db'}", durability="normal") as hf:
        sessions = {"short": filled(hf, 100), "long": filled(hf, long)}
        ways: Ways = {
            name: burst(lambda session=session: list(hf.sessions.messages(session, last=50)))  # type: ignore[misc]
            for name, session in sessions.items()
        }
        taken = interleaved(ways, rounds)
    section.tell("last 50 of 10,000", "of the last 50 of 100", taken["long"].of(taken["short"]), "×")


def results(quick: bool) -> Section:
    section = Section(title="Reading, SQLite, RAM disk")
    for count, name in ((60, "1,000"), (200, "10,000")) if quick else ((1_000, "1,000"), (10_000, "10,000")):
        with folder(RAM) as at:
            resume(section, at, count, name, 3 if quick else 15)
    with folder(RAM) as at:
        independence(section, at, 500 if quick else 10_000, 5 if quick else 100)
    return section
