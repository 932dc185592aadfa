"""A record as a line of JSON that people can read, and back to the same bytes.

The body stands in the line as it is stored. A line says one thing in one way: what would be written differently
is refused, so that importing and exporting again gives the same file.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from holdfast import codec
from holdfast.contracts import Key, Record
from holdfast.errors import CorruptData, HoldfastError, IntegrityError
from holdfast.filters import Scalar
from holdfast.ids import check_id
from holdfast.kinds import Field, Kind

_LARGEST = 2**63 - 1
_encode = msgspec.json.Encoder().encode


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a line says; `base64` instead of `body` where the stored bytes are not JSON in its canonical form."""

    key: dict[str, str | int]
    fields: dict[str, str | int | None] = {}
    sha256: str
    body: Raw = Raw()
    base64: bytes | None = None


def write(record: Record) -> bytes:
    """The line of a record, without its end."""
    kind = record.kind
    parts = [b'{"key":' + _encode(_named(kind.key, record.key))]
    if kind.fields:
        parts.append(b'"fields":' + _encode(_named(kind.fields, record.fields)))
    parts.append(b'"sha256":' + _encode(record.digest.hex()))
    parts.append(b'"body":' + record.body if _is_canonical(record.body) else b'"base64":' + _encode(record.body))
    return b",".join(parts) + b"}"


def read(kind: Kind, line: bytes) -> Record:
    """The record of a line; CorruptData if it does not fit its kind, IntegrityError if its body has changed."""
    try:
        said = codec.reader_of(Line)(line)
        digest = bytes.fromhex(said.sha256)
    except (msgspec.MsgspecError, ValueError, RecursionError) as cause:
        raise CorruptData(f"a line of {kind.name} cannot be read: {cause}") from cause
    body = bytes(said.body) if said.base64 is None else said.base64
    key: Any = _values(kind, kind.key, said.key)
    record = Record(kind, key, body, digest, _values(kind, kind.fields, said.fields))
    if codec.digest(body) != digest:
        raise IntegrityError(f"{kind.name} {key} does not match its checksum; export again")
    if write(record) != line:
        raise CorruptData(f"the line of {kind.name} {key} is not written as an export writes it; export again")
    return record


def _named(parts: tuple[Field, ...], values: Key | tuple[Scalar, ...]) -> dict[str, object]:
    return {
        part.name: value.hex() if isinstance(value, bytes) else value for part, value in zip(parts, values, strict=True)
    }


def _values(kind: Kind, parts: tuple[Field, ...], said: dict[str, Any]) -> tuple[Scalar, ...]:
    """The values of a key or of the fields, each of its type; those of a key are never None."""
    if list(said) != [part.name for part in parts]:
        raise CorruptData(f"a line of {kind.name} has {', '.join(said) or 'nothing'}, not what its kind has")
    return tuple(_value(kind, part, said[part.name], parts is kind.key) for part in parts)


def _value(kind: Kind, part: Field, value: Any, is_key: bool) -> Scalar:
    try:
        if value is None and not is_key:
            return None
        if part.type == "int" and type(value) is int and -_LARGEST - 1 <= value <= _LARGEST:
            return value
        if part.type == "text" and type(value) is str:
            return check_id(value, part.name) if value else value
        if part.type == "bytes" and type(value) is str:
            return bytes.fromhex(value)
    except (ValueError, HoldfastError) as cause:
        raise CorruptData(f"{part.name} of a line of {kind.name} cannot be {value!r}: {cause}") from cause
    raise CorruptData(f"{part.name} of a line of {kind.name} cannot be {value!r}")


def _is_canonical(body: bytes) -> bool:
    """Whether whoever reads the body as JSON and writes it again gets the same bytes."""
    try:
        return _encode(msgspec.json.decode(body)) == body
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
