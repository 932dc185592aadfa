"""Putting a checkpoint: one commit with the new messages, the values that changed, and the step before made whole.

What the tasks of that step have written then moves into the checkpoint it began at, without the texts that the new
messages have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec.structs import replace

from holdfast import checkpoint_records as records
from holdfast import history
from holdfast.appends import ROOT
from holdfast.checkpoint_records import StoredCheckpoint
from holdfast.commits import commit
from holdfast.contracts import Delete, Insert, Put, Query, Reader, Write
from holdfast.errors import Conflict
from holdfast.history import Seen
from holdfast.ids import check_id
from holdfast.kinds import CHECKPOINTS, PENDING
from holdfast.nouns import Ground

from ._langgraph_payloads import Packed, Payload, to_text
from ._langgraph_threads import MARK, Entry, entries, entry_at, entry_of, own_id
from ._langgraph_transcripts import Known, Memory, Place, Telling, Told, common, extended, load
from ._langgraph_values import Given, Holding, Log, log_of, pack
from ._langgraph_writes import lighten, make_whole, written

_LARGE = 3_000  # bytes that a step's records hardly have without texts
_ASIDE = {"v", "id", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels"}


class Putting:
    """One checkpoint on its way into the session with this head."""

    def __init__(
        self, ground: Ground, serde: SerializerProtocol, memory: Memory, given: Given, seen: Seen, plain: bool
    ) -> None:
        self._ground = ground
        self._seen = seen
        self._owner = seen.pointer.uid
        self._serde = serde
        self._memory = memory
        self._given = given
        self._plain = plain
        self._older: Callable[[], list[tuple[bytes, Place]]] = list

    def run(self) -> None:
        """Commit it."""
        seen, owner = self._seen, self._owner
        parent = self._parent(owner)
        log = log_of(self._given, parent) if self._plain else None
        messages = None if log is None else log.messages
        known = Known([], [], []) if log is not None and messages is None else self._known(seen, parent)
        count = 0 if messages is None else common(messages, known)
        telling = None
        if messages is not None:
            telling = self._telling(messages[count:], known.ids[count - 1] if count else ROOT)
            telling.prepare(seen.pointer.session_id)
        self._older = partial(known.texts, count)
        told = self._commit(seen, log, parent, telling)
        if parent is not None:
            self._memory.follow(owner, parent.id, parent.stored.number, told.texts)
            if log is not None and messages is None:
                known = self._memory.get(owner, parent.id) or known
        if messages is not None:
            known = extended(known, count, messages, told)
        if log is None or messages is not None or known.states:
            self._memory.put(owner, self._given.id, known)

    def _telling(self, messages: Sequence[Any], behind: str) -> Telling:
        return Telling(self._ground, self._serde, messages, behind, self._moment())

    def _commit(self, seen: Seen, log: Log | None, parent: Entry | None, telling: Telling | None) -> Told:
        session_id, owner, payload = seen.pointer.session_id, seen.pointer.uid, self._payload(parent, log)
        told: list[Told] = []

        def place(reader: Reader) -> list[Write]:
            now_seen = history.must_see(reader, session_id)
            if now_seen.pointer.uid != owner:
                raise Conflict(f"thread {session_id!r} was deleted meanwhile; put the checkpoint again")
            now = self._present(reader, payload, log)
            return self._place(reader, now_seen, now, parent, telling, told)

        commit(self._ground.store, place)
        self._ground.remember(told[-1].seen)
        return told[-1]

    def _moment(self) -> datetime:
        try:
            at = datetime.fromisoformat(str(self._given.checkpoint["ts"]))
        except ValueError:
            return datetime.fromtimestamp(self._ground.stamps.next() / 1e6, UTC)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)

    def _parent(self, owner: str) -> Entry | None:
        return None if self._given.parent is None else entry_of(self._ground.store, owner, self._given.parent)

    def _known(self, seen: Seen, parent: Entry | None) -> Known:
        """The messages that the list is compared with: those of the checkpoint before, or what the session has."""
        known = None if parent is None else self._memory.get(seen.pointer.uid, parent.id)
        at = history.position_of(seen.pointer) if parent is None else parent.stored.position
        if known is not None or at is None or at.seq == 0:
            return known or Known([], [], [])
        return load(self._ground, at, self._serde)[1]

    # what is in it

    def _payload(self, parent: Entry | None, log: Log | None) -> Payload:
        given, checkpoint = self._given, self._given.checkpoint
        holding = Holding(self._ground.store, self._serde, self._memory, self._owner, given, self._plain)
        held = holding.hold(parent, None if log is None else log.channel)
        rest = {name: value for name, value in checkpoint.items() if name not in _ASIDE}
        return Payload(
            v=checkpoint["v"],
            versions=dict(checkpoint["channel_versions"]),
            seen={node: dict(versions) for node, versions in checkpoint["versions_seen"].items()},
            ts=None if self._moment().isoformat() == checkpoint["ts"] else str(checkpoint["ts"]),
            metadata=None if plain_metadata(name_of(given.metadata)) == given.metadata else self._pack(given.metadata),
            values=held.values,
            held=held.held,
            lists=held.lists,
            log=None if log is None else log.channel,
            snapshot=log is not None and log.snapshot,
            updated=checkpoint.get("updated_channels"),
            rest=self._pack(rest) if rest else None,
        )

    def _present(self, reader: Reader, payload: Payload, log: Log | None) -> Payload:
        """The payload, made anew if a deletion has taken checkpoints meanwhile that hold values of it."""
        numbers = sorted({*payload.held.values()})
        if not numbers or None not in reader.get(CHECKPOINTS, [(self._owner, number) for number in numbers]):
            return payload
        parent = None if self._given.parent is None else entry_of(reader, self._owner, self._given.parent)
        return self._payload(parent, log)

    def _pack(self, value: Mapping[str, Any]) -> Packed:
        return pack(self._serde, dict(value))

    # the commit

    def _place(
        self,
        reader: Reader,
        seen: Seen,
        payload: Payload,
        parent: Entry | None,
        telling: Telling | None,
        told: list[Told],
    ) -> list[Write]:
        pointer, given = seen.pointer, self._given
        owner, name = pointer.uid, check_id(given.id, "checkpoint_id")
        rival = records.find(reader, name)
        if rival is not None and rival.key[0] != owner:
            name = own_id(given.id, owner)
            rival = records.find(reader, name)
        top = self._top(reader, seen)
        if rival is None:
            pointer = history.checkpointed(pointer, name, self._ground.stamps.next())
        told[:] = [self._tell(reader, Seen(pointer, seen.digest, seen.later), payload, parent, telling)]
        payload = replace(
            payload,
            id=None if name == given.id else given.id,
            parent=given.parent if parent is not None and parent.stored.id != given.parent else None,
            top=top if top is not None and top > given.id else None,
        )
        payload, texts = lighten(payload, [], told[-1].texts)
        stored = StoredCheckpoint(
            id=name,
            uid=records.told_uid(pointer),
            number=pointer.checkpoints if rival is None else int(rival.key[1]),
            at=pointer.checkpoint_at if rival is None else int(rival.fields[2] or 0),
            created_at=self._moment(),
            agent_id=pointer.agent_id,
            session_id=pointer.session_id,
            name=name_of(given.metadata),
            extra={MARK: to_text(payload)},
            texts=texts,
            parent_id=given.parent if parent is None else parent.stored.id,
            head=records.kept_head(told[-1].seen.pointer),
        )
        record = records.checkpoint_record(stored)
        own = Insert(record) if rival is None else Put(record, rival.digest)
        return [*told[-1].writes, own, *self._whole(reader, parent, told[-1].texts)]

    def _top(self, reader: Reader, seen: Seen) -> str | None:
        """The greatest id that the thread has so far."""
        number = seen.pointer.checkpoints
        last = entry_at(reader, seen.pointer.uid, number) if number else None
        if last is not None:
            return last.payload.top or last.id
        return max((entry.id for entry in entries(reader, seen.pointer.uid)), default=None) if number else None

    def _tell(
        self, reader: Reader, seen: Seen, payload: Payload, parent: Entry | None, telling: Telling | None
    ) -> Told:
        if telling is None and payload.log is not None and parent is not None:
            assert parent.stored.head is not None
            telling = self._telling([], parent.stored.head.message_id or ROOT)
        if telling is None:
            now_seen, writes = history.move(seen, seen.pointer)
            return Told(now_seen, writes, [], [], [])
        return telling.place(reader, seen)

    def _whole(self, reader: Reader, parent: Entry | None, texts: Sequence[tuple[bytes, Place]]) -> list[Write]:
        """The writes that move what was pending at the checkpoint before into it."""
        if parent is None:
            return []
        pending = list(reader.scan(Query(kind=PENDING, prefix=(parent.stored.owner, parent.id))))
        # A subgraph is given, and gives back, messages that were told long before: then all texts are looked for.
        if sum(len(one.body) for one in (parent.record, *pending)) > _LARGE + 2 * sum(len(text) for text, _ in texts):
            texts = [*self._older(), *texts]
        whole = make_whole(reader, parent.stored.owner, parent.stored.number, written(pending), texts)
        return [*whole, *(Delete(PENDING, one.key, over=one.digest) for one in pending if whole)]


def name_of(metadata: Mapping[str, Any]) -> str:
    """What people see; a name also keeps retention away, which knows nothing of how these hang together."""
    return f"{metadata.get('source', 'checkpoint')} {metadata.get('step', '')}".strip()[:100]


def plain_metadata(name: str) -> dict[str, Any] | None:
    """The metadata that most checkpoints of this name have."""
    source, _, step = name.partition(" ")
    return {"source": source, "step": int(step), "parents": {}} if step.removeprefix("-").isdigit() else None
