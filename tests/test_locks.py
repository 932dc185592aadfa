"""The locks of SQLite files and of folders, whoever is interrupted or closed while it waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import uniform

from holdfast.backends._file.lock import SharedLock
from holdfast.backends._locks import FileLock

LONG_S = 30
WAITING = """
import signal, sys, time
from holdfast.backends._locks import FileLock
signal.signal(signal.SIGINT, signal.default_int_handler)
lock = FileLock(sys.argv[1])
print("waits", flush=True)
lock.acquire(time.monotonic() + 600)
"""


def test_a_process_that_is_interrupted_while_it_waits_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    held = FileLock(path)
    assert held.take_free()
    with subprocess.Popen([sys.executable, "-c", WAITING, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as one:
        assert one.stdout is not None
        one.stdout.readline()
        time.sleep(0.3)  # by then it stands in the queue, most likely
        one.send_signal(signal.SIGINT)
        assert one.wait(LONG_S) != 0
    held.close()


def test_a_lock_that_was_closed_while_it_waited_unlocks_no_other_file(tmp_path: Path) -> None:
    held, waiter = FileLock(str(tmp_path / "one")), FileLock(str(tmp_path / "one"))
    assert held.take_free()
    assert not waiter.acquire(time.monotonic() + 0.05)
    waiter.close()
    another, rival = FileLock(str(tmp_path / "another")), FileLock(str(tmp_path / "another"))
    assert another.take_free()
    held.release()
    with suppress(OSError):
        while True:  # until the one who stood in the queue has closed it
            os.fstat(waiter._fd)
    assert not rival.take_free()
    for lock in (held, another, rival):
        lock.close()


def test_who_was_interrupted_as_it_began_to_wait_holds_it_alone_later(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    for number in range(100):
        path = str(tmp_path / str(number))
        held, waiter, rival = (SharedLock(path) for _ in range(3))
        assert held.acquire(shared=False, until=0)
        with suppress(KeyboardInterrupt):
            try:
                signal.setitimer(signal.ITIMER_REAL, uniform(2e-5, 2e-4))
                waiter.acquire(shared=False, until=time.monotonic() + 0.01)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        held.release()
        assert waiter.acquire(shared=False, until=time.monotonic() + LONG_S)
        assert not rival.acquire(shared=True, until=time.monotonic() + 0.002)
        for lock in (held, waiter, rival):
            lock.close()
    signal.signal(signal.SIGALRM, before)
