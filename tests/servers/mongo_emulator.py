"""nx-27017 without its sweep of what has expired, and without a word about each answer.

It sweeps before it answers any question, which takes longer than the answer; a mongod does so once a minute. What
Holdfast lets expire does so after a day, so that no test is about it.
"""

from __future__ import annotations

import logging

from neosqlite.collection import Collection  # type: ignore[import-untyped]
from nx_27017.nx_27017 import main  # type: ignore[import-untyped]


def leave_expired(_: Collection) -> None:
    """Sweep nothing."""


if __name__ == "__main__":
    Collection._auto_purge_ttl = leave_expired
    Collection._id_column = "_id"
    logging.disable(logging.INFO)
    main()
