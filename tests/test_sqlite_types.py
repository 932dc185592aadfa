"""Bits of a SQLite file that flip, and values that become another type: what is read is as before, or is named."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from random import Random

import apsw
import pytest

import holdfast
from holdfast import Agent, Holdfast, InvalidInput, Message
from holdfast.errors import HoldfastError, IntegrityError
from holdfast.finding import DamagedCheckpoint

BYTES = [("messages", "digest"), ("messages", "link"), ("checkpoints", "digest"), ("heads", "digest")]
OTHERS = [("messages", "id"), ("messages", "n"), ("checkpoints", "id"), ("checkpoints", "step"), ("checkpoints", "at")]

FLIPS = 150
PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with an agent, its session, checkpoints of both, a message behind them, and an index of words."""
    made = tmp_path / "agents.db"
    with holdfast.open(f"sqlite:///{made}") as hf:
        hf.agents.save(Agent(id="a", name="A"))
        hf.sessions.create(id="s", agent_id="a")
        hf.sessions.append("s", Message.user("first"))
        hf.checkpoints.create(session_id="s", id="c", step=1)
        hf.checkpoints.create("a", id="ca")
        hf.sessions.append("s", Message.user("second"))
        hf.artifacts.put(b"some bytes", name="n")
        assert hf.search("first")
    return made


def change(path: Path, table: str, column: str, value: str) -> None:
    con = apsw.Connection(str(path))
    con.execute(f'UPDATE {table} SET "{column}" = {value}')
    con.close()


def pages(path: Path) -> list[int]:
    """Where the pages begin that have our rows; without those that say which tables there are."""
    con = apsw.Connection(str(path))
    found = con.execute("SELECT pageno FROM dbstat WHERE name NOT LIKE 'sqlite_s%' AND pagetype = 'leaf'").fetchall()
    con.close()
    return [(int(str(number)) - 1) * PAGE for (number,) in found]


def use(hf: Holdfast) -> None:
    """Whatever a damaged store is asked, it answers or says what is wrong."""
    calls = (
        lambda: list(hf.sessions.messages("s")),
        lambda: hf.sessions.append("s", Message.user("third"), timeout=0.2),
        lambda: hf.checkpoints.list(session_id="s"),
        lambda: hf.checkpoints.list(),
        lambda: hf.checkpoints.list(order="step"),
        lambda: hf.checkpoints.latest(session_id="s"),
        lambda: hf.checkpoints.restore("c"),
        lambda: hf.sessions.list(),
        lambda: hf.search("first"),
        lambda: hf.artifacts.read("n"),
        lambda: hf.checkpoints.restore("ca", timeout=0.5),
        lambda: hf.checkpoints.create("a", timeout=0.5),
        lambda: hf.verify(),
    )
    for call in calls:
        with suppress(HoldfastError), warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedCheckpoint)
            call()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM logs WHERE kind = 'messages'",
        "DELETE FROM logs WHERE kind = 'checkpoints'",
        "UPDATE logs SET family = 7 WHERE kind = 'messages'",
        "UPDATE logs SET family = 7 WHERE kind = 'checkpoints'",
        "UPDATE logs SET branch = 7 WHERE kind = 'checkpoints'",
        "UPDATE logs SET space = 7 WHERE kind = 'messages'",
        "UPDATE logs SET space = 7 WHERE kind = 'checkpoints'",
        "UPDATE messages SET family = 7",
        "UPDATE checkpoints SET family = 7 WHERE id = 'c'",
    ],
)
def test_rows_that_no_log_leads_to_are_damage(path: Path, damage: str) -> None:
    con = apsw.Connection(str(path))
    con.execute(damage)
    con.close()
    with holdfast.open(f"sqlite:///{path}", read_only=True) as hf:
        assert "engine" in {problem.kind for problem in hf.verify().problems}


def test_a_table_that_has_lost_its_key_is_damage(path: Path) -> None:
    stored = path.read_bytes()
    told = b"checkpoints (place INTEGER PRIMARY"
    assert stored.count(told) == 1
    path.write_bytes(stored.replace(told, b"checkpoints (place INTEGER QRIMARY"))
    with holdfast.open(f"sqlite:///{path}", read_only=True) as hf:
        assert any("rows of checkpoints are in no log" in problem.what for problem in hf.verify().problems)


@pytest.mark.parametrize(("table", "column"), BYTES)
def test_bytes_that_have_become_a_text_are_damage(path: Path, table: str, column: str) -> None:
    change(path, table, column, f'CAST("{column}" AS TEXT)')
    with holdfast.open(f"sqlite:///{path}") as hf:
        assert hf.verify().problems
        use(hf)


@pytest.mark.parametrize(("table", "column"), OTHERS)
@pytest.mark.parametrize(
    "value", ["CAST(x'ff' || abs(random()) AS TEXT)", "randomblob(8)", "0.5 + abs(random() % 9999)"]
)
def test_what_has_become_another_type_is_damage(path: Path, table: str, column: str, value: str) -> None:
    change(path, table, column, value)
    with holdfast.open(f"sqlite:///{path}") as hf:
        assert hf.verify().problems
        use(hf)


def test_the_owner_of_a_log_that_is_no_unicode_is_damage(path: Path) -> None:
    change(path, "logs", "owner", "CAST(x'ff' || owner AS TEXT)")
    with holdfast.open(f"sqlite:///{path}") as hf:
        found = hf.verify().problems
        assert [problem.what for problem in found if "the database file is damaged" in problem.what] != []
        use(hf)


@pytest.mark.parametrize("table", ["messages", "checkpoints", "heads"])
def test_a_body_that_has_become_a_text_reads_as_before(path: Path, table: str) -> None:
    change(path, table, "body", "CAST(body AS TEXT)")
    with holdfast.open(f"sqlite:///{path}") as hf:
        assert not hf.verify().problems
        hf.checkpoints.restore("c")
        assert [message.text for message in hf.sessions.messages("s")] == ["first"]


def test_a_damaged_mark_does_not_keep_a_restore_for_ever(path: Path) -> None:
    change(path, "marks", "session", "'another'")
    with holdfast.open(f"sqlite:///{path}") as hf, pytest.raises(IntegrityError, match="says that it is"):
        hf.checkpoints.restore("ca")


def test_what_stands_over_a_damaged_checksum_is_not_written(path: Path) -> None:
    change(path, "agents", "digest", "CAST(digest AS TEXT)")
    with holdfast.open(f"sqlite:///{path}") as hf, pytest.raises(IntegrityError, match="is damaged"):
        hf.agents.save(Agent(id="a", name="B"))


def test_a_path_that_is_no_unicode_is_named(path: Path) -> None:
    with pytest.raises(InvalidInput, match="is no Unicode"):
        holdfast.open(f"sqlite:///{path}\udcff")
    with holdfast.open(f"sqlite:///{path}") as hf, pytest.raises(InvalidInput, match="is no Unicode"):
        hf.backup(f"{path}\udcff")


def test_an_error_of_the_callers_own_stays_what_it_is(path: Path) -> None:
    def tells(_done: int, _total: int) -> None:
        "é".encode("ascii")

    with holdfast.open(f"sqlite:///{path}") as hf:
        hf.sessions.append("s", Message.user("third"))
        with pytest.raises(UnicodeEncodeError):
            hf.search("third", progress=tells)


def test_flipped_bits_are_answered_or_named(path: Path) -> None:
    chance, sound = Random(), path.read_bytes()
    written = [place for start in pages(path) for place in range(start, start + PAGE) if sound[place]]
    for number in range(FLIPS):
        place, bit = chance.choice(written), 1 << chance.randrange(8)
        copy = path.with_name(f"{number}.db")
        copy.write_bytes(sound[:place] + bytes([sound[place] ^ bit]) + sound[place + 1 :])
        try:
            with suppress(HoldfastError), holdfast.open(f"sqlite:///{copy}", timeout=1.0) as hf:
                use(hf)
        except Exception as cause:
            raise AssertionError(f"bit {bit:#x} of byte {place} in {copy}") from cause


@pytest.mark.parametrize("which", ["= 'a9'", "= 'b4'", "= 'b0'", "IN ('a3', 'b3')", "<> ''"])
@pytest.mark.parametrize("value", ["NULL", "'x'", "x'00'", "-1", "0", "9000000000000000"])
def test_a_list_of_all_has_each_checkpoint_once_whatever_is_left_of_its_time(
    tmp_path: Path, value: str, which: str
) -> None:
    path = tmp_path / "agents.db"
    with holdfast.open(f"sqlite:///{path}") as hf:
        for session in "abc":
            hf.sessions.create(id=session)
        made = {hf.checkpoints.create(session_id=id, id=f"{id}{n}").id for n in range(10) for id in "abc"}
    con = apsw.Connection(str(path))
    con.execute(f"UPDATE checkpoints SET at = {value} WHERE id {which}")
    con.close()
    with holdfast.open(f"sqlite:///{path}") as hf:
        whole = [one.id for one in hf.checkpoints.list()]
        assert sorted(whole) == sorted(made)
        for limit in (1, 4, 29):
            page = hf.checkpoints.list(limit=limit)
            paged = [one.id for one in page]
            while page.cursor is not None and len(paged) < len(made):
                page = hf.checkpoints.list(limit=limit, cursor=page.cursor)
                paged += [one.id for one in page]
            assert (paged, page.cursor) == (whole, None)
