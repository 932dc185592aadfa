"""The promises of Holdfast itself, on whatever backend: agents, sessions, messages, and the store as a whole."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.contracts import Delete, Put, Record, RecordStore
from holdfast.kinds import MESSAGES
from holdfast.model import Agent, Image, Message, Session, Usage
from holdfast.testing.domain_agents import AgentTests
from holdfast.testing.domain_branches import BranchTests
from holdfast.testing.domain_deletes import DeleteTests
from holdfast.testing.domain_lists import ListTests
from holdfast.testing.domain_messages import MessageTests
from holdfast.testing.domain_saves import SaveTests
from holdfast.testing.domain_sessions import SessionTests
from holdfast.testing.domain_transcripts import TranscriptTests
from holdfast.testing.driving import Again, texts, users
from holdfast.testing.opening import new_namespace
from holdfast.testing.records import dump
from holdfast.testing.sharing import SharingTests

SAFE_IDS = (
    "../../etc/x",
    "a/b",
    "a.json",
    "CON",
    "A",
    "a",
    "😀",
    "x" * 255,
    "中" * 255,
    " a ",
    "é",
    "e\u0301",
    "%_'\"",
)


class DomainKit(
    SessionTests,
    SaveTests,
    ListTests,
    MessageTests,
    TranscriptTests,
    BranchTests,
    AgentTests,
    DeleteTests,
    SharingTests,
):
    """Subclass it as `TestMyDomain` and say how to `open` the store; never override a test."""

    # ids

    def test_any_id_is_stored_and_listed_exactly(self, hf: Holdfast, again: Again) -> None:
        for id in SAFE_IDS:
            hf.sessions.create(id=id, agent_id=id, user_id=id)
            hf.sessions.append(id, Message.user(f"in {id}", id=id))
            hf.agents.save(Agent(id=id, name=id))
        hf = again()
        assert [session.id for session in hf.sessions.list()] == list(reversed(SAFE_IDS))
        assert [agent.id for agent in hf.agents.list()] == sorted(SAFE_IDS)
        assert [texts(hf, id) for id in SAFE_IDS] == [[f"in {id}"] for id in SAFE_IDS]

    @pytest.mark.parametrize("id", SAFE_IDS)
    def test_deleting_by_any_id_takes_nothing_else(self, hf: Holdfast, again: Again, id: str) -> None:
        for other in SAFE_IDS:
            hf.sessions.create(id=other, user_id=other)
            hf.agents.save(Agent(id=other, name=""))
        hf.agents.delete(id)
        hf.sessions.delete(id)
        left = {other for other in SAFE_IDS if other != id}
        hf = again()
        assert {session.id for session in hf.sessions.list()} == left
        assert {agent.id for agent in hf.agents.list()} == left

    # titles

    @pytest.mark.parametrize(
        ("said", "title"),
        [
            ("Find a ryokan", "Find a ryokan"),
            ("x" * 50, "x" * 50),
            ("x" * 51, "x" * 47 + "..."),
            ("京都で静かな旅館を三泊探してください", "京都で静かな旅館を三泊探してください"),
            ("京" * 51, "京" * 47 + "..."),
            ("😀" * 51, "😀" * 47 + "..."),
        ],
    )
    def test_the_first_user_message_names_a_session(self, hf: Holdfast, again: Again, said: str, title: str) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.system("be kind"), *users(said, "and more"))
        hf.sessions.append("s", *users("and more"))
        assert _get(again(), "s").title == title

    def test_a_title_is_never_overwritten(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="given", title="Given")
        hf.sessions.create(id="set")
        hf.sessions.update("set", title="Set")
        for id in ("given", "set"):
            hf.sessions.append(id, *users("hello"))
        hf = again()
        assert (_get(hf, "given").title, _get(hf, "set").title) == ("Given", "Set")

    def test_nothing_else_names_a_session(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.system("be kind"), Message.assistant("hello"))
        hf.sessions.append("s", Message.user(Image(url="https://example.com/a.png")))
        assert _get(again(), "s").title is None

    # the store as a whole

    def test_stats_count_what_is_there(self, hf: Holdfast, store: RecordStore) -> None:
        hf.agents.save(Agent(id="a", name=""))
        hf.agents.save(Agent(id="a", name="again"))
        hf.sessions.create(id="s")
        hf.sessions.append("s", *users("one", "two"))
        found = hf.stats()
        assert (found.agents, found.sessions, found.messages) == (1, 1, 2)
        assert found.bytes == sum(len(record.body) for record in dump(store))

    def test_tenants_are_apart(self, hf: Holdfast) -> None:
        other = Holdfast(self.open(new_namespace()))
        for one, name in ((hf, "mine"), (other, "theirs")):
            one.sessions.create(id="s", title=name)
            one.sessions.append("s", Message.user(name, id="m"))
            one.agents.save(Agent(id="a", name=name))
        assert (texts(hf, "s"), texts(other, "s")) == (["mine"], ["theirs"])
        other.sessions.delete("s")
        other.agents.delete("a")
        assert [texts(hf, "s"), other.stats().bytes] == [["mine"], 0]
        other.close()

    def test_a_healthy_store_says_so(self, hf: Holdfast) -> None:
        _some_of_everything(hf)
        assert hf.health().problems == ()
        assert hf.verify().ok

    def test_a_verification_says_how_far_it_is(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        for _ in range(2):
            hf.sessions.append("s", *users(*map(str, range(600))))
        told: list[tuple[int, int]] = []
        checked = hf.verify(progress=lambda done, total: told.append((done, total))).checked
        assert [done for done, _ in told] == [500, 1_000]
        assert {total for _, total in told} == {checked}

    def test_gc_takes_nothing_that_is_in_use(self, hf: Holdfast, store: RecordStore) -> None:
        _some_of_everything(hf)
        before = dump(store)
        hf.gc()
        assert dump(store) == before

    # damage

    def test_a_flipped_byte_in_any_record_is_found_and_named(self, hf: Holdfast, store: RecordStore) -> None:
        _some_of_everything(hf)
        for record in dump(store):
            for at in (0, len(record.body) // 2, -1):
                body = bytearray(record.body)
                body[at] ^= 1
                store.commit([Put(replace(record, body=bytes(body)))])
                found = [(problem.kind, problem.key) for problem in hf.verify().problems]
                assert (record.kind.name, record.key) in found
            store.commit([Put(record)])

    def test_a_message_that_is_missing_is_found(self, hf: Holdfast, store: RecordStore) -> None:
        _some_of_everything(hf)
        second = next(record for record in dump(store) if record.kind is MESSAGES and record.key[2] == 2)
        store.commit([_delete(second)])
        assert not hf.verify().ok
        store.commit([Put(second)])
        assert hf.verify().ok

    def test_messages_that_changed_places_are_found(self, hf: Holdfast, store: RecordStore) -> None:
        _some_of_everything(hf)
        first, second = [record for record in dump(store) if record.kind is MESSAGES][:2]
        for places in ((second.key, first.key), (first.key, second.key)):
            store.commit([_delete(first), _delete(second)])
            store.commit([Put(replace(first, key=places[0])), Put(replace(second, key=places[1]))])
            assert hf.verify().ok == (places[0] == first.key)


def _get(hf: Holdfast, session_id: str) -> Session:
    found = hf.sessions.get(session_id)
    assert found is not None
    return found


def _delete(record: Record) -> Delete:
    return Delete(record.kind, record.key)


def _some_of_everything(hf: Holdfast) -> None:
    hf.agents.save(Agent(id="scout", name="Scout", state={"n": 1}))
    hf.agents.set_state("scout", "n", 2)
    hf.sessions.create(id="s", agent_id="scout", user_id="ann")
    first, *_ = hf.sessions.append("s", Message.user("one", usage=Usage(input=1)), *users("two", "three"))
    hf.sessions.append("s", *users("other"), parent=first.id)
    hf.sessions.fork("s", id="f")
    hf.embeddings.upsert("v", [1.0, 0.5], session_id="s", model="m", metadata={"n": 1})
