"""Which checkpoints may go is a pure function of them, a policy and the time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.model import Checkpoint, CheckpointKind
from holdfast.retention import Retention, eligible
from holdfast.testing.driving import NOON

KINDS: tuple[CheckpointKind, ...] = get_args(CheckpointKind)
SECOND = timedelta(seconds=1)


def row(*said: dict[str, Any]) -> list[Checkpoint]:
    """Checkpoints that say this, newest first, with their places as ids."""
    return [Checkpoint(id=str(place), created_at=NOON, **one) for place, one in enumerate(said)]


def going(newest_first: Sequence[Checkpoint], policy: Retention, spared: Sequence[str] = ()) -> list[int]:
    """The places of those that may go."""
    return [int(one.id) for one in eligible(newest_first, policy, NOON, spared)]


def test_the_last_so_many_are_kept() -> None:
    assert going(row({}, {}, {}, {}), Retention(keep=2)) == [2, 3]


def test_without_a_number_only_expired_ones_go() -> None:
    assert going(row({}, {"expires_at": NOON - SECOND}, {}), Retention()) == [1]


def test_expiry_is_strictly_after_its_time() -> None:
    times = [None, NOON + SECOND, NOON, NOON - timedelta(microseconds=1)]
    assert going(row(*({"expires_at": time} for time in times)), Retention(keep=10)) == [3]


def test_the_newest_survives_expired_and_with_none_to_keep() -> None:
    assert going(row({"expires_at": NOON - SECOND}, {}, {}), Retention(keep=0)) == [1, 2]


def test_the_newest_sound_one_survives_where_newer_ones_are_damaged() -> None:
    over: dict[str, Any] = {"expires_at": NOON - SECOND}
    assert going(row({"damaged": "its body"}, over, over), Retention(keep=0)) == [2]


def test_a_kind_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="pre_operation"):
        Retention(per_kind={"bogus": 1})  # type: ignore[dict-item]


def test_named_and_protected_and_damaged_ones_survive_and_are_not_counted() -> None:
    kept: list[dict[str, Any]] = [{"name": "x"}, {"protected": True}, {"damaged": "its body"}, {"name": ""}]
    assert going(row({}, *kept, {}, {}), Retention(keep=2)) == [6]


def test_protected_ones_survive_their_expiry() -> None:
    over = {"expires_at": NOON - SECOND}
    assert going(row({}, {"protected": True, **over}, {"name": "x", **over}, over), Retention()) == [3]


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_protects_by_itself(kind: CheckpointKind) -> None:
    assert going(row({}, {"kind": kind}), Retention(keep=0)) == [1]


def test_each_kind_can_have_its_own_number() -> None:
    kinds = ["manual", "automatic", "manual", "automatic", "manual", "recovery", "recovery"]
    policy = Retention(per_kind={"automatic": 1, "manual": 2})
    assert going(row(*({"kind": kind} for kind in kinds)), policy) == [3, 4]


def test_the_number_of_a_kind_and_of_all_both_hold() -> None:
    kinds = ["manual", "automatic", "automatic", "manual", "manual"]
    policy = Retention(keep=3, per_kind={"automatic": 1})
    assert going(row(*({"kind": kind} for kind in kinds)), policy) == [2, 4]


def test_spared_ones_survive() -> None:
    assert going(row({}, {}, {}), Retention(keep=0), spared=["2"]) == [1]


@pytest.mark.parametrize("wrong", [{"keep": -1}, {"keep": 1.5}, {"keep": True}, {"per_kind": {"manual": -1}}])
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Retention(**wrong)


SAID = st.fixed_dictionaries(
    {"kind": st.sampled_from(KINDS), "protected": st.booleans()},
    optional={"name": st.just("x"), "expires_at": st.sampled_from([NOON - SECOND, NOON + SECOND])},
)
COUNTS = st.none() | st.integers(0, 4)


@given(st.lists(SAID, max_size=12), COUNTS, st.dictionaries(st.sampled_from(KINDS), st.integers(0, 3)))
def test_pruning_again_removes_nothing_more(said: list[Any], keep: int | None, per_kind: dict[Any, int]) -> None:
    policy, before = Retention(keep=keep, per_kind=per_kind), row(*said)
    gone = set(going(before, policy))
    left = [one for one in before if int(one.id) not in gone]
    assert going(left, policy) == []
    assert 0 not in gone
    assert not [one for one in before if int(one.id) in gone and (one.protected or one.name)]
