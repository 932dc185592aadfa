"""The channel of messages as a session's transcript: what is new in it goes behind what is there already.

A list of messages is compared with the one that was last saved or loaded, item by item in memory. What the two have in
common is not looked at again; a message that was replaced or removed makes a branch behind the last common one.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec import Struct
from msgspec.structs import replace

from holdfast import codec, history
from holdfast.appends import ROOT, Said, settle
from holdfast.commits import commit
from holdfast.contracts import MAX_BYTES, Reader, Record, Write
from holdfast.history import Pointer, Position, Seen, Segment
from holdfast.ids import new_id
from holdfast.model import Message, Text
from holdfast.nouns import Ground

from ._langgraph_messages import KEPT, heard, said

K = TypeVar("K")
T = TypeVar("T")
State: TypeAlias = tuple[type, dict[str, Any], Any]
Place: TypeAlias = tuple[int, int, int, int]
Followed: TypeAlias = tuple[int, list[tuple[bytes, Place]]]

_REMEMBERED = 128
_ONE_COMMIT = 300  # messages, each with its usage and a large part or two


class Known(Struct, frozen=True):
    """The messages up to a place of a history: how each was when it was saved or loaded, its id there and its place."""

    states: list[State]
    ids: list[str]
    places: list[tuple[int, int]]

    def texts(self, count: int) -> list[tuple[bytes, Place]]:
        """The texts of the leading messages that are nothing but text, and where they stand."""
        told = zip(self.states[:count], self.places, strict=False)
        plain = ((one[1]["content"].encode(), at) for one, at in told if isinstance(one[1].get("content"), str))
        return [(text, (*at, 0, len(text))) for text, at in plain]


class Told(Struct, frozen=True):
    """A transcript brought to a list of messages: the head, the writes, the ids, and where new texts stand."""

    seen: Seen
    writes: list[Write]
    ids: list[str]
    places: list[tuple[int, int]]
    texts: list[tuple[bytes, Place]]


class Memory:
    """What was last saved or loaded, by session and checkpoint."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Known] = OrderedDict()
        self._followed: OrderedDict[tuple[str, str], Followed] = OrderedDict()
        self._items: OrderedDict[tuple[str, ...], list[bytes]] = OrderedDict()
        self._one = threading.Lock()

    def get(self, owner: str, checkpoint_id: str) -> Known | None:
        """The messages of a checkpoint, if they are remembered."""
        return self._known.get((owner, checkpoint_id))

    def put(self, owner: str, checkpoint_id: str, known: Known) -> None:
        """Remember them, for as long as not too many others are."""
        with self._one:
            _remember(self._known, (owner, checkpoint_id), known)

    def items(self, owner: str, checkpoint_id: str, channel: str) -> list[bytes] | None:
        """The items of a list at a checkpoint, if they are remembered."""
        return self._items.get((owner, checkpoint_id, channel))

    def put_items(self, owner: str, checkpoint_id: str, channel: str, items: list[bytes]) -> None:
        """Remember them."""
        with self._one:
            _remember(self._items, (owner, checkpoint_id, channel), items)

    def follow(self, owner: str, checkpoint_id: str, number: int, texts: list[tuple[bytes, Place]]) -> None:
        """Remember that the checkpoint of this number has a successor, and the texts that came with that."""
        with self._one:
            _remember(self._followed, (owner, checkpoint_id), (number, texts))

    def followed(self, owner: str, checkpoint_id: str) -> Followed | None:
        """The number of a checkpoint that is known to have a successor, and the texts that came with that."""
        return self._followed.get((owner, checkpoint_id))

    def clear(self) -> None:
        """Forget everything."""
        with self._one:
            self._known.clear()
            self._followed.clear()
            self._items.clear()


def _remember(kept: OrderedDict[K, T], key: K, value: T) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > _REMEMBERED:
        kept.popitem(last=False)


def is_transcript(value: object) -> bool:
    """Whether a channel's value is a list of messages."""
    return type(value) is list and bool(value) and all(isinstance(one, BaseMessage) for one in value)


def load(ground: Ground, at: Position, serde: SerializerProtocol) -> tuple[list[BaseMessage], Known]:
    """The messages up to a place, as LangChain knows them."""
    runs = history.segments(ground.store, at.history, at.branch, at.seq)
    found = [one for run in runs for one in history.read(ground.store, "", at.history, run)]
    messages = _heard(ground, serde, found)
    places = [(one.branch or 0, one.seq or 0) for one in found]
    return messages, Known([_kept(one) for one in messages], [one.id for one in found], places)


def _heard(ground: Ground, serde: SerializerProtocol, found: Sequence[Message]) -> list[BaseMessage]:
    blobs = ground.blobs
    return [heard(one, serde, lambda digest: b"".join(blobs.get(digest)) if blobs else b"") for one in found]


class Reel:
    """The messages of one place after another, each read once while a branch goes on."""

    def __init__(self, ground: Ground, serde: SerializerProtocol) -> None:
        self._ground = ground
        self._serde = serde
        self._at: Position | None = None
        self._messages: list[BaseMessage] = []

    def to(self, at: Position) -> list[BaseMessage]:
        """The messages up to a place."""
        before, self._at = self._at, at
        if before is None or (before.history, before.branch) != (at.history, at.branch) or before.seq > at.seq:
            self._messages = load(self._ground, at, self._serde)[0]
        else:
            rest = Segment(branch=at.branch, low=before.seq + 1, high=at.seq, before_id=before.message_id)
            found = list(history.read(self._ground.store, "", at.history, rest))
            self._messages = self._messages + _heard(self._ground, self._serde, found)
        return self._messages


def _state(message: BaseMessage) -> State:
    return (type(message), message.__dict__, message.__pydantic_extra__)


def _kept(message: BaseMessage | dict[str, Any]) -> State:
    """A message's state that stays as it is when the message is changed in place."""
    if not isinstance(message, BaseMessage):  # LangGraph gives a dict for a class that it may not build
        return (type(message), {}, None)
    fields = {name: _copied(one) for name, one in message.__dict__.items()}
    return (type(message), fields, _copied(message.__pydantic_extra__))


def _copied(value: Any) -> Any:
    """A value that nobody else changes; most messages are texts and empty dicts, which need no deep look."""
    if isinstance(value, list | dict):
        return copy.deepcopy(value) if value else type(value)()
    return value


def common(messages: Sequence[BaseMessage], known: Known) -> int:
    """How many leading messages are those that are known."""
    states = [_state(one) for one in messages]
    if states[: len(known.states)] == known.states:
        return len(known.states)
    same = (n for n, (one, other) in enumerate(zip(states, known.states, strict=False)) if one != other)
    return next(same, min(len(states), len(known.states)))


def extended(known: Known, count: int, messages: Sequence[BaseMessage], told: Told) -> Known:
    """What is known once the messages behind the common ones are told."""
    states = known.states[:count] + [_kept(one) for one in messages[count:]]
    return Known(states, known.ids[:count] + told.ids, known.places[:count] + told.places)


class Telling:
    """Messages on their way into a transcript, behind the one whose id is `behind`."""

    def __init__(
        self, ground: Ground, serde: SerializerProtocol, messages: Sequence[BaseMessage], behind: str, at: datetime
    ) -> None:
        self._ground = ground
        self._serde = serde
        self._rest = list(messages)
        self._behind = behind
        self._at = at
        self._said: list[Said] = []
        self._done: list[str] = []
        self._places: list[tuple[int, int]] = []
        self._texts: list[tuple[bytes, Place]] = []

    def prepare(self, session_id: str) -> None:
        """Do what cannot be done inside the commit: put large parts, and append what is too much for it."""
        self._send_ahead(session_id)
        self._say()

    def _say(self) -> None:
        self._said = [self._ground.say([said(one, self._at, self._serde)])[0] for one in self._rest]

    def _send_ahead(self, session_id: str) -> None:
        """Append what one commit could not take with the checkpoint; a second attempt finds it there."""
        while len(self._rest) > _ONE_COMMIT or sum(_size(one) for one in self._rest) > MAX_BYTES // 4:
            first, size = 1, _size(self._rest[0])
            most = min(_ONE_COMMIT, len(self._rest))
            while first < most and size + _size(self._rest[first]) <= MAX_BYTES // 4:
                size += _size(self._rest[first])
                first += 1
            if first == len(self._rest):
                return
            ahead = Telling(self._ground, self._serde, self._rest[:first], self._behind, self._at)
            ahead._say()
            told: list[Told] = []

            def place(reader: Reader, ahead: Telling = ahead, told: list[Told] = told) -> list[Write]:
                told[:] = [ahead.place(reader, history.must_see(reader, session_id))]
                return told[-1].writes

            commit(self._ground.store, place)
            self._done += told[-1].ids
            self._places += told[-1].places
            self._texts += told[-1].texts
            self._behind, self._rest = self._done[-1], self._rest[first:]

    def place(self, reader: Reader, seen: Seen) -> Told:
        """Bring the transcript to the messages, as the store now is."""
        ids, places, behind, rest = list(self._done), list(self._places), self._behind, list(self._said)
        while rest and (found := _found(reader, seen.pointer, rest[0], behind)) is not None:
            behind = rest.pop(0).message.id
            ids.append(behind)
            places.append((int(found.key[1]), int(found.key[2])))
        stamp = self._ground.stamps.next(seen.pointer.updated_at)
        if not rest:
            moved = self._stand(reader, seen.pointer, behind)
            now_seen, writes = history.move(seen, moved)
            return Told(now_seen, writes, ids, places, self._texts)
        fresh = _fresh(reader, seen.pointer, rest)
        parent = None if behind == ROOT and seen.pointer.seq == 0 else behind
        appended = settle(reader, seen, fresh, parent, True, stamp)
        texts = [text for one in appended.messages for text in _texts(one)]
        places += [(one.branch or 0, one.seq or 0) for one in appended.messages]
        ids += [one.message.id for one in fresh]
        return Told(appended.seen, appended.writes, ids, places, [*self._texts, *texts])

    def _stand(self, reader: Reader, pointer: Pointer, behind: str) -> Pointer:
        """The head at the last of the messages."""
        if behind == (pointer.message_id or ROOT):
            return pointer
        if behind == ROOT:
            link = history.first_link(pointer.history)
            at = {"branch": history.ROOT_BRANCH, "seq": 0, "link": link, "message_id": None, "open": False}
            return replace(pointer, **at)
        record = history.find_reached(reader, pointer, behind)
        _, branch, seq = record.key
        here = history.branch_at(reader, pointer.history, int(branch))
        own = here.opened_by == pointer.uid and int(seq) == history.end_of(reader, here)
        at = {"branch": int(branch), "seq": int(seq), "link": history.message_link(record), "message_id": behind}
        return replace(pointer, **at, open=own)


def _found(reader: Reader, pointer: Pointer, one: Said, behind: str) -> Record | None:
    """A message that is there already, right behind another, from an attempt before this one."""
    record = history.find(reader, pointer.history, one.message.id)
    if record is None or record.digest != one.digest or (history.before(reader, record.key) or ROOT) != behind:
        return None
    return record if history.reaches(reader, pointer, record.key) else None


def _fresh(reader: Reader, pointer: Pointer, rest: Sequence[Said]) -> list[Said]:
    """The messages as they are placed: one whose id the history has already gets another."""
    fresh: dict[str, Said] = {}
    for one in rest:
        taken = one.message.id in fresh or history.find(reader, pointer.history, one.message.id) is not None
        placed = _renamed(one) if taken else one
        fresh[placed.message.id] = placed
    return [*fresh.values()]


def _renamed(one: Said) -> Said:
    """The same under another id; it still says which is its own."""
    message, name = one.message, new_id()
    kept = dict((message.metadata or {}).get(KEPT) or {})
    if "whole" not in kept:
        kept.setdefault("id", message.id)
    body, plain = codec.encode_message(replace(message, id=name, metadata={KEPT: kept}))
    usage = None if one.usage is None else replace(one.usage, id=name)
    return replace(one, body=body, digest=codec.digest(body), message=plain, usage=usage)


def _size(message: BaseMessage) -> int:
    return 1_000 + len(str(message.__dict__).encode("utf-8", "surrogatepass"))


def _texts(message: Message) -> list[tuple[bytes, Place]]:
    """The texts of a message that was just placed, and where they stand."""
    if message.branch is None or message.seq is None:
        return []
    texts = [(n, part.text.encode()) for n, part in enumerate(message.content) if isinstance(part, Text)]
    return [(text, (message.branch, message.seq, n, len(text))) for n, text in texts]
