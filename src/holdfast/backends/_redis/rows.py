"""Keys and rows as bytes.

A key becomes bytes that compare as the key does, so that a sorted set without scores is an index. A row is the digest,
the fields in the same encoding, and the body.
"""

from __future__ import annotations

import struct

from holdfast.contracts import Key, Record
from holdfast.filters import Scalar
from holdfast.kinds import Field, Kind

END = b"\0\1"
ESCAPED = b"\0\xff"  # a NUL inside a text, which so sorts behind the end of a shorter one
LOWEST = -(2**63)
HIGHEST = 2**63 - 1
_NUMBER = struct.Struct(">Q")
_SIZE = struct.Struct(">I")


def encode(value: Scalar) -> bytes:
    """A value as bytes that sort as it does; None, which no index holds, is empty."""
    if value is None:
        return b""
    if isinstance(value, int):
        return _NUMBER.pack(min(max(value, LOWEST), HIGHEST) - LOWEST)
    plain = value.encode() if isinstance(value, str) else bytes(value)
    return plain.replace(b"\0", ESCAPED) + END


def decode(field: Field, encoded: bytes) -> Scalar:
    """The value that was encoded."""
    if not encoded:
        return None
    if field.type == "int":
        number: int = _NUMBER.unpack(encoded)[0]
        return number + LOWEST
    plain = encoded.removesuffix(END).replace(ESCAPED, b"\0")
    return plain if field.type == "bytes" else plain.decode()


def encode_key(key: Key) -> bytes:
    """A key, or the beginning of one, as bytes that sort as it does."""
    return b"".join(map(encode, key))


def decode_key(kind: Kind, encoded: bytes) -> Key:
    """The key that was encoded."""
    parts: list[str | int] = []
    at = 0
    for field in kind.key:
        stop = at + 8 if field.type == "int" else encoded.index(END, at) + len(END)
        part = decode(field, encoded[at:stop])
        assert isinstance(part, str | int)
        parts.append(part)
        at = stop
    return tuple(parts)


def behind(encoded: bytes) -> bytes | None:
    """The first bytes behind all that begin so; None if there is nothing behind them."""
    stem = encoded.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def pack(record: Record) -> bytes:
    """A record as the row that stands under its key."""
    parts = [bytes([len(record.digest)]), record.digest]
    for value in record.fields:
        encoded = encode(value)
        parts += [_SIZE.pack(len(encoded)), encoded]
    return b"".join([*parts, record.body])


def unpack(kind: Kind, key: Key, row: bytes) -> Record:
    """The record of a row; one that is damaged beyond reading has no digest, which `verify` will say."""
    try:
        return _unpack(kind, key, row)
    except (struct.error, ValueError, IndexError):
        return Record(kind, key, row, b"", (None,) * len(kind.fields))


def _unpack(kind: Kind, key: Key, row: bytes) -> Record:
    at = 1 + row[0]
    digest, fields = row[1:at], []
    for field in kind.fields:
        start = at + _SIZE.size
        at = start + _SIZE.unpack_from(row, at)[0]
        fields.append(decode(field, row[start:at]))
    return Record(kind, key, row[at:], digest, tuple(fields))
