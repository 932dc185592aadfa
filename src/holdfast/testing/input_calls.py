"""The calls half of the table of inputs: fields of wrong types, pages, cursors, times, limits and sizes."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import UNSET

from holdfast.client import Holdfast
from holdfast.contracts import MAX_BYTES, MAX_WRITES
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.ids import new_id
from holdfast.model import Agent, Attachment, Compaction, Message, ToolCall, Usage
from holdfast.testing.input_rows import Give, Row, bound

NAIVE = datetime(2026, 1, 1)
TOO_LARGE = 2**63
TEXTUAL: list[Any] = [5, b"x", ["x"], {"x": 1}]
FLAGS: list[Any] = [5, "yes", []]
OBJECTS: list[Any] = [5, "x", [1], [["a", 1]]]
COUNTS: list[Any] = ["5", 1.5, [], TOO_LARGE]
TIMEOUTS: list[Any] = [-1, -0.5, float("nan"), "soon", []]
POSITIONS: list[Any] = [-1, "5", 1.5, True, [], b"1", float("nan")]
NUMBERS: list[Any] = [*POSITIONS, TOO_LARGE]

MESSAGE_FIELDS: dict[str, list[Any]] = {
    "role": ["robot", "", None, 5, "user "],
    "content": [5, None, "text", [5], [None], [b"x"], {"a": 1}],
    "created_at": [NAIVE, "yesterday", 5, None],
    "tool_calls": [5, None, "x", ["x"], [None], [ToolCall(id=5, name="f")], [ToolCall(id="c", name=5)]],  # type: ignore[arg-type]
    "tool_call_id": TEXTUAL,
    "tool_name": TEXTUAL,
    "reasoning": TEXTUAL,
    "attachments": [5, None, ["x"], [Attachment(type="x", name="n")], [Attachment(type="file", name=5)]],  # type: ignore[arg-type]
    "metadata": OBJECTS,
    "is_compaction": FLAGS,
    "is_summary": FLAGS,
    "compaction": [5, "x", [], Compaction(tail_start_id=5)],  # type: ignore[arg-type]
    "usage": [5, "x", []],
}
ATTACHMENT_FIELDS: dict[str, list[Any]] = {
    "id": TEXTUAL,
    "mime_type": TEXTUAL,
    "content": TEXTUAL,
    "data": [5, ["x"], "no base64!"],
    "url": TEXTUAL,
    "artifact_id": TEXTUAL,
    "size": COUNTS,
}
USAGE_FIELDS: dict[str, list[Any]] = {
    "id": [5, b"x", None],
    "provider": TEXTUAL,
    "model": TEXTUAL,
    "input": COUNTS,
    "output": COUNTS,
    "total": COUNTS,
    "cache_read": COUNTS,
    "cache_write": COUNTS,
    "cost": ["5", [], float("nan"), float("inf")],
    "created_at": [NAIVE, "yesterday", 5, None],
}
AGENT_FIELDS: dict[str, list[Any]] = {
    "name": [*TEXTUAL, None],
    "kind": [*TEXTUAL, None],
    "system_prompt": TEXTUAL,
    "capabilities": [5, "x", [5], None],
    "config": [*OBJECTS, None],
    "state": [*OBJECTS, None],
    "metadata": OBJECTS,
    "schema_version": [*COUNTS, None],
    "revision": ["1", 1.5, []],
}
SESSION_FIELDS: dict[str, list[Any]] = {
    "title": TEXTUAL,
    "model": TEXTUAL,
    "metadata": OBJECTS,
    "tags": [5, "x", [5], {"x": 1}],
    "status": ["gone", "", 5, None],
    "archived": [5, "yes", None],
    "max_context_tokens": COUNTS,
}
SIGNED = {"type": "thinking", "thinking": "t", "signature": "s"}
MESSAGES_LIKE: dict[str, Any] = {
    "a string": "hello",
    "nothing": None,
    "a list": [Message.user("x")],
    "a dict without a role": {"content": "x"},
    "a dict with an unknown role": {"role": "robot", "content": "x"},
    "a dict with an unknown field": {"role": "user", "content": "x", "colour": "red"},
    "a dict with a number as content": {"role": "user", "content": 5},
    "a dict with a part that is none": {"role": "user", "content": [5]},
    "a dict with calls that are none": {"role": "assistant", "tool_calls": 5},
    "a dict with a refusal that is no text": {"role": "assistant", "refusal": 5},
    "a dict with a signature and metadata that is none": {"role": "assistant", "content": [SIGNED], "metadata": 5},
    "a dict with a call that is none": {"role": "assistant", "tool_calls": ["x"]},
}


def field_rows() -> Iterator[Row]:
    """Values of wrong types for every field."""
    places: list[tuple[str, Give, dict[str, list[Any]]]] = [
        ("message", lambda hf, given: hf.sessions.append("s", Message(**{"role": "user", **given})), MESSAGE_FIELDS),
        ("attachment", _append_attachment, ATTACHMENT_FIELDS),
        ("usage", lambda hf, given: hf.sessions.append("s", Message.user("x", usage=Usage(**given))), USAGE_FIELDS),
        ("updated usage", lambda hf, given: hf.sessions.update_usage("s", "m", Usage(**given)), USAGE_FIELDS),
        ("agent", lambda hf, given: hf.agents.save(Agent(**{"id": "new", "name": "", **given})), AGENT_FIELDS),
        ("session", lambda hf, given: hf.sessions.create(**given), SESSION_FIELDS),
        ("updated session", lambda hf, given: hf.sessions.update("s", **given), SESSION_FIELDS),
    ]
    for place, give, fields in places:
        for field, values in fields.items():
            for value in values:
                yield Row(f"{place} {field}", ascii(value), bound(give, {field: value}), InvalidInput)
    for name, said in MESSAGES_LIKE.items():
        yield Row("message", name, bound(lambda hf, said: hf.sessions.append("s", said), said), InvalidInput)


def _append_attachment(hf: Holdfast, given: dict[str, Any]) -> object:
    attachment = Attachment(**{"type": "file", "name": "n", **given})
    return hf.sessions.append("s", Message.user("x", attachments=[attachment]))


NUMBERED: dict[str, Give] = {
    "limit of sessions": lambda hf, value: hf.sessions.list(limit=value),
    "offset of sessions": lambda hf, value: hf.sessions.list(offset=value),
    "limit of agents": lambda hf, value: hf.agents.list(limit=value),
    "offset of agents": lambda hf, value: hf.agents.list(offset=value),
    "limit of revisions": lambda hf, value: hf.agents.revisions("a", limit=value),
    "offset of revisions": lambda hf, value: hf.agents.revisions("a", offset=value),
    "limit of messages": lambda hf, value: hf.sessions.page("s", limit=value),
}
POSITIONED: dict[str, Give] = {
    "last messages": lambda hf, value: list(hf.sessions.messages("s", last=value)),
    "first message": lambda hf, value: list(hf.sessions.messages("s", start=value)),
    "message to stop at": lambda hf, value: list(hf.sessions.messages("s", stop=value)),
}
CALLS: dict[str, Give] = {
    "a time without a zone, after": lambda hf, _: hf.sessions.list(created_after=NAIVE),
    "a time without a zone, before": lambda hf, _: hf.sessions.list(created_before=NAIVE),
    "a string as a time": lambda hf, _: hf.sessions.list(created_after="today"),  # type: ignore[arg-type]
    "an unknown order": lambda hf, _: hf.sessions.list(order="random"),  # type: ignore[arg-type]
    "an unknown status": lambda hf, _: hf.sessions.list(status="gone"),  # type: ignore[arg-type]
    "a string as archived": lambda hf, _: hf.sessions.list(archived="no"),  # type: ignore[arg-type]
    "a number as a tag": lambda hf, _: hf.sessions.list(tag=5),  # type: ignore[arg-type]
    "a list as a metadata filter": lambda hf, _: hf.sessions.list(metadata=[1]),  # type: ignore[arg-type]
    "a set in a metadata filter": lambda hf, _: hf.sessions.list(metadata={"k": {1}}),
    "deleting nothing named": lambda hf, _: hf.sessions.delete(),
    "deleting two things at once": lambda hf, _: hf.sessions.delete("s", user_id="u"),
    "a number as a reason": lambda hf, _: hf.sessions.redact("s", "m", 5),  # type: ignore[arg-type]
    "a lone surrogate as a reason": lambda hf, _: hf.sessions.redact("s", "m", "\ud800"),
    "a string as usage": lambda hf, _: hf.sessions.update_usage("s", "m", "x"),  # type: ignore[arg-type]
    "neither a branch nor a message to switch to": lambda hf, _: hf.sessions.switch("s"),
    "a branch and a message to switch to": lambda hf, _: hf.sessions.switch("s", 1, at="m"),
    "a string as a branch to switch to": lambda hf, _: hf.sessions.switch("s", "1"),  # type: ignore[arg-type]
    "a string as a branch to read": lambda hf, _: list(hf.sessions.messages("s", branch="1")),  # type: ignore[arg-type]
    "a string as an agent": lambda hf, _: hf.agents.save("a"),  # type: ignore[arg-type]
    "a string as a revision": lambda hf, _: hf.agents.get("a", revision="1"),  # type: ignore[arg-type]
    "a string as a revision to restore": lambda hf, _: hf.agents.restore("a", "1"),  # type: ignore[arg-type]
    "a number as a key of the state": lambda hf, _: hf.agents.set_state("a", 5, 1),  # type: ignore[arg-type]
    "a number as a fork's title": lambda hf, _: hf.sessions.fork("s", title=5),  # type: ignore[arg-type]
    "a number as a copy's title": lambda hf, _: hf.sessions.fork("s", title=5, copy=True),  # type: ignore[arg-type]
    "no value for a required text": lambda hf, _: hf.agents.save(Agent(id="new", name=UNSET)),  # type: ignore[arg-type]
    "two messages of one id": lambda hf, _: hf.sessions.append("s", *[Message.user("x", id="twice")] * 2),
    "two messages that share an id": lambda hf, _: hf.sessions.append(
        "s", Message.user("x", id="twice"), Message.user("y", id="twice")
    ),
    "more than 1,000 messages": lambda hf, _: hf.sessions.append(
        "s", *(Message.user(str(number)) for number in range(MAX_WRITES + 1))
    ),
    "messages of more than 8 MB together": lambda hf, _: hf.sessions.append(
        "s", *[Message.user("x" * (MAX_BYTES // 4), id=new_id()) for _ in range(4)]
    ),
    "a text of more than 8 MB": lambda hf, _: hf.sessions.append("s", Message.user("x" * MAX_BYTES)),
}
ABSENT: dict[str, tuple[Give, object]] = {
    "a branch beyond 64 bits to switch to": (lambda hf, _: hf.sessions.switch("s", TOO_LARGE), NotFound),
    "a branch beyond 64 bits to read": (lambda hf, _: list(hf.sessions.messages("s", branch=TOO_LARGE)), NotFound),
    "a negative branch to switch to": (lambda hf, _: hf.sessions.switch("s", -1), NotFound),
    "a revision beyond 64 bits to save over": (
        lambda hf, _: hf.agents.save(Agent(id="a", name="", revision=TOO_LARGE)),
        Conflict,
    ),
    "a revision beyond 64 bits": (lambda hf, _: hf.agents.get("a", revision=TOO_LARGE), None),
    "a revision beyond 64 bits to restore": (lambda hf, _: hf.agents.restore("a", TOO_LARGE), NotFound),
    "a revision beyond 64 bits to compare": (lambda hf, _: hf.agents.diff("a", 1, TOO_LARGE), NotFound),
}


def call_rows() -> Iterator[Row]:
    """Arguments that nobody can mean."""
    for place, give in NUMBERED.items():
        for value in NUMBERS:
            yield Row(place, ascii(value), bound(give, value), InvalidInput)
    for place, give in POSITIONED.items():
        for value in POSITIONS:
            yield Row(place, ascii(value), bound(give, value), InvalidInput)
    for name, give in CALLS.items():
        yield Row("call", name, bound(give, None), InvalidInput)
    for name, (give, outcome) in ABSENT.items():
        yield Row("call", name, bound(give, None), outcome)


CURSORS: dict[str, Give] = {
    "of sessions": lambda hf, cursor: hf.sessions.list(cursor=cursor),
    "of sessions in created order": lambda hf, cursor: hf.sessions.list(cursor=cursor, order="created"),
    "of agents": lambda hf, cursor: hf.agents.list(cursor=cursor),
    "of messages": lambda hf, cursor: hf.sessions.page("s", cursor=cursor),
    "of another session's messages": lambda hf, cursor: hf.sessions.page("t", cursor=cursor),
}
FORGERIES: dict[str, Any] = {
    "nothing": "",
    "a word": "forged",
    "no ASCII": "ü😀",
    "a number": 5,
    "bytes": b"x",
    "a list": [1, "s"],
    "bare JSON": base64.urlsafe_b64encode(b'[1, "s"]').decode(),
    "a made-up check": base64.urlsafe_b64encode(bytes(8) + b'[1, "s"]').decode(),
    "an endless string": "A" * 100_000,
}


def cursor_rows() -> Iterator[Row]:
    """Cursors that were made up, bent, or made for another listing."""
    for place, give in CURSORS.items():
        for name, forged in FORGERIES.items():
            yield Row(f"cursor {place}", name, bound(give, forged), InvalidInput)
        for other, ask in (("sessions", _sessions), ("agents", _agents), ("messages", _messages)):
            own = place.removeprefix("of ") == other
            yield Row(f"cursor {place}", f"cut, of {other}", bound(_cut(give), ask), InvalidInput)
            if not own:
                yield Row(f"cursor {place}", f"of {other}", bound(_foreign(give), ask), InvalidInput)


def _sessions(hf: Holdfast) -> Any:
    return hf.sessions.list(limit=1).cursor


def _agents(hf: Holdfast) -> Any:
    return hf.agents.list(limit=1).cursor


def _messages(hf: Holdfast) -> Any:
    return hf.sessions.page("s", limit=1).cursor


def _foreign(give: Give) -> Give:
    return lambda hf, ask: give(hf, ask(hf))


def _cut(give: Give) -> Give:
    return lambda hf, ask: give(hf, ask(hf)[:-2])


TIMED: dict[str, Give] = {
    "agents.save": lambda hf, timeout: hf.agents.save(Agent(id="new", name=""), timeout=timeout),
    "agents.get": lambda hf, timeout: hf.agents.get("a", timeout=timeout),
    "agents.list": lambda hf, timeout: hf.agents.list(timeout=timeout),
    "agents.revisions": lambda hf, timeout: hf.agents.revisions("a", timeout=timeout),
    "agents.set_state": lambda hf, timeout: hf.agents.set_state("a", "k", 1, timeout=timeout),
    "agents.restore": lambda hf, timeout: hf.agents.restore("a", 1, timeout=timeout),
    "agents.diff": lambda hf, timeout: hf.agents.diff("a", 1, 1, timeout=timeout),
    "agents.delete": lambda hf, timeout: hf.agents.delete("a", timeout=timeout),
    "sessions.create": lambda hf, timeout: hf.sessions.create(timeout=timeout),
    "sessions.get": lambda hf, timeout: hf.sessions.get("s", timeout=timeout),
    "sessions.list": lambda hf, timeout: hf.sessions.list(timeout=timeout),
    "sessions.update": lambda hf, timeout: hf.sessions.update("s", title="x", timeout=timeout),
    "sessions.append": lambda hf, timeout: hf.sessions.append("s", Message.user("x"), timeout=timeout),
    "sessions.messages": lambda hf, timeout: list(hf.sessions.messages("s", timeout=timeout)),
    "sessions.written": lambda hf, timeout: list(hf.sessions.written("s", timeout=timeout)),
    "sessions.page": lambda hf, timeout: hf.sessions.page("s", timeout=timeout),
    "sessions.tree": lambda hf, timeout: hf.sessions.tree("s", timeout=timeout),
    "sessions.switch": lambda hf, timeout: hf.sessions.switch("s", 1, timeout=timeout),
    "sessions.fork": lambda hf, timeout: hf.sessions.fork("s", timeout=timeout),
    "sessions.redact": lambda hf, timeout: hf.sessions.redact("s", "m", "why", timeout=timeout),
    "sessions.delete": lambda hf, timeout: hf.sessions.delete("s", timeout=timeout),
    "sessions.stats": lambda hf, timeout: hf.sessions.stats("s", timeout=timeout),
    "sessions.context": lambda hf, timeout: hf.sessions.context("s", timeout=timeout),
    "sessions.compact": lambda hf, timeout: hf.sessions.compact("s", lambda *_: "short", timeout=timeout),
    "sessions.prune_tool_outputs": lambda hf, timeout: hf.sessions.prune_tool_outputs("s", timeout=timeout),
    "sessions.unprune_tool_outputs": lambda hf, timeout: hf.sessions.unprune_tool_outputs("s", timeout=timeout),
    "executions.start": lambda hf, timeout: hf.executions.start("s", "t", timeout=timeout),
    "executions.finish": lambda hf, timeout: hf.executions.finish("x", timeout=timeout),
    "executions.list": lambda hf, timeout: hf.executions.list("s", timeout=timeout),
    "usage.record": lambda hf, timeout: hf.usage.record("s", Usage(), timeout=timeout),
    "usage.list": lambda hf, timeout: hf.usage.list("s", timeout=timeout),
    "usage.totals": lambda hf, timeout: hf.usage.totals(timeout=timeout),
    "stats": lambda hf, timeout: hf.stats(timeout=timeout),
    "verify": lambda hf, timeout: hf.verify(timeout=timeout),
    "gc": lambda hf, timeout: hf.gc(timeout=timeout),
    "health": lambda hf, timeout: hf.health(timeout=timeout),
}


def timeout_rows() -> Iterator[Row]:
    """Timeouts that are no number of seconds."""
    for place, give in TIMED.items():
        for timeout in TIMEOUTS:
            yield Row("timeout", f"{place} {timeout!r}", bound(give, timeout), InvalidInput)
