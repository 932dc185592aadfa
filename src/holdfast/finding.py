"""Finding checkpoints: by id, by order of writing, by step; damaged ones are named, never served as sound."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import chain, islice
from typing import Literal

from msgspec.structs import replace

from holdfast import checkpoint_records as records
from holdfast import cursors
from holdfast.checkpoint_records import StoredCheckpoint
from holdfast.commits import commit, get
from holdfast.contracts import Delete, Query, Reader, Record, Write
from holdfast.errors import Conflict, HoldfastError, IntegrityError, InvalidInput, NotFound
from holdfast.filters import Filter
from holdfast.heads import count_heads, uid_of
from holdfast.ids import check_id
from holdfast.kinds import AGENTS, CHECKPOINTS, HEADS
from holdfast.model import Checkpoint, CheckpointKind, Json, Page
from holdfast.nouns import Noun
from holdfast.retention import check_kind


class DamagedCheckpoint(UserWarning):
    """A newer checkpoint was passed over because its record is damaged."""


class Finding(Noun):
    """Checkpoints that are there."""

    def get(self, checkpoint_id: str, *, timeout: float | None = None) -> Checkpoint | None:
        """The checkpoint, or None; a damaged one is IntegrityError."""
        with self._within(timeout):
            record = self._find(self._store, check_id(checkpoint_id, "checkpoint id"))
            if record is None:
                return None
            found = records.view(record)
            if found.damaged is not None:
                records.read_stored(record)  # which says more exactly what it is
                raise IntegrityError(found.damaged)
            return found

    def has(self, checkpoint_id: str, *, timeout: float | None = None) -> bool:
        """Whether there is such a checkpoint, damaged or not."""
        with self._within(timeout):
            return self._find(self._store, check_id(checkpoint_id, "checkpoint id")) is not None

    def _find(self, reader: Reader, checkpoint_id: str) -> Record | None:
        """A checkpoint whose session or agent has not been deleted."""
        record = records.find(reader, checkpoint_id)
        return None if record is None or not self._has_owner(reader, record) else record

    def _has_owner(self, reader: Reader, record: Record) -> bool:
        """Whether a checkpoint's session or agent is still there; a damaged one cannot say, and is."""
        try:
            stored = records.read_stored(record)
        except HoldfastError:
            return True
        agent_id = stored.agent_id if stored.session_id is None else None
        return self._owner(reader, agent_id, stored.session_id) == stored.owner

    def _must_find(self, reader: Reader, checkpoint_id: str) -> StoredCheckpoint:
        record = self._find(reader, check_id(checkpoint_id, "checkpoint id"))
        if record is None:
            raise NotFound(
                f"there is no checkpoint with the id {checkpoint_id!r} (a name is no id); checkpoints.list shows all"
            )
        return records.read_stored(record)

    def _owner(self, reader: Reader, agent_id: str | None, session_id: str | None) -> str | None:
        """The uid of an agent or a session, or None if it is not there."""
        if session_id is not None:
            record = get(reader, HEADS, check_id(session_id, "session id"))
        elif agent_id is not None:
            record = get(reader, AGENTS, check_id(agent_id, "agent id"))
        else:
            return None
        return None if record is None else uid_of(record)

    def list(
        self,
        agent_id: str | None = None,
        *,
        session_id: str | None = None,
        kind: CheckpointKind | None = None,
        order: Literal["written", "step"] = "written",
        limit: int = 100,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> Page[Checkpoint]:
        """An agent's own checkpoints, or a session's, or all: the last written first, or by ascending step.

        Damaged ones are listed and say so, whatever the `kind`, which they can no longer tell.
        """
        cursors.check_range(limit, offset)
        _check_one(agent_id, session_id)
        if kind is not None:
            check_kind(kind)
        listing = ["checkpoints", agent_id, session_id, kind, order]
        with self._within(timeout):
            after = None if cursor is None else cursors.read(listing, cursor)
            end = offset + limit + 1
            found, views = [], None
            if kind is None:
                found = [*islice(self._rows(agent_id, session_id, order, after, end, bodies_only=True), offset, end)]
                views = records.views(found[:limit])
            if views is None:
                rows = self._rows(agent_id, session_id, order, after, None if kind else end)
                seen = ((row, records.view(row)) for row in rows)
                chosen = ((row, one) for row, one in seen if kind in (None, one.kind) or one.damaged)
                pairs = [*islice(chosen, offset, end)]
                found, views = [row for row, _ in pairs], [one for _, one in pairs[:limit]]
        if not 0 < limit < len(found):
            return Page(views, None)
        place = _place(found[limit - 1], order, agent_id is None and session_id is None)
        return Page(views, cursors.make(listing, place))

    def _rows(
        self,
        agent_id: str | None,
        session_id: str | None,
        order: str,
        after: Json,
        limit: int | None = None,
        *,
        bodies_only: bool = False,
    ) -> Iterator[Record]:
        """The records of a listing; more than `limit` of them are not wanted, nor maybe their fields."""
        if order not in ("written", "step"):
            raise InvalidInput(f"order is 'written' or 'step', not {order!r}")
        owner = self._owner(self._store, agent_id, session_id)
        if owner is None and (agent_id is not None or session_id is not None):
            return iter(())
        prefix = () if owner is None else (owner,)
        if order == "step":
            found = sorted(self._store.scan(Query(kind=CHECKPOINTS, prefix=prefix)), key=_by_step)
            rows: Iterator[Record] = (row for row in found if after is None or _by_step(row) > tuple(after))
            return rows if owner else (row for row in rows if self._has_owner(self._store, row))
        query = Query(
            kind=CHECKPOINTS,
            prefix=prefix,
            order=None if owner else "at",
            reverse=True,
            after=None if after is None else tuple(after),
            limit=limit if owner else None,
            bodies_only=bodies_only and owner is not None,
        )
        return self._store.scan(query) if owner else self._of_all(query, limit)

    def _of_all(self, query: Query, limit: int | None) -> Iterator[Record]:
        """The records whose owners are still there. As many as are wanted are read at once, since nearly all are."""
        first = [] if limit is None else [*self._store.scan(replace(query, limit=limit))]
        if first:
            query = replace(query, after=tuple(_place(first[-1], "written", of_all=True)))
        rest = iter(()) if len(first) < (limit or 0) else self._store.scan(query)
        return (row for row in chain(first, rest) if self._has_owner(self._store, row))

    def latest(
        self,
        agent_id: str | None = None,
        *,
        session_id: str | None = None,
        order: Literal["written", "step"] = "written",
        strict: bool = False,
        timeout: float | None = None,
    ) -> Checkpoint | None:
        """The newest sound checkpoint of an agent or a session, or None.

        A damaged newer one is passed over with a warning, or raised as IntegrityError with `strict=True`.
        """
        _check_one(agent_id, session_id)
        with self._within(timeout):
            rows = self._rows(agent_id, session_id, order, None)
            for row in reversed([*rows]) if order == "step" else rows:
                found = records.view(row)
                if found.damaged is None:
                    return found
                if strict:
                    raise IntegrityError(found.damaged)
                warnings.warn(f"{found.damaged}; looking at the one before", DamagedCheckpoint, stacklevel=2)
        return None

    def delete(self, checkpoint_id: str, *, timeout: float | None = None) -> None:
        """Remove a checkpoint; fine if there is none, Conflict while sessions are detached by it."""
        check_id(checkpoint_id, "checkpoint id")

        def place(reader: Reader) -> list[Write]:
            record = records.find(reader, checkpoint_id)
            if record is None:
                return []
            if detaches(reader, checkpoint_id):
                raise Conflict(f"sessions are detached by checkpoint {checkpoint_id!r}; attach or delete them first")
            return [Delete(CHECKPOINTS, record.key, over=record.digest)]

        with self._within(timeout):
            commit(self._store, place)


def detaches(reader: Reader, checkpoint_id: str) -> bool:
    """Whether any session is detached by this checkpoint."""
    return count_heads(reader, (Filter("detached_by", "=", checkpoint_id),)) > 0


def _check_one(agent_id: str | None, session_id: str | None) -> None:
    if agent_id is not None and session_id is not None:
        raise InvalidInput("name an agent_id or a session_id, not both")


def _by_step(row: Record) -> tuple[int, int, str]:
    step, number = row.fields[1], row.key[1]  # which damage may have made anything
    return (step if isinstance(step, int) else -1, number if isinstance(number, int) else -1, str(row.key[0]))


def _place(row: Record, order: str, of_all: bool) -> Json:
    """Where a listing goes on behind this row."""
    if order == "step":
        return _by_step(row)
    return [row.fields[2], *row.key] if of_all else list(row.key)
