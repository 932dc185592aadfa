"""What is SQLite's own: its file, its syncs, its versions, its backup."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import apsw
import msgspec
import pytest

import holdfast
from holdfast import (
    Agent,
    BackendError,
    Busy,
    Holdfast,
    IntegrityError,
    InvalidInput,
    Message,
    MigrationError,
    NotFound,
    Unsupported,
)
from holdfast.aio import AsyncHoldfast
from holdfast.backends import _sqlite_log
from holdfast.backends import _sqlite_schema as schema
from holdfast.backends.sqlite import SqliteStore
from holdfast.contracts import Insert, Reader, Write
from holdfast.kinds import CHECKPOINTS
from holdfast.testing.records import checkpoint

LONG_S = 30.0
OLDER = Path(__file__).parent / "fixtures" / "sqlite-schema-1.db"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


def opened(path: Path, **options: object) -> Holdfast:
    return holdfast.open(f"sqlite:///{path}", **options)  # type: ignore[arg-type]


# syncs


class CountingFile(apsw.VFSFile):
    """A file that counts how often it is synced, and takes its time for that as a disk does."""

    syncs = 0

    def __init__(self, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        CountingFile.syncs += 1
        time.sleep(0.0001)
        super().xSync(flags)


class CountingVFS(apsw.VFS):
    """A file system of such files."""

    def __init__(self) -> None:
        super().__init__("counting", "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        assert name is not None
        return CountingFile(name, flags)


@pytest.fixture
def counted(path: Path) -> Iterator[Holdfast]:
    vfs = CountingVFS()
    with Holdfast(SqliteStore(str(path), vfs="counting")) as hf:
        yield hf
    vfs.unregister()


def test_an_append_syncs_once(counted: Holdfast) -> None:
    session = counted.sessions.create(title="x").id
    counted.sessions.append(session, Message.user("first"))
    CountingFile.syncs = 0
    for number in range(100):
        counted.sessions.append(session, Message.user(str(number)))
    assert CountingFile.syncs == 100


def test_an_append_with_a_checkpoint_syncs_once(counted: Holdfast) -> None:
    session = counted.sessions.create(title="x").id
    CountingFile.syncs = 0
    for number in range(50):
        counted.checkpoints.create(session_id=session, messages=[Message.user(str(number))], step=number)
    assert CountingFile.syncs == 50


def test_the_log_stays_short_where_a_sync_takes_no_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []
    for nothing_s in (3600.0, 0.0):
        monkeypatch.setattr(_sqlite_log, "_NOTHING_S", nothing_s)
        with opened(path) as hf:
            session = hf.sessions.create().id
            for number in range(300):
                hf.sessions.append(session, Message.user(str(number)))
            lengths.append(path.with_name(f"{path.name}-wal").stat().st_size // 4096)
    assert lengths[0] < 400 < 800 < lengths[1]


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sync counts as one that takes its time, also where the files of tests are in memory."""
    monkeypatch.setattr(_sqlite_log, "_NOTHING_S", 0.0)


def left_by_a_crash(path: Path) -> Path:
    """What a process that ends here would leave of a store that is open."""
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{path}-left{suffix}")
    return Path(f"{path}-left")


@pytest.mark.usefixtures("slow_disk")
def test_the_log_does_not_grow_with_each_append(path: Path) -> None:
    log, sizes = Path(f"{path}-wal"), set()
    with opened(path) as hf:
        session = hf.sessions.create().id
        for number in range(300):
            hf.sessions.append(session, Message.user(str(number)))
            sizes.add(log.stat().st_size)
        left = left_by_a_crash(path)
    assert len(sizes) < 60
    assert max(sizes) < 5_000_000
    with opened(left) as hf:
        assert [message.text for message in hf.sessions.messages(session)] == [str(number) for number in range(300)]
        assert hf.verify().problems == []


@pytest.mark.usefixtures("slow_disk")
def test_a_log_that_grows_by_several_loses_nothing(path: Path) -> None:
    def write(hf: Holdfast) -> str:
        session = hf.sessions.create().id
        for number in range(150):
            hf.sessions.append(session, Message.user(str(number)))
        return session

    with opened(path) as one, opened(path) as two, ThreadPoolExecutor(2) as pool:
        sessions = list(pool.map(write, [one, two]))
        left = left_by_a_crash(path)
    with opened(left) as hf:
        assert [len(list(hf.sessions.messages(session))) for session in sessions] == [150, 150]
        assert hf.verify().problems == []


def to_lengthen(hf: Holdfast) -> SqliteStore:
    """The store, which will take the disk for a slow one and the log for one that has just grown."""
    store = hf._store
    assert isinstance(store, SqliteStore)
    store._log._doubts = store._log._end = 0
    return store


def test_nothing_is_put_behind_the_log_while_another_writes_there(path: Path) -> None:
    log = Path(f"{path}-wal")
    with opened(path) as hf, closing(apsw.Connection(str(path))) as other:
        hf.sessions.create()
        store, size = to_lengthen(hf), log.stat().st_size
        other.execute("BEGIN IMMEDIATE")
        before = time.monotonic()
        store._until = before + LONG_S  # as a commit before may have left it
        store._sync()
        assert time.monotonic() - before < LONG_S / 3
        assert log.stat().st_size == size
        other.execute("ROLLBACK")
        to_lengthen(hf)._sync()
        assert log.stat().st_size > size


def test_zeros_stand_behind_what_another_has_written_in_the_last_moment(path: Path) -> None:
    said = []
    with opened(path) as hf, opened(path, timeout=0.05) as other:
        session = other.sessions.create().id
        store = to_lengthen(hf)
        file = store._log._file
        assert file is not None

        def size() -> int:
            found = file.size()
            with suppress(Busy):  # it is locked out
                said.extend(other.sessions.append(session, Message.user(str(found))))
            return found

        store._log._file = msgspec.structs.replace(file, size=size)
        store._sync()
        left = left_by_a_crash(path)
    assert len(said) == 2
    with opened(left) as hf:
        assert list(hf.sessions.messages(session)) == said
        assert hf.verify().problems == []


def test_a_log_with_zeros_at_its_end_is_not_made_longer(path: Path) -> None:
    log = Path(f"{path}-wal")
    with opened(path) as hf, opened(path) as other:
        hf.sessions.create()
        to_lengthen(hf)._sync()
        size = log.stat().st_size
        to_lengthen(other)._sync()
        assert log.stat().st_size == size


class FullFile(apsw.VFSFile):
    """A file with room for pages, but for nothing larger."""

    def __init__(self, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if len(data) > 4096:
            raise apsw.FullError
        super().xWrite(data, offset)


class FullVFS(apsw.VFS):
    """A file system of such files."""

    def __init__(self) -> None:
        super().__init__("full", "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        assert name is not None
        return FullFile(name, flags)


@pytest.mark.usefixtures("slow_disk")
def test_a_disk_without_room_for_a_longer_log_takes_what_it_has_room_for(path: Path) -> None:
    vfs = FullVFS()
    with Holdfast(SqliteStore(str(path), vfs="full")) as hf:
        session = hf.sessions.create().id
        for number in range(20):
            hf.sessions.append(session, Message.user(str(number)))
        assert len(list(hf.sessions.messages(session))) == 20
    vfs.unregister()


def test_agents_that_append_at_the_same_time_share_syncs(counted: Holdfast) -> None:
    async def agent(hf: AsyncHoldfast, session_id: str) -> None:
        for number in range(25):
            await hf.sessions.append(session_id, Message.user(str(number)))

    async def all_agents() -> None:
        hf = AsyncHoldfast(counted)
        await asyncio.gather(*(agent(hf, session_id) for session_id in sessions))

    sessions = [counted.sessions.create(title="x").id for _ in range(32)]
    CountingFile.syncs = 0
    asyncio.run(all_agents())
    assert CountingFile.syncs <= 32 * 25 / 4
    assert all(len(list(counted.sessions.messages(session_id))) == 25 for session_id in sessions)


# locks


# Takes the bytes on which SQLite's readers have a shared lock for as long as they are connected.
ALONE = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
"""


def test_a_file_that_is_opened_twice_stays_locked(path: Path) -> None:
    with opened(path) as hf:
        hf.sessions.create(id="s", title="t")
        with opened(path):
            pass
        alone = subprocess.run([sys.executable, "-c", ALONE, path], capture_output=True, text=True, check=False)
        assert "BlockingIOError" in alone.stderr


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="is a folder"):
        opened(tmp_path)


def test_what_sqlite_keeps_in_memory_is_named_by_our_own_address() -> None:
    with pytest.raises(InvalidInput, match="'memory:'"):
        holdfast.open("sqlite:///:memory:")


def test_nothing_is_acknowledged_once_another_program_has_removed_the_log(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite_log, "_LOOK_S", -1.0)
    with opened(path) as hf:
        hf.sessions.create(id="s", title="t")
        for text in ("first", "second", "third"):
            hf.sessions.append("s", Message.user(text))
        Path(f"{path}-wal").unlink()
        with pytest.raises(BackendError, match="removed the log"):
            hf.sessions.append("s", Message.user("nowhere"))
        with pytest.raises(BackendError, match="opened anew"):
            hf.sessions.append("s", Message.user("refused"))


def test_a_log_that_was_removed_is_not_written_over_what_others_have_done_since(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite_log, "_LOOK_S", -1.0)
    theirs = "import apsw, sys; apsw.Connection(sys.argv[1]).execute('CREATE TABLE theirs (x)')"
    with opened(path) as hf:
        hf.sessions.create(id="s", title="t")
        hf.sessions.append("s", Message.user("first"))
        with closing(apsw.Connection(str(path))) as con:
            con.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink()
        subprocess.run([sys.executable, "-c", theirs, path], check=True)
        with pytest.raises(BackendError, match="removed the log"):
            hf.sessions.append("s", Message.user("nowhere"))
    with opened(path) as hf:
        assert [message.text for message in hf.sessions.messages("s")] == ["first"]
        assert hf.verify().problems == []
    with closing(apsw.Connection(str(path))) as con:
        assert con.execute("SELECT count(*) FROM theirs").fetchall() == [(0,)]


# damage


def test_rows_that_lead_back_are_named_and_end(path: Path) -> None:
    with opened(path) as hf:
        hf.sessions.create(id="s", title="t")
        for start in range(0, 3_000, 500):
            hf.sessions.append("s", *(Message.user(f"{number} {'x' * 400}") for number in range(start, start + 500)))
    with closing(apsw.Connection(str(path))) as con:
        leaves = "SELECT pageno FROM dbstat WHERE name = 'messages' AND pagetype = 'leaf' ORDER BY path"
        pages = [int(page) for (page,) in con.execute(leaves)]
    content = bytearray(path.read_bytes())
    for page in pages[len(pages) // 2 :]:
        content[(page - 1) * 4096 : page * 4096] = content[(pages[9] - 1) * 4096 : pages[9] * 4096]
    path.write_bytes(content)
    with opened(path) as hf:
        with pytest.raises(IntegrityError):
            list(hf.sessions.messages("s"))
        assert hf.verify().problems != []


# versions


def test_an_older_store_migrates_once_and_reads_whole(path: Path) -> None:
    shutil.copy(OLDER, path)
    for _ in range(2):
        with opened(path) as hf:
            assert [message.text for message in hf.sessions.messages("kyoto")] == ["Find a ryokan", "Only one is left"]
            assert hf.agents.get("scout").state == {"plan": ["look", "book"], "done": ["look"]}  # type: ignore[union-attr]
            assert hf.verify().ok
    assert apsw.Connection(str(path)).execute("PRAGMA user_version").fetchone() == (schema.VERSION,)


def test_a_migration_interrupted_leaves_the_older_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(OLDER, path)

    def fails_half_way(con: apsw.Connection) -> None:
        con.execute("CREATE TABLE half (x)")
        raise BackendError("the power went")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", {2: fails_half_way})
        with pytest.raises(BackendError):
            opened(path)
    with opened(path) as hf:
        assert hf.verify().ok


def test_a_newer_store_is_refused_unchanged(path: Path) -> None:
    opened(path).close()
    with apsw.Connection(str(path)) as con:
        con.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(MigrationError, match="upgrade"):
        opened(path)
    assert path.read_bytes() == before


def test_an_older_store_is_not_migrated_by_a_reader(path: Path) -> None:
    shutil.copy(OLDER, path)
    with pytest.raises(MigrationError, match="without read_only"):
        opened(path, read_only=True)
    assert path.read_bytes() == OLDER.read_bytes()


def test_another_programs_database_is_refused_unchanged(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as con:
        con.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    before = path.read_bytes()
    with pytest.raises(MigrationError, match="another program"):
        opened(path)
    assert path.read_bytes() == before
    assert apsw.Connection(str(path)).execute("SELECT x FROM theirs").fetchall() == [(1,)]


def test_a_file_that_is_no_database_is_refused_unchanged(path: Path) -> None:
    path.write_bytes(b"this is a letter, not a database" * 200)
    with pytest.raises(BackendError):
        opened(path)
    assert path.read_bytes() == b"this is a letter, not a database" * 200


# opening


def test_a_store_opened_to_read_refuses_to_write(path: Path) -> None:
    with opened(path) as writer:
        writer.sessions.create(id="s")
        with opened(path, read_only=True) as reader:
            assert reader.sessions.get("s") is not None
            with pytest.raises(Unsupported, match="read-only"):
                reader.sessions.append("s", Message.user("x"))


def test_a_store_that_is_not_there_is_not_made_by_a_reader(path: Path) -> None:
    with pytest.raises(NotFound):
        opened(path, read_only=True)
    assert not path.exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        holdfast.open(f"sqlite:///{tmp_path}/nowhere/agents.db")


@pytest.mark.parametrize("scheme", ["sqlite", "file"])
def test_three_slashes_that_were_meant_as_four_are_named(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = f"{tmp_path}/agents".removeprefix("/")
    with pytest.raises(NotFound, match=f"four slashes, which lead to {re.escape(f'{tmp_path}/agents')}$"):
        holdfast.open(f"{scheme}:///{relative}")
    with pytest.raises(NotFound, match=r"create it first$"):
        holdfast.open(f"{scheme}:///nowhere/agents")


def test_normal_durability_is_chosen_by_name(path: Path) -> None:
    with opened(path, durability="normal") as hf:
        assert hf.health().durability == "synchronous=normal"
    with opened(path) as hf:
        assert hf.health().durability == "synchronous=full"


def test_a_writer_that_waits_too_long_is_busy_and_writes_nothing(path: Path) -> None:
    with opened(path) as hf, opened(path) as other:
        hf.sessions.create(id="s")

        def meanwhile(_: Reader) -> list[Write]:
            with pytest.raises(Busy, match="nothing was written"):
                hf.sessions.append("s", Message.user("x"), timeout=0.05)
            return []

        other._store.commit(None, meanwhile)
        assert list(hf.sessions.messages("s")) == []
        assert hf.sessions.append("s", Message.user("x"))[0].seq == 1


def test_a_queued_writer_waits_no_longer_than_the_store_was_opened_for(path: Path) -> None:
    with opened(path, timeout=0.2) as hf:
        hf.sessions.create(id="s")
        assert isinstance(hf._store, SqliteStore)
        before = time.monotonic()
        with ThreadPoolExecutor(1) as another, hf._store._group.alone():
            with pytest.raises(Busy, match="nothing was written"):
                another.submit(hf.sessions.append, "s", Message.user("x")).result()
        assert time.monotonic() - before < 10  # without a limit of the store it is 30
        assert hf.sessions.append("s", Message.user("x"))[0].seq == 1


# the file


def test_a_backup_is_a_whole_store_of_one_moment(path: Path, tmp_path: Path) -> None:
    with opened(path) as hf:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.user("kept"))
        hf.backup(str(tmp_path / "copy.db"))
        hf.sessions.append("s", Message.user("later"))
    with opened(tmp_path / "copy.db") as copy:
        assert [message.text for message in copy.sessions.messages("s")] == ["kept"]
        assert copy.verify().ok


def test_a_backup_never_overwrites(path: Path, tmp_path: Path) -> None:
    with opened(path) as hf:
        (tmp_path / "precious").write_text("keep me")
        with pytest.raises(holdfast.AlreadyExists):
            hf.backup(str(tmp_path / "precious"))
    assert (tmp_path / "precious").read_text() == "keep me"


def test_redacted_words_are_no_longer_in_the_file(path: Path) -> None:
    with opened(path) as hf:
        hf.sessions.create(id="s", title="x")
        (said,) = hf.sessions.append("s", Message.user("my name is Rumpelstiltskin"))
        hf.sessions.redact("s", said.id, "asked to")
    assert b"Rumpelstiltskin" not in path.read_bytes()


def test_deleted_words_are_no_longer_in_the_file(path: Path) -> None:
    with opened(path) as hf:
        hf.sessions.create(id="s", title="x")
        hf.sessions.append("s", *(Message.user(f"Rumpelstiltskin {number}") for number in range(50)))
        hf.sessions.delete("s")
    assert b"Rumpelstiltskin" not in path.read_bytes()


def test_gc_gives_space_back(path: Path, tmp_path: Path) -> None:
    opened(tmp_path / "empty.db").close()
    with opened(path) as hf:
        hf.sessions.create(id="s", title="x")
        hf.sessions.append("s", *(Message.user("x" * 5000) for _ in range(500)))
        hf.sessions.delete("s")
        hf.gc()
    assert path.stat().st_size <= 1.1 * (tmp_path / "empty.db").stat().st_size


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_another_kind_is_named_and_left_alone(path: Path, read_only: bool) -> None:
    path.write_bytes(b"something else" * 100)
    with pytest.raises(BackendError, match=f"{path} is no SQLite database"):
        holdfast.open(f"sqlite:///{path}", read_only=read_only)
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == b"something else" * 100


def test_a_lock_of_another_program_is_waited_for_as_long_as_the_call_may_take(path: Path) -> None:
    with opened(path) as hf, closing(apsw.Connection(str(path))) as other:
        hf.sessions.create(id="s")
        other.execute("BEGIN IMMEDIATE")
        before = time.monotonic()
        with pytest.raises(Busy):
            hf.sessions.append("s", Message.user("x"), timeout=0.2)
        assert time.monotonic() - before < 10  # the store's own limit is 30
        other.execute("ROLLBACK")
        assert len(hf.sessions.append("s", Message.user("y"))) == 1


def test_a_first_page_torn_by_a_power_loss_is_repaired_from_the_log(tmp_path: Path) -> None:
    with Holdfast(SqliteStore(str(tmp_path / "agents.db"))) as hf:
        hf.sessions.create(id="a")
        for suffix in ("", "-wal"):
            shutil.copy(tmp_path / f"agents.db{suffix}", tmp_path / f"left.db{suffix}")
    with open(tmp_path / "left.db", "r+b") as file:
        file.write(b"rubbish" * 50)
    with Holdfast(SqliteStore(str(tmp_path / "left.db"))) as hf:
        assert [session.id for session in hf.sessions.list()] == ["a"]
        assert hf.verify().problems == []


def test_a_file_that_may_not_be_made_is_named(path: Path) -> None:
    path.with_name(f"{path.name}-lock").mkdir()
    with pytest.raises(BackendError, match="cannot be written to"):
        opened(path)


@pytest.mark.parametrize("address", ["sqlite:///a.db?durability=normal", "file:///a#b"])
def test_an_address_of_a_path_takes_no_options(address: str) -> None:
    with pytest.raises(InvalidInput, match="given to open"):
        holdfast.open(address)


def test_a_file_behind_a_link_has_its_own_log_synced(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(path)
    Path(f"{link}-wal").write_bytes(b"a stranger's")
    with opened(link) as hf:
        hf.sessions.append(hf.sessions.create(title="t").id, Message.user("hello"))
        store = hf._store
        assert isinstance(store, SqliteStore)
        assert store._log._fd is not None
        assert os.path.samestat(os.fstat(store._log._fd), os.stat(f"{path}-wal"))


def test_an_append_that_is_there_already_is_synced_again(counted: Holdfast) -> None:
    session = counted.sessions.create(title="x").id
    said = Message.user("hello")
    counted.sessions.append(session, said)
    CountingFile.syncs = 0
    counted.sessions.append(session, said)
    assert CountingFile.syncs == 1


def test_after_a_sync_that_failed_nothing_is_written_until_the_store_is_opened_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path) as hf:
        hf.sessions.create(id="s", title="t")
        with monkeypatch.context() as broken:
            broken.setattr(_sqlite_log.Log, "sync", _fail)
            with pytest.raises(BackendError, match="cannot be synced"):
                hf.sessions.append("s", Message.user("in doubt"))
        with pytest.raises(BackendError, match="opened anew"):
            hf.sessions.append("s", Message.user("refused"))
    with opened(path) as hf:
        hf.sessions.append("s", Message.user("again"))
        assert [one.text for one in hf.sessions.messages("s")] == ["in doubt", "again"]


def _fail(*_: object) -> None:
    raise OSError("no disk")


# what it loads

FIRST_USE = """
import sys
before = {*sys.modules}
import holdfast
with holdfast.open("sqlite:///agents.db") as hf:
    hf.sessions.append(hf.sessions.create().id, holdfast.Message.user("hello"))
loaded = {*sys.modules} - before
print(*sorted(loaded & {*"apsw asyncio email http psycopg socket ssl subprocess tempfile zipfile".split()}))
"""


def test_the_first_use_of_a_store_loads_neither_a_loop_nor_a_network_nor_what_packs_files(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_USE], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "apsw\n"


def test_numbers_that_have_no_place_are_refused_and_not_found(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "agents.db"))
    for number in (-3, 2**32 + 1, 2**62):
        with pytest.raises(InvalidInput, match="count from 1"):
            store.commit([Insert(checkpoint("a", number, "c"))])
    store.commit([Insert(checkpoint("a", 1, "c"))])
    assert store.get(CHECKPOINTS, [("a", 2**32 + 1), ("a", 1 - 2**32)]) == [None, None]
    store.close()


def test_deleting_leaves_no_log_behind(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    with holdfast.open(f"sqlite:///{path}") as hf:
        hf.agents.save(Agent(id="a", name="A"))
        for id in ("s", "t"):
            hf.sessions.append(hf.sessions.create(id=id, agent_id="a").id, Message.user("hello"))
            hf.checkpoints.create(session_id=id)
        hf.checkpoints.create("a")
        hf.sessions.delete("s")
        hf.agents.delete("a")
    with closing(apsw.Connection(str(path))) as con:
        assert con.execute("SELECT * FROM logs").fetchall() == []
