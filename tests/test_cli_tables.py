"""Lists on a terminal: a line for each row at any width, ids that can still be given, titles before the rest."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest
from cli_runs import HOLDFAST, Shell

import holdfast
from holdfast import Agent, Message
from holdfast.cli.tables import fit, shortened

STORE = "sqlite:///agents.db"
STYLE = re.compile(r"\x1b\[[0-9;]*m")
TITLE = "Find a ryokan in Kyoto for {} people"


@pytest.fixture
def lists(home: Path) -> Path:
    """A store with ids of the store's own making."""
    with holdfast.open(STORE) as hf:
        agent = hf.agents.save(Agent(id="8f14e45f-ceea-467f-9f5d-1f2a3b4c5d6e", name="Scout of the far east"))
        for number in range(5):
            hf.sessions.save({"agent_id": agent.id}, [Message.user(TITLE.format(number))])
    return home


def shown(width: int, *arguments: str) -> list[str]:
    """What a command prints on a terminal of this width, line by line."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    for name in ("COLUMNS", "LINES"):
        environment.pop(name, None)
    command = [HOLDFAST, "--store", STORE, *arguments]
    subprocess.run(command, stdin=follower, stdout=follower, stderr=follower, env=environment, timeout=60, check=True)
    os.close(follower)
    drawn = os.read(leader, 65536).decode()
    os.close(leader)
    return STYLE.sub("", drawn).splitlines()


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("noun", ["session", "agent"])
def test_a_list_has_a_line_for_each_row_and_ids_that_can_be_given(lists: Path, noun: str, width: int) -> None:
    assert lists.is_dir()
    head, _, *rows = shown(width, noun, "list")
    full = Shell(STORE).lines(noun, "list", "--json")
    assert (head.split()[0], len(rows)) == ("id", len(full))
    assert max(map(len, rows)) <= width
    for row, one in zip(rows, full, strict=True):
        assert Shell(STORE).json(noun, "load", row.split()[0])["id"] == one["id"]


def test_a_title_has_the_room_and_a_wide_terminal_everything(lists: Path) -> None:
    assert lists.is_dir()
    head, _, first, *_ = shown(80, "session", "list")
    assert ("updated" in head, TITLE[:20] in first) == (True, True)
    wide = "\n".join(shown(200, "session", "list"))
    assert all(one["id"] in wide and one["title"] in wide for one in Shell(STORE).lines("session", "list", "--json"))


def test_ids_are_shortened_only_as_far_as_they_stay_apart() -> None:
    assert shortened(["kyoto", "kyoto-2"]) == {"kyoto": "kyoto", "kyoto-2": "kyoto-2"}
    alike = ["01a1df83-a55a-76fd", "01a1df83-a55a-7700"]
    assert list(shortened(alike).values()) == ["01a1df83-a55a-76", "01a1df83-a55a-77"]


def test_an_empty_table_and_one_that_can_never_fit_are_left_standing() -> None:
    assert fit(["id", "title"], [], 3) == (["id", "title"], [])
    columns, rows = fit(["id", "title", "status"], [["x" * 50, "y" * 50, "active"]], 20)
    assert (columns, rows[0][0]) == (["id", "title"], "x" * 12)
