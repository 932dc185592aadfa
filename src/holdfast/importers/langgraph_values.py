"""LangGraph's stored values as plain data: names of modules and classes are read, never imported or called."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.errors import CorruptData
from holdfast.importers.reading import parse
from holdfast.importers.reports import Report
from holdfast.model import Json

_SNAPSHOT = 7  # an extension type of LangGraph's that wraps a value without naming a class
_ARRAY = 6
_MESSAGES = "langchain_core.messages"


class Stored(Struct, frozen=True):
    """An object by the name of its class, with the fields or arguments it was stored with."""

    module: str
    name: str
    value: Any

    @property
    def is_message(self) -> bool:
        """Whether it is a message of a conversation."""
        return self.module.startswith(_MESSAGES) and isinstance(self.value, dict) and "type" in self.value


def decode(kind: str | None, body: bytes, report: Report, where: str) -> Any:
    """The value of a stored body by the name of its encoding; CorruptData for one that would run code, or is torn."""
    if kind == "null" or kind is None:
        return None
    if kind in ("bytes", "bytearray"):
        return body
    if kind == "json":
        return _revived(parse(body, report, where))
    if kind == "msgpack":
        return _unpacked(body, where)
    raise CorruptData(f"{where}: a value stored as {kind!r} is not read, as reading it may run code")


def _unpacked(body: bytes, where: str) -> Any:
    try:
        return msgspec.msgpack.decode(body, ext_hook=_extension)
    except (msgspec.MsgspecError, RecursionError, TypeError, UnicodeDecodeError) as cause:
        raise CorruptData(f"{where} is no whole msgpack: {cause}") from cause


def _extension(code: int, body: memoryview) -> Any:
    value = msgspec.msgpack.decode(bytes(body), ext_hook=_extension)
    if code == _SNAPSHOT:
        return value
    if code == _ARRAY:
        return Stored("numpy", "ndarray", value)
    if isinstance(value, list) and len(value) >= 3 and isinstance(value[0], str) and isinstance(value[1], str):
        return Stored(value[0], value[1], value[2])
    return Stored("msgpack", f"ext{code}", value)


def _revived(value: Json) -> Any:
    """Older files hold objects as JSON: a constructor's name and what it is called with."""
    if isinstance(value, list):
        return [_revived(one) for one in value]
    if not isinstance(value, dict):
        return value
    name = value.get("id")
    if value.get("type") == "constructor" and "lc" in value and isinstance(name, list) and name:
        told = value.get("kwargs", value.get("args"))
        return Stored(_module([str(one) for one in name[:-1]]), str(name[-1]), _typed(_revived(told), str(name[-1])))
    return {key: _revived(one) for key, one in value.items()}


def _module(path: list[str]) -> str:
    """The module of a constructor; the short form of LangChain's own leaves the package's layout out."""
    return (
        _MESSAGES
        if path[:3] in (["langchain", "schema", "messages"], ["langchain_core", "messages"])
        else ".".join(path)
    )


def _typed(told: Any, name: str) -> Any:
    """A message's fields with its type, which the constructor form says by the class alone."""
    if isinstance(told, dict) and "type" not in told and name.endswith(("Message", "MessageChunk")):
        return {**told, "type": name.removesuffix("Chunk").removesuffix("Message").lower()}
    return told


def plain(value: Any) -> Json:
    """The same as JSON can say it; objects by their class's name, bytes as base64, odd keys and numbers as text."""
    if isinstance(value, Stored):
        return {"class": f"{value.module}.{value.name}", "value": plain(value.value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else _key(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _key(key: Any) -> str:
    return json.dumps(plain(key))
