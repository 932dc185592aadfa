"""Word of run events by NOTIFY and LISTEN.

It is sent behind the commit, not in it: a transaction that notifies keeps all others that do from ending until it is on
the disk. It is listened for on a direct connection alone: a pooler would lend the listening one to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import psycopg

from holdfast.backends._postgres_connection import Connection
from holdfast.backends._sql_terms import term
from holdfast.backends._waking import EVERYBODY, LOOK_S, Ended, Heard
from holdfast.contracts import Insert, Write
from holdfast.kinds import EVENTS

CHANNEL = "holdfast"
MOST_OWNERS = 50  # that one word names
CONNECT_S = 5
_TELL = f"SELECT set_config('synchronous_commit', 'off', true), pg_notify('{CHANNEL}', %s)"


def tell(con: Connection, space: int, commits: Sequence[Sequence[Write]]) -> None:
    """Let others know of the events that these commits have added; whoever is not told finds out by looking."""
    owners: set[str] = set()
    for writes in commits:
        for one in writes:
            if type(one) is Insert and one.record.kind is EVENTS:
                owners.add(str(one.record.key[0]))
    if owners:
        names = sorted(name_of(space, owner) for owner in owners)
        with suppress(psycopg.Error):
            con.execute(_TELL, (" ".join(names) if len(names) <= MOST_OWNERS else EVERYBODY,))


def name_of(space: int, owner: str) -> str:
    """What an owner of events is called on the channel."""
    return term(space, owner)


def listen(conninfo: str, heard: Heard, is_over: Ended) -> None:
    """Say every name that is heard, until it is over; ends at once where there is no direct connection to be had."""
    with (
        suppress(psycopg.Error, UnicodeError),  # in a database without an encoding others may say what is no text
        psycopg.connect(conninfo, autocommit=True, connect_timeout=CONNECT_S) as con,
    ):
        if con.execute("SELECT pg_backend_pid()").fetchone() != (con.info.backend_pid,):
            return  # who answers is not who has let us in
        con.execute(f"LISTEN {CHANNEL}")
        while not is_over():
            for word in con.notifies(timeout=LOOK_S):
                for name in word.payload.split():
                    heard(name)
