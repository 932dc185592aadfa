"""Standard streams that are closed, unbuffered, or left by their reader: a code, a sentence, never a traceback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cli_runs import HOLDFAST, TALK, Shell

import holdfast
from holdfast import Message

STORE = "sqlite:///agents.db"


def bash(command: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of a shell, whose code is that of the first program in it that fails."""
    path = f"{Path(HOLDFAST).parent}:{os.environ['PATH']}"
    named = {**os.environ, "PATH": path, "HOLDFAST_STORE": STORE, **environment}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60, env=named, cwd=home
    )


@pytest.fixture
def long(home: Path) -> Path:
    """A store with a conversation of more bytes than a pipe holds."""
    with holdfast.open(STORE) as hf:
        hf.sessions.save({"id": "long"}, [Message.user("words " * 50) for _ in range(1_000)])
    return home


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", ["session load long", "demo"])
def test_a_reader_that_takes_one_line_ends_it_with_141(long: Path, command: str, unbuffered: str) -> None:
    done = bash(f"holdfast {command} | head -1", long, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (141, "", 1)


def test_a_slow_reader_gets_everything_of_an_unbuffered_stream(long: Path) -> None:
    done = bash("holdfast session load long | (sleep 0.1; wc -c)", long, PYTHONUNBUFFERED="1")
    assert int(done.stdout) == len(Shell(STORE).says("session", "load", "long"))


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("stats >&-", 1, "standard output is closed"),
        ("session delete kyoto <&-", 2, "repeat with --yes"),
        ("agent save - <&-", 1, "not JSON"),
        ("stats 2>&-", 0, ""),
    ],
)
def test_a_closed_stream_is_said_without_a_traceback(home: Path, command: str, code: int, says: str) -> None:
    Shell(STORE).says("session", "save", "-", given=TALK)
    done = bash(f"holdfast {command}", home)
    assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (code, True, False), done.stderr
