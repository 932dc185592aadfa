"""What a ranked search costs beside bare FTS5, over the same messages in the same run.

    python benchmarks/search.py [messages]

The words are Zipf-distributed, so that some are in every message and most in few. Bare is what one writes by hand:
an FTS5 table that holds the texts, its ten best rows with a snippet each. Ours gives whole messages in their
sessions. Prints the time to fill the index, and for each query the best of some runs in processor time.
"""

from __future__ import annotations

import itertools
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw

import holdfast
from holdfast import Message
from holdfast.client import Holdfast

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


def append_us(hf: Holdfast) -> float:
    """The median of some appends."""
    chat, taken = hf.sessions.create(title="appends"), []
    for _ in range(300):
        message = Message.user("x" * 1_100)
        start = time.perf_counter()
        hf.sessions.append(chat.id, message)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1_000_000


def best_ms(*calls: Callable[[], object]) -> list[float]:
    """The best of some runs of each, taken in turns, by this thread's own time: others share the machine."""
    best = [float("inf")] * len(calls)
    for _ in range(RUNS):
        for at, call in enumerate(calls):
            start = time.thread_time()
            call()
            best[at] = min(best[at], (time.thread_time() - start) * 1000)
    return best


def compare(hf: Holdfast, bare: apsw.Connection, words: list[str]) -> None:
    """A line for each query, and the ratio of the sums."""
    print(f"{'query':<34}{'matches':>9}{'bare FTS5':>12}{'hf.search':>12}{'ratio':>8}")
    totals = [0.0, 0.0]
    for ranks in RANKS:
        query = " ".join(words[rank] for rank in ranks)
        matches = bare.execute("SELECT count(*) FROM bare WHERE bare MATCH ?", (query,)).fetchone()
        bare_ms, ours_ms = best_ms(
            lambda: bare.execute(BARE, (query,)).fetchall(),  # noqa: B023 — called at once
            lambda: hf.search(query, limit=10),  # noqa: B023
        )
        totals[0] += bare_ms
        totals[1] += ours_ms
        shown = f"{query} (word {', '.join(str(rank + 1) for rank in ranks)})"
        print(f"{shown:<34}{matches[0]:>9,}{bare_ms:>9.2f} ms{ours_ms:>9.2f} ms{ours_ms / bare_ms:>8.2f}")  # type: ignore[index]
    print(f"{'all of them':<43}{totals[0]:>9.2f} ms{totals[1]:>9.2f} ms{totals[1] / totals[0]:>8.2f}")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    words = vocabulary()
    with tempfile.TemporaryDirectory() as folder:
        bare = apsw.Connection(str(Path(folder, "bare.db")))
        with holdfast.open(f"sqlite:///{folder}/agents.db", durability="normal", timeout=600) as hf:
            write(hf, bare, words, count)
            before = append_us(hf)
            start = time.perf_counter()
            hf.search(words[WORDS // 2])
            print(f"{count:,} messages; the first search fills the index: {time.perf_counter() - start:.1f} s")
            print(f"an append: {before:.0f} µs before anything was searched, {append_us(hf):.0f} µs after")
            hf.search(words[0], limit=1)
            compare(hf, bare, words)
            start = time.perf_counter()
            hf.search(words[20_000][1:-1], substring=True, limit=10)
            print(f"a substring, for which all messages are read: {(time.perf_counter() - start) * 1000:.0f} ms")
        bare.close()


if __name__ == "__main__":
    main()
