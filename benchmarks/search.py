"""What a ranked search costs beside bare FTS5, over the same messages in the same run.

The words are Zipf-distributed, so that some are in every message and most in few. Bare is what one writes by hand:
an FTS5 table that holds the texts, its ten best rows with a snippet each. Ours gives whole messages in their
sessions. Each query's figure is the best of some runs in processor time.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from pathlib import Path

import apsw
from figures import Section, table
from rounds import RAM, Burst, burst, folder, interleaved

import holdfast
from holdfast import Message
from holdfast.client import Holdfast

WORKLOAD = "text search, 100,000 messages"
WORDS = 30_000
PER_MESSAGE = 165  # about 1.1 KB
PER_SESSION = 100
RUNS = 9
RANKS = ((0,), (10,), (100,), (400,), (1_000,), (10_000,), (5, 50), (50, 2_000), (3, 30, 300))

BARE = "SELECT rowid, text, snippet(bare, 0, '', '', '…', 24), rank FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT 10"


def vocabulary() -> list[str]:
    """Different words of different lengths."""
    chosen = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    made: dict[str, None] = {}
    while len(made) < WORDS:
        made["".join(chosen.choices(letters, k=chosen.choice((3, 4, 5, 6, 8, 10))))] = None
    return list(made)


def write(hf: Holdfast, bare: apsw.Connection, words: list[str], count: int) -> None:
    """The same texts into both."""
    chosen = random.Random(8)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, WORDS + 1)))
    bare.execute("CREATE VIRTUAL TABLE bare USING fts5(text)")
    with bare:
        for _ in range(0, count, PER_SESSION):
            texts = [
                " ".join(chosen.choices(words, cum_weights=weights, k=PER_MESSAGE)) for _text in range(PER_SESSION)
            ]
            chat = hf.sessions.create(title="benchmark")
            hf.sessions.append(chat.id, *(Message.user(text) for text in texts))
            bare.executemany("INSERT INTO bare (text) VALUES (?)", [(text,) for text in texts])


def append(hf: Holdfast) -> Burst:
    chat = hf.sessions.create(title="appends").id
    return burst(lambda: hf.sessions.append(chat, Message.user("x" * 1_100)))


def best_ms(*calls: Callable[[], object]) -> list[float]:
    """The best of some runs of each, taken in turns, by this thread's own time: others share the machine."""
    best = [float("inf")] * len(calls)
    for _ in range(RUNS):
        for at, call in enumerate(calls):
            start = time.thread_time()
            call()
            best[at] = min(best[at], (time.thread_time() - start) * 1000)
    return best


def compare(section: Section, hf: Holdfast, bare: apsw.Connection, words: list[str]) -> None:
    """A row for each query, and the ratio of the sums."""
    rows, totals = [], [0.0, 0.0]
    for ranks in RANKS:
        query = " ".join(words[rank] for rank in ranks)
        matches: int = bare.execute("SELECT count(*) FROM bare WHERE bare MATCH ?", (query,)).get
        bare_ms, ours_ms = best_ms(
            lambda: bare.execute(BARE, (query,)).fetchall(),  # noqa: B023 — called at once
            lambda: hf.search(query, limit=10),  # noqa: B023
        )
        totals[0] += bare_ms
        totals[1] += ours_ms
        shown = f"word {' and '.join(str(rank + 1) for rank in ranks)}"
        rows.append([shown, f"{matches:,}", f"{bare_ms:.2f} ms", f"{ours_ms:.2f} ms", f"{ours_ms / bare_ms:.2f} ×"])
    ratio = totals[1] / totals[0]
    rows.append(["all of them", "", f"{totals[0]:.2f} ms", f"{totals[1]:.2f} ms", f"{ratio:.2f} ×"])
    section.note(WORKLOAD, "of bare FTS5", ratio, "×")
    section.say("", *table(["query", "matches", "bare FTS5", "hf.search", "ratio"], rows))


def figures(section: Section, at: Path, count: int) -> None:
    words = vocabulary()
    bare = apsw.Connection(str(at / "bare.db"))
    with holdfast.open(f"sqlite:///{at / 'agents.db'}", durability="normal", timeout=600) as hf:
        write(hf, bare, words, count)
        hf.backup(str(at / "unsearched.db"))
        start = time.perf_counter()
        hf.search(words[WORDS // 2])
        section.tell(WORKLOAD, "the first search, which fills the index", time.perf_counter() - start, "s")
        with holdfast.open(f"sqlite:///{at / 'unsearched.db'}", durability="normal") as unsearched:
            taken = interleaved({"after": append(hf), "before": append(unsearched)}, rounds=100)
        section.tell(WORKLOAD, "append after a search, of before", taken["after"].of(taken["before"]), "×")
        start = time.perf_counter()
        hf.search(words[20_000][1:-1], substring=True, limit=10)
        took = (time.perf_counter() - start) * 1000
        section.tell(WORKLOAD, "a substring, for which all messages are read", took, "ms")
        hf.search(words[0], limit=1)
        compare(section, hf, bare, words)
    bare.close()


def results(quick: bool) -> Section:
    section = Section(title="Text search, ten best, SQLite, RAM disk")
    with folder(RAM) as at:
        figures(section, at, 500 if quick else 100_000)
    return section
