"""Records to bytes and back: one canonical form, decided before any backend sees a value.

Canonical is UTF-8 JSON with sorted keys and no spaces. What JSON would change silently (NaN, tuples as
keys, integers beyond 64 bits, lone surrogates) is refused here, so every backend refuses the same.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from holdfast.errors import CorruptData, InvalidInput
from holdfast.ids import check_id
from holdfast.model import ROLES, JsonPart, Message, Redaction, Text, Usage

S = TypeVar("S", bound=msgspec.Struct)

MAX_DEPTH = 200
UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)  # what reading bytes that are not ours raises
_LARGEST = 2**63 - 1
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_any = msgspec.json.Decoder().decode
_decode_message = msgspec.json.Decoder(Message).decode
_sha256 = hashlib.sha256
_readers: dict[tuple[object, object], Callable[[bytes], Any]] = {}
_making = threading.Lock()


def encode(value: object, what: str) -> bytes:
    """The canonical bytes, or InvalidInput naming what cannot be stored."""
    try:
        return _encode(value)
    except UnicodeEncodeError as cause:
        raise InvalidInput(f"{what} has text that is not valid Unicode (a lone surrogate)") from cause
    except RecursionError as cause:
        raise InvalidInput(f"{what} is nested deeper than {MAX_DEPTH} levels") from cause
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as cause:
        raise InvalidInput(f"{what} cannot be stored: {cause}") from cause


def same(one: object, other: object) -> bool:
    """Whether two values are stored as the same bytes: 42, 42.0, "42" and True are four."""
    return encode(one, "a value") == encode(other, "a value")


def holds(present: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """Whether metadata has these pairs, each exactly."""
    return all(present is not None and name in present and same(present[name], value) for name, value in wanted.items())


def encode_value(value: S, kind: type[S], what: str) -> bytes:
    """The canonical bytes of a value of the caller's, or InvalidInput if they would not read back as one."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{what} is a {kind.__name__}, not {type(value).__name__}")
    body = encode(value, what)
    try:
        check_faithful(value, reader_of(kind)(body), what)
    except msgspec.ValidationError as cause:
        raise InvalidInput(f"{what} cannot be stored: {_misfit(cause)}") from cause
    return body


_MISFIT = re.compile(r"Expected `(?P<wanted>.+)`, got `(?P<given>.+)` - at `\$\.(?P<place>.+)`")
_PYTHON = {"object": "dict", "array": "list", "null": "None"}


def _misfit(cause: Exception) -> str:
    """What does not fit, in Python's words where msgspec has JSON's."""
    told = _MISFIT.fullmatch(str(cause))
    if told is None:
        return str(cause)
    wanted, given = (
        re.sub(r"\w+", lambda word: _PYTHON.get(word[0], word[0]), told[name]) for name in ("wanted", "given")
    )
    return f"{told['place']} should be {wanted}, not {given}"


def check_faithful(given: object, read: object, what: str) -> None:
    """InvalidInput unless what reads back is what was given; a tuple may come back as a list."""
    if given != read and _as_lists(given) != read:
        raise InvalidInput(f"{what} has a value of a wrong type; it would not read back as it is")


def _as_lists(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_as_lists(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _as_lists(inner) for key, inner in value.items()}
    if isinstance(value, msgspec.Struct):
        return replace(value, **{name: _as_lists(getattr(value, name)) for name in value.__struct_fields__})
    return value


def reader_of(kind: type[S], decoder: Callable[[type[S]], Any] = msgspec.json.Decoder) -> Callable[[bytes], S]:
    """What reads such values, made once.

    By one thread at a time: msgspec shows a type to other threads before it knows all of its fields, and who reads
    one in that moment crashes the process.
    """
    known = _readers.get((decoder, kind))
    if known is None:
        with _making:
            known = _readers[decoder, kind] = decoder(kind).decode
    return known


def decode(body: bytes, kind: type[S], what: str) -> S:
    """The value these bytes say, or CorruptData naming the field that does not fit."""
    try:
        return reader_of(kind)(body)
    except UNREADABLE as cause:
        raise CorruptData(f"{what} cannot be read: {cause}") from cause


def decode_envelope(body: bytes, what: str) -> dict[str, Any]:
    """The whole stored object, fields of later versions included."""
    try:
        envelope = _decode_any(body)
    except UNREADABLE as cause:
        raise CorruptData(f"{what} cannot be read: {cause}") from cause
    if not isinstance(envelope, dict):
        raise CorruptData(f"{what} is not an object")
    return envelope


class _Named(msgspec.Struct, frozen=True, gc=False):
    uid: str


_decode_named = msgspec.json.Decoder(_Named).decode


def decode_uid(body: bytes, what: str, name: object) -> str:
    """What tells a session or agent from others that have had its id."""
    try:
        return _decode_named(body).uid
    except UNREADABLE as cause:
        raise CorruptData(f"{what} {name!r} cannot be read: {cause}") from cause


def uid_in(envelope: dict[str, Any], what: str) -> str:
    """The same of one that is read already."""
    uid = envelope.get("uid")
    if not isinstance(uid, str):
        raise CorruptData(f"{what} does not say its uid")
    return uid


def decode_with_later(body: bytes, kind: type[S], what: str, name: object) -> tuple[S, dict[str, Any]]:
    """The value these bytes say, and beside it the fields that only a later version knows."""
    value = decode(body, kind, f"{what} {name!r}")
    if _encode(value) == body:
        return value, {}
    envelope = decode_envelope(body, f"{what} {name!r}")
    return value, {field: said for field, said in envelope.items() if field not in kind.__struct_fields__}


def digest(body: bytes) -> bytes:
    """The checksum of a stored body."""
    return _sha256(body).digest()


def check_json(value: object, what: str, depth: int = 0) -> None:
    """InvalidInput for anything JSON would change: NaN, huge integers, keys that are no strings, objects."""
    if value is None or isinstance(value, str | bool):
        return
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{what} is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, int):
        if not -_LARGEST - 1 <= value <= _LARGEST:
            raise InvalidInput(f"{what} has an integer beyond 64 bits; store it as a string")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{what} has {value}, which JSON cannot say; use None or a string")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidInput(f"{what} has the key {key!r}; keys must be strings")
            check_json(inner, what, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            check_json(inner, what, depth + 1)
    else:
        raise InvalidInput(f"{what} has a {type(value).__name__}; only JSON values can be stored")


_PLACE: dict[str, Any] = {
    "session_id": None,
    "branch": None,
    "seq": None,
    "parent_id": None,
    "usage": None,
    "pruned": False,
    "redacted": None,
}


def encode_message(message: Message) -> tuple[bytes, Message]:
    """The bytes of what was said, and the message as they read back, without its place."""
    check_id(message.id, "message id")
    try:
        if _is_plain(message):
            return _encode(message), message
        return _encode_any(message)
    except InvalidInput:
        raise
    except (
        TypeError,
        AttributeError,
        ValueError,
        OverflowError,
        RecursionError,
        msgspec.MsgspecError,
    ) as cause:
        raise InvalidInput(f"message {message.id!r} cannot be stored: {_misfit(cause)}") from cause


def _is_plain(message: Message) -> bool:
    """Whether a message is a text and nothing else, so that it surely reads back as it is."""
    content = message.content
    return (
        type(content) is list
        and len(content) == 1
        and type(content[0]) is Text
        and type(content[0].text) is str
        and message.role in ROLES
        and type(message.created_at) is datetime
        and message.created_at.tzinfo is UTC
        and message.metadata is None
        and message.tool_calls == []
        and message.tool_call_id is None
        and message.tool_name is None
        and message.reasoning is None
        and message.attachments == []
        and message.is_compaction is False
        and message.is_summary is False
        and message.compaction is None
        and message.usage is None
        and message.session_id is None
        and message.branch is None
        and message.seq is None
        and message.parent_id is None
        and message.pruned is False
        and message.redacted is None
    )


def _encode_any(message: Message) -> tuple[bytes, Message]:
    said = replace(message, **_PLACE)
    if message.created_at.tzinfo is not UTC:
        said = _in_utc(said)
    check_json(message.metadata, "message metadata")
    for call in message.tool_calls:
        check_json(call.arguments, f"the arguments of tool call {call.id!r}")
    for part in message.content:
        if type(part) is JsonPart:
            check_json(part.value, "a json part")
    body = _encode(said)
    plain = _decode_message(body)
    if plain != said:
        check_faithful(said, plain, f"message {message.id!r}")
    return body, plain


def _in_utc(message: Message) -> Message:
    created_at = message.created_at
    if created_at.tzinfo is None:
        raise InvalidInput(f"message created_at {created_at} has no time zone; use datetime.now(UTC)")
    return replace(message, created_at=created_at.astimezone(UTC))


def decode_message(body: bytes, what: str) -> Message:
    """The message these bytes say; roles are read in any case, an unknown one is CorruptData."""
    try:
        return _decode_message(body)
    except UNREADABLE:
        return _decode_odd_message(decode_envelope(body, what), what)


def _decode_odd_message(envelope: dict[str, Any], what: str) -> Message:
    role = envelope.get("role")
    if not isinstance(role, str) or role.lower() not in ROLES:
        raise CorruptData(f"{what}: role {role!r} is not one of {', '.join(ROLES)}")
    try:
        return msgspec.convert({**envelope, "role": role.lower()}, Message)
    except msgspec.ValidationError as cause:
        raise CorruptData(f"{what} cannot be read: {cause}") from cause


def decode_placed(body: bytes, session_id: str, branch: int, seq: int, parent_id: str | None) -> Message:
    """The message these bytes say, in its place; whoever reads a conversation does this for each of its messages."""
    try:
        message = _decode_message(body)
    except UNREADABLE:
        message = decode_message(body, f"message {seq} of session {session_id!r}")
    force_setattr(message, "session_id", session_id)
    force_setattr(message, "branch", branch)
    force_setattr(message, "seq", seq)
    force_setattr(message, "parent_id", parent_id)
    return message


def note(message: Message, usage: Usage | None, pruned: bool) -> None:
    """Fill in what is kept beside a message. Only for one just decoded, which nobody else holds yet."""
    if usage is not None:
        force_setattr(message, "usage", usage)
    if pruned:
        force_setattr(message, "pruned", True)


class _Stub(msgspec.Struct, frozen=True, kw_only=True):
    """What a redacted message says: the digest of what it said before, and why that is gone."""

    redacted: Redaction
    redacted_digest: bytes


def redact(said: Message, digest: bytes, redaction: Redaction) -> bytes:
    """The bytes that take the place of a message's content: id, role, call ids, time and digest."""
    kept = {
        "id": said.id,
        "role": said.role,
        "created_at": said.created_at,
        "redacted": redaction,
        "redacted_digest": digest,
    }
    if said.tool_call_id is not None:
        kept["tool_call_id"] = said.tool_call_id
    if said.tool_calls:
        kept["tool_calls"] = [{"id": call.id, "name": ""} for call in said.tool_calls]
    return encode(kept, "redacted message")


def redacted_digest(body: bytes) -> bytes | None:
    """The digest a redacted message had before, which its chain goes on; None if it is not redacted."""
    if b'"redacted_digest"' not in body:
        return None
    try:
        return reader_of(_Stub)(body).redacted_digest
    except msgspec.MsgspecError:
        return None
