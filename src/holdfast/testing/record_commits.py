"""What each write means, and that a commit with one write that does not fit changes nothing."""

from __future__ import annotations

import pytest

from holdfast.codec import digest
from holdfast.contracts import Delete, Insert, Moved, Put, Record, RecordStore, Require, Taken, Write
from holdfast.filters import Filter
from holdfast.kinds import BRANCHES, CHECKPOINTS, HEADS, MESSAGES, SESSIONS, USAGES
from holdfast.testing.opening import StoreKit
from holdfast.testing.records import HOSTILE, branch, checkpoint, dump, head, insert, message, only, session, usage

MINE = (Filter("agent_id", "=", "mine"),)


class CommitTests(StoreKit):
    """Insert, Put, Delete, Require: alone and together."""

    # inserting

    def test_an_inserted_record_comes_back(self, store: RecordStore) -> None:
        applied = store.commit([Insert(session("s"))])
        assert list(applied) == [Insert(session("s"))]
        assert only(store, session("s")) == session("s")

    @pytest.mark.parametrize("one", [session("s"), message("h", 1, 1, "m")])
    def test_inserting_the_same_content_again_succeeds(self, store: RecordStore, one: Record) -> None:
        store.commit([Insert(one)])
        store.commit([Insert(one)])
        assert dump(store) == [one]

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (session("s"), session("s", b"other")),
            (message("h", 1, 1, "m"), message("h", 1, 1, "m", b"other")),
            (message("h", 1, 1, "m"), message("h", 1, 1, "m2", b"other")),
        ],
    )
    def test_inserting_other_content_is_refused(self, store: RecordStore, old: Record, new: Record) -> None:
        store.commit([Insert(old)])
        with pytest.raises(Taken) as refusal:
            store.commit([Insert(new)])
        assert refusal.value.present == old
        assert dump(store) == [old]

    def test_an_empty_commit_changes_nothing(self, store: RecordStore) -> None:
        assert list(store.commit([])) == []
        assert dump(store) == []

    # unique values

    @pytest.mark.parametrize(("number", "seq"), [(1, 2), (2, 1)])
    def test_an_id_is_unique_in_its_history(self, store: RecordStore, number: int, seq: int) -> None:
        first = message("h", 1, 1, "m")
        store.commit([Insert(first)])
        with pytest.raises(Taken) as refusal:
            store.commit([Insert(message("h", number, seq, "m"))])
        assert refusal.value.present == first
        assert dump(store) == [first]

    def test_two_histories_may_have_the_same_id(self, store: RecordStore) -> None:
        both = [message("h", 1, 1, "m"), message("i", 1, 1, "m")]
        insert(store, both)
        assert dump(store) == both

    def test_a_put_cannot_take_an_id_either(self, store: RecordStore) -> None:
        both = [message("h", 1, 1, "m"), message("h", 1, 2, "n")]
        insert(store, both)
        with pytest.raises(Taken):
            store.commit([Put(message("h", 1, 2, "m"))])
        assert dump(store) == both

    def test_a_deleted_record_gives_its_id_back(self, store: RecordStore) -> None:
        insert(store, [message("h", 1, 1, "m"), checkpoint("s", 1, "c")])
        store.commit([Delete(MESSAGES, ("h", 1, 1)), Delete(CHECKPOINTS, ("s",))])
        insert(store, [message("h", 2, 1, "m"), checkpoint("t", 1, "c")])
        assert dump(store) == [message("h", 2, 1, "m"), checkpoint("t", 1, "c")]

    def test_a_replaced_record_gives_its_id_back(self, store: RecordStore) -> None:
        insert(store, [message("h", 1, 1, "m"), checkpoint("s", 1, "c")])
        store.commit([Put(message("h", 1, 1, "n")), Put(checkpoint("s", 1, "d"))])
        insert(store, [message("h", 1, 2, "m"), checkpoint("t", 1, "c")])
        assert [one.values()["id"] for one in dump(store)] == ["n", "m", "d", "c"]

    def test_an_id_may_be_unique_in_a_namespace(self, store: RecordStore) -> None:
        first = checkpoint("s", 1, "c")
        store.commit([Insert(first)])
        for rival in (checkpoint("s", 2, "c"), checkpoint("t", 1, "c")):
            for write in (Insert(rival), Put(rival)):
                with pytest.raises(Taken) as refusal:
                    store.commit([write])
                assert refusal.value.present == first
        assert dump(store) == [first]

    def test_records_without_an_id_do_not_collide(self, store: RecordStore) -> None:
        both = [checkpoint("s", 1, None), checkpoint("s", 2, None)]
        insert(store, both)
        store.commit([Delete(CHECKPOINTS, ("s", 1))])
        store.commit([Put(checkpoint("s", 2, None, b"new")), Insert(checkpoint("t", 1, None))])
        assert dump(store) == [checkpoint("s", 2, None, b"new"), checkpoint("t", 1, None)]

    # putting

    @pytest.mark.parametrize("one", [session("s"), message("h", 1, 1, "m"), branch("h", 1)])
    def test_a_put_over_nothing_adds(self, store: RecordStore, one: Record) -> None:
        store.commit([Put(one)])
        assert dump(store) == [one]

    def test_a_put_replaces_body_digest_and_fields(self, store: RecordStore) -> None:
        insert(store, [head("s", 1), message("h", 1, 1, "m")])
        changed = [head("s", 2, b"changed", agent_id="a"), message("h", 1, 1, "m", b"changed", n=7)]
        store.commit([Put(one) for one in changed])
        assert dump(store) == changed

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (session("s"), session("s", b"new")),
            (message("h", 1, 1, "m"), message("h", 1, 1, "m", b"new")),
        ],
    )
    def test_a_put_over_what_is_there_replaces(self, store: RecordStore, old: Record, new: Record) -> None:
        store.commit([Insert(old)])
        store.commit([Put(new, over=old.digest)])
        assert dump(store) == [new]

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (session("s"), session("s", b"new")),
            (message("h", 1, 1, "m"), message("h", 1, 1, "m", b"new")),
        ],
    )
    def test_a_put_over_something_else_is_refused(self, store: RecordStore, old: Record, new: Record) -> None:
        store.commit([Insert(old)])
        with pytest.raises(Moved) as refusal:
            store.commit([Put(new, over=new.digest)])
        assert refusal.value.present == old
        assert dump(store) == [old]

    @pytest.mark.parametrize("one", [session("s"), message("h", 1, 1, "m")])
    def test_a_put_over_what_is_gone_is_refused(self, store: RecordStore, one: Record) -> None:
        with pytest.raises(Moved) as refusal:
            store.commit([Put(one, over=one.digest)])
        assert refusal.value.present is None
        assert dump(store) == []

    # deleting

    @pytest.mark.parametrize(
        ("key", "left"),
        [
            (("h", 1, 2), [("h", 1, 1), ("h", 2, 1), ("h2", 1, 1), ("h_", 1, 1)]),
            (("h", 1), [("h", 2, 1), ("h2", 1, 1), ("h_", 1, 1)]),
            (("h",), [("h2", 1, 1), ("h_", 1, 1)]),
            (("none",), [("h", 1, 1), ("h", 1, 2), ("h", 2, 1), ("h2", 1, 1), ("h_", 1, 1)]),
        ],
    )
    def test_a_delete_takes_what_begins_so(
        self, store: RecordStore, key: tuple[str | int, ...], left: list[tuple[str, int, int]]
    ) -> None:
        places = [("h", 1, 1), ("h", 1, 2), ("h", 2, 1), ("h2", 1, 1), ("h_", 1, 1)]
        insert(store, [message(*place) for place in places])
        insert(store, [usage(*place) for place in places])
        store.commit([Delete(MESSAGES, key), Delete(USAGES, key)])
        assert [one.key for one in dump(store)] == [*left, *left]

    @pytest.mark.parametrize("victim", HOSTILE)
    def test_a_delete_leaves_neighbours_that_look_alike(self, store: RecordStore, victim: str) -> None:
        everyone = sorted({*HOSTILE, "a", "ab", "aab", "a%", "a_"})
        insert(store, [branch(name, 1) for name in everyone])
        store.commit([Delete(BRANCHES, (victim,))])
        assert [one.key[0] for one in dump(store)] == [name for name in everyone if name != victim]

    def test_a_delete_with_a_filter_takes_what_passes_it(self, store: RecordStore) -> None:
        insert(store, [head("a", agent_id="mine"), head("b", agent_id="theirs"), head("c", agent_id="mine")])
        insert(store, [head("d")])
        store.commit([Delete(HEADS, ("c",), (Filter("agent_id", "=", "theirs"),)), Delete(HEADS, ("d",))])
        store.commit([Delete(HEADS, (), MINE)])
        assert dump(store) == [head("b", agent_id="theirs")]

    def test_a_delete_with_a_filter_works_in_a_log(self, store: RecordStore) -> None:
        insert(store, [message("h", 1, seq, f"m{seq}", n=seq) for seq in range(1, 6)])
        store.commit([Delete(MESSAGES, ("h", 1), (Filter("n", ">=", 3),))])
        store.commit([Delete(MESSAGES, ("h",), (Filter("id", "=", "m1"),))])
        assert [one.key for one in dump(store)] == [("h", 1, 2)]

    def test_deleting_what_is_not_there_succeeds(self, store: RecordStore) -> None:
        store.commit([Delete(SESSIONS, ("none",)), Delete(MESSAGES, ("none", 1, 1)), Delete(MESSAGES, ("none",))])
        assert dump(store) == []

    @pytest.mark.parametrize("one", [session("s"), message("h", 1, 1, "m")])
    def test_a_delete_over_what_is_there_removes(self, store: RecordStore, one: Record) -> None:
        store.commit([Insert(one)])
        store.commit([Delete(one.kind, one.key, over=one.digest)])
        assert dump(store) == []

    @pytest.mark.parametrize("one", [session("s"), message("h", 1, 1, "m")])
    def test_a_delete_over_something_else_is_refused(self, store: RecordStore, one: Record) -> None:
        store.commit([Insert(one)])
        with pytest.raises(Moved) as refusal:
            store.commit([Delete(one.kind, one.key, over=digest(b"other"))])
        assert refusal.value.present == one
        assert dump(store) == [one]

    def test_a_delete_over_what_is_gone_is_refused(self, store: RecordStore) -> None:
        with pytest.raises(Moved) as refusal:
            store.commit([Insert(session("t")), Delete(SESSIONS, ("s",), over=digest(b"session"))])
        assert refusal.value.present is None
        assert dump(store) == []

    def test_a_deleted_log_begins_anew(self, store: RecordStore) -> None:
        insert(store, [message("h", 1, 1, "old"), message("h", 1, 2)])
        store.commit([Delete(MESSAGES, ("h",))])
        store.commit([Insert(message("h", 1, 1, "new")), Insert(message("h", 1, 2, "old"))])
        assert dump(store) == [message("h", 1, 1, "new"), message("h", 1, 2, "old")]

    # requiring

    def test_a_requirement_that_is_met_changes_nothing(self, store: RecordStore) -> None:
        store.commit([Insert(session("s")), Insert(message("h", 1, 1, "m"))])
        store.commit([Require(SESSIONS, ("s",), digest(b"session")), Require(SESSIONS, ("none",), None)])
        store.commit([Require(MESSAGES, ("h", 1, 1), digest(b"message")), Require(MESSAGES, ("h", 1, 2), None)])
        assert dump(store) == [session("s"), message("h", 1, 1, "m")]

    @pytest.mark.parametrize("required", [None, digest(b"other")])
    def test_a_requirement_that_is_not_met_shows_what_is_there(
        self, store: RecordStore, required: bytes | None
    ) -> None:
        store.commit([Insert(session("s"))])
        with pytest.raises(Moved) as refusal:
            store.commit([Insert(session("t")), Require(SESSIONS, ("s",), required)])
        assert refusal.value.present == session("s")
        assert dump(store) == [session("s")]

    def test_requiring_what_is_gone_is_refused(self, store: RecordStore) -> None:
        with pytest.raises(Moved) as refusal:
            store.commit([Require(MESSAGES, ("h", 1, 1), digest(b"message")), Insert(session("s"))])
        assert refusal.value.present is None
        assert dump(store) == []

    # all or nothing

    @pytest.mark.parametrize(
        "misfit",
        [
            Insert(session("s", b"other")),
            Insert(message("h", 2, 1, "m")),
            Put(session("s"), over=digest(b"other")),
            Put(session("none"), over=digest(b"other")),
            Put(message("h", 1, 1, "m"), over=digest(b"other")),
            Require(SESSIONS, ("s",), None),
            Require(SESSIONS, ("none",), digest(b"other")),
            Delete(SESSIONS, ("s",), over=digest(b"other")),
            Delete(SESSIONS, ("none",), over=digest(b"other")),
        ],
    )
    def test_a_commit_is_all_or_nothing(self, store: RecordStore, misfit: Write) -> None:
        insert(store, [session("s"), message("h", 1, 1, "m"), head("s", 1), head("t", 1)])
        before = dump(store)
        fits: list[Write] = [Insert(session("t")), Put(head("s", 2)), Insert(message("h", 1, 2)), Delete(HEADS, ("t",))]
        for writes in ([*fits, misfit], [misfit, *fits], [*fits[:2], misfit, *fits[2:]]):
            with pytest.raises((Moved, Taken)):
                store.commit(writes)
        assert dump(store) == before

    def test_a_refused_commit_does_not_disturb_the_next(self, store: RecordStore) -> None:
        store.commit([Insert(session("s"))])
        with pytest.raises(Taken):
            store.commit([Insert(message("new", 1, 1, "m")), Insert(session("s", b"other"))])
        store.commit([Insert(message("new", 1, 1, "m", b"later"))])
        assert dump(store) == [session("s"), message("new", 1, 1, "m", b"later")]
