"""Holdfast: opens a store by its URL and hands out the nouns."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from holdfast.agents import Agents, Migration
from holdfast.backends.memory import MemoryStore
from holdfast.backends.sqlite import SqliteStore
from holdfast.checkpoints import Checkpoints
from holdfast.contracts import Compacts, Delete, Inspection, Query, RecordStore
from holdfast.deadlines import DEFAULT_TIMEOUT_S
from holdfast.errors import InvalidInput, Unsupported
from holdfast.executions import Executions
from holdfast.filters import Filter
from holdfast.ids import Clock, Stamps, check_id
from holdfast.integrity import Report, Verifier
from holdfast.kinds import AGENTS, CAPTURES, CHECKPOINTS, HEADS, MESSAGES
from holdfast.model import Collected, Price, StorageStats
from holdfast.nouns import Ground, Noun, check_timeout
from holdfast.pruning import BATCH, collect_captures
from holdfast.runs import Runs
from holdfast.sessions import Sessions
from holdfast.sweeps import Sweeps
from holdfast.usage import Usages


class Holdfast(Noun):
    """An open store: `hf.agents`, `hf.sessions`, and what concerns the store as a whole."""

    def __init__(
        self,
        store: RecordStore,
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        clock: Clock | None = None,
        migrations: Mapping[int, Migration] | None = None,
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        stamps = Stamps(clock)
        ground = Ground(store, stamps, Sweeps(store, stamps), check_timeout(timeout), {}, {})
        super().__init__(ground)
        self.sessions = Sessions(ground)
        self.agents = Agents(ground, migrations or {})
        self.checkpoints = Checkpoints(ground, self.sessions, self.agents)
        self.executions = Executions(ground)
        self.usage = Usages(ground, {} if prices is None else prices)
        self.runs = Runs(ground, self.sessions, self.checkpoints)

    def stats(self, *, timeout: float | None = None) -> StorageStats:
        """How much this namespace holds; detached sessions are not counted."""
        with self._within(timeout):
            attached = (Filter("detached_by", "=", None),)
            return StorageStats(
                agents=self._store.count(Query(kind=AGENTS)),
                sessions=self._store.count(Query(kind=HEADS, where=attached)),
                checkpoints=self._store.count(Query(kind=CHECKPOINTS)),
                messages=self._store.count(Query(kind=MESSAGES)),
                bytes=self._store.inspect(measure=True).bytes or 0,
            )

    def verify(self, *, timeout: float | None = None) -> Report:
        """Check every record and chain of this namespace; damage is named, not raised."""
        with self._within(timeout):
            return Verifier(self._store).run()

    def gc(self, *, timeout: float | None = None) -> Collected:
        """Finish interrupted deletions and reclaim what nothing reaches; branches of living sessions stay."""
        with self._within(timeout):
            sweeps = self._ground.sweeps.resume()
            rows = [row.key for row in collect_captures(self._store)]
            for start in range(0, len(rows), BATCH):
                self._store.commit([Delete(CAPTURES, key) for key in rows[start : start + BATCH]])
            if isinstance(self._store, Compacts):
                self._store.compact()
            return Collected(sweeps=sweeps, captures=len(rows))

    def health(self, *, timeout: float | None = None) -> Inspection:
        """Prove that the store answers, and say what it is."""
        with self._within(timeout):
            return self._store.inspect()

    def backup(self, path: str, *, timeout: float | None = None) -> None:
        """Copy the whole store into a new file while others go on writing; Unsupported where it has no file."""
        if not isinstance(self._store, SqliteStore):
            raise Unsupported("this backend has no file to back up; copy it with holdfast.copy")
        with self._within(timeout):
            self._store.backup(path)

    def close(self) -> None:
        """Stop every timer and give everything back; closing twice is fine."""
        try:
            for timer in self._ground.timers.values():
                timer.stop()
        finally:
            self._store.close()

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(
    url: str,
    *,
    namespace: str = "",
    timeout: float = DEFAULT_TIMEOUT_S,
    durability: Literal["full", "normal"] = "full",
    read_only: bool = False,
    clock: Clock | None = None,
    migrations: Mapping[int, Migration] | None = None,
    prices: Mapping[str, Price] | None = None,
) -> Holdfast:
    """Open a store: `memory:` or `sqlite:///agents.db` (three slashes: relative; four: absolute).

    A namespace keeps one tenant's records apart from another's. `timeout` bounds every call that names none.
    """
    if namespace:
        check_id(namespace, "namespace")
    store = _open_store(url, namespace=namespace, timeout=timeout, durability=durability, read_only=read_only)
    return Holdfast(store, timeout=timeout, clock=clock, migrations=migrations, prices=prices)


def _open_store(url: str, **options: Any) -> RecordStore:
    if not isinstance(url, str):
        raise InvalidInput(f"the address of a store is a string such as 'sqlite:///agents.db', not {url!r}")
    if options["durability"] not in ("full", "normal"):
        raise InvalidInput(f"durability is 'full' or 'normal', not {options['durability']!r}")
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return MemoryStore()
    if parts.scheme == "sqlite":
        path = unquote(parts.path).removeprefix("/")
        if parts.netloc or not path:
            raise InvalidInput(f"{url!r} names no file; write sqlite:///agents.db or sqlite:////tmp/agents.db")
        return SqliteStore(path, **options)
    raise InvalidInput(f"{url!r} names no backend; known are memory: and sqlite:///FILE")
