"""Writes of adapters that go into one commit with others: a session that begins, the metadata of one that is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast import codec, history
from holdfast.client import Holdfast
from holdfast.commits import get
from holdfast.contracts import Insert, Put, Reader, Write
from holdfast.kinds import SESSIONS
from holdfast.model import Json
from holdfast.session_records import check_readable, session_record, stored_record


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
