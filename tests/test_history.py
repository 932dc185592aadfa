"""Messages are found by their ids in few questions, however many are looked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.backends.memory import MemoryStore
from holdfast.contracts import Query, Record
from holdfast.history import FEW, PER_QUESTION, Pointer, find_all
from holdfast.testing.records import insert, message


class Asked(MemoryStore):
    """Counts what it is asked."""

    questions = 0

    def scan(self, query: Query) -> Iterator[Record]:
        self.questions += 1
        return super().scan(query)


@pytest.mark.parametrize(
    ("there", "own", "wanted", "questions"),
    [
        (0, 0, 900, 1),
        (900, 900, 900, 1),
        (PER_QUESTION * 20, 20, 20, 1),
        (PER_QUESTION * 20 + 1, 20, 20, 21),
        (PER_QUESTION * 20 + 1, PER_QUESTION * 20 + 1, 20, 20),
        (3, 3, FEW, FEW),
    ],
)
def test_messages_are_looked_for_together_where_that_reads_little(
    there: int, own: int, wanted: int, questions: int
) -> None:
    store = Asked()
    rows = {f"m{n}": message("h", 1 + n % 2, 1 + n, f"m{n}") for n in range(there)}
    insert(store, [*rows.values(), message("other", 1, 1, "m1"), message("other", 1, 2, "m899")])
    ids = [f"m{2 * n}" for n in range(wanted)]
    session = Pointer(
        session_id="s", uid="u", history="h", branch=1, seq=own, link=b"", n=own, created_at=0, updated_at=0
    )
    assert find_all(store, session, ids) == {id: rows[id] for id in ids if id in rows}
    assert store.questions == questions
