"""Holding a session: a lease with an epoch, that lapses when its holder dies and at once if it died on this host."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from holdfast import history
from holdfast.contracts import Reader, RecordStore
from holdfast.errors import Busy
from holdfast.run_records import Hold, hold_of

LEASE_S = 30.0


def store_now(store: Reader) -> int:
    """The store's clock in microseconds: a server's own where it has one, else this host's."""
    clock = getattr(store, "now", None)
    return int(clock()) if clock is not None else time.time_ns() // 1000


def birth(pid: int) -> str:
    """What tells a process from another that has had its number; empty where the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def make_hold(store: RecordStore, session: str, run_id: str, epoch: int, lease_s: float) -> Hold:
    """A hold by this process from now on."""
    until = store_now(store) + int(lease_s * 1_000_000)
    return Hold(
        session=session,
        run_id=run_id,
        epoch=epoch,
        until=until,
        host=socket.gethostname(),
        pid=os.getpid(),
        born=birth(os.getpid()),
    )


def is_live(hold: Hold | None, now: int) -> bool:
    """Whether a hold still counts."""
    if hold is None or hold.released or hold.until <= now:
        return False
    return hold.host != socket.gethostname() or _is_running(hold)


def _is_running(hold: Hold) -> bool:
    try:
        os.kill(hold.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    born = birth(hold.pid)
    return not born or not hold.born or born == hold.born


def check_free(reader: Reader, pointer: history.Pointer, store: Reader) -> None:
    """Busy if a run holds the session."""
    hold = hold_of(reader, pointer.uid)
    if hold is not None and is_live(hold, store_now(store)):
        raise Busy(
            f"run {hold.run_id!r} holds session {pointer.session_id!r}; wait for its end, or end it with runs.halt"
        )
