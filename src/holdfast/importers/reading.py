"""Reading what others wrote: JSON, times and ids, as exactly as Holdfast can keep them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid5

import msgspec

from holdfast.errors import CorruptData, InvalidId
from holdfast.ids import EPOCH, check_id
from holdfast.importers.reports import Report
from holdfast.model import Json

T = TypeVar("T")

MAX_LINE = 64 * 1024 * 1024
_NAMESPACE = UUID("5a1f2f0e-6f0b-5c57-9d0c-6d9f2f6f8f11")
_LONGEST_WHOLE = 18  # digits that surely fit into 64 bits
_MILLISECONDS_FROM = 10**11  # as seconds this would be the year 5138
_SURROGATE = re.compile("[\ud800-\udfff]")
_FINER = re.compile(r"\.\d{6}\d*[1-9]")


def derive(*parts: str) -> str:
    """An id that is the same each time it is made of the same parts."""
    return str(uuid5(_NAMESPACE, json.dumps(parts)))


def usable_id(value: object, report: Report, where: str, *parts: str) -> str:
    """The source's own id, or where Holdfast cannot use it one made of it and of `parts`."""
    try:
        return check_id(value, "id")
    except InvalidId:
        report.note(where, f"the id {value!r} cannot be used; it has one made of it")
        return derive(*parts, repr(value))


# JSON


def parse(text: object, report: Report, where: str) -> Json:
    """The value a JSON text says; what Holdfast cannot store in it becomes text, with a note."""
    odd: list[str] = []

    def keep(literal: str) -> str:
        odd.append(literal)
        return literal

    def whole(digits: str) -> int | str:
        if len(digits) <= _LONGEST_WHOLE or -(2**63) <= int(digits) < 2**63:
            return int(digits)
        return keep(digits)

    if not isinstance(text, str | bytes):
        raise CorruptData(f"{where}: no JSON but {text!r}")
    try:
        plain = text if isinstance(text, str) else text.decode("utf-8-sig")
        value = json.loads(plain, parse_constant=keep, parse_int=whole)
    except (ValueError, RecursionError) as cause:
        raise CorruptData(f"{where}: no whole JSON: {cause}") from cause
    if "\\ud" in plain or "\\uD" in plain:
        value = _sound(value, odd)
    if odd:
        report.note(where, f"{odd[0]!r} cannot be stored as it is; it was kept as text")
    return value


def _sound(value: Json, odd: list[str]) -> Json:
    """The same without lone surrogates."""
    if isinstance(value, str):
        if _SURROGATE.search(value) is None:
            return value
        odd.append("a lone surrogate")
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_sound(inner, odd) for inner in value]
    if isinstance(value, dict):
        return {_sound(key, odd): _sound(inner, odd) for key, inner in value.items()}
    return value


def parse_file(path: Path, report: Report) -> dict[str, Json]:
    """The JSON object of a file; CorruptData naming the file where it holds none."""
    value = parse(path.read_bytes(), report, str(path))
    if not isinstance(value, dict):
        raise CorruptData(f"{path}: no JSON object")
    return value


def lines(path: Path, report: Report) -> Iterator[tuple[str, bytes]]:
    """The lines of a file that are not blank, each with its place; one that is far too long is noted."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE):
            number += 1
            where = f"{path}:{number}"
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                report.note(where, f"not taken: the line is longer than {MAX_LINE} bytes")
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE)
            elif line.strip():
                yield where, line


def objects(path: Path, report: Report) -> Iterator[tuple[str, dict[str, Json]]]:
    """The JSON objects of a file of JSON lines; what is none is noted."""
    for where, line in lines(path, report):
        with report.noting(where):
            value = parse(line, report, where)
            if not isinstance(value, dict):
                raise CorruptData(f"{where}: no JSON object")
            yield where, value


def shaped(value: Json, kind: type[T], where: str) -> T:
    """The value as the shape a format gives it; CorruptData naming the field that does not fit."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as cause:
        raise CorruptData(f"{where}: {cause}") from cause


def rest_of(value: dict[str, Json], kind: type[msgspec.Struct]) -> dict[str, Json]:
    """The fields that a shape does not know."""
    return {name: inner for name, inner in value.items() if name not in kind.__struct_encode_fields__}


# times


def moment_of(value: Any, where: str) -> datetime:
    """A time from seconds or milliseconds since 1970 or from RFC 3339 text, to the microsecond; without a zone UTC."""
    try:
        if isinstance(value, str):
            read = datetime.fromisoformat(value)
            return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return EPOCH + timedelta(seconds=seconds)
    except (ValueError, OverflowError) as cause:
        raise CorruptData(f"{where}: {value!r} is no time: {cause}") from cause
    raise CorruptData(f"{where}: {value!r} is no time")


def is_finer(text: str) -> bool:
    """Whether a time is given finer than to the microsecond."""
    return _FINER.search(text) is not None


def as_text(value: datetime) -> str:
    """A time as metadata has it."""
    return value.isoformat().replace("+00:00", "Z")
