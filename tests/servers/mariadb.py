"""MariaDB from the system's own package."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql

from servers import Missing, Server, free_port, listens, spawn, system_program, wait_until

USER = "mysql"  # whom the package makes, for its server to run as
SETTINGS = (
    "--skip-name-resolve",
    "--max-connections=300",
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=48M",
)


def start(folder: Path, *, settings: tuple[str, ...] = ()) -> Server:
    """A new server with a database `holdfast` of the user `root`, who needs no password."""
    _install(folder)
    server = serve(folder, free_port(), settings=settings)
    ask(server.url, "CREATE DATABASE holdfast")
    return server


def serve(folder: Path, port: int, *, settings: tuple[str, ...] = ()) -> Server:
    """Start the server on data that is there already; one that was killed repairs them first."""
    command = [
        system_program("mariadbd", "mariadb-server"),
        "--no-defaults",
        *_user(),
        f"--datadir={folder / 'data'}",
        *SETTINGS,
        *settings,
    ]
    pid = spawn([*command, "--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder / 'socket'}"], folder)
    url = f"mysql://root@127.0.0.1:{port}/holdfast"
    wait_until(lambda: answers(url), folder)
    return Server(url=url, pid=pid, folder=str(folder))


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that vouches for itself, and its key."""
    made, key = folder / "certificate.pem", folder / "key.pem"
    names = ["-subj", "/CN=holdfast", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [
        system_program("openssl", "openssl"),
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        *names,
    ]
    subprocess.run([*command, "-keyout", str(key), "-out", str(made)], capture_output=True, check=True)
    key.chmod(0o644)  # for the user that the server runs as
    return made, key


def revive(server: Server) -> Server:
    """Start a server again that was killed, where it was, once its port is free."""
    wait_until(lambda: not listens(port_of(server.url)), Path(server.folder))
    return serve(Path(server.folder), port_of(server.url))


def answers(url: str) -> bool:
    """Whether a server there takes statements."""
    try:
        ask(url, "SELECT 1")
    except pymysql.OperationalError:
        return False
    return True


def ask(url: str, *statements: str) -> list[tuple[object, ...]]:
    """The rows of the last statement, from a connection of its own, outside of any database."""
    with pymysql.connect(**{**address_of(url), "database": None}, autocommit=True) as con:
        with con.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return [*cursor.fetchall()]


def address_of(url: str) -> dict[str, Any]:
    """What the driver is told to get there."""
    parts = urlsplit(url)
    known = {"user": unquote(parts.username or ""), "password": unquote(parts.password or "")}
    return {"host": parts.hostname, "port": port_of(url), "database": parts.path[1:], **known}


def port_of(url: str) -> int:
    """The port that an address names."""
    return urlsplit(url).port or 3306


def _install(folder: Path) -> None:
    """Make the server's own tables."""
    program = system_program("mariadb-install-db", "mariadb-server")
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
    options = ["--auth-root-authentication-method=normal", "--skip-test-db", f"--datadir={folder / 'data'}"]
    command = [program, "--no-defaults", *_user(), *options]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise Missing(f"mariadb-install-db failed: {done.stdout.decode(errors='replace')[-2000:]}")


def _user() -> list[str]:
    return [f"--user={USER}"] if os.geteuid() == 0 else []
