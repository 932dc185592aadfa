"""How many pages of SQLite's log a call writes: beside the sync, what a disk has to do for a commit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

FEW = 800  # SQLite begins its log anew after 1,000


def per_call(path: Path, call: Callable[[], object], calls: int = 60) -> float:
    """Pages per call, of a log that begins empty."""
    with closing(apsw.Connection(str(path))) as con:
        busy, *_ = con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
        if busy:
            raise RuntimeError("somebody reads, so that the log cannot be emptied")
        for _ in range(calls):
            call()
        # Not by the log's size: ours is longer than what is in it.
        pages, _ = con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    if pages > FEW:
        raise RuntimeError(f"{pages} pages by {calls} calls are too many to be counted")
    return pages / calls
