"""Executions: what tools did, in the order they were asked to, each ended once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.codec import digest
from holdfast.contracts import Put, RecordStore
from holdfast.errors import AlreadyExists, Conflict, HoldfastError, InvalidId, InvalidInput, NotFound
from holdfast.kinds import EXECUTIONS
from holdfast.model import Agent, Json, Message, ToolCall, ToolExecution, Usage
from holdfast.testing.driving import NOON, Again, Clock, Door, HoldfastKit, exact
from holdfast.testing.records import dump

SECRET = "the secret word is xyzzy"


class ExecutionKit(HoldfastKit):
    """Subclass it as `TestMyExecutions` and say how to `open` the store; never override a test."""

    # recording

    def test_an_execution_comes_back_as_it_was_recorded(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        given = ToolExecution(
            id="x",
            tool_name="book",
            arguments={"room": 7, "rate": 7.0, "note": "7", "none": None},
            message_id="m",
            call_id="c",
            status="success",
            result=[{"ok": True}],
            duration_ms=120,
            created_at=NOON,
        )
        recorded = hf.executions.record("s", given)
        assert recorded.session_id == "s"
        assert exact(again().executions.get("x")) == exact(recorded)
        assert exact(again().executions.record("s", given)) == exact(recorded)

    def test_a_started_execution_runs_until_it_is_finished(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        begun = hf.executions.start("s", "search", {"city": "Kyoto"}, message_id="m", call_id="c")
        assert (begun.status, begun.result, begun.duration_ms) == ("running", None, None)
        done = again().executions.finish(begun.id, {"found": 2}, duration_ms=40)
        assert (done.status, done.result, done.duration_ms, done.error) == ("success", {"found": 2}, 40, None)
        assert again().executions.list("s") == [done]

    def test_an_execution_can_fail(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        begun = hf.executions.start("s", "book")
        failed = hf.executions.fail(begun.id, "no rooms", duration_ms=5)
        assert (failed.status, failed.error, failed.result) == ("failed", "no rooms", None)
        assert again().executions.get(begun.id) == failed

    def test_an_execution_takes_from_its_start_to_its_end(self, hf: Holdfast, clock: Clock) -> None:
        hf.sessions.create(id="s")
        begun = hf.executions.start("s", "wait")
        clock.now = begun.created_at + timedelta(milliseconds=1499)
        assert hf.executions.finish(begun.id).duration_ms == 1500

    def test_arguments_that_are_no_json_are_kept_as_they_are(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        call = ToolCall.parse("c", "book", '{"room": 7')
        given: list[Json] = [call.arguments, '"7"', "7", 7, None, {}]
        for arguments in given:
            hf.executions.start("s", "book", arguments)
        found = [one.arguments for one in again().executions.list("s")]
        assert exact(found) == exact(given)
        assert given[0] == '{"room": 7'

    def test_a_pending_execution_is_set_running_once(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        hf.executions.record("s", ToolExecution(id="x", tool_name="book"))
        assert hf.executions.run("x").status == "running"
        assert hf.executions.run("x").status == "running"
        hf.executions.finish("x")
        assert hf.executions.run("x").status == "success"

    # ending twice

    def test_saying_the_end_again_is_fine(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        for id in ("good", "bad"):
            hf.executions.start("s", "book", id=id)
        good, bad = hf.executions.finish("good", 42), hf.executions.fail("bad", "why", duration_ms=7)
        hf = again()
        assert hf.executions.finish("good", 42) == good
        assert hf.executions.fail("bad", "why") == hf.executions.fail("bad", "why", duration_ms=7) == bad

    def test_saying_another_end_is_a_conflict(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        hf.executions.start("s", "book", id="x")
        done = hf.executions.finish("x", 42, duration_ms=7)
        others: list[Callable[[], object]] = [
            lambda: hf.executions.finish("x", 43),
            lambda: hf.executions.finish("x", 42.0),
            lambda: hf.executions.finish("x", 42, duration_ms=8),
            lambda: hf.executions.fail("x", "why"),
        ]
        for other in others:
            with pytest.raises(Conflict):
                other()
        assert again().executions.get("x") == done

    def test_starting_again_with_the_same_id_changes_nothing(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        begun = hf.executions.start("s", "book", {"room": 7}, id="x")
        assert hf.executions.start("s", "book", {"room": 7}, id="x") == begun
        done = hf.executions.finish("x", "ok")
        assert hf.executions.start("s", "book", {"room": 7}, id="x") == done
        with pytest.raises(AlreadyExists):
            hf.executions.start("s", "book", {"room": 8}, id="x")

    def test_an_id_is_one_execution_in_all_sessions(self, hf: Holdfast) -> None:
        for id in ("s", "t"):
            hf.sessions.create(id=id)
        hf.executions.start("s", "book", id="x")
        with pytest.raises(AlreadyExists):
            hf.executions.start("t", "book", id="x")

    # order

    def test_executions_are_listed_as_they_were_recorded_whatever_their_clock(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        for number in (3, 1, 2):
            at = NOON + timedelta(days=number)
            hf.executions.record("s", ToolExecution(id=str(number), tool_name="t", created_at=at))
        hf.executions.finish("3")
        assert [one.id for one in again().executions.list("s")] == ["3", "1", "2"]

    def test_executions_are_listed_by_message(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        for id, message_id in (("1", "m"), ("2", "n"), ("3", "m"), ("4", None)):
            hf.executions.start("s", "t", id=id, message_id=message_id)
        hf = again()
        assert [one.id for one in hf.executions.list("s", message_id="m")] == ["1", "3"]
        assert hf.executions.list("s", message_id="none") == []

    def test_executions_of_many_writers_are_all_there(self, hf: Holdfast, door: Door) -> None:
        hf.sessions.create(id="s")

        def work(writer: int) -> None:
            mine = Holdfast(door.store)
            for number in range(10):
                mine.executions.finish(mine.executions.start("s", "t", id=f"{writer}-{number}").id, number)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        found = [one.id for one in door.reopen().executions.list("s")]
        assert sorted(found) == sorted(f"{writer}-{number}" for writer in range(4) for number in range(10))
        for writer in range(4):
            assert [id for id in found if id.startswith(f"{writer}-")] == [f"{writer}-{n}" for n in range(10)]

    def test_what_is_not_there_is_none_nothing_or_not_found(self, hf: Holdfast) -> None:
        assert hf.executions.get("none") is None
        assert hf.executions.list("none") == []
        calls: list[Callable[[], object]] = [
            lambda: hf.executions.start("none", "t"),
            lambda: hf.executions.finish("none"),
            lambda: hf.executions.fail("none", "why"),
            lambda: hf.executions.run("none"),
        ]
        for call in calls:
            with pytest.raises(NotFound):
                call()

    @pytest.mark.parametrize(
        ("given", "error"),
        [
            ({"tool_name": 5}, InvalidInput),
            ({"arguments": float("nan")}, InvalidInput),
            ({"arguments": {1: 2}}, InvalidInput),
            ({"result": {"x": object()}}, InvalidInput),
            ({"status": "done"}, InvalidInput),
            ({"duration_ms": -1}, InvalidInput),
            ({"duration_ms": 1.5}, InvalidInput),
            ({"id": ""}, InvalidId),
            ({"message_id": ""}, InvalidId),
            ({"created_at": NOON.replace(tzinfo=None)}, InvalidInput),
            ({"session_id": "another"}, InvalidInput),
        ],
    )
    def test_an_execution_that_cannot_be_kept_is_refused(
        self, hf: Holdfast, store: RecordStore, given: dict[str, Any], error: type[HoldfastError]
    ) -> None:
        hf.sessions.create(id="s")
        before = dump(store)
        with pytest.raises(error):
            hf.executions.record("s", ToolExecution(**{"tool_name": "t", **given}))
        assert dump(store) == before

    # going

    @pytest.mark.parametrize("how", ["session", "user", "agent"])
    def test_executions_and_uses_go_with_their_session(self, hf: Holdfast, store: RecordStore, how: str) -> None:
        hf.sessions.create(id="kept")
        hf.executions.start("kept", "t")
        before = dump(store)
        hf.agents.save(Agent(id="a", name=""))
        hf.sessions.create(id="gone", agent_id="a", user_id="u")
        for number in range(250):
            hf.executions.start("gone", "t", id=str(number))
        hf.usage.record("gone", Usage(input=1))
        if how == "session":
            hf.sessions.delete("gone")
        elif how == "user":
            hf.sessions.delete(user_id="u")
        hf.agents.delete("a")
        assert hf.executions.get("7") is None
        assert dump(store) == before

    def test_a_session_that_takes_the_id_of_a_deleted_one_begins_with_none(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        hf.executions.start("s", "t", id="x")
        hf.sessions.delete("s")
        hf.sessions.create(id="s")
        assert (hf.executions.list("s"), hf.executions.get("x")) == ([], None)
        with pytest.raises(NotFound):
            hf.executions.finish("x")

    def test_an_execution_of_a_session_that_another_deleted_is_not_found(self, hf: Holdfast, door: Door) -> None:
        hf.sessions.create(id="s")
        hf.executions.start("s", "t", id="x")
        Holdfast(door.store).sessions.delete("s")
        with pytest.raises(NotFound):
            hf.executions.finish("x")

    def test_nothing_is_added_to_a_detached_session(self, hf: Holdfast) -> None:
        hf.agents.save(Agent(id="a", name=""))
        point = hf.checkpoints.create("a")
        hf.sessions.create(id="s", agent_id="a")
        begun = hf.executions.start("s", "t")
        hf.checkpoints.restore(point.id)
        with pytest.raises(Conflict):
            hf.executions.start("s", "t")
        with pytest.raises(Conflict):
            hf.usage.record("s", Usage(input=1))
        assert hf.executions.finish(begun.id).status == "success"

    # redacting

    def test_redacting_a_message_empties_its_executions(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s", title="t")
        calls = [ToolCall(id="c1", name="book", arguments={"x": SECRET})]
        asked, result = hf.sessions.append(
            "s", Message.assistant(tool_calls=calls), Message.tool_result("c1", SECRET, tool_name="book")
        )
        begun = hf.executions.start("s", "book", {"x": SECRET}, message_id=asked.id, call_id="c1")
        other = hf.executions.start("s", "book", {"x": "kept"}, message_id="another", call_id="c1")
        done = hf.executions.finish(begun.id, SECRET, duration_ms=7)
        for one in (result, asked):
            hf.sessions.redact("s", one.id, "asked to")
        found = hf.executions.get(begun.id)
        assert found is not None
        assert (found.status, found.call_id, found.created_at) == ("success", "c1", done.created_at)
        assert found.redacted is not None
        assert hf.executions.get(other.id) == other
        assert not [record for record in dump(store) if b"xyzzy" in record.body]

    def test_redacting_a_result_alone_empties_the_execution_behind_it(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s", title="t")
        calls = [ToolCall(id="c1", name="book")]
        asked, result = hf.sessions.append(
            "s", Message.assistant(tool_calls=calls), Message.tool_result("c1", SECRET, tool_name="book")
        )
        hf.executions.finish(hf.executions.start("s", "b", message_id=asked.id, call_id="c1").id, SECRET)
        hf.executions.finish(hf.executions.start("s", "b", call_id="c1").id, SECRET)
        hf.sessions.redact("s", result.id, "asked to")
        assert not [record for record in dump(store) if b"xyzzy" in record.body]

    # damage

    def test_damage_to_an_execution_or_a_use_is_found_and_named(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        hf.executions.start("s", "t", message_id="m")
        hf.usage.record("s", Usage(input=1))
        sound = [record for record in dump(store) if record.kind.name in ("executions", "extra_usages")]
        for record in sound:
            renamed = replace(record, fields=("another", *record.fields[1:]))
            for damaged in (replace(record, body=record.body[:-1]), replace(record, body=b"{}"), renamed):
                store.commit([Put(damaged)])
                assert (record.kind.name, record.key) in [(one.kind, one.key) for one in hf.verify().problems]
            store.commit([Put(record)])
        assert hf.verify().ok

    def test_fields_of_a_later_version_survive_the_end(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="s")
        hf.executions.start("s", "t", id="x")
        (record,) = [record for record in dump(store) if record.kind is EXECUTIONS]
        body = record.body[:-1] + b',"zeta":[1]}'
        store.commit([Put(replace(record, body=body, digest=digest(body)))])
        hf.executions.finish("x", 1)
        (found,) = [record for record in dump(store) if record.kind is EXECUTIONS]
        assert b'"zeta":[1]' in found.body
