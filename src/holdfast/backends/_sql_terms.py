"""The words of texts as terms that any server's index takes as they are.

A term is a digest of a namespace and a word: of one length, of letters and digits alone, never a stop word, never too
short or too long, and nothing of a deleted text is left in it. Of scripts without word breaks each character is a term
and so is each pair, so that a run is found by its pairs. What has a term may lack the word; `matching` judges.
"""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

from holdfast.matching import Wanted, indexed

LENGTH = 8
MOST_TERMS = 40_000  # of one text; PostgreSQL takes a megabyte of them
MOST_WANTED = 32  # that an index is asked for; the judge knows the rest


@lru_cache(maxsize=1 << 16)
def term(space: int, word: str) -> str:
    """The term of a word in a namespace."""
    return b32encode(blake2b(f"{space} {word}".encode(), digest_size=5).digest()).decode().lower()


def any_text(space: int) -> str:
    """What stands in for a text of too many words: every search is given it."""
    return term(space, "")


def terms(space: int, text: str) -> dict[str, list[int]]:
    """Each term of a text and where it stands, counted from 1; none for a text without words."""
    found: dict[str, list[int]] = {}
    for place, word in enumerate(_words(text), 1):
        found.setdefault(term(space, word), []).append(place)
    return found if len(found) <= MOST_TERMS else {any_text(space): [1]}


def wanted_terms(space: int, wanted: Wanted) -> list[str]:
    """The terms that a text surely has if it has what is wanted."""
    pieces = [*wanted.words]
    for run in wanted.runs:
        pieces += map("".join, pairwise(run)) if len(run) > 1 else run
    return [term(space, piece) for piece in dict.fromkeys(pieces)][:MOST_WANTED]


def _words(text: str) -> Iterator[str]:
    before = ""
    for word in indexed(text).split():
        yield word
        if len(word) == 1 and not word.isascii():
            if before:
                yield before + word
            before = word
        else:
            before = ""
