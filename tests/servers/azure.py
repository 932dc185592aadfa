"""Azure's blob storage, by Microsoft's emulator: npm's `azurite`, installed once beside the tests' Python."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode

from servers import Missing, Server, free_port, spawn, wait_until

CONTAINER = "holdfast"
_VERSION = "3.35.0"
_INSTALL_S = 300
_ACCOUNT = "devstoreaccount1"
# The one account of every emulator, as its manual prints it.
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def start(folder: Path) -> Server:
    """Start an emulator with one container."""
    port = free_port()
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)]
    command = ["node", str(_program()), *options, "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    pid = spawn(command, folder)
    try:
        wait_until(lambda: _has_container(port), folder)
    except Missing:
        os.kill(pid, signal.SIGKILL)
        raise
    settings = {"endpoint": _endpoint(port), "account_name": _ACCOUNT, "account_key": _KEY}
    return Server(url=f"az://{CONTAINER}?{urlencode(settings)}", pid=pid, folder=str(folder))


def _program() -> Path:
    """The emulator's main file, installed if it is not there yet."""
    home = Path(sys.prefix) / f"azurite-{_VERSION}"
    if not home.exists():
        _install(home)
    return home / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def _install(home: Path) -> None:
    if shutil.which("npm") is None:
        raise Missing("there is no npm to install azurite with")
    made = tempfile.mkdtemp(dir=home.parent)
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", made, f"azurite@{_VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    if done.returncode != 0:
        shutil.rmtree(made)
        raise Missing(f"npm could not install azurite: {done.stderr[-1000:]}")
    with suppress(OSError):  # another run was faster
        Path(made).rename(home)
    shutil.rmtree(made, ignore_errors=True)


def _endpoint(port: int) -> str:
    return f"http://127.0.0.1:{port}/{_ACCOUNT}"


def _has_container(port: int) -> bool:
    """Create the container, by a request signed with the account's key as Azure's manual has it."""
    headers = {"x-ms-date": f"{datetime.now(UTC):%a, %d %b %Y %H:%M:%S GMT}", "x-ms-version": "2021-08-06"}
    named = "".join(f"{name}:{value}\n" for name, value in headers.items())
    signed = f"PUT{chr(10) * 12}{named}/{_ACCOUNT}/{_ACCOUNT}/{CONTAINER}\nrestype:container"
    digest = hmac.digest(base64.b64decode(_KEY), signed.encode(), hashlib.sha256)
    headers |= {"Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}", "Content-Length": "0"}
    request = urllib.request.Request(f"{_endpoint(port)}/{CONTAINER}?restype=container", method="PUT", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5):
            return True
    except URLError:
        return False
