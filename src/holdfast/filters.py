"""One filter language for every backend: a field, a comparison, a bound value.

Field names come from kinds.py, never from a caller; values are always bound, never spliced.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

Scalar = str | int | bytes | None
Comparison = Literal["=", "!=", ">=", "<"]


class Filter(Struct, frozen=True):
    """Keep records whose field compares so; a missing value only equals None."""

    field: str
    compare: Comparison
    value: Scalar


_COMPARE: Mapping[Comparison, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">=": lambda present, value: present is not None and present >= value,
    "<": lambda present, value: present is not None and present < value,
}


def matches(values: Mapping[str, Scalar], filters: tuple[Filter, ...]) -> bool:
    """Whether a record with these values passes every filter."""
    return all(_COMPARE[one.compare](values[one.field], one.value) for one in filters)
