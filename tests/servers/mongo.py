"""An emulator of MongoDB, nx-27017, which speaks its wire protocol and keeps databases in SQLite files.

It is no mongod: what passes on it has been shown for the protocol that Holdfast uses, not for the server.
`HOLDFAST_TEST_MONGO_URL` names a real one.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from servers import Missing, Server, free_port, listens, spawn, wait_until

EMULATOR = Path(__file__).with_name("mongo_emulator.py")


def start(folder: Path, *, port: int | None = None) -> Server:
    """Start an emulator on the databases in this folder."""
    if importlib.util.find_spec("nx_27017") is None:
        raise Missing("pip install nx-27017")
    port = port or free_port()
    files = ["--data-dir", str(folder / "data"), "--log-file", str(folder / "log"), "--pid-file", str(folder / "pid")]
    (folder / "pid").unlink(missing_ok=True)  # of one that was killed, and whose pid may be another's by now
    pid = spawn([sys.executable, str(EMULATOR), "--threaded", "--port", str(port), *files], folder)
    wait_until(lambda: listens(port), folder)
    return Server(url=f"mongodb://127.0.0.1:{port}", pid=pid, folder=str(folder))
