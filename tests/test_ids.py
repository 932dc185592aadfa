"""Names and times as they are made."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptData
from holdfast.ids import micros, moment, new_uid

FIRST, BEHIND_LAST = -62_135_596_800_000_000, 253_402_300_800_000_000
FORKS = """
import os
from holdfast.ids import new_id, new_uid

for _ in range(300):
    new_uid()
    child = os.fork()
    os.write(1, f"{new_uid()} {new_id()}\\n".encode())
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
"""


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_comes_back_from_its_microseconds(time: datetime) -> None:
    back = moment(micros(time))
    assert (back, back.tzinfo) == (time, UTC)


@pytest.mark.parametrize("seconds", [0, 2**31, 2**32, 2**33])
def test_neighbours_of_a_round_time_are_told_apart(seconds: int) -> None:
    around = range(seconds * 1_000_000 - 500, seconds * 1_000_000 + 500)
    assert [micros(moment(one)) for one in around] == [*around]


@pytest.mark.parametrize("wrong", [FIRST - 1, BEHIND_LAST, 2**62, -(2**62)])
def test_a_number_outside_of_the_calendar_is_no_time(wrong: int) -> None:
    with pytest.raises(CorruptData, match="is no time"):
        moment(wrong)


def test_names_are_not_repeated_and_sort_by_time() -> None:
    names = [new_uid() for _ in range(20_000)]
    assert len({*names}) == len(names)
    assert {len(name) for name in names} == {18}
    assert [name[:9] for name in names] == sorted(name[:9] for name in names)


def test_a_forked_process_makes_other_names() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert len({*names}) == len(names) == 2 * 2 * 300
