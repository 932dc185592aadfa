"""What a command is told: ids and their beginnings, settings, confirmations; and what it says when that is wrong."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from cli_runs import AGENT, TALK, Shell, process
from click.testing import CliRunner

from holdfast import InvalidInput, NotFound
from holdfast.cli.main import cli, main

# ids


@pytest.mark.parametrize("meant", ["kyoto", "kyo", "Trip to Kyoto", "trip to kyoto"])
def test_a_session_is_found_by_id_beginning_or_title(talk: Shell, meant: str) -> None:
    assert talk.json("session", "load", meant)["id"] == "kyoto"


def test_an_ambiguous_beginning_lists_the_candidates(talk: Shell) -> None:
    talk.says("session", "save", "-", given={"id": "kyoto-2", "title": "Again"})
    error = talk.error("session", "delete", "kyo", "--yes")
    assert isinstance(error, InvalidInput)
    assert all(words in str(error) for words in ("kyoto  Trip to Kyoto", "kyoto-2  Again"))
    assert talk.json("session", "load", "kyoto")["id"] == "kyoto"  # a whole id is never ambiguous


def test_a_title_that_is_another_ones_beginning_is_ambiguous(talk: Shell) -> None:
    talk.says("session", "save", "-", given={"id": "other", "title": "kyo"})
    assert isinstance(talk.error("session", "load", "kyo"), InvalidInput)


@pytest.mark.parametrize("noun", ["agent", "session", "checkpoint"])
def test_what_is_not_there_is_said_with_what_to_do(talk: Shell, noun: str) -> None:
    error = talk.error(noun, "load", "nothing")
    assert isinstance(error, NotFound)
    assert f"holdfast {noun} list" in str(error)


def test_a_run_that_is_not_there_is_said_with_a_whole_command(talk: Shell) -> None:
    assert "holdfast run list SESSION" in str(talk.error("run", "events", "nothing"))


# confirmations


@pytest.mark.parametrize(
    "command",
    [
        ("agent", "delete", "scout"),
        ("session", "delete", "kyoto"),
        ("checkpoint", "restore", "point"),
        ("checkpoint", "delete", "point"),
    ],
    ids=" ".join,
)
def test_nothing_is_destroyed_without_a_yes(talk: Shell, command: tuple[str, ...]) -> None:
    talk.says("checkpoint", "create", "scout", "--name", "point")
    result = talk.run(*command)
    assert (result.exit_code, "--yes" in result.output) == (2, True)
    assert (len(talk.lines("session", "list", "--json")), len(talk.lines("checkpoint", "list", "--json"))) == (1, 1)


# what is given


@pytest.mark.parametrize(
    ("noun", "given"),
    [
        ("agent", "not json"),
        ("agent", '{"id": "a"}'),
        ("agent", "[]"),
        ("agent", '{"id": "a", "name": "A", "sate": 1}'),
        ("agent", "[" * 100_000),
        ("session", "{"),
        ("session", "42"),
        ("session", '{"messages": 1}'),
        ("session", '{"messages": [{"content": "no role"}]}'),
        ("session", '{"colour": "red"}'),
        ("session", "[" * 100_000),
        ("session", '{"messages": [{"role": "user", "content": "x", "created_at": "noon"}]}'),
    ],
    ids=lambda given: given[:40],
)
def test_what_cannot_be_saved_is_refused(shell: Shell, noun: str, given: str) -> None:
    assert isinstance(shell.run(noun, "save", "-", given=given).exception, InvalidInput)
    assert not list(Path().glob("agents*")) or shell.lines(noun, "list", "--json") == []


def test_an_unknown_field_of_an_agent_is_named(shell: Shell) -> None:
    refused = shell.run("agent", "save", "-", given={**AGENT, "sate": 1})
    assert "no field 'sate'" in str(refused.exception)


def test_if_unchanged_needs_a_revision_to_compare_with(talk: Shell) -> None:
    refused = talk.run("agent", "save", "-", "--if-unchanged", given={**AGENT, "name": "Other"})
    assert isinstance(refused.exception, InvalidInput)
    assert talk.json("agent", "load", "scout")["name"] == "Scout"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["agent", "load"],
        ["agent", "save", "missing.json"],
        ["checkpoint", "create"],
        ["checkpoint", "create", "scout", "--session", "kyoto"],
        ["prune"],
        ["session", "list", "--limit", "-1"],
        ["log", "kyoto", "--at", "x", "--last", "1"],
        ["completion", "csh"],
        ["--frobnicate"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("home")
def test_wrong_usage_ends_with_two(arguments: list[str]) -> None:
    assert CliRunner().invoke(cli, arguments).exit_code == 2


# settings


def test_a_reader_makes_no_store(home: Path) -> None:
    for store in ("sqlite:///none.db", "file:///none"):
        for command in (["stats"], ["session", "list"], ["search", "x"], ["verify"]):
            assert isinstance(Shell(store).error(*command), NotFound)
    assert list(home.glob("none*")) == []


def test_the_environment_names_the_store(talk: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", talk.store)
    assert "kyoto" in CliRunner().invoke(cli, ["session", "list"]).output
    monkeypatch.setenv("HOLDFAST_NAMESPACE", "acme")
    assert "kyoto" not in CliRunner().invoke(cli, ["session", "list"]).output


def test_an_empty_store_is_refused(talk: Shell, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", talk.store)
    assert isinstance(Shell("").error("agent", "save", "-"), InvalidInput)
    assert isinstance(Shell("").error("stats"), InvalidInput)
    assert not (home / "XDG_DATA_HOME").exists()


def test_writing_to_memory_is_said_to_end_with_the_command(home: Path) -> None:
    assert home.is_dir()
    saved = Shell("memory:").run("agent", "save", "-", given=AGENT)
    assert (saved.exit_code, "ends with this command" in saved.stderr) == (0, True)


def test_the_config_file_names_the_store(talk: Shell, home: Path) -> None:
    config = home / "XDG_CONFIG_HOME/holdfast/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'store = "{talk.store}"\ntimeout = 5\n')
    assert "kyoto" in CliRunner().invoke(cli, ["session", "list"]).output
    config.write_text("stoer = 1")
    assert "stoer" in str(CliRunner().invoke(cli, ["stats"]).exception)
    config.write_text("store = 5")
    assert "in quotes" in str(CliRunner().invoke(cli, ["stats"]).exception)
    config.write_text("= no toml")
    assert "not TOML" in str(CliRunner().invoke(cli, ["stats"]).exception)


def test_without_settings_the_data_folder_is_used(home: Path) -> None:
    assert CliRunner().invoke(cli, ["agent", "save", "-"], input='{"id": "a", "name": "A"}').exit_code == 0
    assert (home / "XDG_DATA_HOME/holdfast/agents.db").is_file()


# what goes wrong


@pytest.mark.usefixtures("home")
def test_errors_are_a_message_and_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--store", "sqlite:///none.db", "stats"]) == 1
    assert capsys.readouterr().err.startswith("NotFound: there is no store at sqlite:///none.db yet")
    assert main(["--store", "nonsense://x", "stats"]) == 1
    assert "InvalidInput" in capsys.readouterr().err


def test_only_what_may_pass_is_said_to_succeed_later(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "folder").mkdir()
    assert main(["--store", "sqlite:///folder", "stats"]) == 1
    assert "later" not in capsys.readouterr().err
    assert main(["--store", "redis://127.0.0.1:1/0", "--timeout", "0.2", "stats"]) == 1
    assert "once the server is there" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_damage_is_found_named_and_ends_with_three() -> None:
    shell = Shell("sqlite:///agents.db")
    shell.says("session", "save", "-", given=TALK)
    with sqlite3.connect("agents.db") as con:
        con.execute("UPDATE messages SET body = CAST(replace(body, 'ryokan', 'hostel') AS BLOB)")
    con.close()
    result = shell.run("verify")
    assert (result.exit_code, "messages" in result.output) == (3, True)
    assert shell.run("verify", "--json").exit_code == 3
    assert shell.run("doctor").exit_code == 3


@pytest.mark.usefixtures("home")
def test_doctor_says_what_to_do_about_a_store_that_it_cannot_read() -> None:
    shell = Shell("sqlite:///agents.db")
    assert "save something" in shell.run("doctor").output
    shell.says("session", "save", "-", given=TALK)
    with sqlite3.connect("agents.db") as con:
        con.execute("DROP TABLE heads")
    con.close()
    result = shell.run("doctor")
    assert (result.exit_code, "open it once" in result.output) == (1, True)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", ["doctor", "stats"])
@pytest.mark.parametrize(
    "address",
    ["redis://ann:s3cret@127.0.0.1:1/0", "postgresql://127.0.0.1:1/x?password=s3cret", "what://ann:s3cret@host/x"],
)
def test_nothing_that_is_said_of_an_address_repeats_its_password(address: str, command: str) -> None:
    result = CliRunner().invoke(cli, ["--store", address, "--timeout", "1", command])
    assert result.exit_code != 0
    assert "s3cret" not in f"{result.output} {result.exception}"


def test_a_stored_text_cannot_steer_the_terminal(shell: Shell) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jhi\u202eevil"
    shell.says(
        "session", "save", "-", given={"id": "s", "title": evil, "messages": [{"role": "user", "content": evil}]}
    )
    shell.says("agent", "save", "-", given={**AGENT, "name": evil})
    for command in (["log", "s"], ["session", "list"], ["agent", "list"], ["tree", "s"], ["search", "hi"]):
        said = shell.says(*command)
        assert not {"\x1b", "\x07", "\u202e"} & set(said), command


@pytest.mark.usefixtures("home")
def test_a_process_prints_no_traceback() -> None:
    done = process("--store", "sqlite:///none.db", "session", "load", "x")
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (1, "", False)


@pytest.mark.parametrize("before", [["log", "x"], ["session"], ["session", "list"]])
def test_an_option_of_the_program_behind_a_command_is_told_where_it_goes(before: list[str]) -> None:
    refused = CliRunner().invoke(cli, [*before, "--store", "memory:"])
    assert refused.exit_code == 2
    assert "--store goes before the command: holdfast --store" in refused.stderr
