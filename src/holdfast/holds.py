"""Holding a session: a lease with an epoch, that lapses when its holder dies and at once if it died on this host."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Protocol, runtime_checkable

from holdfast import history
from holdfast.contracts import Reader
from holdfast.errors import Busy
from holdfast.run_records import Hold, hold_of

LEASE_S = 30.0
_PROC = Path("/proc")


@runtime_checkable
class TellsTime(Protocol):
    """The capability of a store to say what time it is, so that its users need not agree on one."""

    def now(self) -> int:
        """Microseconds since 1970 in UTC."""
        ...


def store_now(store: Reader) -> int:
    """The store's clock in microseconds: a server's own where it has one, else this host's."""
    return store.now() if isinstance(store, TellsTime) else time.time_ns() // 1000


def lease_until(store: Reader, lease_s: float) -> int:
    """When a lease that begins now is over."""
    return store_now(store) + int(lease_s * 1_000_000)


def make_hold(store: Reader, session: str, run_id: str, epoch: int, lease_s: float) -> Hold:
    """A hold by this process from now on."""
    return Hold(
        session=session,
        run_id=run_id,
        epoch=epoch,
        until=lease_until(store, lease_s),
        host=this_host(),
        pid=os.getpid(),
        born=_birth(os.getpid()) or "",
    )


def this_host() -> str:
    """What processes have in common that can see each other: the host since it was started, and its pids."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return platform.node()


def _birth(pid: int) -> str | None:
    """What tells a process from another that has had its number; None if it has ended, empty if nobody can say."""
    if not (_PROC / "self/stat").exists():
        return ""
    try:
        stat = (_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if stat[0] in ("Z", "X") else stat[19]  # killed, and nobody has asked after it yet


def is_live(hold: Hold | None, now: int) -> bool:
    """Whether a hold still counts."""
    if hold is None or hold.released or hold.until <= now:
        return False
    return hold.host != this_host() or _is_running(hold)


def _is_running(hold: Hold) -> bool:
    try:
        os.kill(hold.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    born = _birth(hold.pid)
    return born is not None and (not born or not hold.born or born == hold.born)


def check_free(reader: Reader, pointer: history.Pointer, store: Reader) -> None:
    """Busy if a run holds the session."""
    hold = hold_of(reader, pointer.uid)
    if hold is not None and is_live(hold, store_now(store)):
        raise held_by(hold, pointer.session_id)


def held_by(hold: Hold, session_id: str) -> Busy:
    """The error that says who has a session."""
    return Busy(f"run {hold.run_id!r} holds session {session_id!r}; wait for its end, or end it with runs.halt")
