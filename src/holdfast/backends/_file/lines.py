"""A record as one line of JSON, and back, also from a line that is damaged.

    {"key":["h1",1,5],"fields":{…},"digest":"…","body":{…},"sum":"01234567"}

The body stands there as the very bytes that were hashed, and is cut out again by its place, never
re-encoded; one that is no JSON text stands as "base64". `sum` is the CRC-32 of all before it, so that
damage anywhere in the line is found.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

import msgspec

from holdfast.contracts import Key, Record
from holdfast.filters import Scalar
from holdfast.kinds import Field, Kind

_BODY = b',"body":'
_BASE64 = b',"base64":"'
_SUM = b',"sum":"%08x"}'
_SUM_START = b',"sum":"'
_TAIL = len(_SUM % 0)
_START = re.compile(rb'\{"key":\[')
_NO_DIGEST = bytes(32)


class _Header(msgspec.Struct):
    key: list[str | int]
    digest: str
    fields: dict[str, str | int | None] = {}


_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(_Header).decode
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


def write_line(record: Record) -> bytes:
    """The line that stores a record, with its line end."""
    names = (field.name for field in record.kind.fields)
    values = (value.hex() if isinstance(value, bytes) else value for value in record.fields)
    header = {"key": record.key, "fields": dict(zip(names, values, strict=True)), "digest": record.digest.hex()}
    if _embeds(record.body):
        content = b"".join((_encode(header)[:-1], _BODY, record.body))
    else:
        content = b"".join((_encode(header)[:-1], _BASE64, base64.b64encode(record.body), b'"'))
    return content + _SUM % crc32(content) + b"\n"


def _embeds(body: bytes) -> bool:
    """Whether a body can stand in the line as it is: JSON text without line ends."""
    try:
        _decode_raw(body)
        if not body.isascii():
            body.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return b"\n" not in body and b"\r" not in body


def is_sound(line: bytes) -> bool:
    """Whether a line, without its line end, is what was written."""
    return line[-_TAIL:] == _SUM % crc32(line[:-_TAIL])


def read_line(kind: Kind, line: bytes) -> Record | None:
    """The record in a line; None if the line is damaged, or is not of this kind."""
    return read_sound(kind, line) if is_sound(line) else None


def read_sound(kind: Kind, line: bytes) -> Record | None:
    """The record in a line that is sound; None if it is not of this kind."""
    content = line[:-_TAIL]
    at = content.find(_BODY)
    try:
        if at >= 0:
            body = content[at + len(_BODY) :]
        else:
            at = content.index(_BASE64)
            body = base64.b64decode(content[at + len(_BASE64) : -1], validate=True)
        header = _decode_header(content[:at] + b"}")
        fields = tuple(_scalar(field, header.fields.get(field.name)) for field in kind.fields)
        digest = bytes.fromhex(header.digest)
    except (msgspec.MsgspecError, ValueError):
        return None
    return Record(kind, tuple(header.key), body, digest, fields) if len(header.key) == len(kind.key) else None


def _scalar(field: Field, value: str | int | None) -> Scalar:
    return bytes.fromhex(value) if field.type == "bytes" and isinstance(value, str) else value


def key_in(line: bytes) -> list[str | int] | None:
    """The key a line names, sound or not; None if that cannot be read."""
    at = max(line.find(_BODY), line.find(_BASE64))
    try:
        return _decode_header(line[: max(at, 0)] + b"}").key
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def size_in(line: bytes) -> int:
    """The length of the body in a line."""
    at = line.find(_BODY)
    if at >= 0:
        return max(0, len(line) - _TAIL - at - len(_BODY))
    body = _from_base64(line)
    return 0 if body is None else len(body)


def salvage(kind: Kind, key: Key, line: bytes) -> Record:
    """What is left of the record under this key in a damaged line; no digest vouches for it any more."""
    at = line.find(_BODY)
    end = line.rfind(_SUM_START, max(at, 0))
    body = _from_base64(line) or line if at < 0 else line[at + len(_BODY) : end if end >= 0 else -_TAIL]
    try:
        named = _decode_header(line[: max(at, 0)] + b"}").fields
    except (msgspec.MsgspecError, UnicodeDecodeError):
        named = {}
    if named.keys() != {field.name for field in kind.fields}:
        named = dict.fromkeys((field.name for field in kind.fields), None)
    return Record(kind, key, body, _NO_DIGEST, tuple(_checked(field, named[field.name]) for field in kind.fields))


def _checked(field: Field, value: str | int | None) -> Scalar:
    """The value if it can be one of this field's."""
    if value is None or isinstance(value, str) != (field.type != "int"):
        return None
    try:
        return _scalar(field, value)
    except ValueError:
        return None


def _from_base64(line: bytes) -> bytes | None:
    at = line.find(_BASE64)
    try:
        return None if at < 0 else base64.b64decode(line[at + len(_BASE64) : -_TAIL - 1], validate=True)
    except binascii.Error:
        return None


class Line(NamedTuple):
    """A line in a file, without its line end."""

    offset: int
    raw: bytes
    sound: bool


def lines_in(content: bytes) -> Iterator[Line]:
    """Every line that is not blank; two whose line end is damaged come apart."""
    offset = 0
    for raw in content.split(b"\n"):
        if raw and not raw.isspace():
            if is_sound(raw):
                yield Line(offset, raw, True)
            else:
                yield from _pieces(offset, raw)
        offset += len(raw) + 1


def _pieces(offset: int, raw: bytes) -> Iterator[Line]:
    cuts = [found.start() for found in _START.finditer(raw) if found.start() and is_sound(raw[found.start() :])]
    for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        yield Line(offset + start, raw[start:stop], start in cuts)
