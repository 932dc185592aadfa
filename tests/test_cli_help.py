"""Every command shows how it is used, what it shows works, and the docs list them all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli_runs import AGENT, HOLDFAST, TALK, Shell

import holdfast
from holdfast import Message
from holdfast.cli.main import COMMANDS, cli
from holdfast.cli.shapes import Command

ROOT = Path(__file__).parent.parent


def commands(group: click.Group = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its whole name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


EXAMPLES = [
    (name, example) for name, command in commands() if isinstance(command, Command) for example in command.examples
]


def test_every_command_has_a_help_with_an_example() -> None:
    for name, command in commands():
        assert command.help, name
        assert isinstance(command, Command), name
        assert all(f"holdfast {name}" in example or "--store" in example for example in command.examples), name


def test_the_list_of_commands_says_what_their_own_help_says() -> None:
    for section in COMMANDS.values():
        for name, (_, help) in section.items():
            command = cli.get_command(click.Context(cli), name)
            assert command is not None
            assert (command.help or "").splitlines()[0] == help


@pytest.fixture
def desk(home: Path) -> Path:
    """A folder with what the examples speak of."""
    shell = Shell("sqlite:///agents.db")
    shell.says("agent", "save", "-", given=AGENT)
    shell.says("session", "save", "-", given=TALK)
    shell.says("checkpoint", "create", "scout", "--name", "before booking")
    with holdfast.open(shell.store) as hf:
        with hf.runs.start("kyoto", key="book-1") as run:
            run.append(Message.user("Book the first"))
        hf.artifacts.put(b"a map", name="map.png", session_id="kyoto")
    shell.says("checkpoint", "create", "scout", "--name", "after booking")
    (home / "map.png").write_bytes(b"a map")
    (home / "chat.jsonl").write_text('{"role": "user", "content": "Find a ryokan"}\n')
    return home


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_every_example_works(desk: Path, name: str, example: str) -> None:
    if name == "import":
        Shell("sqlite:///agents.db").says("export", "agents.zip")
    path = f"{Path(HOLDFAST).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOLDFAST_STORE": "sqlite:///agents.db"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", example], capture_output=True, text=True, timeout=60, env=environment, cwd=desk
    )
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert done.stdout or done.stderr


def test_the_docs_list_every_command() -> None:
    checked = subprocess.run([sys.executable, ROOT / "tools/make_commands.py", "--check"], timeout=60)
    assert checked.returncode == 0
