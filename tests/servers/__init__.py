"""Throwaway servers for the tests: each started once per run, on a free loopback port, from a real binary.

A module of this package says how one server is had; `shared` starts it for the first test that asks, in whichever
process that is, and the run's end stops it by its pid. An address in the environment is used instead, if there is one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

FOLDER = "HOLDFAST_TEST_SERVERS"
READY_S = 60.0
STOP_S = 20.0
INSTALL_S = 300


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A running server: its address, its process, and where it keeps its files."""

    url: str
    pid: int
    folder: str


class Missing(Exception):
    """A server that cannot be had here."""


def shared(name: str, start: Callable[[Path], Server], *, always: bool = True, each_worker: bool = False) -> str:
    """The address of the run's own server of this name, started if it is not running yet.

    `HOLDFAST_TEST_<NAME>_URL` takes its place. Where it cannot be had the test is skipped, but with CI=true it fails if
    it is one that can `always` be had. With `each_worker` the processes that run tests side by side have one each.
    """
    given = os.environ.get(f"HOLDFAST_TEST_{name.upper()}_URL")
    if given:
        return given
    if each_worker:
        name = f"{name}-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
    folder = Path(os.environ[FOLDER])
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = folder / f"{name}.json"
        if not note.exists():
            note.write_bytes(msgspec.json.encode(_start(name, start, folder / name, always)))
        return msgspec.json.decode(note.read_bytes(), type=Server).url


def _start(name: str, start: Callable[[Path], Server], folder: Path, always: bool) -> Server:
    folder.mkdir()
    with required(name, always):
        try:
            return start(folder)
        except Missing:
            shutil.rmtree(folder)
            raise
    raise AssertionError("a server that is missing ends the test")


@contextmanager
def required(name: str, always: bool = True) -> Iterator[None]:
    """Skip the test when its server cannot be had; with CI=true fail it, if that server can always be had."""
    try:
        yield
    except Missing as cause:
        if always and os.environ.get("CI") == "true":
            pytest.fail(f"{name} could not be started: {cause}")
        pytest.skip(f"{name}: {cause}")


@contextmanager
def a_folder() -> Iterator[Path]:
    """A folder for a server of a test's own, which a server that refuses to be root can read, too."""
    with TemporaryDirectory(dir=os.environ[FOLDER], ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)
        yield Path(name)


def stop_all(folder: Path) -> None:
    """Stop every server that was started under this folder, by its pid, and remove what they kept."""
    for note in folder.glob("*.json"):
        _stop(msgspec.json.decode(note.read_bytes(), type=Server).pid)
    shutil.rmtree(folder, ignore_errors=True)


def _stop(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + STOP_S
        while time.monotonic() < until:
            os.kill(pid, 0)
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)


def system_program(name: str, package: str) -> str:
    """A program of the system's own, installed if it is missing and that can be done."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    found = shutil.which(name, path=path)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        command = ["apt-get", "install", "--yes", "--no-install-recommends", package]
        quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(command, env=quietly, capture_output=True, timeout=INSTALL_S, check=False)
        found = shutil.which(name, path=path)
    if found is None:
        raise Missing(f"there is no {name}; install {package}, or give an address in the environment")
    return found


def free_port(below: int = 55_535) -> int:
    """A loopback port that nobody listens on, under the limit that some servers need."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port < below:
            return port


def spawn(command: list[str], folder: Path) -> int:
    """Start a server as nobody's child, so that none must wait for it when it ends; returns its pid."""
    shell = ["sh", "-c", '"$@" >>"$0" 2>&1 </dev/null & echo $!', str(folder / "output.txt"), *command]
    return int(subprocess.run(shell, stdout=subprocess.PIPE, check=True, start_new_session=True).stdout)


def wait_until(ready: Callable[[], bool], folder: Path, limit_s: float = READY_S) -> None:
    """Wait for a server to answer; Missing with the end of its output if it does not in time."""
    until = time.monotonic() + limit_s
    while not ready():
        if time.monotonic() > until:
            said = (folder / "output.txt").read_text(errors="replace")[-2000:]
            raise Missing(f"no answer within {limit_s:.0f} s; it said: {said}")
        time.sleep(0.05)


def freeze(server: Server) -> None:
    """Stop a server, and wait for all its threads: until the first of them has the signal, the others go on."""
    os.kill(server.pid, signal.SIGSTOP)
    threads = Path(f"/proc/{server.pid}/task")
    wait_until(lambda: {_state(stat) for stat in threads.glob("*/stat")} == {"T"}, Path(server.folder))


def _state(stat: Path) -> str:
    return stat.read_text().rpartition(")")[2].split()[0]


def listens(port: int) -> bool:
    """Whether somebody answers on this loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
