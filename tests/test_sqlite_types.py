"""Bits of a SQLite file that flip, and values that become another type: what is read is as before, or is named."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from random import Random

import apsw
import pytest

import holdfast
from holdfast import Holdfast, Message
from holdfast.errors import HoldfastError, IntegrityError
from holdfast.finding import DamagedCheckpoint

BYTES = [("messages", "digest"), ("messages", "link"), ("checkpoints", "digest"), ("heads", "digest")]
OTHERS = [("messages", "id"), ("messages", "n"), ("checkpoints", "id"), ("checkpoints", "step"), ("checkpoints", "at")]

FLIPS = 40
PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a session, its checkpoint, and a message behind that."""
    made = tmp_path / "agents.db"
    with holdfast.open(f"sqlite:///{made}") as hf:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.user("first"))
        hf.checkpoints.create(session_id="s", id="c", step=1)
        hf.sessions.append("s", Message.user("second"))
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
        lambda: hf.verify(),
    )
    for call in calls:
        with suppress(HoldfastError), warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedCheckpoint)
            call()


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
        with pytest.raises(IntegrityError, match="the database file is damaged"):
            hf.verify()
        use(hf)


@pytest.mark.parametrize("table", ["messages", "checkpoints", "heads"])
def test_a_body_that_has_become_a_text_reads_as_before(path: Path, table: str) -> None:
    change(path, table, "body", "CAST(body AS TEXT)")
    with holdfast.open(f"sqlite:///{path}") as hf:
        assert not hf.verify().problems
        hf.checkpoints.restore("c")
        assert [message.text for message in hf.sessions.messages("s")] == ["first"]


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_anywhere_is_answered_or_named(path: Path, seed: int) -> None:
    chance, sound = Random(seed), path.read_bytes()
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
