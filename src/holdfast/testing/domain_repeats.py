"""The same again: what is repeated with its own ids succeeds, and what only looks the same is told apart."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import codec
from holdfast.appends import ROOT
from holdfast.client import Holdfast
from holdfast.contracts import Put, RecordStore
from holdfast.errors import AlreadyExists, InvalidInput
from holdfast.kinds import ARTIFACTS
from holdfast.model import Agent, Message, Usage
from holdfast.strategies import Strategy
from holdfast.testing.driving import Again, HoldfastKit, texts, users
from holdfast.testing.records import dump

LOOKALIKES: list[tuple[Any, Any]] = [(42, 42.0), (1, True), ([1], [1.0]), ({"b": 0}, {"b": False}), (0.0, -0.0)]


class RepeatKit(HoldfastKit):
    """Subclass it as `TestMyRepeats` and say how to `open` the store; never override a test."""

    # retries

    def test_a_dict_with_an_id_may_be_appended_again(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        said = {"id": "m1", "role": "user", "content": "hi"}
        first = hf.sessions.append("s", said)
        assert again().sessions.append("s", said) == first
        with pytest.raises(AlreadyExists):
            again().sessions.append("s", {**said, "content": "ho"})
        assert texts(again(), "s") == ["hi"]

    @pytest.mark.parametrize("copy", [False, True])
    def test_the_very_same_fork_again_is_the_one_there(self, hf: Holdfast, again: Again, copy: bool) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", *users("a", "b"))
        hf.sessions.fork("s", id="f", copy=copy)
        hf.sessions.append("f", *users("on the fork"))
        hf = again()
        assert hf.sessions.fork("s", id="f", copy=copy).id == "f"
        assert texts(hf, "f") == ["a", "b", "on the fork"]
        hf.sessions.append("s", *users("c"))
        with pytest.raises(AlreadyExists):
            hf.sessions.fork("s", id="f", copy=copy)

    def test_what_is_new_in_an_append_again_stands_behind_what_is_known(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        first, known, fresh = users("first", "known", "fresh")
        hf.sessions.append("s", first, known)
        hf.sessions.append("s", known, fresh, parent=first.id)
        assert texts(again(), "s") == ["first", "known", "fresh"]

    def test_the_beginning_of_an_empty_session_is_no_branch_point(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", *users("first"), parent=ROOT)
        assert [branch.id for branch in hf.sessions.tree("s").branches] == [1]

    def test_an_append_again_says_what_is_stored(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        said = Message.user("hi")
        hf.sessions.append("s", said)
        (found,) = hf.sessions.append("s", replace(said, usage=Usage(input=5)))
        assert found.usage is None

    # what only looks the same

    @pytest.mark.parametrize(("one", "other"), LOOKALIKES)
    def test_values_that_look_alike_are_different(self, hf: Holdfast, one: Any, other: Any) -> None:
        hf.sessions.create(id="s", metadata={"a": one})
        with pytest.raises(AlreadyExists):
            hf.sessions.create(id="s", metadata={"a": other})
        assert [*hf.sessions.list(metadata={"a": other})] == []
        hf.artifacts.put(b"x", name="n", id="i", metadata={"a": one})
        with pytest.raises(AlreadyExists):
            hf.artifacts.put(b"x", name="n", id="i", metadata={"a": other})
        hf.agents.save(Agent(id="a", name="a", state={"k": one}))
        hf.agents.save(Agent(id="a", name="a", state={"k": other}))
        assert len(hf.agents.diff("a", 1, 2)) == 1

    def test_fields_of_a_later_version_survive_a_newer_artifact(self, hf: Holdfast, store: RecordStore) -> None:
        hf.artifacts.put(b"x", name="n")
        (record,) = [record for record in dump(store) if record.kind is ARTIFACTS]
        body = record.body[:-1] + b',"zeta":[1]}'
        store.commit([Put(replace(record, body=body, digest=codec.digest(body)))])
        hf.artifacts.put(b"y", name="n")
        assert [b'"zeta":[1]' in record.body for record in dump(store) if record.kind is ARTIFACTS] == [True, False]

    # what cannot be meant

    def test_wrong_shapes_are_invalid_input(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        calls: list[Any] = [
            lambda: hf.checkpoints.create(session_id="s", tool_calls=[{"id": "c"}]),  # type: ignore[list-item]
            lambda: hf.checkpoints.create(session_id="s", partial_results=5),  # type: ignore[arg-type]
            lambda: hf.sessions.append("s", {"role": "user", "content": [{"type": "image_url"}]}),
            lambda: hf.sessions.append("s", {"role": "assistant", "tool_calls": [{"id": "c", "function": None}]}),
            lambda: hf.runs.start("s", strategy="often"),  # type: ignore[arg-type]
            lambda: Strategy.every_iterations(0),
            lambda: Message.user(5),  # type: ignore[arg-type]
        ]
        for call in calls:
            with pytest.raises(InvalidInput):
                call()
        assert texts(hf, "s") == []
