"""Many writers at once, in processes or in threads, as the backend says it is shared."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
from concurrent.futures import ThreadPoolExecutor

from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.model import Message
from holdfast.testing.driving import texts
from holdfast.testing.opening import StoreKit
from holdfast.testing.writer import COMMAND, GO, Job, write

WRITERS = 8
APPENDS = 200
LONG_S = 300


class SharingTests(StoreKit):
    """Crowds at one session, and at the door of a store that is not there yet."""

    def test_eight_writers_lose_nothing_and_leave_no_gap(self, store: RecordStore, namespace: str) -> None:
        Holdfast(store).sessions.create(id="s")
        write_together(self, store, namespace, APPENDS)
        found = list(Holdfast(store).sessions.messages("s"))
        assert [message.seq for message in found] == list(range(1, WRITERS * APPENDS + 1))
        for writer in range(WRITERS):
            mine = [message.text for message in found if message.text.startswith(f"writer {writer} ")]
            assert mine == [f"writer {writer} message {number}" for number in range(APPENDS)]
        assert Holdfast(store).verify().problems == []

    def test_threads_that_share_a_client_lose_nothing(self, store: RecordStore) -> None:
        hf = Holdfast(store)
        hf.sessions.create(id="s")
        said = [Message.user(str(number)) for number in range(200)]
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(lambda message: hf.sessions.append("s", message), said))
        found = list(hf.sessions.messages("s"))
        assert {message.id for message in found} == {message.id for message in said}
        assert [message.seq for message in found] == list(range(1, 201))

    def test_tasks_that_share_an_async_client_lose_nothing(self, store: RecordStore) -> None:
        said = [Message.user(str(number)) for number in range(200)]

        async def crowd() -> list[Message]:
            async with AsyncHoldfast(Holdfast(store)) as hf:
                await hf.sessions.create(id="s")
                await asyncio.gather(*(hf.sessions.append("s", message) for message in said))
                return [message async for message in hf.sessions.messages("s")]

        found = asyncio.run(crowd())
        assert {message.id for message in found} == {message.id for message in said}
        assert [message.seq for message in found] == list(range(1, 201))

    def test_eight_processes_may_open_a_fresh_store_at_once(self, namespace: str) -> None:
        errors = in_processes(self, namespace, appends=0)
        store = self.open(namespace)
        found = {session.id for session in Holdfast(store).sessions.list()}
        if store.sharing == "processes":
            assert errors == [""] * WRITERS
            assert found == {f"of writer {writer}" for writer in range(WRITERS)}
        assert all(error == "" or "Busy" in error for error in errors)
        store.close()

    def test_another_thread_sees_what_was_acknowledged(self, store: RecordStore) -> None:
        writer, reader = Holdfast(store), Holdfast(store)
        writer.sessions.create(id="s")
        with ThreadPoolExecutor(1) as pool:
            for number in range(20):
                writer.sessions.append("s", Message.user(str(number)))
                seen = pool.submit(texts, reader, "s").result()
                assert seen == [str(said) for said in range(number + 1)]


def write_together(kit: StoreKit, store: RecordStore, namespace: str, appends: int) -> None:
    """Let a crowd append to the session "s", each as far from the others as the store allows."""
    if store.sharing == "processes":
        assert in_processes(kit, namespace, appends) == [""] * WRITERS
        return
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda writer: write(store, writer, appends), range(WRITERS)))


def in_processes(kit: StoreKit, namespace: str, appends: int) -> list[str]:
    """Run a crowd of processes that all begin at one word; returns what each had to complain of."""
    jobs = [Job.of(kit, namespace, writer, appends) for writer in range(WRITERS)]
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as crowd:
        assert crowd.stdin is not None
        assert crowd.stdout is not None
        crowd.stdin.write(pickle.dumps(jobs))
        crowd.stdin.flush()
        assert crowd.stdout.readline() == b"ready\n"
        complaints: list[str] = pickle.loads(crowd.communicate(GO, timeout=LONG_S)[0])
        return complaints
