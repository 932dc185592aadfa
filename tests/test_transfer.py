"""Copies and imports between every two backends, and through kills: whole, or not to be seen."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path

import pytest

import holdfast
from holdfast import AlreadyExists, Holdfast, InvalidInput, Unsupported
from holdfast.backends.memory import MemoryStore
from holdfast.testing.everything import fill, held
from holdfast.testing.planting import BreaksOff

BACKENDS = {"memory": "memory:", "sqlite": "sqlite:///{folder}/agents.db", "file": "file:///{folder}/agents"}
SHARED = ["sqlite", "file"]
SILENCE_S = 60

# A worker says a letter at each report of progress, so that it can be killed between any two of them.
WORKER = """
import os, sys, holdfast
what, source, target = sys.argv[1:]
tell = lambda _: os.write(1, b".")
os.write(1, b".")
if what == "copy":
    holdfast.copy(source, target, progress=tell)
else:
    with holdfast.open(target) as hf:
        hf.import_from(source, progress=tell)
"""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[dict[str, Holdfast]]:
    urls = {name: url.format(folder=tmp_path) for name, url in BACKENDS.items()}
    stores = {name: holdfast.open(url) for name, url in urls.items()}
    yield stores
    for hf in stores.values():
        hf.close()


@pytest.mark.parametrize("pair", list(permutations(BACKENDS, 2)), ids="-to-".join)
@pytest.mark.parametrize("name", ["all", "all.zip"])
def test_an_export_of_any_backend_comes_back_the_same_from_any_other(
    opened: dict[str, Holdfast], tmp_path: Path, pair: tuple[str, str], name: str
) -> None:
    source, target = (opened[one] for one in pair)
    fill(source)
    sent = source.export(tmp_path / f"sent-{name}")
    target.import_from(tmp_path / f"sent-{name}")
    assert (target.export(tmp_path / f"back-{name}"), target.verify().problems) == (sent, [])
    assert _files(tmp_path / f"back-{name}") == _files(tmp_path / f"sent-{name}")
    assert held(target._store) == held(source._store)


@pytest.mark.parametrize("pair", list(permutations(BACKENDS, 2)), ids="-to-".join)
def test_any_backend_copies_to_any_other(opened: dict[str, Holdfast], pair: tuple[str, str]) -> None:
    source, target = (opened[one] for one in pair)
    fill(source)
    holdfast.copy(source, target)
    assert (held(target._store), target.verify().problems) == (held(source._store), [])


def test_a_namespace_is_copied_by_its_address(tmp_path: Path) -> None:
    url = BACKENDS["sqlite"].format(folder=tmp_path)
    with holdfast.open(url, namespace="mine") as mine, holdfast.open(url, namespace="other") as other:
        fill(mine)
        fill(other, "osaka")
        done = holdfast.copy(url, f"file:///{tmp_path}/files", src_namespace="mine", dst_namespace="yours")
        with holdfast.open(f"file:///{tmp_path}/files", namespace="yours") as yours:
            assert (held(yours._store), done.records) == (held(mine._store), len(held(mine._store)))


def test_a_namespace_beside_an_open_store_is_invalid() -> None:
    with Holdfast(MemoryStore()) as hf, pytest.raises(InvalidInput, match="namespace"):
        holdfast.copy(hf, "memory:", src_namespace="a")


def test_a_store_without_blobs_refuses_artifacts_before_anything_is_seen() -> None:
    with Holdfast(MemoryStore()) as hf, Holdfast(BreaksOff(MemoryStore(), -1)) as bare:
        fill(hf)
        with pytest.raises(Unsupported, match="blobs"):
            holdfast.copy(hf, bare)
        assert (list(bare.sessions.list()), list(bare.agents.list())) == ([], [])


def test_a_fork_that_is_redacted_there_is_not_filled_again() -> None:
    with Holdfast(MemoryStore()) as source, Holdfast(MemoryStore()) as target:
        fill(source)
        holdfast.copy(source, target)
        target.sessions.redact("kyoto-chat", "photo", "asked to")
        source.sessions.fork("kyoto-chat", id="later")
        with pytest.raises(AlreadyExists, match="messages"):
            holdfast.copy(source, target)
        assert target.sessions.get("later") is None


# writers that nobody waits for


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_copy_of_a_busy_store_is_sound(opened: dict[str, Holdfast], backend: str) -> None:
    source, stop = opened[backend], threading.Event()
    fill(source)
    with ThreadPoolExecutor(3) as pool:
        busy = [pool.submit(_write, source, stop, number) for number in range(3)]
        try:
            for _ in range(4):
                with Holdfast(MemoryStore()) as target:
                    holdfast.copy(source, target)
                    assert target.verify().problems == []
                    for session in target.sessions.list():
                        target.sessions.append(session.id, holdfast.Message.user("goes on"))
        finally:
            stop.set()
        assert min(one.result() for one in busy) > 0


def _write(hf: Holdfast, stop: threading.Event, number: int) -> int:
    """Append, branch, fork, checkpoint, redact and delete until told to stop; returns how often."""
    rounds = 0
    while not stop.is_set() and rounds < 100:
        rounds += 1
        said, *_ = hf.sessions.append("kyoto-chat", holdfast.Message.user("busy"), holdfast.Message.user("again"))
        hf.sessions.append("kyoto-chat-fork", holdfast.Message.user("aside"), parent="first")
        fork = hf.sessions.fork("kyoto-chat")
        hf.sessions.append(fork.id, holdfast.Message.user("on a fork"))
        hf.artifacts.put(b"%d %d" % (number, rounds), name="busy", session_id=fork.id)
        hf.checkpoints.create(session_id=fork.id)
        if rounds % 5 == 0:
            hf.checkpoints.create(agent_id="kyoto-scout")
        if rounds % 3 == 0:
            hf.sessions.redact("kyoto-chat", said.id, "asked to")
        if rounds % 4 == 0:
            hf.sessions.delete(fork.id)
    return rounds


# kills


@pytest.mark.parametrize("backend", SHARED)
@pytest.mark.parametrize("what", ["copy", "import"])
def test_a_killed_copy_or_import_shows_nothing_and_is_finished_by_the_next(
    what: str, backend: str, tmp_path: Path
) -> None:
    source = _source(what, tmp_path)
    target = BACKENDS[backend].format(folder=tmp_path)
    chance, expected = random.Random(what + backend), _expected(tmp_path)
    for reports in (0, 2, 5, 9, 14):
        assert _kill(what, source, target, reports, chance) == -signal.SIGKILL
        with holdfast.open(target) as hf:
            assert hf.verify().problems == []
            sessions = {session.id for session in hf.sessions.list()}
            assert (sessions, {agent.id for agent in hf.agents.list()}) in (expected, (set(), set()))
    subprocess.run([sys.executable, "-c", WORKER, what, source, target], check=True, stdout=subprocess.DEVNULL)
    with holdfast.open(target) as hf, holdfast.open(f"sqlite:///{tmp_path}/source.db") as origin:
        assert (held(hf._store), hf.verify().problems) == (held(origin._store), [])


def _source(what: str, folder: Path) -> str:
    with holdfast.open(f"sqlite:///{folder}/source.db") as hf:
        fill(hf)
        hf.sessions.create(id="long")
        for _ in range(5):
            hf.sessions.append("long", *(holdfast.Message.user("x" * 100) for _ in range(400)))
        hf.export(folder / "source.zip")
    return str(folder / "source.zip") if what == "import" else f"sqlite:///{folder}/source.db"


def _expected(folder: Path) -> tuple[set[str], set[str]]:
    with holdfast.open(f"sqlite:///{folder}/source.db") as hf:
        return {session.id for session in hf.sessions.list()}, {agent.id for agent in hf.agents.list()}


def _kill(what: str, source: str, target: str, reports: int, chance: random.Random) -> int:
    """Kill a worker shortly after so many reports; returns how it ended."""
    with subprocess.Popen([sys.executable, "-c", WORKER, what, source, target], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        for _ in range(reports + 1):
            ready, _, _ = select.select([worker.stdout], [], [], SILENCE_S)
            assert ready, "the worker says nothing"
            os.read(worker.stdout.fileno(), 1)
        until = time.perf_counter() + chance.uniform(0, 0.01)
        while time.perf_counter() < until:
            pass
        worker.send_signal(signal.SIGKILL)
    return worker.returncode


def _files(path: Path) -> dict[str, bytes]:
    found = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return {str(one.relative_to(path)): one.read_bytes() for one in found}
