"""Write the tables of backends in README.md and docs/backends.md; `--check` only compares.

How a store is shared, how it searches and which addresses open it is read from the code. What no code can say of
itself stands in `PROMISES`; a backend that is not in it, or no longer there, stops the tool.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from inspect import getsource
from pathlib import Path
from pkgutil import iter_modules

from msgspec import Struct

from holdfast import backends
from holdfast.client import BACKENDS
from holdfast.places import OBJECTS, VECTORS

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- backends -->\n", "<!-- end of backends -->\n"
_TEXT = re.compile(r"self\.text = |def text\(")  # the capability SearchesText
NO_STORES = {"vectors"}  # public modules of backends/ that keep nothing


class Promise(Struct, frozen=True, kw_only=True):
    """What a backend promises: how it is shown, what an acknowledged write survives, and where that was tried."""

    name: str
    page: str
    address: str
    survives: str
    commit: str
    verified: str
    vectors: str = "by the client"
    hosts: bool = False
    shared: str | None = None


PROMISES = {
    "memory": Promise(
        name="memory",
        page="backends.md#memory",
        address="memory:",
        survives="nothing: it ends with the process",
        commit="one step under a lock",
        verified="CPython 3.11",
    ),
    "sqlite": Promise(
        name="SQLite",
        page="backends.md#sqlite",
        address="sqlite:///agents.db",
        survives='power loss; with `durability="normal"` a kill',
        commit="one transaction",
        verified="SQLite 3.54.1: kills, power losses, damage",
    ),
    "file": Promise(
        name="files",
        page="file-backend.md",
        address="file:///agents",
        survives='power loss; with `durability="normal"` a kill',
        commit="one journal entry",
        verified="Linux: kills, power losses, damage",
    ),
    "postgres": Promise(
        name="PostgreSQL",
        page="postgresql.md",
        address="postgresql://host/agents",
        survives="power loss of the server, and of its primary where a standby is synchronous",
        commit="one transaction",
        verified="PostgreSQL 18.6, whole kit and failover; 15, contracts and faults; PgBouncer 1.18",
        vectors="by pgvector, else by the client",
        hosts=True,
    ),
    "mysql": Promise(
        name="MySQL, MariaDB",
        page="mysql.md",
        address="mysql://host/agents",
        survives="power loss of the server, as its settings are by default; `health` says",
        commit="one transaction",
        verified="MariaDB 10.11, whole kit and faults; MySQL itself not",
        hosts=True,
    ),
    "redis": Promise(
        name="Redis, Valkey",
        page="redis.md",
        address="redis://host/0",
        survives="power loss with `appendfsync always`; else what `health` says",
        commit="one script",
        verified="Valkey 9.1, whole kit and faults; Redis 7.0, contracts",
        hosts=True,
    ),
    "mongo": Promise(
        name="MongoDB",
        page="mongodb.md",
        address="mongodb://host/agents",
        survives="power loss of a minority: it is in the journal of a majority of the servers",
        commit="one update of one document, which others finish",
        verified="an emulator (nx-27017 0.8): whole kit and faults; no MongoDB server",
        hosts=True,
    ),
    "surreal": Promise(
        name="SurrealDB",
        page="surrealdb.md",
        address="surrealkv:///agents",
        survives="a kill; the embedded engine syncs, which was not tried by power loss",
        commit="one transaction, which a kill can tear if it is of megabytes",
        verified="the engine of the SDK 2.0.0, embedded: whole kit and kills; no server",
        shared="threads; at a server processes, hosts",
    ),
    "objects": Promise(
        name="S3, Google Cloud Storage, Azure",
        page="parts-in-different-places.md",
        address="artifacts=s3://bucket",
        survives="what the service promises",
        commit="one object",
        verified="SeaweedFS (S3) and Azurite (Azure): blob kit; no cloud",
        vectors="—",
        hosts=True,
    ),
    "qdrant": Promise(
        name="Qdrant",
        page="parts-in-different-places.md",
        address="embeddings=qdrant://host",
        survives="an index is filled again when it is lost",
        commit="—",
        verified="the driver's local mode: vector kit; no server",
        vectors="by its own index",
        hosts=True,
    ),
}


def modules() -> list[str]:
    """The backends there are, those in the order of `PROMISES` that both know."""
    there = {one.name for one in iter_modules(backends.__path__) if not one.name.startswith("_")} - NO_STORES
    if there != set(PROMISES):
        missing, gone = sorted(there - set(PROMISES)), sorted(set(PROMISES) - there)
        raise SystemExit(f"tools/make_backends.py: PROMISES lacks {missing} and has {gone} too many")
    return list(PROMISES)


def store_of(module: str) -> type | None:
    """The record store that a backend's module defines, if it does."""
    found = import_module(f"holdfast.backends.{module}")
    stores = [one for one in vars(found).values() if isinstance(one, type) and one.__module__ == found.__name__]
    return next((one for one in stores if hasattr(one, "commit") and hasattr(one, "inspect")), None)


def keeps(module: str) -> str:
    """What can be kept there."""
    if module in OBJECTS.values():
        return "artifacts"
    if module in VECTORS.values():
        return "an index of vectors"
    return "everything" if hasattr(store_of(module), "blobs") else "records"


def search(module: str) -> str:
    """How text is found there."""
    store = store_of(module)
    if store is None:
        return "—"
    return "by an index" if _TEXT.search(getsource(store)) else "by reading"


def shared(module: str) -> str:
    """Who may use one store at once."""
    if (said := PROMISES[module].shared) is not None:
        return said
    processes = getattr(store_of(module), "sharing", "processes") == "processes"
    hosts = ", hosts" if PROMISES[module].hosts else ""
    return f"threads, processes{hosts}" if processes else "threads"


def schemes(module: str) -> str:
    """What an address may begin with."""
    known = {**BACKENDS, **OBJECTS, **VECTORS}
    return ", ".join(f"`{scheme}:`" for scheme, opened in known.items() if opened == module)


def overview(docs: str) -> str:
    """The table of the README; `docs` is the way from the page to the folder of pages."""
    rows = ["| | address | an acknowledged write survives | a commit is | text search | vectors | verified on |"]
    rows.append("|---|---|---|---|---|---|---|")
    for module in modules():
        one = PROMISES[module]
        cells = (one.survives, one.commit, search(module), one.vectors, one.verified)
        rows.append(f"| [{one.name}]({docs}{one.page}) | `{one.address}` | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def addresses() -> str:
    """The second table of docs/backends.md: what opens each, what it keeps, who shares it."""
    rows = ["| | addresses begin with | keeps | shared by |", "|---|---|---|---|"]
    for module in modules():
        rows.append(f"| {PROMISES[module].name} | {schemes(module)} | {keeps(module)} | {shared(module)} |")
    return "\n".join(rows) + "\n"


def page(text: str, table: str) -> str:
    """A page with its table as it should be."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Write the pages, or say whether they are up to date."""
    tables = {"README.md": overview("docs/"), "docs/backends.md": f"{overview('')}\n{addresses()}"}
    for name, table in tables.items():
        present = (ROOT / name).read_text(encoding="utf-8")
        wanted = page(present, table)
        if "--check" not in sys.argv:
            (ROOT / name).write_text(wanted, encoding="utf-8")
        elif wanted != present:
            print(f"{name} is out of date; run tools/make_backends.py", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
