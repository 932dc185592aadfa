"""What adapters do with sessions beyond the client: find one with a note in it, write it together with others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from holdfast import codec, history
from holdfast.client import Holdfast
from holdfast.commits import get
from holdfast.contracts import MAX_BYTES, Insert, Put, Reader, Write
from holdfast.history import Seen
from holdfast.ids import check_id
from holdfast.kinds import SESSIONS
from holdfast.model import Json, Media, Message, Page
from holdfast.session_records import Stored, check_readable, read_stored, session_record, stored_record

T = TypeVar("T")


class Found(Struct, frozen=True):
    """A session that is there: its head, its record, and what an adapter has noted in its metadata."""

    seen: Seen
    stored: Stored
    note: dict[str, Any]

    @property
    def id(self) -> str:
        return self.stored.id


def look(reader: Reader, session_id: str, mark: str) -> Found | None:
    """A session by its id, with the note under this mark; None if it is not there."""
    seen = history.look_up(reader, check_id(session_id, "session id"))
    record = None if seen is None else get(reader, SESSIONS, session_id)
    if seen is None or record is None:
        return None
    stored = read_stored(record)
    return Found(seen, stored, (stored.metadata or {}).get(mark) or {})


def every(page: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """What is on all pages, where `page` gives the one at a cursor."""
    cursor = None
    while True:
        found = page(cursor)
        yield from found
        cursor = found.cursor
        if cursor is None:
            return


def lots(messages: Sequence[Message], most: int) -> Iterator[list[Message]]:
    """The messages in their order, at most so many at a time and no more than one commit takes."""
    lot: list[Message] = []
    size = 0
    for message in messages:
        own = _size(message)
        if lot and (len(lot) == most or size + own > MAX_BYTES // 2):
            yield lot
            lot, size = [], 0
        lot.append(message)
        size += own
    if lot:
        yield lot


def _size(message: Message) -> int:
    """The bytes of a message, about; those of media are put apart from it."""
    media = sum(len(part.data) for part in message.content if isinstance(part, Media) and part.data is not None)
    return len(codec.encode_message(message)[0]) - media * 4 // 3


def begin(hf: Holdfast, **fields: Any) -> list[Write]:
    """The writes of a new session, which takes what `sessions.create` does; refused if the id is taken."""
    stored, pointer, root = hf.sessions._new(**fields)
    check_readable(stored, pointer)
    return [Insert(stored_record(stored)), *history.new_head(pointer)[1], root]


def with_metadata(
    reader: Reader, session_id: str, metadata: dict[str, Json], writes: Sequence[Write] = ()
) -> list[Write]:
    """The writes, and with them the session's metadata, also where they name the session anyway."""
    here = (SESSIONS, (session_id,))
    own = next((one for one in writes if isinstance(one, Put) and (one.record.kind, one.record.key) == here), None)
    present = get(reader, SESSIONS, session_id)
    assert present is not None
    envelope = codec.decode_envelope((own.record if own else present).body, f"session {session_id!r}")
    changed = session_record({**envelope, "metadata": metadata})
    return [*(one for one in writes if one is not own), Put(changed, present.digest)]
