"""The folder of an embedded SurrealDB: who may have it open, what it may be called, what is refused."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast import Message
from holdfast.backends._surreal.folders import enter, leave
from holdfast.backends.surreal import SurrealStore
from holdfast.contracts import Delete, Insert, Query
from holdfast.errors import BackendError, MigrationError, NotFound, Unsupported
from holdfast.filters import Filter
from holdfast.kinds import CHECKPOINTS
from holdfast.testing.records import checkpoint

OPEN = "import sys, holdfast; holdfast.open(sys.argv[1]).sessions.create(id='theirs')"
FORK = """
import os, sys, warnings, holdfast
warnings.simplefilter("ignore")
hf = holdfast.open(sys.argv[1])
if os.fork() == 0:
    try:
        holdfast.open(sys.argv[1] + "-other")
    except holdfast.BackendError as error:
        print(error)
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]), hf.sessions.create(id="s").id)
"""


def in_another_process(url: str) -> str:
    """Open the store there and add a session; what it has to say about that."""
    done = subprocess.run([sys.executable, "-c", OPEN, url], capture_output=True, text=True, timeout=120, check=False)
    return done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_second_process_is_busy_and_changes_nothing(tmp_path: Path) -> None:
    url = f"surrealkv:///{tmp_path}/agents"
    with holdfast.open(url) as hf:
        hf.sessions.create(id="mine")
        before = contents(tmp_path)
        assert "holdfast.errors.Busy: another process has" in in_another_process(url)
        assert contents(tmp_path) == before


def test_a_closed_store_is_free_for_another_process_at_once(tmp_path: Path) -> None:
    url = f"surrealkv:///{tmp_path}/agents"
    for number in range(3):
        with holdfast.open(url) as hf:
            hf.sessions.create(id=f"mine {number}")
    assert in_another_process(url) == ""
    with holdfast.open(url) as hf:
        assert {session.id for session in hf.sessions.list()} == {"mine 0", "mine 1", "mine 2", "theirs"}


def test_stores_of_one_process_share_a_folder_until_the_last_is_closed(tmp_path: Path) -> None:
    url = f"surrealkv:///{tmp_path}/agents"
    first, second = holdfast.open(url), holdfast.open(f"surrealkv:///{tmp_path}/./agents")
    first.sessions.create(id="s")
    first.close()
    second.sessions.append("s", Message.user("still here"))
    assert "Busy" in in_another_process(url)
    second.close()
    assert in_another_process(url) == ""


def test_a_forked_child_is_told_to_start_anew_and_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORK, f"surrealkv:///{tmp_path}/agents"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "start a new process instead" in done.stdout
    assert done.stdout.endswith("7 s\n")


@pytest.mark.parametrize("name", ["a b", "a%20b", "ä😀", "a'b", "a+b&c=d"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    with closing(SurrealStore(str(tmp_path / name))) as store:
        assert store.inspect().backend == "surreal"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "clog").is_dir()


def test_a_read_only_store_is_read_and_not_written(tmp_path: Path) -> None:
    url = f"surrealkv:///{tmp_path}/agents"
    with pytest.raises(NotFound, match="no store"):
        holdfast.open(url, read_only=True)
    assert list(tmp_path.iterdir()) == []
    with holdfast.open(url) as hf:
        hf.sessions.create(id="s")
    with holdfast.open(url, read_only=True) as hf:
        assert [session.id for session in hf.sessions.list()] == ["s"]
        with pytest.raises(Unsupported):
            hf.sessions.create(id="t")


def test_a_store_of_a_later_format_is_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "agents")
    engine = enter(path, read_only=False)
    engine.ask("UPDATE holdfast:format SET number = 99")
    leave(engine)
    with pytest.raises(MigrationError, match="99"):
        SurrealStore(path)


def test_a_file_where_the_folder_should_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("not a folder")
    with pytest.raises(BackendError, match="agents"):
        SurrealStore(str(tmp_path / "agents"))


def test_an_id_that_changes_hands_in_one_commit_leads_to_its_new_holder(tmp_path: Path) -> None:
    with closing(SurrealStore(str(tmp_path / "agents"))) as store:
        store.commit([Insert(checkpoint("s", 1, "c"))])
        store.commit([Delete(CHECKPOINTS, ("s", 1)), Insert(checkpoint("t", 1, "c"))])
        found = store.scan(Query(kind=CHECKPOINTS, where=(Filter("id", "=", "c"),)))
        assert [record.key for record in found] == [("t", 1)]
