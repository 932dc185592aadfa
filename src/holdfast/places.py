"""From addresses to what is there: records, and parts of a store in places of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from typing import Any

from msgspec import Struct

from holdfast.contracts import BlobStore, KeepsBlobs, RecordStore, VectorStore
from holdfast.errors import InvalidInput, Unsupported

OBJECTS = {"s3": "objects", "gs": "objects", "az": "objects"}
"""Which module opens which scheme of address as a store of artifacts alone."""

VECTORS = {"qdrant": "qdrant"}
"""Which module opens which scheme of address as a store of vectors alone."""

_EXTRAS = {"objects": "cloud"}


class Part(Struct, frozen=True):
    """What is opened beside the records, to be asked after and closed with them."""

    check: Callable[[], object]
    close: Callable[[], None]


class Places(Struct, frozen=True):
    """What is kept elsewhere than the records; None is kept with them."""

    blobs: BlobStore | None
    vectors: VectorStore | None
    parts: list[Part]


def driver(url: str, known: Mapping[str, str], what: str) -> Any:
    """The module that opens an address; InvalidInput for an unknown scheme, Unsupported without its driver."""
    if not isinstance(url, str):
        raise InvalidInput(f"the address of {what} is a string such as 'sqlite:///agents.db', not {type(url).__name__}")
    scheme = url.partition(":")[0].lower()
    if scheme not in known:
        raise InvalidInput(
            f"{scheme!r} is no kind of address for {what}; known are {', '.join(f'{n}:' for n in known)}"
        )
    module = known[scheme]
    try:
        return import_module(f"holdfast.backends.{module}")
    except ModuleNotFoundError as cause:
        raise Unsupported(f"{scheme}: needs a driver; pip install 'holdfast[{_EXTRAS.get(module, module)}]'") from cause


def open_store(url: str, backends: Mapping[str, str], **options: Any) -> RecordStore:
    """The records at the address of a backend."""
    if options["durability"] not in ("full", "normal"):
        raise InvalidInput(f"durability is 'full' or 'normal', not {options['durability']!r}")
    store: RecordStore = driver(url, backends, "a store").open_url(url, **options)
    return store


def open_places(
    artifacts: str | None, embeddings: str | None, backends: Mapping[str, str], opened: ExitStack, **options: Any
) -> Places:
    """Open what has an address of its own; if one of them cannot be opened, `opened` closes those before it."""
    blobs, vectors, parts = None, None, list[Part]()
    if artifacts is not None:
        blobs, part = _open_artifacts(artifacts, backends, options)
        opened.callback(part.close)
        parts.append(part)
    # Whoever searches an index elsewhere also fills it, so one who must not write has its own in memory.
    if embeddings is not None and (module := driver(embeddings, VECTORS, "embeddings")) and not options["read_only"]:
        vectors = module.open_vectors(embeddings, **options)
        opened.callback(vectors.close)
        parts.append(Part(vectors.spaces, vectors.close))
    return Places(blobs, vectors, parts)


def _open_artifacts(url: str, backends: Mapping[str, str], options: dict[str, Any]) -> tuple[BlobStore, Part]:
    """The blobs at the address of an object store, or of any backend that keeps some."""
    module = driver(url, {**OBJECTS, **backends}, "artifacts")
    if hasattr(module, "open_blobs"):
        blobs = module.open_blobs(url, **options)
        return blobs, Part(lambda: next(iter(blobs.list()), None), blobs.close)
    store: RecordStore = module.open_url(url, **options)
    if not isinstance(store, KeepsBlobs):
        store.close()
        raise Unsupported(f"{url.partition(':')[0]}: keeps no artifacts; name another place for them")
    return store.blobs(), Part(store.inspect, store.close)
