"""An agent survives kill -9 in the middle of its work, and the harness that says so notices one that does not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Message, ToolCall
from holdfast.backends.sqlite import SqliteStore
from holdfast.contracts import Insert, Rebase, Write
from holdfast.driver import Driver
from holdfast.runs import Runs
from holdfast.testing import run_kills
from holdfast.testing.providers import anthropic_form, anthropic_refusals, openai_form, openai_refusals, refusals

KILLS = int(os.environ.get("HOLDFAST_RUN_KILLS", "200"))
FEW = 60
SQLITE = "sqlite:///{folder}/agents.db"

ASKED = Message.assistant("I look", tool_calls=[ToolCall(id="a", name="look"), ToolCall(id="b", name="look")])
A, B = Message.tool_result("a", "1"), Message.tool_result("b", "2")
USER, DONE = Message.user("Go"), Message.assistant("!")


@pytest.mark.parametrize(("url", "kills"), [(SQLITE, KILLS), ("file:///{folder}/agents", KILLS // 4)])
def test_a_killed_agent_does_nothing_twice_and_keeps_nothing_quiet(url: str, kills: int, tmp_path: Path) -> None:
    tally = run_kills.run(url.format(folder=tmp_path), tmp_path, kills)
    assert tally.problems == []
    assert tally.interrupted == kills
    assert tally.completed
    assert tally.reported


# agents and stores that are caught


class ForgetfulStore(SqliteStore):
    """Acknowledges that a call begins, and does not write it down."""

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        return super().commit(writes, None if rebase is None else lambda reader: _kept(rebase(reader)))


def _kept(writes: Sequence[Write]) -> list[Write]:
    return [one for one in writes if not (isinstance(one, Insert) and b'"kind":"begun"' in one.record.body)]


class QuietRuns(Runs):
    """Retries whatever is in flight, and asks nobody."""

    def start(self, session_id: str, **given: Any) -> Driver:
        return super().start(session_id, **{**given, "in_flight": "retry"})


class DeafRuns(Runs):
    """Calls every tool, whatever is on record."""

    def start(self, session_id: str, **given: Any) -> Driver:
        driver = super().start(session_id, **given)
        driver.__class__ = DeafDriver
        return driver


class DeafDriver(Driver):
    def tool(self, name: str, function: Callable[..., Any], /, **given: Any) -> Any:
        found = super().tool(name, function, **given)
        function(x=given["x"])
        return found


def open_forgetful(url: str) -> Holdfast:
    return Holdfast(ForgetfulStore(url.removeprefix("sqlite:///")))


def open_quiet(url: str) -> Holdfast:
    hf = Holdfast(SqliteStore(url.removeprefix("sqlite:///")))
    hf.runs = QuietRuns(hf._ground)
    return hf


def open_deaf(url: str) -> Holdfast:
    hf = Holdfast(SqliteStore(url.removeprefix("sqlite:///")))
    hf.runs = DeafRuns(hf._ground)
    return hf


@pytest.mark.parametrize(
    ("opener", "said"),
    [
        (open_forgetful, r"is not on record|are not \d+ in a row"),
        (open_quiet, "asked about 0 times"),
        (open_deaf, "ran 2 times"),
    ],
)
def test_whoever_breaks_a_promise_is_caught(opener: Callable[[str], Holdfast], said: str, tmp_path: Path) -> None:
    tally = run_kills.run(SQLITE.format(folder=tmp_path), tmp_path, FEW, opener=opener)
    assert re.search(said, " ".join(tally.problems))


# what providers accept


@pytest.mark.parametrize("said", [[USER, ASKED, A, B, DONE], [USER, ASKED, B, A, DONE, USER], [USER, DONE]])
def test_providers_accept_a_conversation_in_order(said: list[Message]) -> None:
    assert refusals(said) == []


@pytest.mark.parametrize(
    "said",
    [
        [USER, ASKED],
        [USER, ASKED, A],
        [USER, ASKED, A, DONE],
        [USER, ASKED, A, DONE, B],
        [USER, ASKED, A, USER, B],
        [USER, ASKED, A, A, B],
        [USER, ASKED, A, B, B],
        [USER, A, DONE],
        [USER, ASKED, ASKED, A, B],
    ],
)
def test_providers_refuse_a_conversation_out_of_order(said: list[Message]) -> None:
    assert list(openai_refusals(openai_form(said)))
    assert list(anthropic_refusals(anthropic_form(said)))
