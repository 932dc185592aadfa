"""Verifying blobs: whatever refers to bytes must find them, and they must be the bytes of their digest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.artifact_records import read_artifact
from holdfast.blobs import checked
from holdfast.claims import Problem
from holdfast.commits import get
from holdfast.contracts import BlobStore, Query, Record, RecordStore
from holdfast.errors import HoldfastError, IntegrityError
from holdfast.filters import Filter
from holdfast.integrity import Report
from holdfast.kinds import ARTIFACTS, HEADS, MESSAGES, PARTS, SESSIONS
from holdfast.parts import read_part


def with_blobs(report: Report, store: RecordStore, blobs: BlobStore | None) -> Report:
    """The report with what is wrong with the blobs that records refer to, each read once."""
    if blobs is None:
        return report
    named = {(problem.kind, problem.key) for problem in report.problems}
    found = [problem for problem in _problems(store, blobs) if (problem.kind, problem.key) not in named]
    return replace(report, problems=[*report.problems, *found])


def _problems(store: RecordStore, blobs: BlobStore) -> Iterator[Problem]:
    try:
        yield from _faulty(store, blobs)
    except IntegrityError as cause:  # the store itself cannot be read on
        yield Problem(kind="engine", key=(), what=str(cause))


def _faulty(store: RecordStore, blobs: BlobStore) -> Iterator[Problem]:
    faults: dict[tuple[bytes, int], str | None] = {}
    for record, digest, size in _references(store):
        if (digest, size) not in faults:
            faults[digest, size] = _fault(blobs, digest, size)
        what = faults[digest, size] or _homeless(store, record)
        if what is not None and get(store, record.kind, *record.key) is not None:
            yield Problem(kind=record.kind.name, key=record.key, what=what)


def _references(store: RecordStore) -> Iterator[tuple[Record, bytes, int]]:
    """What refers to a blob, as far as it can be read."""
    for kind in (ARTIFACTS, PARTS):
        for record in store.scan(Query(kind=kind)):
            try:
                stored: Any = read_artifact(record) if kind is ARTIFACTS else read_part(record).kept
            except HoldfastError:
                continue
            yield record, stored.blob if kind is ARTIFACTS else stored.digest, stored.size


def _fault(blobs: BlobStore, digest: bytes, size: int) -> str | None:
    try:
        for _ in checked(blobs, digest, size, 0, None, "it"):
            pass
    except IntegrityError as fault:
        return str(fault)
    return None


def _homeless(store: RecordStore, record: Record) -> str | None:
    """Why a part has no message, unless it is being deleted or copied."""
    if record.kind is not PARTS or get(store, MESSAGES, *record.key[:3]) is not None:
        return None
    same = Query(kind=SESSIONS, where=(Filter("history", "=", record.key[0]),))
    heads = [get(store, HEADS, *session.key) for session in store.scan(same)]
    return "there is no message that it belongs to" if heads and None not in heads else None
