"""Commits that an event loop does by itself while they take moments, and hands to a thread when they would not."""

from __future__ import annotations

import asyncio
import gc
import math
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import holdfast
from holdfast import (
    Agent,
    AlreadyExists,
    BackendError,
    Busy,
    HoldfastError,
    InvalidInput,
    Message,
    NotFound,
    bridge,
    keeping,
)
from holdfast.aio import AsyncHoldfast
from holdfast.backends import sqlite
from holdfast.backends.memory import MemoryStore
from holdfast.backends.sqlite import SqliteStore
from holdfast.client import Holdfast
from holdfast.contracts import Insert, Moved, Planned, Query, Reader, Rebase, Require, Write
from holdfast.deadlines import remaining
from holdfast.kinds import MESSAGES
from holdfast.model import Checkpoint
from holdfast.testing.records import dump, message, session

LONG_S = 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """A store on a disk that is never slow, and which knows that."""
    monkeypatch.setattr(sqlite, "MOMENT_S", math.inf)
    with closing(SqliteStore(str(path))) as opened:
        opened.submit([Planned([], None, time.monotonic() + LONG_S)])[0].result(LONG_S)
        yield opened


def _plan(name: str) -> Planned:
    return Planned([Insert(session(name))], None, time.monotonic() + LONG_S)


def _names(store: SqliteStore) -> list[str]:
    return [str(one.key[0]) for one in dump(store)]


def test_a_commit_is_done_at_once_on_the_callers_thread(store: SqliteStore) -> None:
    threads = []

    def plan(_: Reader) -> list[Write]:
        threads.append(threading.current_thread())
        return [Insert(session("planned"))]

    planned = Planned(None, plan, time.monotonic() + LONG_S)
    assert store.commit_at_once([_plan("a"), planned]) == [None, None]
    assert threads == [threading.current_thread()]
    assert _names(store) == ["a", "planned"]


def test_after_a_slow_sync_nothing_is_done_at_once(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "MOMENT_S", 0.0)
    store.submit([_plan("slow")])[0].result(LONG_S)
    assert store.commit_at_once([_plan("a")]) is None
    assert _names(store) == ["slow"]


def test_a_lock_of_another_store_is_not_waited_for(store: SqliteStore, path: Path) -> None:
    refused = []

    def plan(_: Reader) -> list[Write]:
        refused.append(store.commit_at_once([_plan("a")]))
        return []

    with closing(SqliteStore(str(path))) as other:
        other.commit(None, plan)
    assert refused == [None]
    assert _names(store) == []


def test_a_lock_of_another_program_is_not_waited_for(store: SqliteStore, path: Path) -> None:
    with closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        assert store.commit_at_once([_plan("a")]) is None
        other.execute("ROLLBACK")
    assert store.commit_at_once([_plan("b")]) == [None]
    assert _names(store) == ["b"]


def test_a_closed_store_says_so(store: SqliteStore) -> None:
    store.close()
    with pytest.raises(BackendError, match="closed"):
        store.commit_at_once([_plan("a")])


# through the client


def _run(store: SqliteStore, use: Callable[[AsyncHoldfast], Awaitable[None]]) -> None:
    async def main() -> None:
        await use(AsyncHoldfast(Holdfast(store)))

    asyncio.run(main())


def _texts(store: SqliteStore, session_id: str) -> list[str]:
    return [one.text for one in Holdfast(store).sessions.messages(session_id)]


def test_what_tasks_append_in_one_turn_of_the_loop_is_one_transaction(store: SqliteStore) -> None:
    async def use(hf: AsyncHoldfast) -> None:
        names = [(await hf.sessions.create(title="t")).id for _ in range(8)]
        for name in names:
            await hf.sessions.append(name, Message.user("first"))
        before = _commits(store)
        await asyncio.gather(*(hf.sessions.append(name, Message.user("second")) for name in names))
        assert _commits(store) == before + 1
        assert [_texts(store, name) for name in names] == [["first", "second"]] * 8

    _run(store, use)


def test_checkpoints_that_tasks_make_in_one_turn_of_the_loop_are_one_transaction(store: SqliteStore) -> None:
    async def use(hf: AsyncHoldfast) -> None:
        names = [(await hf.sessions.create(title="t")).id for _ in range(8)]
        for name in names:
            await hf.checkpoints.create(session_id=name, messages=[Message.user("first")], step=1)
        before = _commits(store)
        made = await asyncio.gather(
            *(hf.checkpoints.create(session_id=name, messages=[Message.user("second")], step=2) for name in names)
        )
        assert _commits(store) == before + 1
        assert [_texts(store, name) for name in names] == [["first", "second"]] * 8
        assert [await hf.checkpoints.get(one.id) for one in made] == made

    _run(store, use)
    assert Holdfast(store).verify().problems == []


def test_tasks_that_checkpoint_one_session_at_once_are_placed_behind_each_other(store: SqliteStore) -> None:
    async def use(hf: AsyncHoldfast) -> None:
        await hf.sessions.create(id="s", title="t")
        keep = [hf.checkpoints.create(session_id="s", messages=[Message.user(f"{n}")], step=n % 3) for n in range(6)]
        made = await asyncio.gather(*keep, return_exceptions=True)
        refused = [one for one in made if isinstance(one, AlreadyExists)]
        kept = sorted((one for one in made if isinstance(one, Checkpoint)), key=lambda one: one.created_at)
        assert len(refused) == len(kept) == 3
        assert [one.parent_id for one in kept[1:]] == [one.id for one in kept[:-1]]
        assert sorted(_texts(store, "s")) == [text for text, one in zip("012345", made, strict=True) if one in kept]

    _run(store, use)
    assert Holdfast(store).verify().problems == []


def test_checkpoints_that_take_more_than_one_commit_hold_no_loop(store: SqliteStore) -> None:
    async def use(hf: AsyncHoldfast) -> None:
        await hf.agents.save(Agent(id="a", name="a"))
        await hf.sessions.create(id="s", agent_id="a", title="t")
        large = Message.user("x" * 300_000)
        of_session = await hf.checkpoints.create(session_id="s", messages=[large])
        assert of_session.head is not None
        assert of_session.head.seq == 1
        of_agent = await hf.checkpoints.create("a")
        assert await hf.checkpoints.get(of_agent.id) == of_agent
        with pytest.raises(NotFound):
            await hf.checkpoints.create("nobody")
        with pytest.raises(InvalidInput, match="session_id"):
            await hf.checkpoints.create("a", messages=[large])

    _run(store, use)
    assert Holdfast(store).verify().problems == []


@pytest.mark.parametrize(("limit", "others_had_a_turn"), [(math.inf, False), (0.0, True)])
def test_one_task_that_appends_again_keeps_the_loop_for_moments_only(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, limit: float, others_had_a_turn: bool
) -> None:
    monkeypatch.setattr(bridge, "ALONE_S", limit)

    async def use(hf: AsyncHoldfast) -> None:
        await hf.sessions.create(id="s", title="t")
        for text in ("one", "two", "three"):
            before, turned = text != "one", asyncio.Event()
            asyncio.get_running_loop().call_soon(turned.set)
            await hf.sessions.append("s", Message.user(text))
            assert turned.is_set() is (others_had_a_turn or not before)
        assert _texts(store, "s") == ["one", "two", "three"]

    _run(store, use)


def _commits(store: SqliteStore) -> int:
    """How often the file has changed, as another connection of the same store sees it."""
    with store.reading() as reader:
        return int(reader.con.pragma("data_version"))


def test_an_append_that_is_cancelled_before_its_turn_is_not_done(store: SqliteStore) -> None:
    async def use(hf: AsyncHoldfast) -> None:
        await hf.sessions.create(id="s", title="t")
        kept = asyncio.create_task(hf.sessions.append("s", Message.user("kept")))
        gone = asyncio.create_task(hf.sessions.append("s", Message.user("gone")))
        await asyncio.sleep(0)
        gone.cancel()
        await kept
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert _texts(store, "s") == ["kept"]

    _run(store, use)


def test_a_task_that_was_cancelled_may_say_so(store: SqliteStore) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        try:
            await asyncio.sleep(LONG_S)
        finally:
            await hf.sessions.append("s", Message.user("interrupted"))

    async def use(hf: AsyncHoldfast) -> None:
        await hf.sessions.create(id="s", title="t")
        working = asyncio.create_task(work(hf))
        await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert _texts(store, "s") == ["interrupted"]

    _run(store, use)


@pytest.mark.parametrize("moment", [0.0, math.inf])
def test_an_append_that_is_cancelled_is_answered_whenever_that_happens(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, moment: float
) -> None:
    monkeypatch.setattr(sqlite, "MOMENT_S", moment)

    async def use(hf: AsyncHoldfast) -> None:
        await hf.sessions.create(id="s", title="t")
        for turns in range(6):
            saying = [asyncio.create_task(hf.sessions.append("s", Message.user(f"{turns} {n}"))) for n in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
            saying[1].cancel()
            said = await asyncio.wait_for(asyncio.gather(*saying, return_exceptions=True), LONG_S)
            kept = [f"{turns} {n}" for n in (0, 2)]
            assert [one[0].text for one in (said[0], said[2])] == kept  # type: ignore[index]
            texts = [text for text in _texts(store, "s") if text.startswith(f"{turns} ")]
            assert [text for text in texts if text != f"{turns} 1"] == kept
            assert isinstance(said[1], asyncio.CancelledError) or f"{turns} 1" in texts

    _run(store, use)
    assert Holdfast(store).verify().problems == []


def test_an_append_that_is_given_up_while_it_queues_is_not_done(store: SqliteStore, path: Path) -> None:
    async def use(hf: AsyncHoldfast) -> None:
        await hf.sessions.create(id="s", title="t")
        with closing(apsw.Connection(str(path))) as other:
            other.execute("BEGIN IMMEDIATE")
            slow = asyncio.create_task(hf.sessions.append("s", Message.user("slow")))
            await asyncio.sleep(0.05)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await hf.sessions.append("s", Message.user("given up"))
            other.execute("ROLLBACK")
        await slow
        await hf.sessions.append("s", Message.user("next"))
        assert _texts(store, "s") == ["slow", "next"]

    _run(store, use)


def test_a_task_that_takes_its_cancelling_back_is_answered(store: SqliteStore) -> None:
    async def use(hf: AsyncHoldfast) -> None:
        await hf.sessions.create(id="s", title="t")
        saying = asyncio.create_task(hf.sessions.append("s", Message.user("hello")))
        await asyncio.sleep(0)
        saying.cancel()
        saying.uncancel()
        await asyncio.wait_for(asyncio.wait([saying]), LONG_S)
        assert saying.done()

    _run(store, use)


def test_a_client_serves_one_loop_after_another(store: SqliteStore) -> None:
    hf = AsyncHoldfast(Holdfast(store))

    async def say(text: str) -> None:
        await hf.sessions.append("s", Message.user(text))

    Holdfast(store).sessions.create(id="s", title="t")
    for text in ("one", "two"):
        asyncio.run(say(text))
    assert _texts(store, "s") == ["one", "two"]


@pytest.mark.parametrize("moment", [0.0, math.inf])
def test_agents_get_all_they_said_in_order(store: SqliteStore, monkeypatch: pytest.MonkeyPatch, moment: float) -> None:
    monkeypatch.setattr(sqlite, "MOMENT_S", moment)

    async def use(hf: AsyncHoldfast) -> None:
        await hf.sessions.create(id="shared", title="t")

        async def agent(number: int) -> None:
            await hf.sessions.create(id=f"a{number}", title="t")
            for n in range(20):
                await hf.sessions.append(f"a{number}", Message.user(f"{n}"))
                await hf.sessions.append("shared", Message.user(f"{number}"))

        await asyncio.gather(*map(agent, range(10)))
        assert [_texts(store, f"a{number}") for number in range(10)] == [[f"{n}" for n in range(20)]] * 10
        assert sorted(_texts(store, "shared")) == sorted(f"{number}" for number in range(10) for _ in range(20))

    _run(store, use)
    assert Holdfast(store).verify().problems == []


# what must not keep anybody waiting


@pytest.mark.parametrize("scheme", ["sqlite", "file"])
@pytest.mark.parametrize("options", [{"read_only": True}, {}])
def test_every_append_to_a_store_that_takes_none_is_refused(tmp_path: Path, scheme: str, options: Any) -> None:
    url = f"{scheme}:///{tmp_path}/agents"
    with holdfast.open(url) as hf:
        hf.sessions.create(id="s", title="t")
    sync = holdfast.open(url, **options)
    if not options:
        sync.close()

    async def main() -> None:
        hf = AsyncHoldfast(sync)
        for _ in range(3):
            with pytest.raises(HoldfastError):
                await asyncio.wait_for(hf.sessions.append("s", Message.user("no")), LONG_S)

    asyncio.run(main())
    sync.close()


def test_an_append_that_was_refused_is_not_kept_in_memory(store: SqliteStore) -> None:
    refused = weakref.WeakSet[NotFound]()

    async def use(hf: AsyncHoldfast) -> None:
        for _ in range(50):
            try:
                await hf.sessions.append("nobody", Message.user("hello"))
            except NotFound as cause:
                refused.add(cause)

    _run(store, use)
    gc.collect()
    assert len(refused) <= 1


def test_a_store_that_is_closed_while_tasks_append_answers_them_all(path: Path) -> None:
    for _ in range(20):
        sync = holdfast.open(f"sqlite:///{path}")
        if sync.sessions.get("s") is None:
            sync.sessions.create(id="s", title="t")
        assert asyncio.run(_append_and_close(sync)) > 0


async def _append_and_close(sync: Holdfast) -> int:
    """How many appends were answered, each by its messages or by an error of ours."""
    hf, closing = AsyncHoldfast(sync), asyncio.Event()

    async def agent() -> int:
        for number in range(200):
            try:
                await hf.sessions.append("s", Message.user("hello"))
            except BackendError:
                return number + 1
            if number == 3:
                closing.set()
        return 200

    agents = [asyncio.create_task(agent()) for _ in range(8)]
    await closing.wait()
    await hf.close()
    return sum(await asyncio.wait_for(asyncio.gather(*agents), LONG_S))


def test_nobody_can_take_a_submitted_commit_back(store: SqliteStore) -> None:
    assert store.submit([_plan("a")])[0].cancel() is False
    store.submit([_plan("b")])[0].result(LONG_S)
    assert _names(store) == ["a", "b"]


def test_more_than_an_event_loop_should_do_at_once_is_left_to_a_thread(store: SqliteStore) -> None:
    assert store.commit_at_once([_plan(f"{n}") for n in range(sqlite.MOST_AT_ONCE + 1)]) is None
    assert _names(store) == []


def test_a_fault_of_one_plan_leaves_its_neighbours(store: SqliteStore) -> None:
    def fails(_: Reader) -> list[Write]:
        raise ValueError("a fault")

    refusals = store.commit_at_once([_plan("a"), Planned(None, fails, time.monotonic() + LONG_S), _plan("z")])
    assert refusals is not None
    assert [type(refusal) for refusal in refusals] == [type(None), ValueError, type(None)]
    assert _names(store) == ["a", "z"]


def test_an_append_behind_a_slow_batch_is_busy_at_its_own_limit(store: SqliteStore, path: Path) -> None:
    async def use(hf: AsyncHoldfast) -> None:
        await hf.sessions.create(id="s", title="t")
        with closing(apsw.Connection(str(path))) as other:
            other.execute("BEGIN IMMEDIATE")
            slow = asyncio.create_task(hf.sessions.append("s", Message.user("slow"), timeout=LONG_S))
            await asyncio.sleep(0.05)
            with pytest.raises(Busy):
                await hf.sessions.append("s", Message.user("never"), timeout=0.1)
            assert not slow.done()
            other.execute("ROLLBACK")
        await slow
        assert _texts(store, "s") == ["slow"]

    _run(store, use)


def test_a_refused_condition_leaves_no_transaction_open(store: SqliteStore) -> None:
    store.commit([Insert(message("h", 1, 1))])
    with pytest.raises(Moved):
        store.commit([Require(MESSAGES, ("h", 1, 2), b"x" * 32)])
    assert store._con.txn_state() == apsw.SQLITE_TXN_NONE
    store.scrub()


def test_what_a_namespace_holds_is_counted_without_reading_the_others(store: SqliteStore) -> None:
    table = store._layout[MESSAGES.name]
    asked: list[str] = []

    def note(_cursor: object, statement: str, _values: object) -> bool:
        asked.append(statement)
        return True

    with store.reading() as reader:
        reader.con.exec_trace = note
        table.count(reader.con, Query(kind=MESSAGES))
        table.size(reader.con)
        reader.con.exec_trace = None
        for statement in asked:
            plan = reader.con.execute(f"EXPLAIN QUERY PLAN {statement}", (store.space, MESSAGES.name)).fetchall()
            assert any("SEARCH messages USING INTEGER PRIMARY KEY" in str(step[3]) for step in plan)


class Slow(SqliteStore):
    """Syncs when it is told to."""

    def __init__(self, path: str) -> None:
        self.syncs = threading.Semaphore(1)
        super().__init__(path)

    def _sync(self) -> None:
        assert self.syncs.acquire(timeout=LONG_S)
        super()._sync()


def test_an_append_that_has_begun_is_not_told_that_nothing_was_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MOMENT_S", 0.0)
    with closing(Slow(str(path))) as slow:
        slow.syncs.release()
        Holdfast(slow).sessions.create(id="s", title="t")

        async def use(hf: AsyncHoldfast) -> None:
            first = asyncio.create_task(hf.sessions.append("s", Message.user("first")))
            await asyncio.sleep(0.05)
            second = asyncio.create_task(hf.sessions.append("s", Message.user("second"), timeout=0.4))
            await asyncio.sleep(0.05)
            slow.syncs.release()
            await first
            await asyncio.sleep(0.5)
            slow.syncs.release(10)
            await second
            assert _texts(slow, "s") == ["first", "second"]

        _run(slow, use)


# limits, forks and threads


@pytest.mark.parametrize("timeout", [None, 120.0])
def test_a_checkpoint_of_an_agent_may_take_as_long_as_it_says(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, timeout: float | None
) -> None:
    left = []
    monkeypatch.setattr(keeping, "settle", lambda *_: left.append(remaining()))
    hf = Holdfast(store, timeout=300.0)
    hf.agents.save(Agent(id="a", name="a"))
    hf.checkpoints.create("a", timeout=timeout)
    asyncio.run(AsyncHoldfast(hf).checkpoints.create("a", timeout=timeout))
    assert len(left) == 2
    assert all((timeout or 300.0) - LONG_S < one <= (timeout or 300.0) for one in left)


def test_where_the_store_has_another_limit_than_usual_a_commit_keeps_to_it() -> None:
    seen = []

    class Watched(MemoryStore):
        def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
            seen.append(remaining())
            return super().commit(writes, rebase)

    hf = Holdfast(Watched(), timeout=1.0)
    hf.sessions.create(id="s", title="t")
    hf.sessions.append("s", Message.user("x"))
    hf.checkpoints.create(session_id="s")
    assert max(seen) <= 1.0


FORKED = """
import asyncio, os, sys, holdfast

async def begin():
    hf = await holdfast.aopen(f"sqlite:///{sys.argv[1]}")
    await asyncio.gather(*(hf.sessions.get("s") for _ in range(8)))
    return hf

async def ask(hf):
    for asked in (hf.sessions.get("s"), hf.sessions.append("s", holdfast.Message.user("x"))):
        try:
            await asked
        except holdfast.BackendError as error:
            assert "open it again in the child" in str(error)
        else:
            raise AssertionError

hf = asyncio.run(begin())
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
asyncio.run(ask(hf))
os._exit(7)
"""


def test_a_forked_child_is_told_so_and_does_not_wait(path: Path) -> None:
    told = subprocess.run([sys.executable, "-c", FORKED, str(path)], timeout=10 * LONG_S, check=False)
    assert told.returncode == 7


def test_loops_of_several_threads_may_share_a_client(store: SqliteStore) -> None:
    hf, before = AsyncHoldfast(Holdfast(store)), sys.getswitchinterval()
    Holdfast(store).sessions.create(id="s", title="t")

    async def say(text: str) -> None:
        await hf.sessions.append("s", Message.user(text))

    def talk(thread: int) -> None:
        for number in range(10):
            asyncio.run(say(f"{thread} {number}"))

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(talk, range(8)))
    finally:
        sys.setswitchinterval(before)
    assert len(_texts(store, "s")) == 80
