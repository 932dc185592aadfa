"""Rows that have changed places: `verify` finds any two of one kind and names them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import ClassVar

import pytest
from msgspec.structs import replace

from holdfast import history
from holdfast.client import Holdfast
from holdfast.contracts import Delete, Insert, Put, Query, Record, RecordStore, Taken
from holdfast.errors import ConnectionFailed
from holdfast.heads import Restore, restore_record
from holdfast.item_records import StoredItem, item_record
from holdfast.kinds import KINDS, MESSAGES, PRUNED, Kind
from holdfast.model import Embedding
from holdfast.pending_records import StoredPending, pending_record
from holdfast.testing.damage import furnish
from holdfast.testing.driving import Door, HoldfastKit, users
from holdfast.testing.planting import BreaksOff


def furnish_twice(store: RecordStore) -> None:
    """At least two records of every kind, that say different things."""
    furnish(store)
    hf = Holdfast(store)
    for number, name in enumerate(("alone", "a")):
        with hf.runs.start(session_id=name, key=f"key {number}") as run:
            run.append(*users(f"of run {number}"))
        hf.embeddings.upsert(Embedding(id=f"e{number}", model=f"model {number}", vector=[float(number), 1.0]))
    for number in (1, 2):
        waits = StoredPending(owner="somebody", checkpoint=f"c{number}", task=number, said={"n": number})
        item = StoredItem(space="a.b", key=f"k{number}", value={"n": number}, created_at=1, updated_at=1)
        store.commit([Put(pending_record(waits)), Put(item_record(item))])
    places = [row.key for row in store.scan(Query(kind=MESSAGES, limit=3))]
    store.commit([Put(history.beside_record(PRUNED, place, {})) for place in places])
    store.commit([Put(restore_record(Restore(agent_id=id, by=id, at=1))) for id in ("scout", "scout_b")])
    hf.sessions.create(id="gone too")
    with pytest.raises(ConnectionFailed):
        Holdfast(BreaksOff(store, 1)).sessions.delete("gone too")


def pairs(store: RecordStore, kind: Kind, most: int) -> list[tuple[Record, Record]]:
    """Some pairs of a kind's records that say different things."""
    rows = list(store.scan(Query(kind=kind)))
    found = [(one, other) for one, other in combinations(rows, 2) if one.body != other.body]
    return Random(kind.name).sample(found, min(most, len(found)))


def swapped(one: Record, other: Record) -> Iterator[list[Record]]:
    """Both with the other's body and digest, and both with all of the other's but the key."""
    yield [replace(one, body=other.body, digest=other.digest), replace(other, body=one.body, digest=one.digest)]
    yield [replace(other, key=one.key), replace(one, key=other.key)]


def overwrite(store: RecordStore, records: list[Record]) -> bool:
    """Let these be what is stored under their keys; False if the store refuses them beside the others."""
    store.commit([Delete(one.kind, one.key) for one in records])
    try:
        store.commit([Insert(one) for one in records])
    except Taken:
        return False
    return True


class SwapKit(HoldfastKit):
    """Subclass it as `TestMySwaps` and say how to `open` the store; never override a test."""

    pairs: ClassVar[int] = 3
    """How many to try of each kind."""

    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
    def test_two_rows_that_have_changed_places_are_found_and_named(self, door: Door, kind: Kind) -> None:
        furnish_twice(door.store)
        hf, tried = door.reopen(), pairs(door.store, kind, self.pairs)
        assert tried
        for one, other in tried:
            for changed in swapped(one, other):
                done = overwrite(door.store, changed)
                named = {(problem.kind, problem.key) for problem in hf.verify().problems}
                overwrite(door.store, [one, other])
                assert not done or named & {(kind.name, one.key), (kind.name, other.key)}

    def test_first_messages_of_two_branches_cannot_change_places(self, door: Door) -> None:
        hf = door.hf
        hf.sessions.create(id="s")
        first = hf.sessions.append("s", *users("first"))[0]
        for text in ("one way", "other way", "third way"):
            hf.sessions.append("s", *users(text), parent=first.id)
        rows = [row for row in door.store.scan(Query(kind=MESSAGES)) if b" way" in row.body]
        one, other = rows[0], rows[1]
        overwrite(door.store, [replace(other, key=one.key), replace(one, key=other.key)])
        assert {problem.key for problem in hf.verify().problems} >= {other.key}
        overwrite(door.store, [one, other])
