"""What the file backend promises about what is on disk: names, lines, repairs, removals, turns, full disks."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.backends._file.disk import Disk
from holdfast.backends._file.journal import JOURNAL, Journal
from holdfast.backends._file.lock import SharedLock
from holdfast.backends._file.names import escape, unescape
from holdfast.backends.file import FileStore
from holdfast.client import Holdfast
from holdfast.contracts import Insert, Put, Query
from holdfast.deadlines import within
from holdfast.errors import BackendError, Busy, MigrationError, NotFound, Unsupported
from holdfast.kinds import SESSIONS
from holdfast.model import Message
from holdfast.testing.records import dump, message, session

HOSTILE = (
    "../../etc/x",
    "a/b",
    "a.json",
    "CON",
    "con",
    "A",
    "a",
    "a%41",
    "a]b",
    '"',
    "~",
    "..",
    " ",
    "ä",
    "😀",
    "n" * 255,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "agents")


@pytest.fixture
def hf(path: str) -> Iterator[Holdfast]:
    with Holdfast(FileStore(path)) as opened:
        yield opened


def _files(path: str) -> dict[str, bytes]:
    found = (file for file in Path(path).rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


def _log(path: str) -> Path:
    (log,) = Path(path).glob("histories/*/messages.1.jsonl")
    return log


# what is on disk


def test_a_conversation_is_lines_of_json_that_anyone_can_read(hf: Holdfast, path: str) -> None:
    hf.sessions.create(id="chat")
    hf.sessions.append("chat", Message.user("Hello"), Message.assistant("Hi"))
    lines = [json.loads(line) for line in _log(path).read_text().splitlines()]
    assert [line["body"]["content"][0]["text"] for line in lines] == ["Hello", "Hi"]
    assert json.loads(Path(path, "heads/chat.json").read_text())["body"]["seq"] == 2


def test_a_message_adds_a_line_and_leaves_those_before_it(hf: Holdfast, path: str) -> None:
    hf.sessions.create(id="chat")
    hf.sessions.append("chat", Message.user("one"))
    before = _files(path)
    hf.sessions.append("chat", Message.user("two"))
    changed = {name for name, content in _files(path).items() if before.get(name) != content and name[0] != "."}
    assert changed == {"heads/chat.json", str(_log(path).relative_to(path))}
    assert _log(path).read_bytes().startswith(before[str(_log(path).relative_to(path))])


def test_the_same_commits_make_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "other"):
        store = FileStore(str(tmp_path / name))
        store.commit([Insert(session("b")), Insert(session("a")), Insert(message("h", 1, 1, "m"))])
        store.close()
    kept = [{n: c for n, c in _files(str(tmp_path / name)).items() if n[0] != "."} for name in ("one", "other")]
    assert kept[0] == kept[1]


def test_git_is_told_what_is_not_worth_keeping(path: str) -> None:
    FileStore(path).close()
    assert Path(path, ".holdfast/.gitignore").read_text() == "*\n"


def test_a_store_without_its_working_files_is_whole(path: str) -> None:
    store = FileStore(path)
    store.commit([Insert(session("s")), Insert(message("h", 1, 1, "m"))])
    store.close()
    shutil.rmtree(f"{path}/.holdfast")
    assert len(dump(FileStore(path, read_only=True))) == 2
    assert len(dump(FileStore(path))) == 2


# names


def test_hostile_ids_are_listed_back_exactly_and_differ_by_more_than_case(path: str) -> None:
    store = FileStore(path)
    store.commit([Insert(session(id)) for id in HOSTILE])
    assert sorted(str(found.key[0]) for found in FileStore(path).scan(Query(kind=SESSIONS))) == sorted(HOSTILE)
    names = os.listdir(f"{path}/sessions")
    assert len({name.lower() for name in names}) == len(HOSTILE)
    assert store.inspect(check=True).problems == ()
    assert sorted(os.listdir(Path(path).parent)) == ["agents"]


@pytest.mark.parametrize("text", ["", "%", "%41", *HOSTILE[:-1]])
def test_a_name_says_what_it_stands_for(text: str) -> None:
    assert unescape(escape(text)) == text


@pytest.mark.parametrize("name", ["A", "a.b", "%4", "%4G", "%61", "con", "%ff", "a/b"])
def test_a_name_that_no_text_has_stands_for_nothing(name: str) -> None:
    assert unescape(name) is None


# damage that is repaired


def test_a_torn_last_line_is_cut_by_the_next_writer(hf: Holdfast, path: str) -> None:
    hf.sessions.create(id="chat")
    hf.sessions.append("chat", Message.user("one"))
    whole = _log(path).read_bytes()
    _log(path).write_bytes(whole + whole[:50])
    with Holdfast(FileStore(path)) as later:
        later.sessions.append("chat", Message.user("two"))
        assert [one.text for one in later.sessions.messages("chat")] == ["one", "two"]
        assert later.verify().ok


@pytest.mark.parametrize("end", [b"", b"x"])
def test_a_last_line_that_lacks_its_end_is_kept(hf: Holdfast, path: str, end: bytes) -> None:
    hf.sessions.create(id="chat")
    hf.sessions.append("chat", Message.user("one"))
    _log(path).write_bytes(_log(path).read_bytes()[:-1] + end)
    with Holdfast(FileStore(path)) as later:
        later.sessions.append("chat", Message.user("two"))
        assert [one.text for one in later.sessions.messages("chat")] == ["one", "two"]
        assert later.verify().ok


# what was removed


def test_a_redacted_message_is_nowhere_in_the_folder(hf: Holdfast, path: str) -> None:
    hf.sessions.create(id="chat", title="x")
    said = hf.sessions.append("chat", Message.user("a secret"), Message.user("an answer"))
    hf.sessions.redact("chat", said[0].id, "asked to")
    assert not [name for name, content in _files(path).items() if b"a secret" in content]


def test_a_deleted_session_is_nowhere_in_the_folder(hf: Holdfast, path: str) -> None:
    hf.sessions.create(id="kept")
    hf.sessions.create(id="chat-to-delete", user_id="ann")
    hf.sessions.append("chat-to-delete", *(Message.user("a secret") for _ in range(500)))
    hf.sessions.delete("chat-to-delete")
    assert not [name for name in _files(path) if "chat-to-delete" in name]
    hf.close()
    left = _files(path)
    assert not [name for name, content in left.items() if b"chat-to-delete" in content or b"a secret" in content]
    assert len(os.listdir(f"{path}/histories")) == 1


# opening


def test_a_newer_store_is_refused_and_left_alone(path: str) -> None:
    FileStore(path).close()
    Path(path, "holdfast.json").write_text('{"format":2,"namespace":""}\n')
    before = _files(path)
    with pytest.raises(MigrationError):
        FileStore(path)
    assert _files(path) == before


def test_a_store_that_does_not_say_its_format_says_what_to_do(path: str) -> None:
    FileStore(path).close()
    Path(path, "holdfast.json").write_bytes(b"\0" * 20)
    with pytest.raises(BackendError, match=r'write \{"format":1\} there'):
        FileStore(path)


def test_read_only_reads_and_writes_nothing(path: str) -> None:
    store = FileStore(path)
    store.commit([Insert(session("s"))])
    reader = FileStore(path, read_only=True)
    before = _files(path)
    assert dump(reader) == [session("s")]
    with pytest.raises(Unsupported):
        reader.commit([Put(session("s", b"other"))])
    assert _files(path) == before
    store.commit([Put(session("s", b"other"))])
    assert dump(reader) == [session("s", b"other")]


def test_there_must_be_something_to_read_only(path: str) -> None:
    with pytest.raises(NotFound):
        FileStore(path, read_only=True)
    assert not os.path.exists(path)


def test_the_folder_around_a_store_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        FileStore(str(tmp_path / "none" / "agents"))


# taking turns


@contextmanager
def _held(path: str, shared: bool) -> Iterator[None]:
    lock = SharedLock(f"{path}/.holdfast/lock")
    assert lock.acquire(shared, until=0)
    yield
    lock.close()


def test_at_its_deadline_a_writer_gives_up_and_has_written_nothing(path: str) -> None:
    store = FileStore(path)
    with _held(path, shared=True), within(0.05), pytest.raises(Busy):
        store.commit([Insert(session("s"))])
    assert dump(store) == []
    store.commit([Insert(session("s"))])
    assert dump(store) == [session("s")]


def test_readers_share_the_lock_and_wait_for_a_writer(path: str) -> None:
    store = FileStore(path)
    with _held(path, shared=True), within(0.05):
        assert dump(store) == []
    with _held(path, shared=False), within(0.05), pytest.raises(Busy):
        dump(store)
    assert dump(store) == []


# a disk that refuses, and what is left behind


@contextmanager
def _files_no_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [10, 10_000, 100_000])
def test_a_disk_that_refuses_leaves_everything_as_it_was(path: str, room: int) -> None:
    store = FileStore(path)
    store.commit([Insert(message("h", 1, 1, "m1", bytes(100_000))), Insert(session("s"))])
    before = dump(store)
    with _files_no_larger_than(room), pytest.raises(BackendError, match="nothing was written"):
        store.commit([Insert(message("h", 1, 2, "m2", bytes(9_000))), Put(session("s", b"other"))])
    with _files_no_larger_than(room), pytest.raises(BackendError):
        store.commit([Put(message("h", 1, 1, "m1", bytes(100_001)))])
    assert dump(store) == before
    assert dump(FileStore(path)) == before
    assert os.listdir(f"{path}/.holdfast/tmp") == []
    store.commit([Insert(message("h", 1, 2, "m2")), Put(session("s", b"other"))])
    assert store.inspect(check=True).problems == ()


class _DyingJournal(Journal):
    """Writes a commit down and does nothing about it."""

    def _stage(self, steps: object) -> list[str]:
        raise KeyboardInterrupt(f"before {steps}")


def test_an_interrupted_commit_is_there_for_readers_and_finished_by_the_next_writer(path: str) -> None:
    store = FileStore(path)
    store.commit([Insert(message("h", 1, 1, "m1")), Insert(session("gone"))])
    store._turns.journal = _DyingJournal(Disk(path))
    with pytest.raises(KeyboardInterrupt):
        store.commit([Insert(message("h", 1, 2, "m2")), Put(session("s"))])
    left = _files(path)
    seen = dump(FileStore(path, read_only=True))
    assert len(seen) == 4
    assert _files(path) == left
    assert dump(FileStore(path)) == seen
    assert Path(path, JOURNAL).read_bytes().startswith(b"done")
