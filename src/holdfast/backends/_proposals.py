"""The nearest by what a server proposes: it compares in its own way, and who may be among them is scored again here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from holdfast.contracts import Near

SPARE = 10
_MORE = 4
_ROUNDING = 2.0**-23


class Proposal(Struct, frozen=True):
    """Somebody who may be near: the cosine as the server says, and as it is."""

    near: Near
    said: float


def nearest(propose: Callable[[int], Sequence[Proposal]], limit: int, dimension: int) -> list[Near]:
    """The best of what is proposed, best first, ties by id; asks for more while those left out may be as near."""
    asked, margin = limit + SPARE, 2 * dimension * _ROUNDING
    while True:
        proposed = propose(asked)
        found = sorted((one.near for one in proposed), key=lambda near: (-near.score, near.id))
        if len(proposed) < asked or min(one.said for one in proposed) < found[limit - 1].score - margin:
            return found[:limit]
        asked *= _MORE  # it ends when all are there
