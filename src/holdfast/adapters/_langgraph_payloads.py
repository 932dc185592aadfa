"""What LangGraph keeps in a checkpoint and Holdfast has no field for, packed small.

A value is LangGraph's own encoding of it, in pieces: where a text that a message has stood, there is a number instead,
which leads to that message. So a text is stored once, whatever else mentions it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast import codec
from holdfast.errors import CorruptData, InvalidInput

S = TypeVar("S", bound=Struct)

SHORTEST = 48  # bytes of a text below which leading to it would cost more than the text
LARGEST = 256 * 1024 * 1024  # bytes of a payload before it is packed; what claims to be more is damage

# What most payloads have in them, so that little of it is stored. Never changed: stored payloads depend on it.
_COMMON = (
    b"langgraph.types\xa4Send\xa9Interrupt\xa4node\xa3arg\xa5value\xa2id\xa6update\xa4fork\xa6run_id\xa8__root__"
    b"\xbccounters_since_delta_snapshot\xad__interrupt__\xaa__resume__\xa9__error__\xae__pregel_tasks\xa9__no_writes__"
    b"\xbblangchain_core.messages.tool\xabToolMessage\x89\xa7content\xb1additional_kwargs\x80\xb1response_metadata\x80"
    b"\xa4type\xa4tool\xa4name\xc0\xa2id\xc0\xactool_call_id\xa8artifact\xc0\xa6status\xa7success\xb3model_validate_json"
    b"\xbelangchain_core.messages.system\xadSystemMessage\x86\xa7content\xa4type\xa6system\xa4name\xc0\xa2id\xc0"
    b"\xa4args\x81\xa2id\xa4type\xa9tool_call\xacinput_tokens\xadoutput_tokens\xactotal_tokens\xaebranch:to:agent"
    b"\x90\xaebranch:to:tools~__pregel_push, \xb5~__pregel_pull, agent\xb5~__pregel_pull, tools"
    b"\x9f\x04\x83\xa9__start__\xcd\x04\xa8messages\xcd\x04\xaebranch:to:chat\xcd\x04\x83\xa9__input__\x80"
    b"\xa9__start__\x81\xa9__start__\xcd\x04\xa4chat\x81\xaebranch:to:chat\xcd\x04\xc0\xc0\x80\x80\xa8messages\xc2\x91"
    b"\xa8messages\xc0\x90\xc0\xc0\xc0\xc0\xc0\x81\xa9__start__\x92\xa7msgpack\x93\xc4G\x81\xa8messages\x91\xc8\x04o\x05\x94"
    b"\xbdlangchain_core.messages.human\xacHumanMessage\x86\xa7content\xda\x03\xe8\x00\xc4O\xb1additional_kwargs\x80"
    b"\xb1response_metadata\x80\xa4type\xa5human\xa4name\xc0\xa2id\xc0\xb3model_validate_json\x80\xa8messages\xc2\x91"
    b"\xa9__start__\xc0\x92\x95\xc4\x11\0\x01\xb9~__pregel_pull, __start__\xaebranch:to:chat\x92\xa4null\x90\xc0\xc0"
    b"\x00\xb9~__pregel_pull, __start__\xa8messages\x92\xa7msgpack\x93\xc4=\x91\xc8\x04o\x05\x94"
    b"\xbdlangchain_core.messages.human\xacHumanMessage\x86\xa7content\xda\x03\xe8\x00\xc4O\xb1additional_kwargs\x80"
    b"\xb1response_metadata\x80\xa4type\xa5human\xa4name\xc0\xa2id\xc0\xb3model_validate_json\x95\xc4\x11\0"
    b"\xc0\xc0\x81\xaebranch:to:chat\x92\xa4null\x90\x80\xa8messages\xc2\x92\xaebranch:to:chat\xa8messages\xc0\x91\x95\xc4\x11\0"
    b"\x00\xb4~__pregel_pull, chat\xa8messages\x92\xa7msgpack\x93\xc47\x91\xc8\x04\xbb\x05\x94"
    b"\xbalangchain_core.messages.ai\xa9AIMessage\x89\xa7content\xda\x03\xe8\x00\xc4\xa1\xb1additional_kwargs\x80"
    b"\xb1response_metadata\x80\xa4type\xa2ai\xa4name\xc0\xa2id\xc0\xaatool_calls\x90\xb2invalid_tool_calls\x90"
    b"\xaeusage_metadata\xc0\xb3model_validate_json\xc0\xc0\xc0"
)


class Packed(Struct, frozen=True, array_like=True):
    """A value as LangGraph encodes it; a number among the pieces is that of a text which stands elsewhere."""

    type: str
    pieces: list[bytes | int]


class Write(Struct, frozen=True, array_like=True):
    """What a task has written into a channel; `n` is its place among the task's writes, below 0 for special ones."""

    key: bytes
    n: int
    path: str
    channel: str
    value: Packed

    @property
    def task(self) -> str:
        """The task's id; most are UUIDs, which are kept as bytes."""
        return str(UUID(bytes=self.key[1:])) if self.key[:1] == b"\0" else self.key[1:].decode()

    def order(self) -> tuple[str, str, int]:
        """Where it stands among the writes of its step."""
        return (self.path, self.task, self.n)


class Payload(Struct, frozen=True, array_like=True):
    """What a checkpoint of LangGraph's has beside its id, its parent and its messages.

    `values` are held here, and `held` names for each other channel the checkpoint that holds its value, by its number;
    `lists` says where the segments of a list begin, each of which is a value. `log` is the channel whose value is the
    transcript, and `snapshot` says that it is wrapped. `ts` and `metadata` are left out where the checkpoint's own time
    and name say the same. `id` and `parent` are LangGraph's where Holdfast has others; `top` is the greatest id of the
    thread so far.
    """

    v: int
    versions: dict[str, str | int | float]
    seen: dict[str, dict[str, str | int | float]]
    ts: str | None = None
    metadata: Packed | None = None
    values: dict[str, Packed] = {}
    held: dict[str, int] = {}
    log: str | None = None
    snapshot: bool = False
    updated: list[str] | None = None
    rest: Packed | None = None
    writes: list[Write] = []
    id: str | None = None
    parent: str | None = None
    top: str | None = None
    lists: dict[str, list[int]] = {}


class Writes(Struct, frozen=True, array_like=True):
    """What tasks have written at a checkpoint that has no successor yet."""

    writes: list[Write]


def task_key(task: str) -> bytes:
    """The shortest form of a task's id that gives it back: its first byte says which."""
    try:
        found = UUID(task)
    except ValueError:
        return b"\1" + task.encode()
    return b"\0" + found.bytes if str(found) == task else b"\1" + task.encode()


def to_text(value: Struct) -> str:
    """A payload as text that JSON takes."""
    plain = msgspec.msgpack.encode(value)
    if len(plain) > LARGEST:
        raise InvalidInput(f"a checkpoint's values have {len(plain)} bytes; keep what is large as artifacts")
    packer = zlib.compressobj(9, wbits=-15, zdict=_COMMON)
    return base64.b85encode(packer.compress(plain) + packer.flush()).decode()


def from_text(text: Any, kind: type[S], what: str) -> S:
    """The payload that a text says; CorruptData if it is none."""
    try:
        unpacker = zlib.decompressobj(wbits=-15, zdict=_COMMON)
        plain = unpacker.decompress(base64.b85decode(text), LARGEST)
        if not unpacker.eof:
            raise CorruptData(f"{what} is cut short, or larger than anything that was stored")
        return codec.reader_of(kind, msgspec.msgpack.Decoder)(plain)
    except (zlib.error, TypeError, ValueError, msgspec.MsgspecError) as cause:
        raise CorruptData(f"{what} cannot be read: {cause}") from cause


# texts that stand elsewhere


def cut(pieces: Iterable[bytes | int], texts: Sequence[tuple[bytes, int]]) -> list[bytes | int]:
    """The pieces with these texts taken out, each for its number."""
    found = list(pieces)
    for text, number in texts:
        if len(text) < SHORTEST:
            continue
        last = found[-1] if found else 0
        if isinstance(last, bytes) and text in last:  # texts mostly come in the order in which they are mentioned
            found[-1:] = _without(last, text, number)
        else:
            found = [part for piece in found for part in _without(piece, text, number)]
    return found


def mentions(packed: Packed, text: bytes) -> bool:
    """Whether a value has a text in it."""
    return any(isinstance(piece, bytes) and text in piece for piece in reversed(packed.pieces))


def _without(piece: bytes | int, text: bytes, number: int) -> list[bytes | int]:
    if isinstance(piece, int) or text not in piece:
        return [piece]
    parts: list[bytes | int] = []
    for n, between in enumerate(piece.split(text)):
        parts += [number, between] if n else [between]
    return [part for part in parts if part != b""]


def filled(pieces: Sequence[bytes | int], texts: Sequence[bytes]) -> bytes:
    """The whole again."""
    try:
        return b"".join(piece if isinstance(piece, bytes) else texts[piece] for piece in pieces)
    except IndexError as cause:
        raise CorruptData("a value leads to a text that is not there") from cause
