"""Texts that a checkpoint leaves out because messages of its session have them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast import codec
from holdfast.checkpoint_records import StoredCheckpoint, checkpoint_record, read_stored
from holdfast.contracts import Reader, Record
from holdfast.errors import CorruptData
from holdfast.kinds import MESSAGES
from holdfast.model import Text

Place = tuple[int, int, int, int]
_MARK = b'"texts":'  # in the bytes of every checkpoint that leaves texts out


def texts_of(reader: Reader, stored: StoredCheckpoint) -> list[bytes]:
    """The texts that a checkpoint leaves out; spaces for what was redacted since."""
    if not stored.texts or stored.position is None:
        return [one.encode() for one in stored.texts if isinstance(one, str)]
    places = list({one[:2] for one in stored.texts if not isinstance(one, str)})
    keys = [(stored.position.history, *place) for place in places]
    found = dict(zip(places, reader.get(MESSAGES, keys), strict=True))
    return [one.encode() if isinstance(one, str) else _text(found[one[:2]], one, stored) for one in stored.texts]


def _text(record: Record | None, place: Place, stored: StoredCheckpoint) -> bytes:
    branch, seq, part, size = place
    if record is None:
        raise CorruptData(f"checkpoint {stored.id!r} leads to message {seq} of branch {branch}, which is not there")
    message = codec.decode_message(record.body, f"message {record.key}")
    if message.redacted is not None:
        return b" " * size
    content = message.content[part] if part < len(message.content) else None
    text = content.text.encode() if isinstance(content, Text) else b""
    if len(text) != size:
        raise CorruptData(f"checkpoint {stored.id!r} leads to a text of message {seq} that is another one")
    return text


def with_texts(reader: Reader, record: Record, is_there: Callable[[str, int, int], bool]) -> Record:
    """The checkpoint with the texts in it whose messages are not there."""
    if _MARK not in record.body:
        return record
    stored = read_stored(record)
    history = "" if stored.position is None else stored.position.history
    absent = [isinstance(one, tuple) and not is_there(history, one[0], one[1]) for one in stored.texts]
    if not any(absent):
        return record
    texts = zip(stored.texts, texts_of(reader, stored), absent, strict=True)
    return checkpoint_record(replace(stored, texts=[text.decode() if gone else one for one, text, gone in texts]))
