"""A line of the table of inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from holdfast.client import Holdfast

Call = Callable[[Holdfast], object]
Give = Callable[[Holdfast, Any], object]


class Row(Struct, frozen=True):
    """An input, and what comes of it: an error, or the value that reads back."""

    place: str
    name: str
    call: Call
    outcome: object


def bound(give: Give, value: object) -> Call:
    """The call that gives this value."""
    return lambda hf: give(hf, value)


def made(give: Give, make: Callable[[], object]) -> Call:
    """The call that makes its value when it is due, for values that are no good to keep around."""
    return lambda hf: give(hf, make())
