"""The values half of the table of inputs: ids, JSON values and texts, in every place that takes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from holdfast.client import Holdfast
from holdfast.contracts import MAX_BYTES
from holdfast.errors import InvalidId, InvalidInput
from holdfast.model import Agent, Attachment, Code, JsonPart, Message, ToolCall, ToolExecution, Usage
from holdfast.testing.input_rows import Give, Row, bound, made

LARGEST = 2**63 - 1
HUGE = "x" * (MAX_BYTES + 1)


def nested(depth: int) -> list[Any]:
    """Lists in lists."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def endless() -> list[Any]:
    """A list that contains itself."""
    value: list[Any] = []
    value.append(value)
    return value


# ids

GOOD_IDS = {
    "a path": "../../etc/x",
    "a slash": "a/b",
    "a file name": "a.json",
    "a device": "CON",
    "a capital beside a small letter": "S",
    "an emoji": "😀",
    "255 characters": "中" * 255,
    "spaces around": " s ",
    "a combining accent": "e\u0301",
    "quotes and wildcards": "%_'\"\\;--",
}
BAD_IDS: dict[str, object] = {
    "nothing": "",
    "256 characters": "x" * 256,
    "300 characters": "x" * 300,
    "a NUL": "a\0b",
    "a newline": "a\nb",
    "a newline at the end": "a\n",
    "a delete character": "a\x7f",
    "a lone surrogate": "a\ud800",
    "a number": 5,
    "a truth": True,
    "bytes": b"a",
    "a list": ["a"],
}
ID_PLACES: dict[str, Give] = {
    "agent id": lambda hf, id: hf.agents.save(Agent(id=id, name="")).id,
    "session id": lambda hf, id: hf.sessions.create(id=id).id,
    "fork id": lambda hf, id: hf.sessions.fork("s", id=id).id,
    "message id": lambda hf, id: hf.sessions.append("s", Message.user("x", id=id))[0].id,
    "message id in a dict": lambda hf, id: hf.sessions.append("s", {"role": "user", "id": id})[0].id,
    "agent id of a session": lambda hf, id: hf.sessions.create(agent_id=id).agent_id,
    "user id of a session": lambda hf, id: hf.sessions.create(user_id=id).user_id,
    "updated agent id": lambda hf, id: hf.sessions.update("s", agent_id=id).agent_id,
    "updated user id": lambda hf, id: hf.sessions.update("s", user_id=id).user_id,
    "execution id": lambda hf, id: hf.executions.start("s", "t", id=id).id,
    "usage id": lambda hf, id: hf.usage.record("s", Usage(id=id)).id,
}
ID_QUESTIONS: dict[str, Give] = {
    "agent to get": lambda hf, id: hf.agents.get(id),
    "agent to delete": lambda hf, id: hf.agents.delete(id),
    "agent to set the state of": lambda hf, id: hf.agents.set_state(id, "k", 1),
    "agent whose revisions to list": lambda hf, id: hf.agents.revisions(id),
    "session to get": lambda hf, id: hf.sessions.get(id),
    "session to delete": lambda hf, id: hf.sessions.delete(id),
    "session to update": lambda hf, id: hf.sessions.update(id, title="x"),
    "session to append to": lambda hf, id: hf.sessions.append(id, Message.user("x")),
    "session to read": lambda hf, id: list(hf.sessions.messages(id)),
    "session to page through": lambda hf, id: hf.sessions.page(id),
    "session to fork": lambda hf, id: hf.sessions.fork(id),
    "session to switch": lambda hf, id: hf.sessions.switch(id, 1),
    "session to attach": lambda hf, id: hf.sessions.attach(id),
    "session to read as written": lambda hf, id: list(hf.sessions.written(id)),
    "session to draw": lambda hf, id: hf.sessions.tree(id),
    "message to read": lambda hf, id: hf.sessions.message("s", id),
    "message to redact": lambda hf, id: hf.sessions.redact("s", id, "why"),
    "message to set the usage of": lambda hf, id: hf.sessions.update_usage("s", id, Usage()),
    "message to fork at": lambda hf, id: hf.sessions.fork("s", at=id),
    "user to erase": lambda hf, id: hf.sessions.delete(user_id=id),
    "agent to list the sessions of": lambda hf, id: hf.sessions.list(agent_id=id),
    "user to list the sessions of": lambda hf, id: hf.sessions.list(user_id=id),
    "session to compact": lambda hf, id: hf.sessions.compact(id, lambda *_: "short"),
    "session to view": lambda hf, id: hf.sessions.context(id),
    "session to prune": lambda hf, id: hf.sessions.prune_tool_outputs(id),
    "session to reckon": lambda hf, id: hf.sessions.stats(id),
    "session to start a tool in": lambda hf, id: hf.executions.start(id, "t"),
    "session whose executions to list": lambda hf, id: hf.executions.list(id),
    "message whose executions to list": lambda hf, id: hf.executions.list("s", message_id=id),
    "execution to get": lambda hf, id: hf.executions.get(id),
    "execution to finish": lambda hf, id: hf.executions.finish(id),
    "session to record a use of": lambda hf, id: hf.usage.record(id, Usage()),
    "session whose uses to list": lambda hf, id: hf.usage.list(id),
    "session whose uses to add up": lambda hf, id: hf.usage.totals(session_id=id),
    "user whose uses to add up": lambda hf, id: hf.usage.totals(user_id=id),
}


def id_rows() -> Iterator[Row]:
    """Ids that are stored exactly, and ids that nobody can have."""
    for place, put in ID_PLACES.items():
        for name, good in GOOD_IDS.items():
            yield Row(place, name, bound(put, good), good)
    for place, put in {**ID_PLACES, **ID_QUESTIONS}.items():
        for name, bad in BAD_IDS.items():
            yield Row(place, name, bound(put, bad), InvalidId)
    for name, bad in BAD_IDS.items():
        if bad != "":  # which is ROOT, in front of the first message
            yield Row("parent to append behind", name, bound(_append_behind, bad), InvalidId)


def _append_behind(hf: Holdfast, parent: Any) -> object:
    return hf.sessions.append("s", Message.user("x"), parent=parent)


# values

GOOD_VALUES: dict[str, Any] = {
    "the largest integer": LARGEST,
    "the smallest integer": -LARGEST - 1,
    "an integer": 42,
    "a float that is whole": 42.0,
    "digits": "42",
    "a tiny float": 5e-324,
    "a NUL": "a\0b",
    "a key with a NUL": {"a\0b": 1},
    "an empty key": {"": 1},
    "a truth": True,
    "nothing": None,
    "an empty object": {},
    "an empty list": [],
    "100 levels": nested(100),
}
BAD_VALUES: dict[str, Callable[[], object]] = {
    "not a number": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "minus infinity": lambda: {"deep": [float("-inf")]},
    "an integer too large": lambda: LARGEST + 1,
    "an integer too small": lambda: -LARGEST - 2,
    "a lone surrogate": lambda: "a\ud800",
    "a key with a lone surrogate": lambda: {"a\ud800": 1},
    "a number as a key": lambda: {1: "x"},
    "None as a key": lambda: {None: "x"},
    "a tuple as a key": lambda: {("a",): 1},
    "100,000 levels": lambda: nested(100_000),
    "a list in itself": endless,
    "a set": lambda: {1, 2},
    "bytes": lambda: b"x",
    "a time": lambda: datetime.now(UTC),
    "an object": object,
    "a type": lambda: int,
    "a complex number": lambda: 1j,
    "more than 8 MB": lambda: HUGE,
}


def _agent(**fields: Any) -> Agent:
    return Agent(**{"id": "new", "name": "", **fields})


def _kept(hf: Holdfast, agent: Agent) -> Agent:
    hf.agents.save(agent)
    found = hf.agents.get(agent.id)
    assert found is not None
    return found


def _said(hf: Holdfast, message: Message) -> Message:
    (appended,) = hf.sessions.append("s", message)
    found = hf.sessions.message("s", message.id)
    assert found == appended
    return appended


def _done(hf: Holdfast, id: str) -> ToolExecution:
    found = hf.executions.get(id)
    assert found is not None
    return found


def _inner(metadata: Mapping[str, Any] | None) -> Any:
    assert metadata is not None
    return metadata["k"]


def _part(message: Message) -> Any:
    (part,) = message.content
    assert isinstance(part, JsonPart)
    return part.value


VALUE_PLACES: dict[str, Give] = {
    "agent state": lambda hf, value: _kept(hf, _agent(state={"k": value})).state["k"],
    "agent config": lambda hf, value: _kept(hf, _agent(config={"k": value})).config["k"],
    "agent metadata": lambda hf, value: _inner(_kept(hf, _agent(metadata={"k": value})).metadata),
    "one key of the state": lambda hf, value: hf.agents.set_state("a", "k", value).state["k"],
    "session metadata": lambda hf, value: _inner(hf.sessions.create(metadata={"k": value}).metadata),
    "updated metadata": lambda hf, value: _inner(hf.sessions.update("s", metadata={"k": value}).metadata),
    "message metadata": lambda hf, value: _inner(_said(hf, Message.user("x", metadata={"k": value})).metadata),
    "a json part": lambda hf, value: _part(_said(hf, Message.user(JsonPart(value=value)))),
    "tool arguments": lambda hf, value: (
        _said(hf, Message.assistant(tool_calls=[ToolCall(id="c", name="f", arguments=value)])).tool_calls[0].arguments
    ),
    "arguments of an execution": lambda hf, value: _done(hf, hf.executions.start("s", "t", value).id).arguments,
    "result of an execution": lambda hf, value: (
        _done(hf, hf.executions.record("s", ToolExecution(tool_name="t", result=value)).id).result
    ),
}


def value_rows() -> Iterator[Row]:
    """JSON values that come back as they were, and values that JSON cannot say."""
    for place, put in VALUE_PLACES.items():
        for name, good in GOOD_VALUES.items():
            yield Row(place, name, bound(put, good), good)
        for name, make in BAD_VALUES.items():
            yield Row(place, name, made(put, make), InvalidInput)


# text

TEXT_PLACES: dict[str, Give] = {
    "text": lambda hf, text: _said(hf, Message.user(text)).text,
    "code": lambda hf, text: _said(hf, Message.user(Code(code=text))).text,
    "reasoning": lambda hf, text: _said(hf, Message.assistant(reasoning=text)).reasoning,
    "tool name": lambda hf, text: _said(hf, Message.tool_result("c", tool_name=text)).tool_name,
    "tool call id": lambda hf, text: _said(hf, Message.tool_result(text)).tool_call_id,
    "attachment name": lambda hf, text: (
        _said(hf, Message.user(attachments=[Attachment(type="file", name=text)])).attachments[0].name
    ),
    "agent name": lambda hf, text: _kept(hf, _agent(name=text)).name,
    "agent kind": lambda hf, text: _kept(hf, _agent(kind=text)).kind,
    "system prompt": lambda hf, text: _kept(hf, _agent(system_prompt=text)).system_prompt,
    "capability": lambda hf, text: _kept(hf, _agent(capabilities=[text])).capabilities[0],
    "title": lambda hf, text: hf.sessions.create(title=text).title,
    "model": lambda hf, text: hf.sessions.create(model=text).model,
    "tag": lambda hf, text: hf.sessions.create(tags=[text]).tags[0],
    "updated title": lambda hf, text: hf.sessions.update("s", title=text).title,
    "name of an executed tool": lambda hf, text: hf.executions.start("s", text).tool_name,
    "call id of an execution": lambda hf, text: hf.executions.start("s", "t", call_id=text).call_id,
}
NO_TEXT: dict[str, object] = {
    "a lone surrogate": "a\ud800",
    "more than 8 MB": HUGE,
    "a number": 5,
    "bytes": b"x",
    "a list": ["x"],
}


def text_rows() -> Iterator[Row]:
    """Text that comes back as it was, and what is no text."""
    for place, put in TEXT_PLACES.items():
        for text in ("a\0b", "", "😀", "\u2028", "%_'\"\\"):
            yield Row(place, ascii(text), bound(put, text), text)
        for name, bad in NO_TEXT.items():
            yield Row(place, name, bound(put, bad), InvalidInput)
