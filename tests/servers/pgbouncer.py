"""PgBouncer from the system's own package, in front of the run's PostgreSQL, lending connections by the transaction."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from servers import Server, free_port, listens, shared, spawn, system_program, wait_until
from servers.postgres import USER
from servers.postgres import start as start_postgres

POOL = 4  # fewer than the clients have, so that each is lent to several
SETTINGS = """
[databases]
* = host={host} port={behind}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 300
"""


def start(folder: Path) -> Server:
    """A new pooler for the server that the other tests use."""
    program, port = system_program("pgbouncer", "pgbouncer"), free_port()
    behind = urlsplit(shared("postgres", start_postgres))
    (folder / "users.txt").write_text(f'"{behind.username}" ""\n')
    settings = SETTINGS.format(host=behind.hostname, behind=behind.port or 5432, port=port, folder=folder, pool=POOL)
    (folder / "settings.ini").write_text(settings)
    user = ["-u", USER] if os.geteuid() == 0 else []
    pid = spawn([program, *user, str(folder / "settings.ini")], folder)
    wait_until(lambda: listens(port), folder)
    return Server(url=f"postgresql://{behind.username}@127.0.0.1:{port}{behind.path}", pid=pid, folder=str(folder))
