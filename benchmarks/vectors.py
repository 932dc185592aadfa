"""What a search of 100,000 × 384 vectors costs beside numpy's own brute force, and how much of the truth it finds.

    python benchmarks/vectors.py

measures hnswlib and sqlite-vec too, if they are installed, on which the choice of usearch rests.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import apsw
import msgspec
import numpy as np
from figures import Section
from numpy.typing import NDArray
from rounds import RAM, folder

import holdfast
from holdfast import Holdfast
from holdfast.backends._graph import Graph
from holdfast.backends._numpy_vectors import CANDIDATES, NumpyVectors
from holdfast.backends.vectors import INDEX_FROM
from holdfast.contracts import Vector, VectorIndex
from holdfast.model import Embedding

WORKLOAD = "vectors 100,000 × 384"
COUNT, DIMENSION, CLUSTERS, NEIGHBOURS = 100_000, 384, 1_000, 10
QUERIES, TIMED, BLOCK = 500, 300, 100
LONG_S = 600.0
STORED = "SELECT digest, body FROM embeddings WHERE space = 1 AND id IN"

Floats = NDArray[np.float32]
Find = Callable[[Floats], list[int]]
Compared = tuple[float, float, float, float]


def clustered(count: int, seed: int) -> Floats:
    """Unit vectors around 1,000 places; the nearest of one have a cosine of about 0.7 with it."""
    places = _units(np.random.default_rng(1).standard_normal((CLUSTERS, DIMENSION), np.float32))
    chance = np.random.default_rng(seed)
    noise = chance.standard_normal((count, DIMENSION), np.float32) * np.float32(0.7 / np.sqrt(DIMENSION))
    return _units(places[chance.integers(0, CLUSTERS, count)] + noise)


def _units(vectors: Floats) -> Floats:
    units: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units


def by_hand(matrix: Floats, wanted: Floats) -> list[int]:
    """Numpy's brute force."""
    scores = matrix @ wanted
    best = np.argpartition(scores, -NEIGHBOURS)[-NEIGHBOURS:]
    found: list[int] = best[np.argsort(-scores[best])].tolist()
    return found


def compare(matrix: Floats, queries: Floats, find: Find) -> Compared:
    """Milliseconds of ours and of numpy's; their ratio; and how much of the truth all queries found."""
    return compare_all(matrix, queries, [find])[0]


def compare_all(matrix: Floats, queries: Floats, finds: Sequence[Find]) -> list[Compared]:
    """The same of several ways.

    They take turns in blocks of a hundred, of which the first thirty are not counted: after a product numpy's threads
    spin for a while and its matrix fills the caches, which would be charged to whoever comes next.
    """
    hand: list[float] = []
    taken: list[list[float]] = [[] for _ in finds]
    for start in range(0, min(TIMED, len(queries)), BLOCK):
        block = queries[start : start + BLOCK]
        hand += timed(lambda wanted: by_hand(matrix, wanted), block)
        for each, find in zip(taken, finds, strict=True):
            each += timed(find, block)
    true = list(truths(matrix, queries))
    theirs, compared = statistics.median(hand) * 1e3, []
    for each, find in zip(taken, finds, strict=True):
        found = [len(truth & {*find(wanted)}) / NEIGHBOURS for wanted, truth in zip(queries, true, strict=True)]
        mine = statistics.median(each) * 1e3
        compared.append((mine, theirs, mine / theirs, statistics.mean(found)))
    return compared


def timed(find: Find, queries: Floats) -> list[float]:
    """Seconds of each, after a few that are not counted."""
    taken = []
    for wanted in queries:
        start = time.perf_counter()
        find(wanted)
        taken.append(time.perf_counter() - start)
    return taken[len(taken) * 3 // 10 :]


def truths(matrix: Floats, queries: Floats) -> Iterator[set[int]]:
    """The true neighbours of many queries; one that a graph cannot reach at all is seen only among many."""
    for start in range(0, len(queries), 50):
        scores = queries[start : start + 50].astype(np.float64) @ matrix.T  # in float32 the tenth may be a toss-up
        yield from map(set, np.argpartition(scores, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS:].tolist())


def line(what: str, result: Compared) -> str:
    mine, theirs, ratio, recall = result
    return f"{what}: {mine:.2f} ms, numpy {theirs:.2f} ms: {ratio:.3f} × numpy, recall {recall:.4f}"


def graph_alone(section: Section, matrix: Floats, queries: Floats) -> Iterator[str]:
    """What proposes candidates."""
    graph = Graph(DIMENSION)
    graph.fill(matrix.copy())
    assert graph.settle(LONG_S)
    alone = compare(matrix, queries, lambda wanted: graph.search(wanted, CANDIDATES * NEIGHBOURS).tolist())
    graph.close()
    section.note(WORKLOAD, "the graph alone, of numpy", alone[2], "×")
    yield line("the graph alone", alone)


def indexes(matrix: Floats, queries: Floats) -> Iterator[str]:
    """Our index by itself: exact, then by its graph, plain and filtered."""
    index, exact = NumpyVectors(DIMENSION, Graph, min(INDEX_FROM, len(matrix))), NumpyVectors(DIMENSION)
    count = len(matrix)
    labels = [["tenth"] if number % 10 == 0 else ["rest"] for number in range(count)]
    start = time.perf_counter()
    given = [Vector(id=str(row), values=matrix[row], labels=labels[row]) for row in range(count)]
    for first in range(0, count, 2_000):
        index.upsert(given[first : first + 2_000])
    yield f"{count:,} × {DIMENSION} taken in after {time.perf_counter() - start:.1f} s"

    def find(wanted: Floats, *labels: str, of: VectorIndex = index) -> list[int]:
        return [int(near.id) for near in of.search(wanted.tolist(), NEIGHBOURS, labels)]

    exact.upsert(given)
    yield line("exact", compare(matrix, queries[:TIMED], lambda wanted: find(wanted, of=exact)))
    exact.close()
    start = time.perf_counter()
    assert index.settle(LONG_S)
    yield f"graph made after {time.perf_counter() - start:.1f} s, in the background"
    yield line("by graph", compare(matrix, queries, find))
    tenth = matrix.copy()
    tenth[[row for row in range(count) if row % 10]] = 0
    yield line("of a tenth, exactly", compare(tenth, queries[:TIMED], lambda wanted: find(wanted, "tenth")))
    rest = matrix.copy()
    rest[::10] = 0
    yield line("of nine tenths, by graph", compare(rest, queries, lambda wanted: find(wanted, "rest")))
    index.close()


def stored(section: Section, matrix: Floats, queries: Floats, at: Path) -> Iterator[str]:
    """Through the client and SQLite: each search also asks whether others have written, and reads what it found."""
    url = f"sqlite:///{at / 'vectors.db'}"
    with holdfast.open(url, durability="normal", vector_index_from=None) as hf:
        start = time.perf_counter()
        for first in range(0, len(matrix), 5_000):
            rows = range(first, min(len(matrix), first + 5_000))
            hf.embeddings.upsert([Embedding(id=str(row), vector=matrix[row].tolist()) for row in rows])
        yield f"{len(matrix):,} stored after {time.perf_counter() - start:.1f} s"
    with holdfast.open(url, vector_index_from=None) as hf:
        start = time.perf_counter()
        hf.embeddings.warm()
        yield f"loaded after {time.perf_counter() - start:.1f} s"
        exact = compare(matrix, queries[:TIMED], finding(hf))
        section.note(WORKLOAD, "exact, once loaded, of numpy", exact[2], "×")
        yield line(f"hf.embeddings.search of {len(matrix):,}, exact", exact)
        hf.embeddings.upsert("0", matrix[0].tolist())
    with holdfast.open(url, vector_index_from=len(matrix)) as hf:
        hf.embeddings.warm(timeout=LONG_S)
        with by_graph_and_rows(matrix, at / "vectors.db") as find:
            indexed, hand = compare_all(matrix, queries, [finding(hf), find])
        section.note(WORKLOAD, "by index, of numpy", indexed[2], "×")
        section.note(WORKLOAD, "recall by index", indexed[3], "")
        section.note(WORKLOAD, "by graph and rows by hand, of numpy", hand[2], "×")
        yield line("by graph and rows by hand", hand)
        yield line(f"hf.embeddings.search of {len(matrix):,}, by graph", indexed)
    with holdfast.open(url, vector_cache_bytes=0) as hf:
        yield line("the same, streamed", compare(matrix, queries[:2], finding(hf)))


@contextmanager
def by_graph_and_rows(matrix: Floats, path: Path) -> Iterator[Find]:
    """What such a search is in any case: the graph's candidates scored again, and the rows of the best, checked."""
    graph = Graph(DIMENSION)
    graph.fill(matrix.copy())
    assert graph.settle(LONG_S)
    decode, nearest = msgspec.json.Decoder().decode, ", ".join("?" * NEIGHBOURS)
    with closing(apsw.Connection(str(path))) as con:

        def find(wanted: Floats) -> list[int]:
            asked = np.array(wanted.tolist(), np.float32)  # which callers have as a list
            rows = graph.search(asked, CANDIDATES * NEIGHBOURS)
            scores = np.einsum("ij,j->i", matrix[rows].astype(np.float64), asked.astype(np.float64))
            best = np.argsort(-scores)[:NEIGHBOURS]
            ids = [str(row) for row in rows[best].tolist()]
            found = {}
            stored: list[Any] = con.execute(f"{STORED} ({nearest})", ids).fetchall()
            for digest, body in stored:
                if hashlib.sha256(body).digest() != digest:
                    raise RuntimeError("a row is damaged")
                said = decode(body)
                found[said["id"]] = np.frombuffer(b64decode(said["vector"]), "<f4").tolist()
            neighbours = [(id, found[id], score) for id, score in zip(ids, scores[best].tolist(), strict=True)]
            return [int(id) for id, _, _ in neighbours]

        yield find
    graph.close()


def finding(hf: Holdfast) -> Find:
    return lambda wanted: [int(near.embedding.id) for near in hf.embeddings.search(wanted.tolist(), limit=NEIGHBOURS)]


def others(matrix: Floats, queries: Floats) -> Iterator[str]:
    """The libraries that were not chosen."""
    hnswlib: Any = import_module("hnswlib")
    index = hnswlib.Index("ip", DIMENSION)
    index.init_index(len(matrix), M=16, ef_construction=100)
    start = time.perf_counter()
    index.add_items(matrix, np.arange(len(matrix)))
    yield f"hnswlib made after {time.perf_counter() - start:.1f} s"
    index.set_ef(64)
    index.set_num_threads(1)
    yield line("hnswlib", compare(matrix, queries, lambda wanted: index.knn_query(wanted, NEIGHBOURS)[0][0].tolist()))
    yield from _sqlite_vec(matrix, queries)


def _sqlite_vec(matrix: Floats, queries: Floats) -> Iterator[str]:
    apsw: Any = import_module("apsw")
    con = apsw.Connection(":memory:")
    con.enable_load_extension(True)
    con.load_extension(import_module("sqlite_vec").loadable_path())
    con.execute(f"CREATE VIRTUAL TABLE v USING vec0(e float[{DIMENSION}] distance_metric=cosine)")
    start = time.perf_counter()
    with con:
        con.executemany("INSERT INTO v (rowid, e) VALUES (?, ?)", ((n, row.tobytes()) for n, row in enumerate(matrix)))
    yield f"sqlite-vec made after {time.perf_counter() - start:.1f} s"
    nearest = "SELECT rowid FROM v WHERE e MATCH ? AND k = ?"

    def find(wanted: Floats) -> list[int]:
        return [row for (row,) in con.execute(nearest, (wanted.tobytes(), NEIGHBOURS))]

    yield line("sqlite-vec", compare(matrix, queries[:10], find))


def results(quick: bool) -> Section:
    section = Section(title=f"Nearest {NEIGHBOURS} of {COUNT:,} × {DIMENSION} vectors")
    matrix, queries = clustered(3_000 if quick else COUNT, seed=2), clustered(60 if quick else QUERIES, seed=3)
    section.say(*(f"- {line}" for line in graph_alone(section, matrix, queries)))
    section.say(*(f"- {line}" for line in indexes(matrix, queries)))
    with folder(RAM) as at:
        section.say(*(f"- {line}" for line in stored(section, matrix, queries, at)))
    return section


if __name__ == "__main__":
    print("\n".join(others(clustered(COUNT, seed=2), clustered(QUERIES, seed=3))))
