"""Bad input: one table, input → outcome, the same on every backend.

An outcome is an error of exactly this type, and then nothing at all has changed; or it is the value that
reads back.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.model import Agent, Message
from holdfast.testing.driving import HoldfastKit, exact
from holdfast.testing.input_calls import call_rows, cursor_rows, field_rows, timeout_rows
from holdfast.testing.input_rows import Row
from holdfast.testing.input_values import id_rows, text_rows, value_rows
from holdfast.testing.records import dump

TABLES: dict[str, list[Row]] = {
    "ids": [*id_rows()],
    "values": [*value_rows()],
    "texts": [*text_rows()],
    "fields": [*field_rows()],
    "calls": [*call_rows()],
    "cursors": [*cursor_rows()],
    "timeouts": [*timeout_rows()],
}
REFUSED = {name: [row for row in rows if isinstance(row.outcome, type)] for name, rows in TABLES.items()}
ANSWERED = [row for rows in TABLES.values() for row in rows if not isinstance(row.outcome, type)]
PLACES = {row.place: [other for other in ANSWERED if other.place == row.place] for row in ANSWERED}


class InputKit(HoldfastKit):
    """Subclass it as `TestMyInputs` and say how to `open` the store; never override a test."""

    @pytest.mark.parametrize("table", REFUSED)
    def test_bad_input_is_refused_in_the_same_way_everywhere(
        self, hf: Holdfast, store: RecordStore, table: str
    ) -> None:
        _furnish(hf)
        before = dump(store)
        surprises = [surprise for row in REFUSED[table] if (surprise := _surprise(hf, row))]
        assert not surprises, "\n".join(surprises)
        assert dump(store) == before, "\n".join(_changing(hf, store, REFUSED[table]))

    @pytest.mark.parametrize("place", PLACES)
    def test_good_input_reads_back_the_same_everywhere(self, hf: Holdfast, place: str) -> None:
        _furnish(hf)
        surprises = [surprise for row in PLACES[place] if (surprise := _surprise(hf, row))]
        assert not surprises, "\n".join(surprises)


def _furnish(hf: Holdfast) -> None:
    """The sessions, messages and agents that the table speaks of."""
    for id in ("a", "b"):
        hf.agents.save(Agent(id=id, name=""))
    for id in ("s", "t"):
        hf.sessions.create(id=id, title="")
    hf.sessions.append("s", Message.user("one", id="m"), Message.user("two"))


def _surprise(hf: Holdfast, row: Row) -> str | None:
    """What is not as the table says, or None."""
    try:
        found = row.call(hf)
    except Exception as error:  # noqa: BLE001 — an error that is not the table's is what the test looks for
        said = f"{row.place}, {row.name}: {type(error).__name__}: {str(error)[:200]}"
        return None if type(error) is row.outcome else said
    if isinstance(row.outcome, type):
        return f"{row.place}, {row.name}: no error"
    return None if exact(found) == exact(row.outcome) else f"{row.place}, {row.name}: {exact(found)[:200]}"


def _changing(hf: Holdfast, store: RecordStore, rows: list[Row]) -> Iterator[str]:
    """Which of these rows change something though they are refused: looked for only when some have."""
    yield "what was refused has changed something; when it was given again, these did:"
    for row in rows:
        before = dump(store)
        _surprise(hf, row)
        if dump(store) != before:
            yield f"{row.place}, {row.name}"
