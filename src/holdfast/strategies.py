"""When an agent loop checkpoints: a strategy looks at what happened and says whether now is the time."""

from __future__ import annotations

from typing import Literal

from holdfast.errors import InvalidInput

Event = Literal["tool_call", "model_response", "iteration"]


class Strategy:
    """After each tool call unless told otherwise; ask `due` after each event of the loop."""

    def __init__(self, on: Event | None = "tool_call", every: int = 1) -> None:
        if on not in (None, "tool_call", "model_response", "iteration"):
            raise InvalidInput(f"a strategy looks at tool_call, model_response or iteration, not {on!r}")
        if not isinstance(every, int) or isinstance(every, bool) or every < 1:
            raise InvalidInput(f"every how many iterations must be a whole number from 1, not {every!r}")
        self._on = on
        self._every = every
        self._last = 0

    @classmethod
    def after_tool_calls(cls) -> Strategy:
        """After each tool call."""
        return cls("tool_call")

    @classmethod
    def after_responses(cls) -> Strategy:
        """After each response of the model."""
        return cls("model_response")

    @classmethod
    def every_iterations(cls, count: int) -> Strategy:
        """Once at every so many iterations of the loop."""
        return cls("iteration", count)

    @classmethod
    def never(cls) -> Strategy:
        """Not at all."""
        return cls(None)

    def due(self, event: Event, iteration: int) -> bool:
        """Whether to checkpoint now; iterations count from 1, and each is due at most once."""
        if event != self._on:
            return False
        if self._on != "iteration":
            return True
        if iteration == self._last or iteration < 1 or iteration % self._every:
            return False
        self._last = iteration
        return True
