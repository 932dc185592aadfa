"""Items of OpenAI Agents as messages: text, calls, their results, reasoning; what has no field stays an item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.contents import call_of, listed, parts_of, role_of, told_role
from holdfast.errors import CorruptData
from holdfast.importers.facts import given, with_facts
from holdfast.model import Json, JsonPart


class Items:
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
