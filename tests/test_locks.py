"""The locks of SQLite files and of folders, whoever is interrupted or closed while it waits."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from random import uniform

import apsw
import pytest

import holdfast
from holdfast import Busy, Message
from holdfast.backends import _sqlite_line
from holdfast.backends._file.lock import SharedLock
from holdfast.backends._locks import FileLock
from holdfast.backends._sqlite_line import A_WHILE_S, Line
from holdfast.backends.sqlite import SqliteStore
from holdfast.contracts import Insert, Planned
from holdfast.testing.records import dump, session

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


# the line of SQLite's writers


def test_writers_queue_once_one_of_them_has_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sqlite_line, "A_WHILE_S", 3600.0)
    with holdfast.open(f"sqlite:///{tmp_path}/agents.db") as hf:
        hf.sessions.create(id="s", title="x")
        held = FileLock(f"{tmp_path}/agents.db-lock")
        assert held.take_free()
        hf.sessions.append("s", Message.user("nobody has asked it to queue"))
        another = Line(f"{tmp_path}/agents.db-lock")
        assert not another.acquire(time.monotonic())
        with pytest.raises(Busy, match="nothing was written"):
            hf.sessions.append("s", Message.user("now it queues"), timeout=0.01)
        held.release()
        hf.sessions.append("s", Message.user("its turn"))
        assert [one.text for one in hf.sessions.messages("s")] == ["nobody has asked it to queue", "its turn"]
        for lock in (held, another):
            lock.close()


def test_what_an_earlier_start_of_the_machine_has_left_forms_no_line(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    present = time.monotonic()
    for left in (present - 1, present + A_WHILE_S + 1000, -1.0, float("nan"), float("inf")):
        path.write_bytes(struct.pack("d", left))
        line = Line(str(path))
        assert not line.is_formed()
        line.form()
        other = Line(str(path))
        assert struct.unpack("d", path.read_bytes())[0] > present
        line.close()
        other.close()


def test_a_lock_that_an_interrupted_call_has_left_taken_is_given_back_by_the_next(tmp_path: Path) -> None:
    with closing(SqliteStore(f"{tmp_path}/agents.db")) as store, closing(Line(f"{tmp_path}/agents.db-lock")) as another:
        assert store._line is not None
        for deed in (lambda: store.commit([]), store.scrub, lambda: store.submit([_nothing()])[0].result(LONG_S)):
            assert store._line.take_free()
            assert not another.take_free()
            deed()
            assert another.take_free()
            another.release()


def _nothing() -> Planned:
    return Planned([], None, time.monotonic() + LONG_S)


def test_a_batch_waits_for_another_writer_no_longer_than_each_of_it_may(tmp_path: Path) -> None:
    path = f"{tmp_path}/agents.db"
    with closing(SqliteStore(path)) as store, closing(apsw.Connection(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        short = Planned([Insert(session("short"))], None, time.monotonic() + 0.05)
        long = Planned([Insert(session("long"))], None, time.monotonic() + 10 * LONG_S)
        refused, kept = store.submit([short, long])
        with pytest.raises(Busy, match="nothing was written"):
            refused.result(LONG_S)
        assert not kept.done()
        other.execute("ROLLBACK")
        kept.result(LONG_S)
        assert [one.key for one in dump(store)] == [("long",)]


def test_a_log_is_emptied_also_if_a_writer_comes_in_between(tmp_path: Path) -> None:
    path = f"{tmp_path}/agents.db"

    class Met(SqliteStore):
        """One who empties the log, and meets a writer that did not see it come."""

        def _wait(self, tries: int) -> bool:
            if other.in_transaction:
                other.execute("ROLLBACK")
            return super()._wait(tries)

    with closing(Met(path)) as store, closing(apsw.Connection(path)) as other:
        store.commit([Insert(session("s"))])
        assert Path(f"{path}-wal").stat().st_size > 0
        store._con.execute("BEGIN IMMEDIATE")  # as an interrupted commit leaves it
        store.scrub()
        assert not store._con.in_transaction
        assert Path(f"{path}-wal").stat().st_size == 0
        store.commit([Insert(session("t"))])
        other.execute("BEGIN IMMEDIATE")
        store.scrub()
        assert Path(f"{path}-wal").stat().st_size == 0
