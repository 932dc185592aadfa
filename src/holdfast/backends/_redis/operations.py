"""A commit as the arguments of its script, and the script's refusal as an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.backends._redis.plans import arguments, plan
from holdfast.backends._redis.rows import decode_key, encode_key, pack, unpack
from holdfast.contracts import Delete, Insert, Key, Moved, Put, Query, Record, Require, Taken, Write
from holdfast.kinds import Kind

if TYPE_CHECKING:
    from holdfast.backends.redis import RedisStore

Argument = bytes | str | int


class Contended(Moved):
    """Others are, or were, faster to change a record at which writers take turns."""

    def __init__(self, kind: Kind, key: Key, present: Record | None) -> None:
        super().__init__(kind, key, present)
        self.place = (kind, key)


class Operations:
    """What the script is to do, in order: the kinds it touches, and the write that each operation is part of.

    With `in_turn`, a record that others have queued for is theirs first; `turns` are the records that this concerns.
    """

    def __init__(self, writes: Sequence[Write], in_turn: bool) -> None:
        self.kinds: dict[str, int] = {}
        self.turns: list[tuple[Kind, Key]] = []
        self._in_turn = in_turn
        self._writes: list[Write] = []
        self._args: list[Argument] = []
        for write in writes:
            self._add(write)

    def arguments(self) -> list[Argument]:
        """The kinds, then the operations."""
        return [len(self.kinds), *self.kinds, *self._args]

    def _add(self, write: Write) -> None:
        match write:
            case Insert(record):
                self._operation(write, "insert", record.kind, encode_key(record.key), pack(record))
            case Put(record, over):
                turn = 0 if over is None else self._turn(record.kind, record.key)
                self._operation(write, "put", record.kind, encode_key(record.key), pack(record), over or b"", turn)
            case Require(kind, key, digest):
                self._operation(write, "require", kind, encode_key(key), digest or b"")
            case Delete(kind, key, where, over):
                if over is not None:
                    self._operation(write, "require", kind, encode_key(key), over)
                way = plan(Query(kind=kind, prefix=key, where=where))
                self._operation(write, "delete", kind, way.claim, way.low, way.high, *arguments(way.tests))

    def _turn(self, kind: Kind, key: Key) -> int:
        """The number of the turn that changing this record takes; 0 for none."""
        if not self._in_turn:
            return 0
        self.turns.append((kind, key))
        return len(self.turns)

    def _operation(self, write: Write, name: str, kind: Kind, *args: Argument) -> None:
        number = self.kinds.setdefault(kind.name, len(self.kinds) + 1)
        self._args += [name, number, *args]
        self._writes.append(write)

    def refusal(self, answer: tuple[bytes, int, bytes, bytes]) -> Moved | Taken:
        """The error that the script's answer stands for."""
        verdict, number, key, row = answer
        write = self._writes[number - 1]
        named = write.record if isinstance(write, Insert | Put) else write
        present = unpack(named.kind, decode_key(named.kind, key), row) if row else None
        if verdict == b"taken" and isinstance(named, Record) and present is not None:
            return Taken(named, present)
        place = (named.kind, named.key)
        return Contended(*place, present) if place in self.turns else Moved(*place, present)


class Watching:
    """The reader of a plan: it remembers what it gave, so that the commit can require it to be there still."""

    def __init__(self, store: RedisStore) -> None:
        self._reader = store
        self._given: dict[tuple[str, Key], Require] = {}

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        found = self._reader.get(kind, keys)
        for key, record in zip(keys, found, strict=True):
            given = Require(kind, key, None if record is None else record.digest)
            self._given.setdefault((kind.name, key), given)
        return found

    def scan(self, query: Query) -> Iterator[Record]:
        return self._reader.scan(query)

    def count(self, query: Query) -> int:
        return self._reader.count(query)

    def now(self) -> int:
        return self._reader.now()

    def given(self) -> list[Require]:
        """What was given and must still be so."""
        return list(self._given.values())
