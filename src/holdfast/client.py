"""Holdfast: opens a store by its URL and hands out the nouns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import quote

from holdfast.agents import Agents, Migration
from holdfast.artifacts import Artifacts
from holdfast.backends.vectors import INDEX_FROM, open_vectors
from holdfast.blob_checks import with_blobs
from holdfast.blobs import GRACE_S, collect, size_of
from holdfast.checkpoints import Checkpoints
from holdfast.contracts import (
    BacksUp,
    BlobStore,
    Compacts,
    Delete,
    Inspection,
    KeepsBlobs,
    KeepsVectors,
    Query,
    RecordStore,
    VectorStore,
)
from holdfast.deadlines import DEFAULT_TIMEOUT_S, within
from holdfast.embeddings import Embed, Embeddings
from holdfast.errors import InvalidInput, Unsupported
from holdfast.executions import Executions
from holdfast.filters import Filter
from holdfast.heads import count_heads
from holdfast.ids import Clock, Stamps, check_count, check_id
from holdfast.indexes import CommonIndexes
from holdfast.integrity import Report, Verifier
from holdfast.kinds import AGENTS, CAPTURES, CHECKPOINTS, MESSAGES
from holdfast.model import Collected, Copied, Exported, Imported, Price, Progress, StorageStats
from holdfast.nearest import CACHE_BYTES, Nearest
from holdfast.nouns import Ground, check_seconds, check_timeout
from holdfast.parts import INLINE_LIMIT
from holdfast.places import Part, open_places, open_store
from holdfast.pruning import BATCH, collect_captures
from holdfast.runs import Runs
from holdfast.search import Searching
from holdfast.sessions import Sessions
from holdfast.settling import resume
from holdfast.sweeps import GRACE_US, Sweeps
from holdfast.usage import Usages

BACKENDS = {
    "memory": "memory",
    "sqlite": "sqlite",
    "file": "file",
    "postgresql": "postgres",
    "postgres": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
    "redis": "redis",
    "rediss": "redis",
    "valkey": "redis",
    "mongodb": "mongo",
    "mongodb+srv": "mongo",
    "surrealkv": "surreal",
    "ws": "surreal",
    "wss": "surreal",
}
"""Which module opens which scheme of address. Drivers are imported when the first such address is opened."""

_SCRATCH: dict[str, Any] = {
    "namespace": "",
    "timeout": DEFAULT_TIMEOUT_S,
    "durability": "normal",
    "read_only": False,
}


class Holdfast(Searching):
    """An open store: `hf.agents`, `hf.sessions`, and what concerns the store as a whole."""

    def __init__(
        self,
        store: RecordStore,
        *,
        blobs: BlobStore | None = None,
        vectors: VectorStore | None = None,
        parts: Sequence[Part] = (),
        inline_limit: int = INLINE_LIMIT,
        timeout: float = DEFAULT_TIMEOUT_S,
        clock: Clock | None = None,
        migrations: Mapping[int, Migration] | None = None,
        prices: Mapping[str, Price] | None = None,
        embed: Embed | None = None,
        vector_cache_bytes: int = CACHE_BYTES,
        vector_index_from: int | None = INDEX_FROM,
    ) -> None:
        self._twin: Any = None  # the AsyncHoldfast that adapters of it share
        stamps = Stamps(clock)
        if blobs is None and isinstance(store, KeepsBlobs):
            blobs = store.blobs()
        check_count(inline_limit, "inline_limit")
        if vector_index_from is not None:
            check_count(vector_index_from, "vector_index_from")
        if vectors is None and isinstance(store, KeepsVectors):
            vectors = store.vectors()
        common = None if vectors is None else CommonIndexes(store, vectors)
        make = partial(open_vectors, index_from=vector_index_from)
        self._nearest = Nearest(store, make, vector_cache_bytes, common)
        self._parts = parts
        sweeps = Sweeps(store, stamps, self._nearest.forget)
        ground = Ground(store, stamps, sweeps, check_timeout(timeout), {}, {}, blobs, inline_limit)
        super().__init__(ground)
        self.sessions = Sessions(ground)
        self.agents = Agents(ground, migrations or {})
        self.checkpoints = Checkpoints(ground, self.sessions, self.agents)
        self.executions = Executions(ground)
        self.usage = Usages(ground, {} if prices is None else prices)
        self.artifacts = Artifacts(ground)
        self.runs = Runs(ground)
        self.embeddings = Embeddings(ground, self._nearest, embed)

    def stats(self, *, timeout: float | None = None) -> StorageStats:
        """How much this namespace holds; detached sessions are not counted."""
        with self._within(timeout):
            attached = (Filter("detached_by", "=", None),)
            return StorageStats(
                agents=self._store.count(Query(kind=AGENTS)),
                sessions=count_heads(self._store, attached),
                checkpoints=self._store.count(Query(kind=CHECKPOINTS)),
                messages=self._store.count(Query(kind=MESSAGES)),
                bytes=(self._store.inspect(measure=True).bytes or 0) + size_of(self._ground.blobs),
            )

    def verify(self, *, progress: Callable[[int, int], None] | None = None, timeout: float | None = None) -> Report:
        """Check every record and chain of this namespace; damage is named, not raised.

        `progress` is told how many records are checked so far, and of how many.
        """
        with self._within(timeout):
            return with_blobs(Verifier(self._store, progress).run(), self._store, self._ground.blobs)

    def gc(self, *, grace_s: float = GRACE_S, timeout: float | None = None) -> Collected:
        """Finish interrupted deletions and reclaim what nothing reaches; branches of living sessions stay.

        Bytes of artifacts go once nothing refers to them and nobody has put them for `grace_s` seconds.
        """
        check_seconds(grace_s, "grace_s")
        with self._within(timeout):
            sweeps = self._ground.sweeps.resume() + resume(self._store, self._ground.stamps.next() - GRACE_US)
            rows = [row.key for row in collect_captures(self._store)]
            for start in range(0, len(rows), BATCH):
                self._store.commit([Delete(CAPTURES, key) for key in rows[start : start + BATCH]])
            blobs = 0 if self._ground.blobs is None else collect(self._store, self._ground.blobs, grace_s)
            self._nearest.tidy()
            self._ground.sweeps.scrub()
            if isinstance(self._store, Compacts):
                self._store.compact()
            return Collected(sweeps=sweeps, captures=len(rows), blobs=blobs)

    def health(self, *, timeout: float | None = None) -> Inspection:
        """Prove that the store and all its parts answer, and say what it is and what an acknowledged write survives.

        BackendError if it is set up so that it may lose records.
        """
        with self._within(timeout):
            for part in self._parts:
                part.check()
            return self._store.inspect()

    def backup(self, path: str, *, timeout: float | None = None) -> None:
        """Copy the whole store into a new file while others go on writing; Unsupported where it has no file."""
        if not isinstance(self._store, BacksUp):
            raise Unsupported("this backend has no file to back up; copy it with holdfast.copy")
        with self._within(timeout):
            self._store.backup(path)

    def export(
        self,
        path: str | Path,
        *,
        progress: Callable[[Progress], None] | None = None,
        timeout: float | None = None,
    ) -> Exported:
        """Write everything of this namespace, as of one moment, to a new .zip or else a new folder.

        The same content gives the same bytes, whatever the backend. `timeout` bounds the whole export.
        """
        from holdfast.archives import export

        with _limit(timeout):
            return export(self._ground, _path(path), progress)

    def import_from(
        self,
        path: str | Path,
        *,
        progress: Callable[[Progress], None] | None = None,
        timeout: float | None = None,
    ) -> Imported:
        """Bring in everything of an export, once all of it is checked; repeating finishes what was interrupted.

        Of what is there with other content, AlreadyExists. `timeout` bounds the whole import, each write the store's.
        """
        from tempfile import TemporaryDirectory

        from holdfast.archive_files import reading
        from holdfast.imports import Check
        from holdfast.transfer import transfer

        with _limit(timeout), reading(_path(path)) as source, TemporaryDirectory() as folder:
            with closing(open_store(f"sqlite:///{quote(folder)}/checked.db", BACKENDS, **_SCRATCH)) as scratch:
                checked = Holdfast(scratch, blobs=Check(source, scratch).run())
                done = transfer(checked._ground, self._ground, progress)
        return Imported(records=done.records, written=done.written, blobs=done.blobs, bytes=done.bytes)

    def close(self) -> None:
        """Stop every timer and give everything back; closing twice is fine."""
        with ExitStack() as rest:  # whatever fails, all of it is closed
            for close in (self._store.close, *(part.close for part in self._parts)):
                rest.callback(close)
            for close in (self.runs._close, self._nearest.close):
                rest.callback(close)
            for timer in self._ground.timers.values():
                rest.callback(timer.stop)

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(
    url: str,
    *,
    artifacts: str | None = None,
    embeddings: str | None = None,
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
    """Open a store by its address, such as `sqlite:///agents.db` (three slashes: relative; four: absolute).

    `BACKENDS` names what addresses begin with; one whose driver is not installed is Unsupported, and says what to
    install. A namespace keeps one tenant's records apart from another's. `timeout` bounds every call that names none.
    `durability="normal"` may lose the last acknowledged writes at a power loss. `read_only` makes no store and changes
    nothing. `migrations` and `prices` are what `agents.migration` and `usage.totals` use.
    `embed` lets `embeddings.search` take a text. Vectors are kept in memory up to `vector_cache_bytes`, and from
    `vector_index_from` per model on in an approximate index, if one is installed; None keeps every search exact.
    Parts and attachments of messages above `inline_limit` bytes are kept as artifacts.
    `artifacts` is an address of their own (`s3://bucket/prefix`, `gs:`, `az:`, or any backend's), and `embeddings` one
    for an index of the vectors (`qdrant://host`), which are kept with the records all the same.
    """
    if namespace:
        check_id(namespace, "namespace")
    check_timeout(timeout)
    options: Any = {"namespace": namespace, "timeout": timeout, "durability": durability, "read_only": read_only}
    shared: Any = {"inline_limit": inline_limit, "timeout": timeout, "clock": clock}
    with ExitStack() as opened:  # if a part cannot be opened, those before it are closed
        store = open_store(url, BACKENDS, **options)
        opened.callback(store.close)
        places = open_places(artifacts, embeddings, BACKENDS, opened, **options)
        hf = Holdfast(
            store,
            blobs=places.blobs,
            vectors=places.vectors,
            parts=places.parts,
            **shared,
            migrations=migrations,
            prices=prices,
            embed=embed,
            vector_cache_bytes=vector_cache_bytes,
            vector_index_from=vector_index_from,
        )
        opened.pop_all()
    return hf


def copy(
    src: str | Holdfast,
    dst: str | Holdfast,
    *,
    src_namespace: str = "",
    dst_namespace: str = "",
    progress: Callable[[Progress], None] | None = None,
    timeout: float | None = None,
) -> Copied:
    """Copy everything of a namespace, as of one moment, compared by digests; repeating finishes what was interrupted.

    Of what is there with other content, AlreadyExists. `timeout` bounds the whole copy, each write the store's own.
    """
    from holdfast.transfer import transfer

    with _opened(src, src_namespace, read_only=True) as source, _opened(dst, dst_namespace) as target:
        with _limit(timeout):
            return transfer(source._ground, target._ground, progress)


def _limit(timeout: float | None) -> AbstractContextManager[None]:
    """The limit of a call that may take long: none but its own."""
    return nullcontext() if timeout is None else within(check_timeout(timeout))


def _path(path: str | Path) -> Path:
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise InvalidInput(f"the path of an export is a path, not {path!r}")
    return Path(path)


@contextmanager
def _opened(store: str | Holdfast, namespace: str, read_only: bool = False) -> Iterator[Holdfast]:
    """A store by its address, closed afterwards, or one that is open already."""
    if isinstance(store, Holdfast):
        if namespace:
            raise InvalidInput("an open store has its namespace already; give the address of the store instead")
        yield store
    else:
        with open(store, namespace=namespace, read_only=read_only) as opened:
            yield opened
