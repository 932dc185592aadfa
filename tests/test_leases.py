"""Leases are renewed as long as somebody wants them, by one thread that is there as long as there are any."""

from __future__ import annotations

import gc
import socket
import threading
import time
from pathlib import Path

import pytest

import holdfast
from holdfast import holds
from holdfast.leases import Leases

SOON_S = 30


class Counted:
    """A lease that counts its renewals, and is due again at once."""

    def __init__(self, wanted: bool = True, lasts: int = 1_000_000) -> None:
        self.renew_at = time.monotonic()
        self.is_wanted = wanted
        self.lasts = lasts
        self.renewed = threading.Semaphore(0)
        self.let_gone = False

    def renew(self) -> bool:
        self.renewed.release()
        self.lasts -= 1
        return self.lasts > 0

    def let_go(self) -> None:
        self.let_gone = True


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "holdfast-leases"]


def test_one_thread_renews_every_lease() -> None:
    leases, held = Leases(), [Counted() for _ in range(20)]
    for lease in held:
        leases.add(lease)
    assert all(lease.renewed.acquire(timeout=SOON_S) for lease in held for _ in range(3))
    assert len(threads()) == 1
    leases.close()
    assert all(lease.let_gone for lease in held)


@pytest.mark.parametrize("lease", [Counted(lasts=2), Counted(wanted=False)])
def test_the_thread_ends_when_nothing_is_left_to_renew(lease: Counted) -> None:
    leases = Leases()
    leases.add(lease)
    for thread in threads():
        thread.join(SOON_S)
    assert threads() == []
    another = Counted()
    leases.add(another)
    assert another.renewed.acquire(timeout=SOON_S)
    leases.close()
    assert lease.is_wanted or lease.let_gone


def test_a_run_that_is_forgotten_without_an_end_is_not_renewed() -> None:
    with holdfast.open("memory:") as hf:
        hf.sessions.create(id="s")
        run = hf.runs.start("s")
        recorder = run._recorder
        assert recorder.is_wanted
        del run
        gc.collect()
        assert not recorder.is_wanted


def test_where_the_system_tells_nothing_of_its_start_a_host_goes_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holds, "_PROC", tmp_path)
    assert holds.this_host() == socket.gethostname()
