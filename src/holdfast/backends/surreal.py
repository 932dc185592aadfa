"""SurrealDB: its engine inside this process, on a folder that one process at a time has open, or a server.

An acknowledged commit is one transaction of the engine; on a folder it is synced before `commit` returns. Writers
take turns and readers do not wait for them; any number of namespaces share a folder or a database.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from holdfast.backends._insist import Commit
from holdfast.backends._opened import Opened, path_of
from holdfast.backends._paging import in_pages
from holdfast.backends._surreal.blobs import SurrealBlobs
from holdfast.backends._surreal.engine import Engine
from holdfast.backends._surreal.folders import Folder, enter, leave
from holdfast.backends._surreal.reading import SurrealReader
from holdfast.backends._surreal.servers import Server
from holdfast.backends._surreal.turns import Turn, insist
from holdfast.backends._surreal.writing import ServerTries, apply
from holdfast.contracts import Inspection, Key, Moved, Query, Rebase, Record, Sharing, Taken, Write
from holdfast.deadlines import DEFAULT_TIMEOUT_S, deadline
from holdfast.kinds import KINDS, Kind

Durability = Literal["full", "normal"]
R = TypeVar("R")

SCHEMES = ("ws://", "wss://")
SYNCED = "sync=full: each commit is synced before it is acknowledged"
BY_SERVER = "as the server is set up: SURREAL_SYNC_DATA there"


class SurrealStore:
    """A record store in a folder, or at the address of a server."""

    sharing: Sharing

    def __init__(
        self,
        place: str,
        *,
        namespace: str = "",
        timeout: float = DEFAULT_TIMEOUT_S,
        durability: Durability = "full",  # noqa: ARG002 — the engine syncs for all of a process or for nobody
        read_only: bool = False,
    ) -> None:
        self._timeout = timeout
        self._namespace = namespace
        self._engine = Server(place, read_only, timeout) if place.startswith(SCHEMES) else enter(place, read_only)
        self.sharing = self._engine.sharing
        self._opened = Opened(read_only)
        self._reader = SurrealReader(self._engine, namespace)
        self._blobs = SurrealBlobs(self, namespace)

    # reading

    def reading(self) -> Engine:
        """The engine, to read."""
        self._opened.to_read()
        return self._engine

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        self._opened.to_read()
        return self._reader.get(kind, keys)

    def scan(self, query: Query) -> Iterator[Record]:
        return in_pages(query, self._page)

    def _page(self, query: Query) -> list[Record]:
        self._opened.to_read()
        return self._reader.page(query)

    def count(self, query: Query) -> int:
        self._opened.to_read()
        return self._reader.count(query)

    # writing

    def in_turn(self, work: Callable[[Turn], R]) -> R:
        """Do what reads and then writes, over again if another writer was faster; Busy at the deadline."""
        with self._writing() as until:
            return insist(lambda: work(self._engine.turn(self._namespace)), until)

    @contextmanager
    def _writing(self) -> Iterator[float]:
        """Hold the engine against the other threads, and say until when the call may take."""
        self._opened.to_write()
        until = deadline(self._timeout)
        with self._engine.to_write(max(0.0, until - time.monotonic())):
            yield until

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        with self._writing() as until:
            if isinstance(self._engine, Server):
                tries = ServerTries(lambda: self._engine.turn(self._namespace), self._reader)
                return Commit(tries, writes, rebase).carry_out(until)
            return self._commit(self._engine.turn(self._namespace), writes, rebase)

    def _commit(self, turn: Turn, writes: Sequence[Write] | None, rebase: Rebase | None) -> Sequence[Write]:
        if writes is not None:
            try:
                return apply(turn, self._reader, writes)
            except (Moved, Taken):
                if rebase is None:
                    raise
        return () if rebase is None else apply(turn, self._reader, rebase(self._reader))

    # the store as a whole

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:  # noqa: ARG002 — the engine has no check
        self._opened.to_read()
        return Inspection(
            backend="surreal",
            version=self._engine.version(),
            durability=SYNCED if isinstance(self._engine, Folder) else BY_SERVER,
            bytes=sum(self._reader.size(kind) for kind in KINDS) if measure else None,
        )

    def blobs(self) -> SurrealBlobs:
        """The blobs in the same folder."""
        return self._blobs

    def close(self) -> None:
        if not self._opened.close():
            return
        if isinstance(self._engine, Folder):
            leave(self._engine)
        else:
            self._engine.close()


def open_url(url: str, **options: Any) -> SurrealStore:
    """The store that an address such as `surrealkv:///agents` or `ws://host:8000/namespace/database` names."""
    return SurrealStore(url if url.startswith(SCHEMES) else path_of(url, "agents"), **options)
