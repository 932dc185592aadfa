"""Steps of the state machine: agents, sessions, messages and branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from msgspec.structs import replace

from holdfast.appends import ROOT
from holdfast.client import Holdfast
from holdfast.model import Agent, File, Usage
from holdfast.testing.driving import NOON
from holdfast.testing.stateful_twins import AGENTS, INLINE_LIMIT, JSON, NUMBERS, SESSIONS, Call, Twins

BRANCHES = st.integers(1, 3)
ORDERS = st.sampled_from(["created", "updated"])
USERS = st.sampled_from(["ann", "bob"])


class AgentSteps(Twins):
    """What can be done with agents."""

    @rule(id=AGENTS, state=JSON)
    def save_agent(self, id: str, state: Any) -> None:
        self.both(lambda hf: hf.agents.save(Agent(id=id, name=id, state=state or {}, metadata=state)))

    @rule(id=AGENTS, revision=st.integers(0, 4))
    def save_over(self, id: str, revision: int) -> None:
        self.both(lambda hf: hf.agents.save(Agent(id=id, name="over", revision=revision)))

    @rule(id=AGENTS, revision=st.integers(1, 4))
    def restore_agent(self, id: str, revision: int) -> None:
        self.both(lambda hf: hf.agents.restore(id, revision))


class SessionSteps(Twins):
    """What can be done with sessions."""

    @initialize()
    def begin(self) -> None:
        self.both(lambda hf: hf.agents.save(Agent(id="scout", name="scout")))
        self.both(lambda hf: [hf.sessions.create(id=id, agent_id="scout") for id in ("a", "a_b", "中")])
        said = [self.message("a", "to begin with") for _ in range(3)]
        self.both(lambda hf: hf.sessions.append("a", *said))

    @rule(id=SESSIONS, agent=AGENTS, user=st.none() | USERS, metadata=JSON)
    def create(self, id: str, agent: str, user: str | None, metadata: Any) -> None:
        self.both(lambda hf: hf.sessions.create(id=id, agent_id=agent, user_id=user, metadata=metadata))

    @rule(id=SESSIONS, title=st.sampled_from([None, "", "new"]), archived=st.booleans(), metadata=JSON)
    def update(self, id: str, title: str | None, archived: bool, metadata: Any) -> None:
        self.both(lambda hf: hf.sessions.update(id, title=title, archived=archived, metadata=metadata))

    @rule(id=SESSIONS, agent=AGENTS)
    def hand_over(self, id: str, agent: str) -> None:
        self.both(lambda hf: hf.sessions.update(id, agent_id=agent))

    @rule(id=SESSIONS)
    def attach(self, id: str) -> None:
        self.both(lambda hf: hf.sessions.attach(id))

    @rule(what=st.sampled_from(["session", "agent", "user"]), id=SESSIONS, agent=AGENTS, user=USERS)
    def delete(self, what: str, id: str, agent: str, user: str) -> None:
        if what == "session":
            self.both(lambda hf: hf.sessions.delete(id))
        elif what == "agent":
            self.both(lambda hf: hf.agents.delete(agent))
        else:
            self.both(lambda hf: hf.sessions.delete(user_id=user))

    @rule(agent=st.none() | AGENTS, limit=NUMBERS, archived=st.booleans(), metadata=JSON, order=ORDERS)
    def list_sessions(self, agent: str | None, limit: int, archived: bool, metadata: Any, order: Any) -> None:
        self.both(lambda hf: list(hf.sessions.list(agent_id=agent, limit=limit % 4, offset=limit % 3)))
        self.both(lambda hf: list(hf.sessions.list(archived=archived, metadata=metadata, order=order)))

    def everything(self) -> Sequence[Call]:
        return [*super().everything(), lambda hf: [whole(hf, session.id) for session in hf.sessions.list()]]


def whole(hf: Holdfast, session_id: str) -> list[Any]:
    """A session with everything it reaches."""
    tree = hf.sessions.tree(session_id)
    paths = [list(hf.sessions.messages(session_id, branch=branch.id)) for branch in tree.branches]
    return [hf.sessions.get(session_id), tree, list(hf.sessions.messages(session_id)), paths]


class MessageSteps(Twins):
    """What can be done with messages and branches."""

    @rule(id=SESSIONS, count=st.integers(1, 4))
    def append(self, id: str, count: int) -> None:
        said = [self.message(id, f"{id} {number}") for number in range(count)]
        self.both(lambda hf: hf.sessions.append(id, *said))

    @rule(id=SESSIONS, number=NUMBERS)
    def append_large(self, id: str, number: int) -> None:
        said = self.message(id, "look at this")
        large = File(data=bytes([number % 3]) * (INLINE_LIMIT + 1), name="large")
        self.both(lambda hf: hf.sessions.append(id, replace(said, content=[*said.content, large])))

    @rule(id=SESSIONS, number=NUMBERS, root=st.booleans(), activate=st.booleans())
    def append_behind(self, id: str, number: int, root: bool, activate: bool) -> None:
        parent = ROOT if root and number % 5 == 0 else self.some(id, number).id
        said = self.message(id, f"{id} behind")
        self.both(lambda hf: hf.sessions.append(id, said, parent=parent, activate=activate))

    @rule(id=SESSIONS, number=NUMBERS)
    def append_again(self, id: str, number: int) -> None:
        said = self.some(id, number)
        self.both(lambda hf: hf.sessions.append(id, said))

    @rule(id=SESSIONS, branch=BRANCHES)
    def switch(self, id: str, branch: int) -> None:
        self.both(lambda hf: hf.sessions.switch(id, branch))

    @rule(id=SESSIONS, new=SESSIONS, number=st.none() | NUMBERS, copy=st.booleans())
    def fork(self, id: str, new: str, number: int | None, copy: bool) -> None:
        at = None if number is None else self.some(id, number).id
        self.both(lambda hf: hf.sessions.fork(id, id=new, at=at, copy=copy))

    @rule(id=SESSIONS, number=NUMBERS)
    def redact(self, id: str, number: int) -> None:
        message_id = self.some(id, number).id
        self.both(lambda hf: hf.sessions.redact(id, message_id, "asked to"))

    @rule(id=SESSIONS, number=NUMBERS, tokens=NUMBERS)
    def use(self, id: str, number: int, tokens: int) -> None:
        message_id = self.some(id, number).id
        usage = Usage(id=f"used {tokens}", input=tokens, created_at=NOON)
        self.both(lambda hf: hf.sessions.update_usage(id, message_id, usage))

    @rule(id=SESSIONS, last=st.integers(0, 6), start=st.integers(0, 6), branch=st.none() | BRANCHES)
    def read(self, id: str, last: int, start: int, branch: int | None) -> None:
        self.both(lambda hf: list(hf.sessions.messages(id, last=last, branch=branch)))
        self.both(lambda hf: list(hf.sessions.messages(id, start=start, stop=start + last, branch=branch)))
