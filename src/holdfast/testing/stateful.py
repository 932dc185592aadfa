"""Any backend against the one in RAM: random histories of calls must look the same from outside."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from holdfast.appends import ROOT
from holdfast.backends.memory import MemoryStore
from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.errors import HoldfastError
from holdfast.model import Agent, Message, Usage
from holdfast.testing.driving import NOON
from holdfast.testing.opening import StoreKit, new_namespace

AGENTS = st.sampled_from(["scout", "scout_", "😀"])
SESSIONS = st.sampled_from(["a", "A", "a_b", "中", "fork-1", "fork-2"])
BRANCHES = st.integers(1, 5)
NUMBERS = st.integers(0, 30)
JSON = st.sampled_from([None, {}, {"n": 42}, {"n": 42.0}, {"n": "42"}, {"deep": [{"a": None}]}])
TIMES = ("created_at", "updated_at", "modified_at", "last_message_at", "at")
Call = Callable[[Holdfast], Any]


class Twins(RuleBasedStateMachine):
    """Every step is done on the backend and on the model, and must have the same outcome on both."""

    kit: StoreKit

    def __init__(self) -> None:
        super().__init__()
        self._now = NOON
        self._namespace = new_namespace()
        self._said: list[Message] = []
        self._stores: list[RecordStore] = [self.kit.open(self._namespace), MemoryStore()]
        self._enter()

    def _enter(self) -> None:
        self._twins = [Holdfast(store, clock=lambda: self._now) for store in self._stores]

    def both(self, call: Call) -> Any:
        """Do it on both; they must agree."""
        self._now += timedelta(seconds=1)
        backend, model = (outcome(hf, call) for hf in self._twins)
        assert backend == model
        return model

    @initialize()
    def begin(self) -> None:
        self.both(lambda hf: [hf.sessions.create(id=id, agent_id="scout") for id in ("a", "a_b")])

    def _message(self, text: str) -> Message:
        message = Message.user(text, id=f"m{len(self._said)}", created_at=self._now)
        self._said.append(message)
        return message

    def _some_id(self, number: int) -> str:
        return self._said[-1 - number % len(self._said)].id if self._said else "none"

    # agents

    @rule(id=AGENTS, state=JSON)
    def save_agent(self, id: str, state: Any) -> None:
        self.both(lambda hf: hf.agents.save(Agent(id=id, name=id, state=state or {}, metadata=state)))

    @rule(id=AGENTS, revision=st.integers(0, 4))
    def save_over(self, id: str, revision: int) -> None:
        self.both(lambda hf: hf.agents.save(Agent(id=id, name="over", revision=revision)))

    @rule(id=AGENTS, revision=st.integers(1, 4))
    def restore_agent(self, id: str, revision: int) -> None:
        self.both(lambda hf: hf.agents.restore(id, revision))

    @rule(id=AGENTS)
    def delete_agent(self, id: str) -> None:
        self.both(lambda hf: hf.agents.delete(id))

    # sessions

    @rule(id=SESSIONS, agent=AGENTS, user=st.sampled_from([None, "ann", "bob"]), metadata=JSON)
    def create(self, id: str, agent: str, user: str | None, metadata: Any) -> None:
        self.both(lambda hf: hf.sessions.create(id=id, agent_id=agent, user_id=user, metadata=metadata))

    @rule(id=SESSIONS, title=st.sampled_from([None, "", "new"]), archived=st.booleans(), metadata=JSON)
    def update(self, id: str, title: str | None, archived: bool, metadata: Any) -> None:
        self.both(lambda hf: hf.sessions.update(id, title=title, archived=archived, metadata=metadata))

    @rule(id=SESSIONS)
    def delete(self, id: str) -> None:
        self.both(lambda hf: hf.sessions.delete(id))

    @rule(user=st.sampled_from(["ann", "bob"]))
    def erase(self, user: str) -> None:
        self.both(lambda hf: hf.sessions.delete(user_id=user))

    @rule(agent=st.none() | AGENTS, limit=st.integers(0, 3), offset=st.integers(0, 2))
    def list_sessions(self, agent: str | None, limit: int, offset: int) -> None:
        self.both(lambda hf: list(hf.sessions.list(agent_id=agent, limit=limit, offset=offset)))

    @rule(archived=st.booleans(), metadata=JSON, order=st.sampled_from(["created", "updated"]))
    def filter_sessions(self, archived: bool, metadata: Any, order: Any) -> None:
        self.both(lambda hf: list(hf.sessions.list(archived=archived, metadata=metadata, order=order)))

    # messages and branches

    @rule(id=SESSIONS, count=st.integers(1, 4))
    def append(self, id: str, count: int) -> None:
        said = [self._message(f"{id} {number}") for number in range(count)]
        self.both(lambda hf: hf.sessions.append(id, *said))

    @rule(id=SESSIONS, number=NUMBERS, root=st.booleans(), activate=st.booleans())
    def append_behind(self, id: str, number: int, root: bool, activate: bool) -> None:
        parent = ROOT if root and number % 5 == 0 else self._some_id(number)
        said = self._message(f"{id} behind")
        self.both(lambda hf: hf.sessions.append(id, said, parent=parent, activate=activate))

    @rule(id=SESSIONS, number=NUMBERS)
    def append_again(self, id: str, number: int) -> None:
        if self._said:
            said = self._said[-1 - number % len(self._said)]
            self.both(lambda hf: hf.sessions.append(id, said))

    @rule(id=SESSIONS, branch=BRANCHES)
    def switch(self, id: str, branch: int) -> None:
        self.both(lambda hf: hf.sessions.switch(id, branch))

    @rule(id=SESSIONS, new=SESSIONS, number=st.none() | NUMBERS, copy=st.booleans())
    def fork(self, id: str, new: str, number: int | None, copy: bool) -> None:
        at = None if number is None else self._some_id(number)
        self.both(lambda hf: hf.sessions.fork(id, id=new, at=at, copy=copy))

    @rule(id=SESSIONS, number=NUMBERS)
    def redact(self, id: str, number: int) -> None:
        message_id = self._some_id(number)
        self.both(lambda hf: hf.sessions.redact(id, message_id, "asked to"))

    @rule(id=SESSIONS, number=NUMBERS, tokens=NUMBERS)
    def use(self, id: str, number: int, tokens: int) -> None:
        message_id = self._some_id(number)
        usage = Usage(id=f"u{tokens}", input=tokens, created_at=NOON)
        self.both(lambda hf: hf.sessions.update_usage(id, message_id, usage))

    @rule(id=SESSIONS, last=st.integers(0, 6), start=st.integers(0, 6), branch=st.none() | BRANCHES)
    def read(self, id: str, last: int, start: int, branch: int | None) -> None:
        self.both(lambda hf: list(hf.sessions.messages(id, last=last, branch=branch)))
        self.both(lambda hf: list(hf.sessions.messages(id, start=start, stop=start + last, branch=branch)))

    # the store as a whole

    @rule()
    def collect(self) -> None:
        self.both(lambda hf: hf.gc())

    @rule()
    def reopen(self) -> None:
        self._stores[0] = self.kit.reopen(self._stores[0], self._namespace)
        self._enter()

    def teardown(self) -> None:
        """Everything must look the same, from the beginning, and be sound."""
        self.reopen()
        self.both(lambda hf: [hf.agents.revisions(agent.id) for agent in hf.agents.list()])
        _, ids = self.both(lambda hf: [session.id for session in hf.sessions.list()])
        self.both(lambda hf: [whole(hf, id) for id in ids])
        self.both(lambda hf: hf.stats().messages)
        assert [hf.verify().problems for hf in self._twins] == [[], []]
        self._stores[0].close()


def whole(hf: Holdfast, session_id: str) -> list[Any]:
    """A session with everything it reaches."""
    tree = hf.sessions.tree(session_id)
    paths = [list(hf.sessions.messages(session_id, branch=branch.id)) for branch in tree.branches]
    return [hf.sessions.get(session_id), tree, list(hf.sessions.messages(session_id)), paths]


def outcome(hf: Holdfast, call: Call) -> tuple[str, Any]:
    """What a call gives or raises, in a form that two stores can share."""
    try:
        return ("ok", plain(msgspec.to_builtins(call(hf))))
    except HoldfastError as error:
        return (type(error).__name__, None)


def plain(value: Any) -> Any:
    """The value with its times cut to seconds: stores may stamp a step more than once."""
    if isinstance(value, dict):
        return {key: str(inner)[:19] if key in TIMES else plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


class StatefulKit(StoreKit):
    """Subclass it as `TestMyStates` and say how to `open` the store; never override a test."""

    def test_any_history_of_calls_looks_as_it_does_in_memory(self) -> None:
        machine = type("Machine", (Twins,), {"kit": self})
        slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
        run_state_machine_as_test(
            machine,
            settings=settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=slow),
        )
