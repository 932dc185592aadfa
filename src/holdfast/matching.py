"""Whether a text has what a search asks for: the one judge, whatever a backend has indexed.

Text is compared folded: without regard to case, width and how accents are composed. A word is a run of
letters, digits, marks and underscores. Scripts that are written without word breaks (Chinese, Japanese,
Korean, Thai, Lao, Khmer, Burmese) have no words here: each of their characters stands for itself, and a run of
them in a query is found wherever it stands. What has neither, such as `%` or an emoji, is found literally.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import Literal

import msgspec
from msgspec import Struct

VERSION = f"1, Unicode {unicodedata.unidata_version}"  # of what `indexed` makes of a text
SNIPPET = 160
_FEW = 32  # words that are looked for one by one; a search may have thousands
_LEAD = 60  # how much of a snippet stands before what was found

_UNBROKEN = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1100, 0x11FF),  # Hangul
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x9FFF),  # Han, kana, bopomofo, Hangul
    (0xA960, 0xA97F),  # Hangul
    (0xAC00, 0xD7FF),  # Hangul
    (0xF900, 0xFAFF),  # Han
    (0x1AFF0, 0x1B16F),  # kana
    (0x20000, 0x3FFFF),  # Han
)
_SELECTORS = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF))  # marks that only say how a character is drawn
_WORDLIKE = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No"}

Sort = Literal["word", "run", "symbol"]


def _sort(char: str) -> Sort:
    code = ord(char)
    if char != "_" and unicodedata.category(char) not in _WORDLIKE:
        return "symbol"
    if any(low <= code <= high for low, high in _SELECTORS):
        return "symbol"
    return "run" if any(low <= code <= high for low, high in _UNBROKEN) else "word"


class _Spaced(dict[int, str]):
    """For str.translate: words as they are, other characters apart from each other, or gone."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        sort = _sort(char)
        self[code] = spaced = char if sort == "word" else f" {char} " if sort == "run" else " "
        return spaced


_SPACED = _Spaced()


def fold(text: str) -> str:
    """The form in which texts are compared."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def indexed(text: str) -> str:
    """The words of a text and its characters of unbroken scripts, folded, with spaces between them."""
    return fold(text).translate(_SPACED)


class Wanted(Struct, frozen=True, gc=False):
    """What a search asks for: whole words, runs of an unbroken script, and text that stands anywhere."""

    words: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    anywhere: tuple[str, ...] = ()

    def count(self, folded: str) -> int:
        """How often a folded text has it, all told; 0 if it lacks any of it."""
        if not all(word in folded for word in self.words[:_FEW]):
            return 0
        counts = [folded.count(piece) for piece in (*self.runs, *self.anywhere)]
        if self.words:
            there = Counter(folded.translate(_SPACED).split())
            counts += [there[word] for word in self.words]
        return sum(counts) if counts and all(counts) else 0

    def sieve(self) -> Callable[[bytes], bool]:
        """A function that is False for the bodies of messages that surely lack it; cheaper than reading them."""
        pieces = [_verbatim(piece) for piece in (*self.words, *self.runs, *self.anywhere)]
        longest = max(pieces, key=len, default=b"")

        def may_have(body: bytes) -> bool:
            if not body.isascii() or b"\\u" in body:
                return True
            lowered = body.lower()
            return longest in lowered and all(piece in lowered for piece in pieces)

        return may_have


def _verbatim(piece: str) -> bytes:
    """The bytes that JSON surely has for a piece; none where it escapes some of it."""
    plain = piece.isprintable() and '"' not in piece and "\\" not in piece
    return piece.encode() if plain else b""


def words(text: str) -> Wanted:
    """Asks for each word of a text."""
    found: dict[Sort, dict[str, None]] = {"word": {}, "run": {}, "symbol": {}}
    for piece in fold(text).split():
        parts = [(sort, "".join(chars)) for sort, chars in groupby(piece, _sort)]
        if all(sort == "symbol" for sort, _ in parts):
            found["symbol"][piece] = None
            continue
        for sort, part in parts:
            if sort != "symbol":
                found[sort][part] = None
    return Wanted(tuple(found["word"]), tuple(found["run"]), tuple(found["symbol"]))


def substring(text: str) -> Wanted:
    """Asks for a text as it stands, wherever that is."""
    folded = fold(text)
    if folded and all(_sort(char) == "run" for char in folded):
        return Wanted(runs=(folded,))
    return Wanted(anywhere=(folded,))


class _Part(Struct, gc=False):
    type: str
    text: str | None = None
    code: str | None = None


class _Said(Struct, gc=False):
    content: list[_Part] = []


_decode = msgspec.json.Decoder(_Said).decode


def plain(body: bytes) -> str:
    """The plain view of a stored message, as `Message.text` gives it; nothing where the bytes are damaged."""
    try:
        content = _decode(body).content
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    shown = (part.text if part.type == "text" else part.code for part in content if part.type in ("text", "code"))
    return "\n".join(text for text in shown if text is not None)


def snippet(text: str, wanted: Wanted) -> str:
    """A piece of a text around the first thing found in it."""
    start = max(0, _first(text, wanted) - _LEAD)
    if start:
        start = 1 + max(text.find(" ", start, start + _LEAD // 2), start - 1)
    stop = start + SNIPPET
    shown = " ".join(text[start:stop].split())
    return f"{'…' if start else ''}{shown}{'…' if stop < len(text) else ''}"


def _first(text: str, wanted: Wanted) -> int:
    """Where in a text the first of what is wanted stands; 0 where that cannot be said."""
    folded = fold(text)
    at = [place for piece in (*wanted.runs, *wanted.anywhere) if (place := folded.find(piece)) >= 0]
    at += [place for word in wanted.words[:_FEW] if (place := _find_word(folded, word)) >= 0]
    if not at or len(folded) == len(text):
        return min(at, default=0)
    length = 0
    for place, char in enumerate(text):
        length += len(fold(char))
        if length > min(at):
            return place
    return 0


def _find_word(folded: str, word: str) -> int:
    """Where a word stands as a whole; -1 if it does not."""
    at = folded.find(word)
    while at >= 0:
        around = folded[at - 1 : at] + folded[at + len(word) : at + len(word) + 1]
        if not any(char.isalnum() or char == "_" for char in around):
            return at
        at = folded.find(word, at + 1)
    return -1
