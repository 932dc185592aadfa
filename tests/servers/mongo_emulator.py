"""nx-27017 without what takes it longer than its answers, and what no test is about.

It sweeps what has expired before it answers any question; a mongod does so once a minute, and what Holdfast lets
expire does so after a day. It asks SQLite again and again which collections there are and where they keep ids, and
logs each answer twice.
"""

from __future__ import annotations

import logging

from neosqlite import Connection  # type: ignore[import-untyped]
from neosqlite.collection import Collection  # type: ignore[import-untyped]
from nx_27017.nx_27017 import main  # type: ignore[import-untyped]

COLLECTIONS = {"records", "spaces", "blobs", "pieces"}
look_up = Connection.list_collection_names


def leave_expired(_: Collection) -> None:
    """Sweep nothing."""


def remember(database: Connection) -> list[str]:
    """The names of all collections; once those of Holdfast are there, no others come."""
    known: list[str] = vars(database).setdefault("_known", [])
    if not COLLECTIONS.issubset(known):
        known[:] = look_up(database)
    return known


if __name__ == "__main__":
    Collection._auto_purge_ttl = leave_expired
    Collection._id_column = "_id"
    Connection.list_collection_names = remember
    logging.disable(logging.INFO)
    main()
