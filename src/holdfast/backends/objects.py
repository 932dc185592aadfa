"""Artifacts in an object store: S3 and what speaks like it, Google Cloud Storage, Azure.

Every put has a name of its own, `blobs/<digest>/<when>.<id>`, and the newest counts. Object stores cannot delete
"only if nobody has put it again"; so nobody ever deletes a name that another may be about to rely on. Bytes that
are too many for one request are uploaded in parts to `large/<id>`, and an empty object then gives them their name.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, groupby
from typing import Any, Literal, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote

import obstore
from msgspec import Struct
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from holdfast.backends._addresses import parts_of
from holdfast.backends._awaiting import wait_for
from holdfast.backends._file.names import escape
from holdfast.backends._opened import Opened
from holdfast.contracts import Blob
from holdfast.deadlines import DEFAULT_TIMEOUT_S, remaining
from holdfast.errors import AccessDenied, BackendError, ConnectionFailed, HoldfastError, InvalidInput, NotFound
from holdfast.ids import new_id

R = TypeVar("R")
Outcome = Literal["none", "unknown"]

PART = 8 * 1024 * 1024  # what one request carries at most; a blob has at most 10,000 parts
_AT_ONCE = 2
_TRIES = 5
_BLOBS, _LARGE, _NAMESPACES = "blobs", "large", "namespaces"
_LATE = "the object store did not answer within the timeout; repeat, or raise timeout="
_NAME = re.compile(r"([0-9a-f]{64})/([0-9]{16})\.([0-9a-f-]{36})(?:\.([0-9]+))?")
_STATUS = re.compile(r"status code: ([0-9]{3})")
_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|bucket does not exist")
_STORES: dict[str, type[S3Store] | type[GCSStore] | type[AzureStore]] = {
    "s3": S3Store,
    "gs": GCSStore,
    "az": AzureStore,
}


class _Put(Struct, frozen=True, order=True):
    """One put as the name of an object says it; a later one is greater. `large` are bytes under `large/`."""

    put_at: int
    id: str
    digest: bytes
    size: int
    large: bool

    @property
    def name(self) -> str:
        size = f".{self.size}" if self.large else ""
        return f"{_BLOBS}/{self.digest.hex()}/{self.put_at:016}.{self.id}{size}"

    @property
    def bytes_at(self) -> str:
        return f"{_LARGE}/{self.id}" if self.large else self.name

    def blob(self) -> Blob:
        return Blob(digest=self.digest, size=self.size, put_at=self.put_at)


class ObjectBlobs:
    """A blob store in a bucket or container; `put_at` is the clock of whoever put it."""

    def __init__(self, store: ObjectStore, *, read_only: bool = False) -> None:
        self._store = store
        self._opened = Opened(read_only)

    def put(self, chunks: Iterable[bytes]) -> Blob:
        self._opened.to_write()
        source, id = _Source(chunks), new_id()
        first = source.take(PART)
        large = not source.ended
        if large:
            self._upload(f"{_LARGE}/{id}", chain([first], source), source)
        put = _Put(time.time_ns() // 1000, id, source.digest(), source.size, large)
        self._upload(put.name, b"" if large else first)
        self._outdate(put)
        return put.blob()

    def _upload(self, path: str, content: bytes | Iterator[bytes], source: _Source | None = None) -> None:
        parts = not isinstance(content, bytes)
        given = content if isinstance(content, bytes) else _passing(content)
        settings: Any = {"use_multipart": parts, "chunk_size": PART, "max_concurrency": _AT_ONCE}
        _ask(lambda: obstore.put_async(self._store, path, given, **settings), "unknown", source)

    def _outdate(self, put: _Put) -> None:
        """Remove earlier puts of the same bytes, of which the newest is enough."""
        *earlier, _ = sorted({put, *self._puts(put.digest)})
        for one in earlier:
            self._remove(one)
        if put.large and not self._is_there(put.bytes_at):
            raise BackendError("the bytes were collected while they were put, which took too long; put them again")

    def get(self, digest: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        put = self._must_find(digest)
        return self._read(put, start, put.size if stop is None else min(stop, put.size))

    def _read(self, put: _Put, start: int, stop: int) -> Iterator[bytes]:
        for at in range(start, stop, PART):
            put, piece = self._piece(put, at, min(at + PART, stop))
            yield piece

    def _piece(self, put: _Put, start: int, stop: int) -> tuple[_Put, bytes]:
        """Some bytes, and the put they are of: while we read, a later one may have taken the place of this."""
        for _ in range(_TRIES):
            with suppress(NotFound):
                return put, bytes(
                    _ask(partial(obstore.get_range_async, self._store, put.bytes_at, start=start, end=stop))
                )
            put = self._must_find(put.digest)
        raise NotFound(f"blob {put.digest.hex()} was replaced again and again while it was read; repeat")

    def delete(self, digest: bytes, before: int | None = None) -> bool:
        self._opened.to_write()
        puts = self._puts(digest)
        if not puts or (before is not None and puts[-1].put_at >= before):
            return False
        for put in puts:  # the newest last, so that nobody meets an older one alone
            self._remove(put)
        return True

    def _remove(self, put: _Put) -> None:
        for path in dict.fromkeys((put.name, put.bytes_at)):
            self._remove_object(path)

    def _remove_object(self, path: str) -> None:
        with suppress(NotFound):
            _ask(lambda: obstore.delete_async(self._store, path), "unknown")

    def list(self) -> Iterator[Blob]:
        """Everything stored, by digest: object stores list names in order."""
        for _, puts in groupby(self._listed(_BLOBS), lambda put: put.digest):
            yield max(puts).blob()

    def tidy(self, before: int) -> None:
        """Remove large ones that were uploaded before this and never got a name."""
        self._opened.to_write()
        moment = datetime.fromtimestamp(before / 1_000_000, UTC) if before > 0 else datetime.min.replace(tzinfo=UTC)
        nameless = {path for path, _, at in self._objects(_LARGE) if at < moment}
        if nameless:
            nameless.difference_update(put.bytes_at for put in self._listed(_BLOBS))
        for path in nameless:
            self._remove_object(path)

    # looking

    def _must_find(self, digest: bytes) -> _Put:
        puts = self._puts(digest)
        if not puts:
            raise NotFound(f"no blob {digest.hex()}")
        return puts[-1]

    def _puts(self, digest: bytes) -> Sequence[_Put]:
        """All puts of these bytes, oldest first."""
        return sorted(self._listed(f"{_BLOBS}/{digest.hex()}"))

    def _listed(self, prefix: str) -> Iterator[_Put]:
        for path, size, _ in self._objects(prefix):
            put = _read_name(path, size)
            if put is not None:
                yield put

    def _objects(self, prefix: str) -> Iterator[tuple[str, int, datetime]]:
        """Path, size and time of the objects under a prefix, a page at a time."""
        self._opened.to_read()
        pages = obstore.list(self._store, prefix)
        while True:
            page = _ask(partial(_next, pages))
            if page is None:
                return
            yield from ((one["path"], one["size"], one["last_modified"]) for one in page)

    def _is_there(self, path: str) -> bool:
        with suppress(NotFound):
            _ask(lambda: obstore.head_async(self._store, path))
            return True
        return False

    def close(self) -> None:
        """End it; closing twice is fine."""
        self._opened.close()


class _Source:
    """What a caller gives, hashed and counted as it passes; `broke` is its own failure, not the store's."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._hash = hashlib.sha256()
        self.size = 0
        self.ended = False
        self.broke: Exception | None = None

    def take(self, count: int) -> bytes:
        """The first bytes, whole chunks of them: at least so many, unless they end before."""
        taken = bytearray()
        while len(taken) < count and not self.ended:
            taken += next(self, b"")
        return bytes(taken)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            _check_time("unknown")
            chunk = next(self._chunks)
        except StopIteration:
            self.ended = True
            raise
        except Exception as why:  # whatever it is, it goes back to whose source it was
            self.broke = why
            raise
        self._hash.update(chunk)
        self.size += len(chunk)
        return chunk

    def digest(self) -> bytes:
        """The digest of what has passed."""
        return self._hash.digest()


def _read_name(path: str, size: int) -> _Put | None:
    """What the name of an object says; None if it is none of ours."""
    found = _NAME.fullmatch(path.removeprefix(f"{_BLOBS}/"))
    if found is None:
        return None
    digest, put_at, id, large = found.groups()
    return _Put(int(put_at), id, bytes.fromhex(digest), size if large is None else int(large), large is not None)


def _check_time(outcome: Outcome) -> None:
    if remaining() <= 0:
        raise ConnectionFailed(_LATE, outcome=outcome)


async def _passing(source: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes, as a driver that does not wait for them asks for them."""
    for piece in source:
        yield piece


async def _next(pages: Any) -> Any:
    """The next of the pages; None behind the last."""
    try:
        return await pages.__anext__()
    except StopAsyncIteration:
        return None


def _ask(request: Callable[[], Awaitable[R]], outcome: Outcome = "none", source: _Source | None = None) -> R:
    """The answer to a request, within the time of the present call; errors are ours, or those of a caller's source."""
    _check_time(outcome)
    try:
        return wait_for(request)
    except (BaseError, FileNotFoundError, TimeoutError) as cause:
        if source is not None and source.broke is not None:
            raise source.broke from None
        raise _ours(cause, outcome) from cause


def _ours(cause: Exception, outcome: Outcome) -> HoldfastError:
    said, _, more = str(cause).partition("\n")
    status = _STATUS.search(said)
    if isinstance(cause, TimeoutError):
        return ConnectionFailed(_LATE, outcome=outcome)
    if isinstance(cause, FileNotFoundError):
        return NotFound(said)
    if isinstance(cause, PermissionDeniedError | UnauthenticatedError) or (status and status[1] in ("401", "403")):
        return AccessDenied(f"the object store refuses; check its credentials and their rights: {said}")
    if status and status[1] == "404" and _NO_BUCKET.search(more):
        return BackendError(f"the bucket or container does not exist; create it first: {said}")
    return ConnectionFailed(f"the object store failed: {said}", outcome=outcome)


# opening


def open_blobs(
    url: str, *, namespace: str = "", read_only: bool = False, timeout: float = DEFAULT_TIMEOUT_S, **_: object
) -> ObjectBlobs:
    """The blobs at `s3://bucket/prefix`, `gs://…` or `az://container/prefix`; `?name=value` are settings of the driver.

    What an address leaves out comes from the environment, such as AWS_ACCESS_KEY_ID. Nothing is asked of the store.
    """
    parsed = parts_of(url)
    if not parsed.netloc:
        raise InvalidInput("the address names no bucket or container; write s3://bucket/prefix, gs:// or az://")
    try:
        return ObjectBlobs(_open_store(parsed, namespace, timeout), read_only=read_only)
    except (BaseError, ValueError) as cause:
        said = str(cause).partition("\n")[0]
        raise InvalidInput(f"the address of the object store cannot be used: {said}") from cause


def _open_store(parsed: SplitResult, namespace: str, timeout: float) -> ObjectStore:
    settings: Any = dict(parse_qsl(parsed.query, strict_parsing=bool(parsed.query)))
    place = f"{_NAMESPACES}/{escape(namespace)}" if namespace else ""
    prefix = "/".join(part for part in (unquote(parsed.path).strip("/"), place) if part)
    seconds = timedelta(seconds=max(1.0, timeout))
    return _STORES[parsed.scheme.lower()](
        parsed.netloc,
        prefix=prefix or None,
        config=settings,
        client_options={"timeout": seconds, "allow_http": settings.get("endpoint", "").startswith("http://")},
        retry_config={"retry_timeout": seconds},
    )
