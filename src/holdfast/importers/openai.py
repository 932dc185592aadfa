"""OpenAI Agents: the items of `SQLiteSession` files, tables `agent_sessions` and `agent_messages`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.appends import ROOT
from holdfast.errors import CorruptData
from holdfast.importers.contents import call_of, listed, parts_of, role_of, told_role
from holdfast.importers.databases import Database, opened
from holdfast.importers.facts import given, with_facts
from holdfast.importers.reading import derive, moment_of, parse, usable_id
from holdfast.importers.taking import Taker
from holdfast.model import Json, JsonPart, Message

_BRANCHES = "message_structure"


def read(taker: Taker, path: Path) -> None:
    """Take a database over, session by session; each item becomes one message."""
    with opened(path) as database:
        if _BRANCHES in database.tables():
            taker.report.note(str(path), "branches of an advanced session are not taken; its items follow one another")
        sql = (
            "SELECT session_id, created_at, updated_at FROM agent_sessions UNION ALL"
            " SELECT DISTINCT session_id, NULL, NULL FROM agent_messages"
            " WHERE session_id NOT IN (SELECT session_id FROM agent_sessions)"
        )
        for session_id, created_at, updated_at in [*database.rows(sql)]:
            where = f"{path}, session {session_id!r}"
            with taker.report.noting(where):
                facts = given(created_at=created_at, updated_at=updated_at, session_id=session_id)
                _take(taker, path, database, str(session_id), where, facts)
            taker.report.step()


def _take(taker: Taker, path: Path, database: Database, named: str, where: str, facts: dict[str, Json]) -> None:
    session_id = usable_id(named, taker.report, where)
    placing = taker.session(session_id, where, facts=facts)
    if placing is None:
        return
    at = ROOT
    reading = _Reading()
    sql = "SELECT id, message_data, created_at FROM agent_messages WHERE session_id = ? ORDER BY id"
    for row, text, created_at in database.rows(sql, (named,)):
        place = f"{path}, agent_messages row {row}"
        with taker.report.noting(place):
            item = parse(text, taker.report, place)
            if not isinstance(item, dict):
                raise CorruptData(f"{place}: no item")
            fields = reading.fields_of(item, place)
            own = derive(session_id, "item", str(row))
            at = placing.put(Message(id=own, created_at=moment_of(created_at, place), **fields), at, place)
    placing.flush()


class _Reading:
    """The items of one session, in their order; a result learns the name of its tool from the call."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def fields_of(self, item: dict[str, Json], where: str) -> dict[str, Any]:
        """What an item says as fields of a message; CorruptData where nobody can say who says it."""
        kind = item.get("type", "message")
        known: dict[str, Callable[[dict[str, Json], str], dict[str, Any]]] = {
            "message": self._message,
            "function_call": self._call,
            "reasoning": self._reasoning,
        }
        if not isinstance(kind, str):
            raise CorruptData(f"{where}: an item of the type {kind!r} is not known")
        if kind in known:
            return known[kind](item, where)
        if kind.endswith("_output"):
            return self._output(item)
        if kind.endswith("_call"):
            return {"role": "assistant", "content": [JsonPart(value=item)], "metadata": _kept(item, "id")}
        raise CorruptData(f"{where}: an item of the type {kind!r} is not known")

    def _message(self, item: dict[str, Json], where: str) -> dict[str, Any]:
        role = role_of(item.get("role"))
        if role is None:
            raise CorruptData(f"{where}: the role {item.get('role')!r} is not known")
        facts = given(role=told_role(item["role"]))
        return {
            "role": role,
            "content": parts_of(item.get("content")),
            "metadata": _kept(item, "id", "status", "name", "phase", **facts),
        }

    def _call(self, item: dict[str, Json], where: str) -> dict[str, Any]:
        call = call_of(item.get("call_id"), item.get("name"), item.get("arguments"))
        if call is None:
            raise CorruptData(f"{where}: the call has no call_id or no name")
        self._names[call.id] = call.name
        return {"role": "assistant", "tool_calls": [call], "metadata": _kept(item, "id", "status")}

    def _output(self, item: dict[str, Json]) -> dict[str, Any]:
        answers = item.get("call_id")
        fields: dict[str, Any] = {"role": "tool", "content": parts_of(item.get("output"))}
        if isinstance(answers, str):
            fields |= {"tool_call_id": answers, "tool_name": self._names.pop(answers, None)}
        if item.get("type") != "function_call_output":
            fields["content"] = [JsonPart(value=item)]
        return {**fields, "metadata": _kept(item, "id", "status")}

    def _reasoning(self, item: dict[str, Json], where: str) -> dict[str, Any]:
        del where
        told = listed(item.get("summary"))
        texts = [one["text"] for one in told if isinstance(one, dict) and isinstance(one.get("text"), str)]
        kept = _kept(item, "id", "status", "encrypted_content", "content", type="reasoning")
        return {"role": "assistant", "reasoning": "\n".join(texts) or None, "metadata": kept}


def _kept(item: dict[str, Json], *names: str, **facts: Json) -> dict[str, Json] | None:
    """The fields of an item that a message has no field for."""
    return with_facts(None, {**facts, **given(**{name: item.get(name) for name in names})})
