"""Bad input: one table, input → outcome, the same on every backend.

An outcome is an error of exactly this type, and then nothing at all has changed; or it is the value that
reads back.
"""

from __future__ import annotations

import pytest

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.model import Agent, Message
from holdfast.testing.driving import HoldfastKit, exact
from holdfast.testing.input_calls import call_rows, cursor_rows, field_rows, timeout_rows
from holdfast.testing.input_rows import Row
from holdfast.testing.input_values import id_rows, text_rows, value_rows
from holdfast.testing.records import dump

TABLE: list[Row] = [
    *id_rows(),
    *value_rows(),
    *text_rows(),
    *field_rows(),
    *call_rows(),
    *cursor_rows(),
    *timeout_rows(),
]
PLACES = {row.place: [other for other in TABLE if other.place == row.place] for row in TABLE}


class InputKit(HoldfastKit):
    """Subclass it as `TestMyInputs` and say how to `open` the store; never override a test."""

    @pytest.mark.parametrize("place", PLACES)
    def test_bad_input_has_the_same_outcome_everywhere(self, hf: Holdfast, store: RecordStore, place: str) -> None:
        _furnish(hf)
        surprises = [surprise for row in PLACES[place] if (surprise := _surprise(hf, store, row))]
        assert not surprises, "\n".join(surprises)


def _furnish(hf: Holdfast) -> None:
    """The sessions, messages and agents that the table speaks of."""
    for id in ("a", "b"):
        hf.agents.save(Agent(id=id, name=""))
    for id in ("s", "t"):
        hf.sessions.create(id=id, title="")
    hf.sessions.append("s", Message.user("one", id="m"), Message.user("two"))


def _surprise(hf: Holdfast, store: RecordStore, row: Row) -> str | None:
    """What is not as the table says, or None."""
    before = dump(store)
    try:
        found = row.call(hf)
    except Exception as error:  # noqa: BLE001 — an error that is not the table's is what the test looks for
        if type(error) is not row.outcome:
            return f"{row.name}: {type(error).__name__}: {str(error)[:200]}"
        return None if dump(store) == before else f"{row.name}: something has changed"
    if isinstance(row.outcome, type):
        return f"{row.name}: no error"
    return None if exact(found) == exact(row.outcome) else f"{row.name}: {exact(found)[:200]}"
