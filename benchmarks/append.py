"""What one durable append costs: against its floors, beside peers, and as a conversation grows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import floors
from figures import Section, table
from floors import ByHand, OneRow
from log_pages import per_call
from peers import PEERS, Peer
from rounds import DISK, RAM, TEXT, Burst, Taken, awaited, burst, folder, interleaved
from syncs import counted

import holdfast
from holdfast import Holdfast, Message

SYNC, AWAITED = "append, sync", "append, async, one agent"
LENGTHS = (100, 1_000, 10_000)
BEHIND = 700  # appends before those that are timed beside the floors
PATIENCE_S = 20.0  # after which a peer grows no further
BARE, HAND = "bare INSERT + commit", "the same statements by hand"
VALUES = f"{HAND} with values"
ONE_ROW = "one row, hashed and linked"
OURS, OURS_AWAITED = "Holdfast", "Holdfast, async"
LOGS = {BARE: "bare", ONE_ROW: "row", HAND: "hand", OURS: "holdfast"}  # the files whose pages are counted
SURROUNDINGS = [
    "The same append has other times in other tables, and so has the bare INSERT: the first calls after other code",
    "find the processor's caches cold and take several times as long as those behind them. Ten in a row beside the",
    "floors are mostly warm, beside the peers they are colder, and where four in a row (as a conversation grows) or",
    "single calls (as a store grows) are timed, colder still; on the disk a sync comes on top. So compare within a",
    "table, not across. An agent that appends once between two calls of a model is among the cold.", "",
]  # fmt: skip


@contextmanager
def ours(parent: Path) -> Iterator[Burst]:
    with holdfast.open(f"sqlite:///{parent / 'holdfast.db'}") as hf:
        session = hf.sessions.create(title="bench").id
        yield burst(lambda: hf.sessions.append(session, Message.user(TEXT)))


@contextmanager
def ours_awaited(parent: Path, runner: asyncio.Runner) -> Iterator[Burst]:
    hf = runner.run(_opened(f"sqlite:///{parent / 'awaited.db'}"))
    session = runner.run(hf.sessions.create(title="bench")).id
    yield awaited(runner, lambda: hf.sessions.append(session, Message.user(TEXT)))
    runner.run(hf.close())


async def _opened(url: str) -> holdfast.AsyncHoldfast:
    return await holdfast.aopen(url)


@contextmanager
def opened(name: str, parent: Path, runner: asyncio.Runner, sessions: int = 1) -> Iterator[Peer]:
    """A peer, open."""
    peer = PEERS[name](parent, sessions)
    runner.run(peer.open())
    yield peer
    runner.run(peer.close())


@contextmanager
def floors_and_ours(at: Path, behind: int) -> Iterator[dict[str, Burst]]:
    """The ways in a folder, without the peers, each behind so many appends.

    As long as SQLite's log has not been written back once, its file grows, and syncs take longer.
    """
    with asyncio.Runner() as runner, ExitStack() as stack:
        ways = {
            "file append + fdatasync": burst(stack.enter_context(floors.synced(at))),
            BARE: burst(stack.enter_context(floors.bare(at))),
            ONE_ROW: burst(stack.enter_context(closing(OneRow(at / "row.db"))).append),
            HAND: burst(stack.enter_context(closing(ByHand(at / "hand.db"))).append),
            VALUES: burst(stack.enter_context(closing(ByHand(at / "values.db"))).append_with_values),
            OURS: stack.enter_context(ours(at)),
            OURS_AWAITED: stack.enter_context(ours_awaited(at, runner)),
        }
        for way in ways.values():
            way(behind)
        yield ways


def beside_floors(section: Section, place: str, parent: Path, rounds: int, behind: int) -> None:
    with folder(parent) as at, floors_and_ours(at, behind) as ways:
        taken = interleaved(ways, rounds)
        pages = None
        if parent is DISK:  # on a RAM disk the same, and ours begins its log anew too soon to be counted
            pages = {name: per_call(at / f"{file}.db", partial(ways[name], 1)) for name, file in LOGS.items()}
    bare, hand = taken[BARE], taken[HAND]
    section.say(f"### {place}, beside the floors", "")
    section.say(*_rows(taken, bare, hand, pages))
    section.note(SYNC, f"{place}, of a bare INSERT + commit", taken[OURS].of(bare), "×")
    section.note(SYNC, f"{place}, of the same statements by hand", taken[OURS].of(hand), "×")
    section.note(AWAITED, f"{place}, of a bare INSERT + commit", taken[OURS_AWAITED].of(bare), "×")
    section.note(SYNC, f"{place}, {ONE_ROW}, of a bare INSERT + commit", taken[ONE_ROW].of(bare), "×")
    section.note(SYNC, f"{place}, {HAND}, of a bare INSERT + commit", hand.of(bare), "×")
    values = taken[VALUES]
    section.note(SYNC, f"{place}, {VALUES}, of {HAND}", values.of(hand), "×")
    section.note(SYNC, f"{place}, {VALUES}, of a bare INSERT + commit", values.of(bare), "×")
    section.note(AWAITED, f"{place}, {VALUES}, not awaited, of a bare INSERT + commit", values.of(bare), "×")
    for name, each in (pages or {}).items():
        section.note("pages of the log per append", f"{place}, {name}", each, "")


def beside_peers(section: Section, place: str, parent: Path, rounds: int) -> None:
    with folder(parent) as at, asyncio.Runner() as runner, ExitStack() as stack:
        ways = {BARE: burst(stack.enter_context(floors.bare(at)))}
        ways[OURS] = stack.enter_context(ours(at))
        ways[OURS_AWAITED] = stack.enter_context(ours_awaited(at, runner))
        for name in PEERS:
            peer = stack.enter_context(opened(name, at, runner))
            ways[name] = awaited(runner, partial(peer.append, 0))
        taken = interleaved(ways, rounds)
    bare = taken[BARE]
    section.say(f"### {place}, beside peers, the first {(rounds + 1) * 10} of a conversation", "")
    section.say(*_rows(taken, bare, taken[OURS]))
    for name, way in taken.items():
        section.note(f"append beside peers, {place}", name, way.median_us, "µs")
        if way is not bare:
            section.note(f"append beside peers, {place}", f"{name}, of a bare INSERT + commit", way.of(bare), "×")


def _rows(taken: dict[str, Taken], bare: Taken, other: Taken, pages: dict[str, float] | None = None) -> list[str]:
    against = next(name for name, way in taken.items() if way is other)
    heading = ["way", "median µs", "mean µs", "p99 µs", "of bare", f"of {against}"]
    rows = []
    for name, way in taken.items():
        microseconds = [f"{one:,.1f}" for one in (way.median_us, way.mean_us, way.p99_us)]
        rows.append([name, *microseconds, f"{way.of(bare):.2f} ×", f"{way.of(other):.2f} ×"])
    if pages is None:
        return table(heading, rows)
    counts = [f"{pages[row[0]]:.1f}" if row[0] in pages else "–" for row in rows]
    return table([*heading, "pages of the log"], [[*row, count] for row, count in zip(rows, counts, strict=True)])


def _filled(hf: Holdfast, count: int) -> str:
    session = hf.sessions.create(title="bench").id
    for start in range(0, count, 500):
        hf.sessions.append(session, *(Message.user(TEXT) for _ in range(min(500, count - start))))
    return session


def independence(section: Section, long: int, rounds: int) -> None:
    """The same append early and late in a session, interleaved between two stores."""
    with folder(RAM) as at, ExitStack() as stack:
        ways = {}
        for name, count in (("young", 100), ("old", long)):
            hf = stack.enter_context(holdfast.open(f"sqlite:///{at / name}.db"))
            session = _filled(hf, count)
            ways[name] = burst(lambda hf=hf, session=session: hf.sessions.append(session, Message.user(TEXT)))  # type: ignore[misc]
        taken = interleaved(ways, rounds)
    section.tell(SYNC, "behind 10,000 messages, of behind 100", taken["old"].of(taken["young"]), "×")


def growth(section: Section, lengths: tuple[int, ...]) -> None:
    """What an append costs at some lengths of a conversation."""
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in (OURS, *PEERS)}
    with folder(RAM) as at, asyncio.Runner() as runner, ExitStack() as stack:
        hf = stack.enter_context(holdfast.open(f"sqlite:///{at / 'holdfast.db'}"))
        session = hf.sessions.create(title="bench").id
        peers = {name: stack.enter_context(opened(name, at, runner)) for name in PEERS}
        ways = {OURS: burst(lambda: hf.sessions.append(session, Message.user(TEXT)))}
        ways |= {name: awaited(runner, partial(peer.append, 0)) for name, peer in peers.items()}
        reached = 0
        for length in lengths:
            for start in range(reached, length, 500):
                hf.sessions.append(session, *(Message.user(TEXT) for _ in range(min(500, length - start))))
            for name in [name for name in peers if name in ways]:
                if not runner.run(_fill(peers[name], length - reached)):
                    del ways[name]
            for name, way in interleaved(ways, 5, in_a_row=4).items():
                points[name].append((length, way.median_us))
            reached = length + 24
    for name, curve in points.items():
        section.curve("append as a conversation grows", name, "µs", curve)
    _grown(section, points, lengths)


async def _fill(peer: Peer, count: int) -> bool:
    """Whether it took so many more within our patience."""
    until = time.perf_counter() + PATIENCE_S
    while count > 0 and time.perf_counter() < until:
        await peer.fill(0, min(500, count))
        count -= 500
    return count <= 0


def _grown(section: Section, points: dict[str, list[tuple[float, float]]], lengths: tuple[int, ...]) -> None:
    section.say("", f"### As a conversation grows, RAM (– where filling it took over {PATIENCE_S:.0f} s)", "")
    rows = []
    for name, curve in points.items():
        found = dict(curve)
        rows.append([name, *(f"{found[length]:,.0f} µs" if length in found else "–" for length in lengths)])
    section.say(*table(["way", *(f"behind {length:,}" for length in lengths)], rows))


def durability(section: Section, calls: int) -> None:
    """Journal mode and syncs of everything above."""
    ours = {BARE: "bare", OURS: "holdfast", OURS_AWAITED: "holdfast, async"}
    rows = []
    for shown, name in {**ours, **dict(zip(PEERS, PEERS, strict=True))}.items():
        synced = counted(name, calls)
        rows.append([shown, synced.journal, synced.shown])
        if synced.per_call is not None:
            section.note("syncs per append", shown, synced.per_call, "")
    section.say("### Durability", "", "Syncs per append of one agent, counted by strace on the disk.", "")
    section.say(*table(["way", "journal", "syncs"], rows))


def results(quick: bool) -> Section:
    section = Section(title="One append of 1,100 characters, SQLite", lines=[*SURROUNDINGS])
    for place, parent in (("RAM", RAM), ("disk", DISK)):
        beside_floors(section, place, parent, *((20, 20) if quick else (400, BEHIND)))
        beside_peers(section, place, parent, 3 if quick else 25)
    independence(section, 1_000 if quick else 10_000, 20 if quick else 400)
    growth(section, (10, 50) if quick else LENGTHS)
    durability(section, 10 if quick else 100)
    return section
