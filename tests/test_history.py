"""Messages are found by their ids in few questions, however many are looked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from holdfast.backends.memory import MemoryStore
from holdfast.contracts import Key, Query, Record
from holdfast.history import FEW, PER_QUESTION, find_all
from holdfast.kinds import Kind
from holdfast.testing.records import insert, message


class Asked(MemoryStore):
    """Counts what it is asked."""

    questions = 0

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        self.questions += 1
        return super().get(kind, keys)

    def scan(self, query: Query) -> Iterator[Record]:
        self.questions += 1
        return super().scan(query)

    def count(self, query: Query) -> int:
        self.questions += 1
        return super().count(query)


@pytest.mark.parametrize(
    ("there", "wanted", "questions"),
    [
        (0, 900, 2),
        (900, 900, 2),
        (PER_QUESTION * 20, 20, 2),
        (PER_QUESTION * 20 + 1, 20, 21),
        (3, FEW, FEW),
    ],
)
def test_messages_are_looked_for_together_where_that_reads_little(there: int, wanted: int, questions: int) -> None:
    store = Asked()
    rows = {f"m{n}": message("h", 1 + n % 2, 1 + n, f"m{n}") for n in range(there)}
    insert(store, [*rows.values(), message("other", 1, 1, "m1"), message("other", 1, 2, "m899")])
    ids = [f"m{2 * n}" for n in range(wanted)]
    assert find_all(store, "h", ids) == {id: rows[id] for id in ids if id in rows}
    assert store.questions == questions
