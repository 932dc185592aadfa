"""Damage: what a failing disk does to stored values, and whether every bit of it is found and named.

A vandal damages a store, one value at a time. `survive` lets it, and looks each time: `verify` must name what
was damaged, and whatever does not rest on the damaged record must read as it did before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.contracts import Inspection, Key, Put, Query, Rebase, Record, RecordStore, Sharing, Write
from holdfast.errors import ConnectionFailed
from holdfast.filters import Scalar
from holdfast.kinds import Kind
from holdfast.model import Agent, Image, Message, Session, Usage
from holdfast.testing.planting import BreaksOff
from holdfast.testing.records import dump

Place: TypeAlias = tuple[str, Key]
Way = Literal["flip", "truncate", "zero", "swap", "exchange"]
WAYS: tuple[Way, ...] = ("flip", "truncate", "zero", "swap", "exchange")
TRIES = 1_000


class Damage(Struct, frozen=True, kw_only=True):
    """What was done, and to which records; one of them at least must be named."""

    what: str
    places: tuple[Place, ...]


class Vandal(Protocol):
    """Somebody who can damage the store of one backend from outside."""

    def open(self) -> RecordStore:
        """The store as it now is, with nothing remembered."""
        ...

    def damage(self, random: Random) -> Damage:
        """Change one stored value, or exchange two."""
        ...

    def mend(self) -> None:
        """Undo the last damage."""
        ...


# a store to damage


def furnish(store: RecordStore) -> None:
    """Fill a store with records of every kind."""
    hf = Holdfast(store)
    _speak(hf)
    hf.checkpoints.create("scout", name="first", extra={"n": [1, 2.0, "3"]})
    hf.sessions.append("a", *(Message.assistant(f"answer {n}", usage=Usage(input=n)) for n in range(5)))
    hf.sessions.create(id="b", agent_id="scout")
    hf.checkpoints.create(session_id="a", step=1, ttl=60, messages=[Message.user("and then?")])
    hf.checkpoints.restore(hf.checkpoints.create("scout", kind="automatic", step=7).id)
    hf.checkpoints.restore(_first(hf))
    hf.sessions.append("a", Message.user("another way"))
    hf.checkpoints.create(session_id="f", step=2)
    hf.sessions.create(id="gone")
    _keep_bytes(store)
    _break_off(store)


def _speak(hf: Holdfast) -> None:
    for number in range(4):
        hf.agents.save(Agent(id="scout", name="Scout", state={"n": number, "text": "x" * 50}))
    hf.agents.save(Agent(id="scout_b", name="Other"))
    hf.sessions.create(id="a", agent_id="scout", user_id="ann", metadata={"n": 42}, tags=["x"])
    hf.sessions.create(id="alone", title="Alone", archived=True, status="idle")
    said = hf.sessions.append("a", *(Message.user(f"message {n}", usage=Usage(output=n)) for n in range(1, 5)))
    hf.sessions.append("a", Message.user("an aside"), parent=said[1].id)
    hf.sessions.redact("a", said[0].id, "asked to")
    hf.sessions.fork("a", id="f")
    hf.sessions.fork("a", id="copied", copy=True)
    hf.sessions.append("f", Message.user("in the fork"))
    for n in range(2):
        hf.executions.finish(hf.executions.start("a", f"tool {n}", {"n": n}, message_id=said[n].id).id, n)
        hf.usage.record("a", Usage(input=n))


def _keep_bytes(store: RecordStore) -> None:
    """Artifacts with and without a session, in versions, and a message with a part that is one."""
    hf = Holdfast(store, inline_limit=4)
    for session_id in (None, "alone"):
        for content in (b"first", b"second"):
            hf.artifacts.put(content, name="map.png", session_id=session_id, metadata={"n": 1})
    hf.sessions.append("alone", Message.user("look", Image(data=b"large", name="x"), Image(data=b"larger")))


def _first(hf: Holdfast) -> str:
    return next(one.id for one in hf.checkpoints.list("scout") if one.name == "first")


def _break_off(store: RecordStore) -> None:
    """Leave a deletion unfinished, so that there is a sweep."""
    try:
        Holdfast(BreaksOff(store, 1)).sessions.delete("gone")
    except ConnectionFailed:
        return
    raise AssertionError("the deletion was to break off")


# damaging a value


def spoil(value: bytes | str | int, way: Way, random: Random, unreadable: str = "replace") -> bytes | str | int:
    """The value with a bit flipped, cut short, or zeroed; it may come out the same.

    `unreadable` is what becomes of text that is no longer UTF-8, as in `bytes.decode(errors=…)`.
    """
    if isinstance(value, int):
        return {"flip": value ^ 1 << random.randrange(63), "truncate": value >> 8, "zero": 0}[way]
    if isinstance(value, str):
        return _spoil_bytes(value.encode(), way, random).decode(errors=unreadable)
    return _spoil_bytes(value, way, random)


def _spoil_bytes(value: bytes, way: Way, random: Random) -> bytes:
    if not value:
        return value
    at = random.randrange(len(value))
    if way == "flip":
        return value[:at] + bytes([value[at] ^ 1 << random.randrange(8)]) + value[at + 1 :]
    return value[:at] if way == "truncate" else value[:at] + bytes(len(value) - at)


def with_column(record: Record, column: str, value: Any) -> Record:
    """The record with another body, digest or field."""
    if column in ("body", "digest"):
        return replace(record, **{column: value})
    names = [field.name for field in record.kind.fields]
    fields = [value if name == column else old for name, old in zip(names, record.fields, strict=True)]
    return replace(record, fields=tuple(fields))


def column_of(record: Record, column: str) -> Any:
    """A record's body, digest or field."""
    return getattr(record, column) if column in ("body", "digest") else record.values()[column]


class ValueVandal:
    """Picks a value of a record and spoils it; a subclass says how a record is opened and overwritten."""

    unreadable = "replace"

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = list(records)
        self._whole: list[Record] = []

    def open(self) -> RecordStore:
        """See Vandal."""
        raise NotImplementedError("say how the store is opened")

    def write(self, records: Sequence[Record]) -> None:
        """Let these be what is stored under their keys, whatever they say."""
        raise NotImplementedError("say how a record is overwritten")

    def damage(self, random: Random) -> Damage:
        """See Vandal."""
        for _ in range(TRIES):
            spoilt, what = self._spoilt(random)
            places = {_place(one) for one in spoilt}
            whole = [one for one in self._records if _place(one) in places]
            if sorted(spoilt, key=_place) != sorted(whole, key=_place) and not self._collide(spoilt, places):
                self._whole = whole
                self.write(spoilt)
                return Damage(what=what, places=tuple(_place(one) for one in spoilt))
        raise AssertionError(f"{TRIES} tries changed nothing")

    def _collide(self, spoilt: Sequence[Record], places: set[Place]) -> bool:
        """Whether an engine would refuse these beside the others, for having the same unique values."""
        beside = [one for one in self._records if _place(one) not in places]
        taken = {(one.kind.name, *_unique(one)) for one in [*beside, *spoilt] if one.kind.unique}
        return len(taken) < sum(1 for one in [*beside, *spoilt] if one.kind.unique)

    def mend(self) -> None:
        """See Vandal."""
        self.write(self._whole)
        self._whole = []

    def _spoilt(self, random: Random) -> tuple[list[Record], str]:
        """One or two records as they are to be, and what that is called."""
        record, way = random.choice(self._records), random.choice(WAYS)
        column = random.choice(["body", "digest", *(field.name for field in record.kind.fields)])
        what = f"{way} {column} of {_place(record)}"
        value = column_of(record, column)
        if way in ("swap", "exchange"):
            other = random.choice([one for one in self._records if one.kind is record.kind])
            if other is record:
                return [record], what
            return _swapped(record, other, column if way == "swap" else None), f"{what} with {_place(other)}"
        if value is None:
            return [record], what
        return [with_column(record, column, spoil(value, way, random, self.unreadable))], what


def _swapped(one: Record, other: Record, column: str | None) -> list[Record]:
    """Two records with one value changed for the other's, or with all but their keys."""
    if column is None:
        return [replace(one, key=other.key), replace(other, key=one.key)]
    value, others = column_of(one, column), column_of(other, column)
    return [with_column(one, column, others), with_column(other, column, value)]


def _unique(record: Record) -> list[Scalar]:
    return [record.values()[name] for name in record.kind.unique]


def _place(record: Record) -> Place:
    return (record.kind.name, record.key)


@contextmanager
def spoilt(store: RecordStore, record: Record) -> Iterator[None]:
    """A record with a bit of its body flipped, for as long as the block lasts."""
    at = len(record.body) // 2
    body = record.body[:at] + bytes([record.body[at] ^ 1]) + record.body[at + 1 :]
    store.commit([Put(replace(record, body=body))])
    yield
    store.commit([Put(record)])


# what rests on what


class Traced:
    """A store that remembers which records it has given."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self.given: set[Place] = set()
        self.sharing: Sharing = store.sharing

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        """As the store does."""
        found = self._store.get(kind, keys)
        self.given |= {_place(record) for record in found if record is not None}
        return found

    def scan(self, query: Query) -> Iterator[Record]:
        """As the store does."""
        for record in self._store.scan(query):
            self.given.add(_place(record))
            yield record

    def count(self, query: Query) -> int:
        """As the store does, by reading."""
        return sum(1 for _ in self.scan(query))

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        """As the store does."""
        return self._store.commit(writes, rebase)

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:
        """As the store does."""
        return self._store.inspect(measure, check)

    def close(self) -> None:
        """As the store does."""
        self._store.close()


Look: TypeAlias = Callable[[Holdfast], Any]


class Sight(Struct, frozen=True):
    """Something to be read, what it showed when all was well, and the records it rests on."""

    look: Look
    shown: Any
    rests_on: frozenset[Place]


def sights(store: RecordStore) -> dict[str, Sight]:
    """Every session, agent, checkpoint and artifact of a store."""
    hf, found = Holdfast(store), dict[str, Look]()
    for session in _all_sessions(hf, store):
        found[f"session {session.id}"] = _look_at_session(session.id)
    for agent in hf.agents.list():
        found[f"agent {agent.id}"] = _look_at_agent(agent.id)
    for checkpoint in hf.checkpoints.list():
        found[f"checkpoint {checkpoint.id}"] = _look_at_checkpoint(checkpoint.id)
    for artifact in hf.artifacts.list():
        found[f"artifact {artifact.id}"] = _look_at_artifact(artifact.id)
    return {name: _seen(store, look) for name, look in found.items()}


def _all_sessions(hf: Holdfast, store: RecordStore) -> list[Session]:
    ids = [str(record.key[0]) for record in dump(store) if record.kind.name == "heads"]
    return [session for session in map(hf.sessions.get, ids) if session is not None]


def _seen(store: RecordStore, look: Look) -> Sight:
    traced = Traced(store)
    return Sight(look, look(Holdfast(traced)), frozenset(traced.given))


def _look_at_session(id: str) -> Look:
    return lambda hf: [hf.sessions.get(id), list(hf.sessions.messages(id))]


def _look_at_agent(id: str) -> Look:
    return lambda hf: [hf.agents.get(id), hf.agents.revisions(id)]


def _look_at_artifact(id: str) -> Look:
    return lambda hf: hf.artifacts.get(id)


def _look_at_checkpoint(id: str) -> Look:
    def look(hf: Holdfast) -> Any:
        found = hf.checkpoints.get(id)
        assert found is not None
        said = [list(hf.checkpoints.messages(id, session)) for session in hf.checkpoints.heads(id)]
        return [found, said, hf.checkpoints.state(id) if found.session_id is None else None]

    return look


# the whole harness


class Missed(Struct, frozen=True):
    """Damage that was not named, or that reached further than the record it was done to."""

    damage: str
    why: str


def survive(vandal: Vandal, times: int, seed: int = 0) -> list[Missed]:
    """Let a vandal do so much damage, one at a time, and say what was missed."""
    random, missed = Random(seed), list[Missed]()
    store = vandal.open()
    known = sights(store)
    store.close()
    for _ in range(times):
        damage = vandal.damage(random)
        missed += [Missed(damage.what, why) for why in _look(vandal, damage, known)]
        vandal.mend()
    return missed


def _look(vandal: Vandal, damage: Damage, known: dict[str, Sight]) -> Iterator[str]:
    store = vandal.open()
    hf = Holdfast(store)
    problems = hf.verify().problems
    if not {(problem.kind, problem.key) for problem in problems} & set(damage.places):
        yield f"not named among {problems}"
    for name, sight in known.items():
        if not sight.rests_on & set(damage.places) and sight.look(hf) != sight.shown:
            yield f"{name} reads otherwise"
    store.close()
