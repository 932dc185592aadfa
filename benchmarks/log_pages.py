"""How many pages of SQLite's log a call writes: beside the sync, what a disk has to do for a commit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

FRAME = 4096 + 24  # a page and what stands before it
FEW = 800  # SQLite begins its log anew after 1,000


def per_call(path: Path, call: Callable[[], object], calls: int = 60) -> float:
    """Pages per call, counted by how the log grows from empty."""
    with closing(apsw.Connection(str(path))) as con:
        busy, *_ = con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
    if busy:
        raise RuntimeError("somebody reads, so that the log cannot be emptied")
    for _ in range(calls):
        call()
    pages = Path(f"{path}-wal").stat().st_size // FRAME
    if pages > FEW:
        raise RuntimeError(f"{pages} pages by {calls} calls are too many to be counted")
    return pages / calls
