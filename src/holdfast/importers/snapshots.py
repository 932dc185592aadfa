"""Conversations that a source repeats whole at every checkpoint: common beginnings are one path, the rest branches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.appends import ROOT
from holdfast.errors import CorruptData
from holdfast.importers.placing import Placing
from holdfast.importers.reading import derive, usable_id
from holdfast.importers.reports import Report
from holdfast.model import Json, Message


class Line(Struct, frozen=True):
    """One message of a conversation as the source has it; `parent` None is the one before it in the list.

    `make` turns it into a Message and is only asked once; None from it means that it cannot be one.
    """

    id: str | None
    raw: Json
    where: str
    make: Callable[[], Message | None]
    parent: str | None = None


class Snapshots:
    """A session under import of which several states are known, oldest first."""

    def __init__(self, placing: Placing, report: Report) -> None:
        self.placing = placing
        self._report = report
        self._known: dict[tuple[str, bytes], str] = {}

    def take(self, said: Iterable[Line]) -> str:
        """Put a conversation in as far as it is not there; returns the id of its last message, ROOT if it has none."""
        at = ROOT
        here: dict[str, str] = {}
        for line in said:
            parent = self._parent(line, here, at)
            with self._report.noting(line.where):
                at = self._place(line, parent)
            if line.id is not None:
                here[line.id] = at
        return at

    def _parent(self, line: Line, here: dict[str, str], before: str) -> str:
        if line.parent is None:
            return before
        if line.parent not in here:
            self._report.note(
                line.where, f"its parent {line.parent!r} is not there; it stands behind the one before it"
            )
        return here.get(line.parent, before)

    def _place(self, line: Line, parent: str) -> str:
        mark = _fingerprint(line)
        known = self._known.get((parent, mark))
        if known is None:
            known = self._known[parent, mark] = self._put(line, parent, mark)
        return known

    def _put(self, line: Line, parent: str, mark: bytes) -> str:
        message = line.make()
        if message is None:
            return parent
        other = derive(self.placing.session_id, parent, mark.hex())
        own = other
        if line.id is not None:
            own = usable_id(line.id, self._report, line.where, self.placing.session_id)
        return self.placing.put(replace(message, id=own), parent, line.where, other=other)


def _fingerprint(line: Line) -> bytes:
    """What tells a message from one that says something else."""
    try:
        return hashlib.sha256(msgspec.json.encode([line.id, line.raw])).digest()
    except (TypeError, ValueError, RecursionError) as cause:
        raise CorruptData(f"{line.where} cannot be read: {cause}") from cause
