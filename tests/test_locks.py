"""The lock of a SQLite file, whoever is interrupted or closed while it waits."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

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
    (queueing,) = (thread for thread in threading.enumerate() if thread.name == "holdfast-lock")
    waiter.close()
    another, rival = FileLock(str(tmp_path / "another")), FileLock(str(tmp_path / "another"))
    assert another.take_free()
    held.release()
    queueing.join(LONG_S)
    assert not rival.take_free()
    for lock in (held, another, rival):
        lock.close()
