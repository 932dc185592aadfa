"""Pure functions of LangGraph's store: which items and namespaces match what is asked for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langgraph.store.base import ListNamespacesOp, MatchCondition

from holdfast.errors import InvalidInput
from holdfast.ids import check_id
from holdfast.item_records import StoredItem

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def space_of(namespace: Sequence[str]) -> str:
    """The text that stands for a namespace."""
    for label in namespace:
        if not isinstance(label, str) or not label or "." in label:
            raise InvalidInput(f"a namespace is a tuple of words without dots, not {namespace!r}")
    if not namespace:
        raise InvalidInput("an item has a namespace of at least one word")
    return check_id(".".join(namespace), "namespace")


def is_within(item: StoredItem, prefix: Sequence[str]) -> bool:
    """Whether an item's namespace begins so."""
    return tuple(item.space.split("."))[: len(prefix)] == tuple(prefix)


def admits(value: Any, wanted: Mapping[str, Any] | None) -> bool:
    """Whether a value has what a filter asks for: equal parts, or comparisons such as {"$gt": 3}."""
    return all(_fits(value.get(name), one) for name, one in (wanted or {}).items())


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if any(str(name).startswith("$") for name in wanted):
            return all(_compares(value, name, one) for name, one in wanted.items())
        return isinstance(value, dict) and all(_fits(value.get(name), one) for name, one in wanted.items())
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(_fits(one, other) for one, other in zip(value, wanted, strict=True))
    return bool(value == wanted)


def _compares(value: Any, name: str, wanted: Any) -> bool:
    if name not in _OPERATORS:
        raise InvalidInput(f"a filter compares by {', '.join(_OPERATORS)}, not {name!r}")
    if name in ("$eq", "$ne"):
        return _OPERATORS[name](value, wanted)
    try:
        return _OPERATORS[name](float(value), float(wanted))
    except (TypeError, ValueError):
        return False


def listed(spaces: Iterable[str], op: ListNamespacesOp) -> list[tuple[str, ...]]:
    """The namespaces that match, each once, in order."""
    found = {tuple(space.split(".")) for space in spaces}
    found = {one for one in found if all(_matches(one, condition) for condition in op.match_conditions or ())}
    if op.max_depth is not None:
        found = {one[: op.max_depth] for one in found}
    return sorted(found)[op.offset : op.offset + op.limit]


def _matches(namespace: Sequence[str], condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    end = len(namespace) if condition.match_type == "suffix" else len(path)
    some = namespace[end - len(path) : end]
    return all(wanted in ("*", label) for label, wanted in zip(some, path, strict=True))
