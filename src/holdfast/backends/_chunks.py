"""Bytes in pieces of one size, as tables keep them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

CHUNK = 1024 * 1024


def in_chunks(given: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of one size, the last shorter; one empty piece if there are none."""
    waiting, first = bytearray(), True
    for piece in given:
        waiting += piece
        while len(waiting) > CHUNK:
            yield bytes(waiting[:CHUNK])
            del waiting[:CHUNK]
            first = False
    if waiting or first:
        yield bytes(waiting)


def chunks_of(start: int, stop: int) -> Iterator[tuple[int, slice]]:
    """Which pieces hold the bytes from start up to stop, and what is wanted of each."""
    for n in range(start // CHUNK, -(-stop // CHUNK)):
        yield n, slice(max(0, start - n * CHUNK), stop - n * CHUNK)
