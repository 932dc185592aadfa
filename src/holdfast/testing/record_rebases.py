"""Commits that are planned again when what they relied on has changed, alone and in a crowd."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from threading import Event

import pytest

from holdfast import commits
from holdfast.contracts import (
    MAX_WRITES,
    CommitsAtOnce,
    Insert,
    Moved,
    Planned,
    Put,
    Query,
    Reader,
    Rebase,
    Record,
    RecordStore,
    Submits,
    Taken,
    Write,
)
from holdfast.deadlines import within
from holdfast.errors import AlreadyExists, Busy, ConnectionFailed, HoldfastError, InvalidInput, NotFound
from holdfast.kinds import AGENTS, MESSAGES
from holdfast.testing.opening import StoreKit
from holdfast.testing.records import agent, dump, insert, message, only, session

THREADS = 8
COUNTS = 25
LONG_S = 30


class RebaseTests(StoreKit):
    """What `commit` promises to those who give it a second plan."""

    def test_without_writes_the_plan_is_made_inside_the_commit(self, store: RecordStore) -> None:
        store.commit([Insert(session("s"))])

        def plan(reader: Reader) -> list[Write]:
            return [Put(session("s", _body(reader, session("s")) + b"+"))]

        applied = store.commit(None, plan)
        assert list(applied) == [Put(session("s", b"session+"))]
        assert dump(store) == [session("s", b"session+")]

    def test_writes_that_fit_need_no_second_plan(self, store: RecordStore) -> None:
        def plan(_: Reader) -> list[Write]:
            raise AssertionError("there was no reason to plan again")

        store.commit([Insert(session("s"))], plan)
        assert dump(store) == [session("s")]

    @pytest.mark.parametrize(
        "stale",
        [
            Put(session("s", b"mine"), over=session("s").digest),
            Insert(session("s", b"mine")),
            Insert(message("h", 1, 1, "mine", b"mine")),
        ],
    )
    def test_writes_that_do_not_fit_are_planned_again(self, store: RecordStore, stale: Write) -> None:
        theirs = [session("s", b"theirs"), message("h", 1, 1, "theirs")]
        insert(store, theirs)
        seen: list[list[Record]] = []

        def plan(reader: Reader) -> list[Write]:
            seen.append(dump(reader))
            return [Insert(message("h", 1, 2, "mine"))]

        commit(store, [Insert(session("half")), stale], plan)
        assert seen[-1] == theirs
        assert dump(store) == [*theirs, message("h", 1, 2, "mine")]

    def test_a_plan_can_get_scan_and_count(self, store: RecordStore) -> None:
        insert(store, [message("h", 1, 1, "m1"), message("h", 1, 2, "m2")])
        found: list[object] = []

        def plan(reader: Reader) -> list[Write]:
            query = Query(kind=MESSAGES, prefix=("h", 1), reverse=True)
            found[:] = [reader.get(MESSAGES, [("h", 1, 1)]), list(reader.scan(query)), reader.count(query)]
            return []

        store.commit(None, plan)
        first, second = message("h", 1, 1, "m1"), message("h", 1, 2, "m2")
        assert found == [[first], [second, first], 2]

    @pytest.mark.parametrize("verdict", [NotFound("the session is gone"), AlreadyExists("the id is taken")])
    def test_a_plan_that_raises_changes_nothing(self, store: RecordStore, verdict: HoldfastError) -> None:
        def plan(_: Reader) -> list[Write]:
            raise verdict

        with pytest.raises(type(verdict)) as raised:
            commit(store, None, plan)
        assert raised.value is verdict
        store.commit([Insert(session("s"))])
        assert dump(store) == [session("s")]

    def test_a_second_plan_is_all_or_nothing_too(self, store: RecordStore) -> None:
        store.commit([Insert(session("s"))])

        def plan(_: Reader) -> list[Write]:
            return [Insert(message("h", 1, seq)) for seq in range(MAX_WRITES + 1)]

        with pytest.raises(InvalidInput):
            commit(store, [Insert(session("half")), Insert(session("s", b"other"))], plan)
        assert dump(store) == [session("s")]

    def test_threads_that_count_together_lose_nothing(self, store: RecordStore) -> None:
        store.commit([Insert(agent("counter", b"0"))])

        def count(_: int) -> None:
            for _ in range(COUNTS):
                commit(store, None, _one_more)

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(count, range(THREADS)))
        assert _body(store, agent("counter")) == b"%d" % (THREADS * COUNTS)

    def test_of_threads_that_insert_one_key_one_wins(self, store: RecordStore) -> None:
        def claim(number: int) -> bool:
            mine = session("s", b"%d" % number)
            plan: list[Write] = []
            commit(store, [Insert(mine)], lambda _: plan)
            return only(store, mine) == mine

        with ThreadPoolExecutor(THREADS) as pool:
            assert sum(pool.map(claim, range(THREADS))) == 1

    def test_a_reader_never_sees_half_a_commit(self, store: RecordStore) -> None:
        def write(number: int) -> None:
            body = b"%d" % number
            store.commit([Put(agent("a", body)), Put(agent("b", body))])

        write(0)
        with ThreadPoolExecutor(THREADS) as pool:
            writing = [pool.submit(write, number) for number in range(100)]
            seen = [{one.body for one in store.scan(Query(kind=AGENTS))} for _ in range(100)]
        assert all(len(bodies) == 1 for bodies in seen)
        assert all(one.result() is None for one in writing)

    # waiting

    def test_at_its_limit_a_commit_is_busy_and_has_written_nothing(self, store: RecordStore) -> None:
        held, release = Event(), Event()

        def slow(_: Reader) -> list[Write]:
            held.set()
            assert release.wait(LONG_S), "the other commit did not give up at its limit"
            return [Insert(session("slow"))]

        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(store.commit, None, slow)
            assert held.wait(LONG_S)
            written = _commits_at_once(store, session("fast"))
            release.set()
            first.result()
        assert [one.key for one in dump(store)] == [("fast",), ("slow",)][not written :]

    def test_who_is_interrupted_while_it_waits_stands_in_nobodys_way(self, store: RecordStore, namespace: str) -> None:
        held, release = Event(), Event()

        def slow(_: Reader) -> list[Write]:
            held.set()
            assert release.wait(LONG_S)
            return [Insert(session("slow"))]

        with self._beside(store, namespace) as waiter, self._beside(store, namespace) as later:
            with ThreadPoolExecutor(1) as pool:
                first = pool.submit(store.commit, None, slow)
                try:
                    assert held.wait(LONG_S)
                    with _interrupted(0.3):
                        waiter.commit([Insert(session("waits"))])
                finally:
                    release.set()
                first.result()
            with within(LONG_S):
                later.commit([Insert(session("later"))])
        assert {("later",), ("slow",)} <= {one.key for one in dump(store)} <= {("later",), ("slow",), ("waits",)}

    @contextmanager
    def _beside(self, store: RecordStore, namespace: str) -> Iterator[RecordStore]:
        """The store as another process has it, where there can be one."""
        if store.sharing == "threads":
            yield store
            return
        with closing(self.open(namespace)) as other:
            yield other

    @pytest.mark.parametrize("at_once", [True, False])
    def test_submitted_commits_are_all_carried_out(self, store: RecordStore, at_once: bool) -> None:
        said = [message("h", 1, seq) for seq in range(1, 301)]
        assert carry_out(store, at_once, *([Insert(one)] for one in said)) == [None] * 300
        assert dump(store) == said

    @pytest.mark.parametrize("at_once", [True, False])
    def test_a_submitted_commit_that_is_refused_leaves_its_neighbours(self, store: RecordStore, at_once: bool) -> None:
        store.commit([Insert(session("s"))])
        misfit: list[Write] = [Insert(session("half")), Insert(session("s", b"other"))]
        first, refused, last = carry_out(store, at_once, [Insert(session("a"))], misfit, [Insert(session("z"))])
        assert isinstance(refused, Taken)
        assert first is last is None
        assert [one.key for one in dump(store)] == [("a",), ("s",), ("z",)]

    @pytest.mark.parametrize("at_once", [True, False])
    def test_what_a_refused_commit_began_is_not_gone_on_with(self, store: RecordStore, at_once: bool) -> None:
        store.commit([Insert(session("s"))])
        misfit: list[Write] = [Insert(message("h", 1, 1)), Insert(session("s", b"other"))]
        refused, _ = carry_out(store, at_once, misfit, [Insert(message("i", 1, 1))])
        assert isinstance(refused, Taken)
        store.commit([Insert(message("h", 1, 1))])
        store.commit([Insert(message("h", 1, 2))])
        places = [one.key for one in dump(store) if one.kind is MESSAGES]
        assert places == [("h", 1, 1), ("h", 1, 2), ("i", 1, 1)]

    @pytest.mark.parametrize("at_once", [True, False])
    def test_submitted_plans_see_each_other(self, store: RecordStore, at_once: bool) -> None:
        store.commit([Insert(agent("counter", b"0"))])
        assert carry_out(store, at_once, *[_one_more] * 50) == [None] * 50
        assert _body(store, agent("counter")) == b"50"

    @pytest.mark.parametrize("at_once", [True, False])
    def test_submitted_writes_that_no_longer_fit_are_planned_anew(self, store: RecordStore, at_once: bool) -> None:
        counter = agent("counter", b"0")
        store.commit([Insert(counter)])
        hopeful: list[Write] = [Put(agent("counter", b"1"), counter.digest)]
        plans = [Planned(hopeful, _one_more, _soon()) for _ in range(20)]
        refusals = _answers(store, at_once, plans)
        for plan, refusal in zip(plans, refusals, strict=True):
            if refusal is not None:  # a store that holds no lock leaves planning anew to others
                assert isinstance(refusal, Moved)
                commits.commit(store, _one_more, plan.writes)
        assert _body(store, agent("counter")) == b"20"


def carry_out(store: RecordStore, at_once: bool, *wanted: Sequence[Write] | Rebase) -> list[BaseException | None]:
    """What refused each of these commits, all submitted together."""
    plans = [Planned(None, one, _soon()) if callable(one) else Planned(one, None, _soon()) for one in wanted]
    return _answers(store, at_once, plans)


def _answers(store: RecordStore, at_once: bool, plans: list[Planned]) -> list[BaseException | None]:
    """Submit where the store can, else commit one by one: the outcome is the same."""
    if at_once and isinstance(store, CommitsAtOnce):
        answers = store.commit_at_once(plans)
        if answers is not None:
            return answers
    if isinstance(store, Submits):
        return [answer.exception() for answer in store.submit(plans)]
    return [_refusal(store, plan) for plan in plans]


def _refusal(store: RecordStore, plan: Planned) -> BaseException | None:
    try:
        store.commit(plan.writes, plan.rebase)
    except HoldfastError as refusal:
        return refusal
    return None


def _soon() -> float:
    return time.monotonic() + LONG_S


def _commits_at_once(store: RecordStore, record: Record) -> bool:
    """Whether a commit that cannot wait was carried out; a store that holds no lock has no reason to be busy."""
    try:
        with within(0):
            store.commit([Insert(record)])
    except Busy:
        return False
    except ConnectionFailed as failure:  # it had to connect first, and no time for that
        if failure.outcome != "none":
            raise
        return False
    return True


def commit(store: RecordStore, writes: Sequence[Write] | None, plan: Rebase) -> None:
    """Commit as the domain does: on a backend that holds no lock, a refusal is planned again outside it."""
    commits.commit(store, plan, writes)


@contextmanager
def _interrupted(seconds: float) -> Iterator[None]:
    """The block, until Ctrl-C after so many seconds, if it lasts that long."""

    awaited = [True]

    def interrupt(*_: object) -> None:
        if awaited:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        awaited.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def _body(reader: Reader, record: Record) -> bytes:
    found = only(reader, record)
    assert found is not None
    return found.body


def _one_more(reader: Reader) -> Sequence[Write]:
    present = only(reader, agent("counter"))
    assert present is not None
    return [Put(agent("counter", b"%d" % (int(present.body) + 1)), over=present.digest)]
