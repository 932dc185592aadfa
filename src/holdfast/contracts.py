"""The three contracts between the domain and the backends, and the writes that cross them.

Writes are data, a commit is a list of them, and all take effect or none does. Whatever a method promises
here is checked on every backend by `holdfast.testing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from holdfast.errors import AlreadyExists, Conflict, InvalidInput
from holdfast.filters import Filter, Scalar
from holdfast.kinds import Kind
from holdfast.matching import Wanted

Key: TypeAlias = tuple[str | int, ...]
Sharing = Literal["processes", "threads"]

MAX_WRITES = 1_000
MAX_BYTES = 8 * 1024 * 1024


class Record(Struct, frozen=True, gc=False):
    """A stored value: its exact bytes, their digest, and the fields that queries may use."""

    kind: Kind
    key: Key
    body: bytes
    digest: bytes
    fields: tuple[Scalar, ...] = ()

    def values(self) -> dict[str, Scalar]:
        """Key and fields by name."""
        return dict(zip((column.name for column in self.kind.columns()), self.key + self.fields, strict=True))


class Insert(Struct, frozen=True, gc=False):
    """Add a record. The same digest under this key is a success, another AlreadyExists."""

    record: Record


class Put(Struct, frozen=True, gc=False):
    """Replace or add a record; with `over`, only if the present digest is this one, else Moved."""

    record: Record
    over: bytes | None = None


class Delete(Struct, frozen=True, gc=False):
    """Remove the record with this key, or all whose key begins so and that pass the filter.

    With `over`, which needs a whole key, only if the present digest is this one, else Moved.
    """

    kind: Kind
    key: Key
    where: tuple[Filter, ...] = ()
    over: bytes | None = None


class Require(Struct, frozen=True, gc=False):
    """Do nothing, but fail with Moved unless the present digest is this one; None means absent."""

    kind: Kind
    key: Key
    digest: bytes | None


Write: TypeAlias = Insert | Put | Delete | Require


class Moved(Conflict):
    """A store's own Conflict: what a write relied on is no longer there. `present` is what is."""

    def __init__(self, kind: Kind, key: Key, present: Record | None) -> None:
        super().__init__(f"{kind.name} {key} changed meanwhile; read it again and repeat")
        self.present = present


class Taken(AlreadyExists):
    """A store's own AlreadyExists: the key or the unique values are held by `present`."""

    def __init__(self, record: Record, present: Record) -> None:
        what = f"{record.kind.name} {record.key}"
        super().__init__(f"{what} exists with other content; give the new one its own id", present)


class Query(Struct, frozen=True, kw_only=True):
    """Which records, in which order.

    `prefix` fixes the leading key parts; `low` and `high` bound the next part, both inclusive. The order
    is by key, or by the field `order` and then by key. `after` continues behind the record with these
    order values. `where` names fields and, of a kind that is no log nor numbered, parts of the key. Of records that are
    asked for as `bodies_only`, the fields may be left out.
    """

    kind: Kind
    prefix: Key = ()
    low: int | None = None
    high: int | None = None
    where: tuple[Filter, ...] = ()
    order: str | None = None
    reverse: bool = False
    after: tuple[Scalar, ...] | None = None
    limit: int | None = None
    bodies_only: bool = False


class Reader(Protocol):
    """What can be read, from a store or from inside one of its commits."""

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        """The records with these keys, in this order, None where there is none."""
        ...

    def scan(self, query: Query) -> Iterator[Record]:
        """The records that match, in order; each page is read in one piece, not the whole scan."""
        ...

    def count(self, query: Query) -> int:
        """How many records match, without reading them; `after` and `limit` are for scans."""
        ...


Rebase: TypeAlias = Callable[[Reader], Sequence[Write]]


class Planned(Struct, frozen=True, gc=False):
    """A commit that somebody waits for, until a moment of the monotonic clock."""

    writes: Sequence[Write] | None
    rebase: Rebase | None
    until: float


class Inspection(Struct, frozen=True, kw_only=True):
    """What a backend says of itself: how much it holds, and what its own check found."""

    backend: str
    version: str
    durability: str
    bytes: int | None = None
    problems: tuple[str, ...] = ()


class RecordStore(Reader, Protocol):
    """Records under keys, changed by atomic commits."""

    sharing: Sharing

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        """Apply all writes or none, durably before it returns, and return those that were applied.

        A commit names a record at most once, and its conditions hold against what was there before it.
        With writes None, `rebase` makes them of what is there. Where given ones do not fit (Moved, Taken), a
        backend that can hold its lock calls `rebase` inside the same transaction; one that cannot raises.
        What `rebase` got, absence included, must still hold when its writes apply; `rebase` may be called
        more than once, and what it scanned is promised nothing.
        """
        ...

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:
        """Prove that the store answers, and say what it is.

        `measure` adds up this namespace's stored bodies; `check` runs the engine's own check.
        """
        ...

    def close(self) -> None:
        """Give everything back; closing twice is fine."""
        ...


@runtime_checkable
class Submits(Protocol):
    """The capability to take commits now and answer later, so that waiting holds no thread."""

    def submit(self, plans: Sequence[Planned]) -> list[Future[Sequence[Write]]]:
        """Like `commit` for each, together where that helps, by way of futures that nobody can cancel."""
        ...


@runtime_checkable
class CommitsAtOnce(Protocol):
    """The capability to commit in moments while nobody has to be waited for, so that an event loop may do it itself."""

    def commit_at_once(self, plans: Sequence[Planned]) -> list[BaseException | None] | None:
        """Carry out these commits; of each the error that refused it, which undid it alone.

        None, with nothing done, where that could take longer than moments: then `submit` them.
        """
        ...


@runtime_checkable
class Compacts(Protocol):
    """The capability to give unused space back."""

    def compact(self) -> None:
        """Shrink to what is stored, if that is worth the work."""
        ...


@runtime_checkable
class BacksUp(Protocol):
    """The capability to copy the whole store into a file while others write."""

    def backup(self, path: str) -> None:
        """Write a copy of one instant, whole or not at all; AlreadyExists if there is a file."""
        ...


@runtime_checkable
class Scrubs(Protocol):
    """The capability to leave no copy of what was deleted in a store's own working files."""

    def scrub(self) -> None:
        """Write over such copies now, as far as others who read allow; they go by themselves later."""
        ...


@runtime_checkable
class Wakes(Protocol):
    """The capability to tell who follows a run that there may be more; nobody relies on it, all look at intervals."""

    def wake(self, owner: str, woken: Callable[[], None]) -> AbstractContextManager[None]:
        """While the block lasts, call `woken` from a thread soon after events of this owner were added.

        That may be once for several, without need, or not at all.
        """
        ...


class Hit(Struct, frozen=True, gc=False):
    """A record that an index has found, and how well it fits: the higher the better."""

    record: Record
    score: float


class Ranked(Struct, frozen=True):
    """What an index has found, best first, and which records it has not seen yet."""

    hits: Iterator[Hit]
    unseen: list[Query]


class TextIndex(Protocol):
    """Messages by the words of their text: a guess that is never too narrow, for `matching` to judge.

    `language` is what its own queries are written in; with None it takes none.
    """

    @property
    def language(self) -> str | None:
        """The name of its own language."""
        ...

    def find(
        self,
        wanted: Wanted | str,
        owners: Sequence[str] | None,
        progress: Callable[[int, int], None] | None = None,
    ) -> AbstractContextManager[Ranked]:
        """Index what is new, as far as lock and time allow, and look; a string is in the index's own language.

        With `owners`, only messages of these histories. The hits end with the block.
        """
        ...

    def purge(self) -> None:
        """Rewrite the index where deleted messages have left words in its bytes; no search finds them anyway."""
        ...


@runtime_checkable
class SearchesText(Protocol):
    """The capability to search text by an index."""

    @property
    def text(self) -> TextIndex:
        """The index of this namespace's messages."""
        ...


class Blob(Struct, frozen=True, kw_only=True):
    """Bytes that are stored: their digest, their length, and when they were last put (µs)."""

    digest: bytes
    size: int
    put_at: int


class BlobStore(Protocol):
    """Bytes by digest."""

    def put(self, chunks: Iterable[bytes]) -> Blob:
        """Store the bytes, durably before it returns; storing them again renews `put_at`."""
        ...

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The bytes from start up to stop, in pieces; NotFound at once if there are none."""
        ...

    def delete(self, digest: bytes, before: int | None = None) -> bool:
        """Remove the bytes and say whether that was done; fine if they are not there.

        With `before` (µs), only if they were last put before it, so that a put going on keeps them.
        """
        ...

    def list(self) -> Iterator[Blob]:
        """Everything stored, by digest."""
        ...


@runtime_checkable
class KeepsBlobs(Protocol):
    """The capability of a record store to keep blobs beside its records, in the same place."""

    def blobs(self) -> BlobStore:
        """The blobs of this namespace."""
        ...


@runtime_checkable
class Tidies(Protocol):
    """The capability of a blob store to remove what unfinished puts have left."""

    def tidy(self, before: int) -> None:
        """Remove what was begun and last written to before this moment (µs)."""
        ...


class Vector(Struct, frozen=True, kw_only=True):
    """A vector to be found, with the labels that a search may ask for."""

    id: str
    values: Sequence[float]
    labels: Sequence[str] = ()


class Near(Struct, frozen=True, kw_only=True):
    """A neighbour and its cosine."""

    id: str
    score: float


class VectorIndex(Protocol):
    """The vectors of one model, all of one dimension. A filter is a label, which an array column or a payload can say.

    It is never the only copy: whoever fills it can fill it again.
    """

    def upsert(self, vectors: Sequence[Vector]) -> None:
        """Add vectors, or replace those with the same id."""
        ...

    def search(self, vector: Sequence[float], limit: int, labels: Sequence[str] = ()) -> list[Near]:
        """The nearest that carry all labels, best first, ties by id; fewer than the limit only if there are no more.

        The cosine is a float32 value from -1 to 1, and 0 where a vector is all zeros.
        """
        ...

    def delete(self, ids: Sequence[str]) -> None:
        """Remove vectors; fine if they are not there."""
        ...

    def close(self) -> None:
        """Give everything back; closing twice is fine."""
        ...


@runtime_checkable
class Settles(Protocol):
    """The capability of a vector index that gets faster by itself to say when it has."""

    def settle(self, timeout_s: float) -> bool:
        """Wait until searches are as fast as they will be, at most so long; False if they are not yet."""
        ...


class SharedIndex(VectorIndex, Protocol):
    """A vector index that outlives its client and that several fill: it says itself how far it has come."""

    def seen(self) -> int:
        """The number that it was last marked with; 0, and made if need be, if there is none."""
        ...

    def mark(self, seen: int) -> None:
        """Keep a number with the vectors; nothing if they were removed since the last `seen`."""
        ...

    def ids(self) -> Iterator[str]:
        """Whatever is there, in no order."""
        ...


class VectorStore(Protocol):
    """The vector indexes of a namespace, for all clients; `largest` is the dimension that its vectors may have."""

    @property
    def largest(self) -> int:
        """The most dimensions; what has more is searched in the memory of each client."""
        ...

    def index(self, space: str, dimension: int) -> SharedIndex:
        """The index of this name; it is made by `seen`, and where it was removed its calls are NotFound."""
        ...

    def spaces(self) -> list[str]:
        """The names of all indexes that have a mark."""
        ...

    def drop(self, space: str) -> None:
        """Remove an index with everything in it; fine if there is none."""
        ...

    def close(self) -> None:
        """Give everything back; closing twice is fine."""
        ...


@runtime_checkable
class KeepsVectors(Protocol):
    """The capability of a record store to keep indexes of vectors beside its records, in the same place."""

    def vectors(self) -> VectorStore | None:
        """The indexes of this namespace, closed with the client that asks for them; None where there are none."""
        ...


def check_limits(writes: Sequence[Write]) -> None:
    """InvalidInput for a commit larger than any backend promises to take."""
    if len(writes) > MAX_WRITES:
        raise InvalidInput(f"{len(writes)} records in one commit; the limit is {MAX_WRITES}")
    size = 0
    for write in writes:
        if type(write) is Insert or type(write) is Put:
            size += len(write.record.body)
    if size > MAX_BYTES:
        raise InvalidInput(f"{size} bytes in one commit; the limit is {MAX_BYTES}. Store large parts as artifacts")
