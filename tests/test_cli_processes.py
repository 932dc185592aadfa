"""Commands as processes: pipes, a reader that goes away, Ctrl-C, completion, colours, and how soon they begin."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import HOLDFAST, TALK, Shell, process

import holdfast
from holdfast import Message

COLOUR = re.compile(r"\x1b\[([0-9]+;)*3[0-7]m")
STORE = ["--store", "sqlite:///agents.db"]


@pytest.fixture
def long(home: Path) -> Path:
    """A store with a long conversation."""
    with holdfast.open("sqlite:///agents.db") as hf:
        hf.sessions.save({"id": "long"}, [Message.user(f"{number} " + "words " * 50) for number in range(3_000)])
    return home


def test_load_and_save_compose(home: Path) -> None:
    Shell("sqlite:///agents.db").says("session", "save", "-", given=TALK)
    command = (
        f"{HOLDFAST} --store sqlite:///agents.db session load kyoto"
        f" | {HOLDFAST} --store file:///other session save - --json"
    )
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, cwd=home)
    assert json.loads(done.stdout)["head"]["seq"] == 2


@pytest.mark.parametrize("command", [["log", "long"], ["log", "long", "--json"]], ids=" ".join)
def test_a_reader_that_goes_away_ends_it_quietly(long: Path, command: list[str]) -> None:
    with subprocess.Popen(
        [HOLDFAST, *STORE, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=long
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline()
        running.stdout.close()
        assert (running.wait(60), running.stderr.read()) == (141, b"")


def test_ctrl_c_ends_with_130(long: Path) -> None:
    with holdfast.open("sqlite:///agents.db") as hf:
        hf.runs.start("long", key="live")  # held by this process, so that whoever follows it waits
        run = hf.runs.list("long")[0]
        with subprocess.Popen(
            [HOLDFAST, *STORE, "run", "events", run.id, "--follow"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=long,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            assert b"started" in running.stdout.readline()
            running.send_signal(signal.SIGINT)
            assert running.wait(60) == 130
            assert b"Traceback" not in running.stderr.read()


# terminals


def on_terminal(*arguments: str, answer: str = "", **environment: str) -> tuple[int, str]:
    """A command with a terminal on all its ends; what it shows, and its code."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [HOLDFAST, *STORE, *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", **environment},
    ) as running:
        os.close(follower)
        os.write(leader, answer.encode())
        shown = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the terminal's other end is closed
                break
            if not piece:
                break
            shown += piece
        os.close(leader)
    return running.returncode, shown.decode()


def test_colours_are_for_terminals_that_want_them(long: Path) -> None:
    assert long.is_dir()
    assert COLOUR.search(on_terminal("log", "long", "--last", "1")[1])
    assert not COLOUR.search(on_terminal("log", "long", "--last", "1", NO_COLOR="1")[1])
    assert COLOUR.search(on_terminal("log", "nothing")[1])
    assert not COLOUR.search(on_terminal("log", "nothing", NO_COLOR="1")[1])
    assert "\x1b[" not in process(*STORE, "log", "long", "--last", "1").stdout


def test_a_person_is_asked_before_anything_is_destroyed(long: Path) -> None:
    assert long.is_dir()
    code, shown = on_terminal("session", "delete", "long", answer="n\n")
    assert (code, "Delete session long" in shown, "nothing was changed" in shown) == (1, True, True)
    assert on_terminal("session", "delete", "long", answer="y\n")[0] == 0
    assert Shell(STORE[1]).lines("session", "list", "--json") == []


def test_long_work_shows_how_far_it_is_only_on_a_terminal(long: Path) -> None:
    assert long.is_dir()
    assert "checking" in on_terminal("verify")[1]
    assert process(*STORE, "verify").stderr == ""


# completion


def test_the_script_of_each_shell_is_printed() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_HOLDFAST_COMPLETE" in process("completion", shell).stdout


def test_bash_completes_commands_and_options(home: Path) -> None:
    script = home / "completion.bash"
    script.write_text(process("completion", "bash").stdout)
    asked = (
        f"source {script}; PATH={Path(HOLDFAST).parent}:$PATH; COMP_WORDS=(holdfast session l); COMP_CWORD=2;"
        ' _holdfast_completion holdfast; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=60)
    assert set(done.stdout.split()) == {"load", "list"}


# how soon


def work_of(command: list[str]) -> float:
    """The processor time that a command takes, which others on the machine lengthen less than its wall time."""
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL) as running:
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode == 0
    return used.ru_utime + used.ru_stime


def test_the_help_and_the_import_come_soon() -> None:
    commands = [["-c", "pass"], ["-c", "import holdfast"], [HOLDFAST, "--help"]]
    rounds = [[work_of(command) for command in commands] for _ in range(15)]
    nothing, imported, helped = (min(times) for times in zip(*rounds, strict=True))
    assert imported < 6 * nothing
    assert helped < 10 * nothing


@pytest.mark.parametrize("command", ["session load", "agent save", "checkpoint create", "run list"])
def test_the_help_of_a_command_loads_no_store(command: str) -> None:
    program = f"from holdfast.cli.main import main; main({[*command.split(), '--help']}); import sys"
    shown = f"{program}; print('\\nclient' if 'holdfast.client' in sys.modules else '\\nno client')"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.endswith("no client\n")


def test_python_dash_m_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == process("--version").stdout


def test_the_demo_does_nothing_twice_and_leaves_nothing_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(home))
    shown = process("demo").stdout
    assert all(words in shown for words in ("kill -9", "2 bookings, 0 of them twice", "branch 2", "full snapshots"))
    assert "DAMAGED" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert list(home.iterdir()) == []
