"""Holdfast: opens a store by its URL and hands out the nouns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from holdfast.agents import Agents, Migration
from holdfast.artifacts import Artifacts
from holdfast.backends.file import FileStore
from holdfast.backends.memory import MemoryStore
from holdfast.backends.sqlite import SqliteStore
from holdfast.backends.vectors import INDEX_FROM, open_vectors
from holdfast.blob_checks import with_blobs
from holdfast.blobs import GRACE_S, collect, size_of
from holdfast.checkpoints import Checkpoints
from holdfast.contracts import BlobStore, Compacts, Delete, Inspection, KeepsBlobs, Query, RecordStore
from holdfast.deadlines import DEFAULT_TIMEOUT_S
from holdfast.embeddings import Embed, Embeddings
from holdfast.errors import InvalidInput, Unsupported
from holdfast.executions import Executions
from holdfast.filters import Filter
from holdfast.ids import Clock, Stamps, check_count, check_id
from holdfast.integrity import Report, Verifier
from holdfast.kinds import AGENTS, CAPTURES, CHECKPOINTS, HEADS, MESSAGES
from holdfast.model import Collected, Price, StorageStats
from holdfast.nearest import CACHE_BYTES, Nearest
from holdfast.nouns import Ground, check_seconds, check_timeout
from holdfast.parts import INLINE_LIMIT
from holdfast.pruning import BATCH, collect_captures
from holdfast.runs import Runs
from holdfast.search import Searching
from holdfast.sessions import Sessions
from holdfast.sweeps import Sweeps
from holdfast.usage import Usages


class Holdfast(Searching):
    """An open store: `hf.agents`, `hf.sessions`, and what concerns the store as a whole."""

    def __init__(
        self,
        store: RecordStore,
        *,
        blobs: BlobStore | None = None,
        inline_limit: int = INLINE_LIMIT,
        timeout: float = DEFAULT_TIMEOUT_S,
        clock: Clock | None = None,
        migrations: Mapping[int, Migration] | None = None,
        prices: Mapping[str, Price] | None = None,
        embed: Embed | None = None,
        vector_cache_bytes: int = CACHE_BYTES,
        vector_index_from: int | None = INDEX_FROM,
    ) -> None:
        stamps = Stamps(clock)
        if blobs is None and isinstance(store, KeepsBlobs):
            blobs = store.blobs()
        check_count(inline_limit, "inline_limit")
        sweeps = Sweeps(store, stamps)
        ground = Ground(store, stamps, sweeps, check_timeout(timeout), {}, {}, blobs, inline_limit)
        super().__init__(ground)
        self.sessions = Sessions(ground)
        self.agents = Agents(ground, migrations or {})
        self.checkpoints = Checkpoints(ground, self.sessions, self.agents)
        self.executions = Executions(ground)
        self.usage = Usages(ground, {} if prices is None else prices)
        self.artifacts = Artifacts(ground)
        self.runs = Runs(ground)
        if vector_index_from is not None:
            check_count(vector_index_from, "vector_index_from")
        self._nearest = Nearest(store, partial(open_vectors, index_from=vector_index_from), vector_cache_bytes)
        self.embeddings = Embeddings(ground, self._nearest, embed)

    def stats(self, *, timeout: float | None = None) -> StorageStats:
        """How much this namespace holds; detached sessions are not counted."""
        with self._within(timeout):
            attached = (Filter("detached_by", "=", None),)
            return StorageStats(
                agents=self._store.count(Query(kind=AGENTS)),
                sessions=self._store.count(Query(kind=HEADS, where=attached)),
                checkpoints=self._store.count(Query(kind=CHECKPOINTS)),
                messages=self._store.count(Query(kind=MESSAGES)),
                bytes=(self._store.inspect(measure=True).bytes or 0) + size_of(self._ground.blobs),
            )

    def verify(self, *, timeout: float | None = None) -> Report:
        """Check every record and chain of this namespace; damage is named, not raised."""
        with self._within(timeout):
            return with_blobs(Verifier(self._store).run(), self._store, self._ground.blobs)

    def gc(self, *, grace_s: float = GRACE_S, timeout: float | None = None) -> Collected:
        """Finish interrupted deletions and reclaim what nothing reaches; branches of living sessions stay.

        Bytes of artifacts go once nothing refers to them and nobody has put them for `grace_s` seconds.
        """
        check_seconds(grace_s, "grace_s")
        with self._within(timeout):
            sweeps = self._ground.sweeps.resume()
            rows = [row.key for row in collect_captures(self._store)]
            for start in range(0, len(rows), BATCH):
                self._store.commit([Delete(CAPTURES, key) for key in rows[start : start + BATCH]])
            blobs = 0 if self._ground.blobs is None else collect(self._store, self._ground.blobs, grace_s)
            self._ground.sweeps.purge_words()
            if isinstance(self._store, Compacts):
                self._store.compact()
            return Collected(sweeps=sweeps, captures=len(rows), blobs=blobs)

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
            self._nearest.close()
            self.runs._close()
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
    inline_limit: int = INLINE_LIMIT,
    clock: Clock | None = None,
    migrations: Mapping[int, Migration] | None = None,
    prices: Mapping[str, Price] | None = None,
    embed: Embed | None = None,
    vector_cache_bytes: int = CACHE_BYTES,
    vector_index_from: int | None = INDEX_FROM,
) -> Holdfast:
    """Open a store: `memory:`, `sqlite:///agents.db` or `file:///agents` (three slashes: relative; four: absolute).

    A namespace keeps one tenant's records apart from another's. `timeout` bounds every call that names none.
    `embed` lets `embeddings.search` take a text. Vectors are kept in memory up to `vector_cache_bytes`, and from
    `vector_index_from` per model on in an approximate index, if one is installed; None keeps every search exact.
    Parts and attachments of messages above `inline_limit` bytes are kept as artifacts.
    """
    if namespace:
        check_id(namespace, "namespace")
    store = _open_store(url, namespace=namespace, timeout=timeout, durability=durability, read_only=read_only)
    shared: Any = {"inline_limit": inline_limit, "timeout": timeout, "clock": clock}
    return Holdfast(
        store,
        **shared,
        migrations=migrations,
        prices=prices,
        embed=embed,
        vector_cache_bytes=vector_cache_bytes,
        vector_index_from=vector_index_from,
    )


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
    if parts.scheme == "file":
        path = unquote(parts.path).removeprefix("/")
        if parts.netloc or not path:
            raise InvalidInput(f"{url!r} names no folder; write file:///agents or file:////tmp/agents")
        return FileStore(path, **options)
    raise InvalidInput(f"{url!r} names no backend; known are memory:, sqlite:///FILE and file:///FOLDER")
