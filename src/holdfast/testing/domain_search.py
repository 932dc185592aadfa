"""Search: the same messages are found on every backend, whoever has indexed what."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import matching
from holdfast.client import Holdfast
from holdfast.contracts import RecordStore, SearchesText
from holdfast.errors import InvalidId, InvalidInput, Unsupported
from holdfast.model import Code, Found, Image, JsonPart, Message, Text, Usage
from holdfast.testing.domain_branches import fork_in_the_road
from holdfast.testing.driving import NOON, Again, HoldfastKit, users
from holdfast.testing.opening import new_namespace

PIECES = ("Ryokan", "ryokan's", "RYO", "a_b", "100%", "京都", "都", "東京tower", "서울에서", "é", "e\u0301", "ß", "SS")
MORE = ("İ", "fi", "ＡＢ", "OR", "NOT", '"x"', "*", "c++", "😀", "❤️", "-", "\\", "\n", " ", " ", "\x00", "हिन्दी", "ไทย")
TEXTS = st.lists(st.sampled_from(PIECES + MORE) | st.text(max_size=3), max_size=6).map("".join)
SAID = st.lists(TEXTS.filter(lambda text: _is_valid(text)), max_size=8)

# Every backend's test class runs the one method; and the fixtures only say how a store is opened.
UNHEALTHY = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors, HealthCheck.too_slow]


def _is_valid(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def said(hf: Holdfast, *texts: str, id: str = "s", **fields: Any) -> list[Message]:
    """A session in which a person has said these texts."""
    hf.sessions.create(id=id, title="t", **fields)
    return hf.sessions.append(id, *users(*texts)) if texts else []


def seen(found: list[Found]) -> set[str]:
    """The texts of what was found."""
    return {one.message.text for one in found}


class SearchKit(HoldfastKit):
    """What `hf.search` finds, and what comes back."""

    # what matches

    @pytest.mark.parametrize(
        ("text", "query", "found"),
        [
            ("Find a Ryokan, please", "ryokan", True),
            ("Find a Ryokan, please", "PLEASE find", True),
            ("Find a Ryokan, please", "ryokan hotel", False),
            ("Find a Ryokan, please", "ryok", False),
            ("100% sure", "100%", True),
            ("1000 times", "100%", False),
            ("1000 times", "%", False),
            ("100% sure", "%", True),
            ("snake a_b", "a_b", True),
            ("snake axb", "a_b", False),
            ("this and that", "this OR that", False),
            ("this or that", 'this" OR "that', True),
            ("this, that", "NOT this", False),
            ("a star", "s*", False),
            ("Straße", "STRASSE", True),
            ("cafe\u0301", "CAFÉ", True),
            ("ＡＢＣ", "abc", True),
            ("京都で静かな旅館を三泊", "静かな旅館", True),
            ("京都で静かな旅館を三泊", "旅", True),
            ("京都で静かな旅館を三泊", "静か旅館", False),
            ("京 都", "京都", False),
            ("東京tower", "tower 東京", True),
            ("서울에서 만나요", "서울", True),
            ("สวัสดีครับ", "สวัสดี", True),
            ("हिन्दी में", "हिन्दी", True),
            ("well done 🎉", "🎉", True),
            ("x", "x" * 50_000, False),
            ("lots " * 40_000 + "end", "end", True),
        ],
    )
    def test_a_search_finds_every_whole_word_of_it(self, hf: Holdfast, text: str, query: str, found: bool) -> None:
        said(hf, text, "something else")
        assert seen(hf.search(query)) == ({text} if found else set())

    @pytest.mark.parametrize(
        ("text", "query", "found"),
        [
            ("Find a Ryokan", "YOK", True),
            ("Find a Ryokan", "d a r", True),
            ("Find a Ryokan", "a  r", False),
            ("100% sure", "0%", True),
            ("1000 times", "0%", False),
            ("snake axb", "a_b", False),
            ('say "x" \\ y', '"X" \\', True),
            ("one\ntwo", "e\nt", True),
            ("京都で", "都で", True),
            ("Straße", "ASSE", True),
            ("it is 🎉🎉", "🎉🎉", True),
        ],
    )
    def test_a_substring_is_found_anywhere(self, hf: Holdfast, text: str, query: str, found: bool) -> None:
        said(hf, text, "something else")
        assert seen(hf.search(query, substring=True)) == ({text} if found else set())

    def test_text_and_code_are_searched_and_nothing_else(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s", title="needle")
        parts = (Text(text="apple"), Code(code="pear = 1"), JsonPart(value="needle"), Image(url="needle"))
        hf.sessions.append("s", Message.user(*parts, metadata={"needle": "needle"}, reasoning="needle"))
        assert [len(hf.search(query)) for query in ("apple", "pear", "apple pear", "needle")] == [1, 1, 1, 0]

    # what comes back

    def test_a_result_is_the_message_in_its_place_with_a_snippet(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s", title="t")
        long = Message.user("x " * 500 + "the Ryokan " + "y " * 500, usage=Usage(total=7))
        hf.sessions.append("s", *users("before"), long)
        hf = again()
        (found,) = hf.search("ryokan")
        assert found.message == hf.sessions.message("s", long.id)
        assert (found.session_id, found.message.seq) == ("s", 2)
        assert "the Ryokan" in found.snippet
        assert len(found.snippet) < 200

    def test_the_first_message_of_a_branch_knows_what_came_before(self, hf: Holdfast) -> None:
        m1, m2, m3 = fork_in_the_road(hf)
        assert {query: hf.search(query)[0].message for query in ("m1", "m2", "m3")} == {"m1": m1, "m2": m2, "m3": m3}

    def test_the_limit_is_kept_and_more_matches_come_first(self, hf: Holdfast) -> None:
        said(hf, "ryokan and other things", "ryokan ryokan ryokan", *(f"filler {n}" for n in range(8)))
        assert [one.message.text for one in hf.search("ryokan", limit=1)] == ["ryokan ryokan ryokan"]
        assert [len(hf.search("ryokan", limit=limit)) for limit in (0, 1, 2, 100)] == [0, 1, 2, 2]
        scores = [one.score for one in hf.search("ryokan")]
        assert scores == sorted(scores, reverse=True)

    def test_a_search_for_thousands_of_words_keeps_its_timeout(self, hf: Holdfast) -> None:
        text = " ".join(f"w{n}" for n in range(10_000))
        said(hf, *(f"{text} {n}" for n in range(3)), "w1 w2")
        began = time.monotonic()
        assert len(hf.search(text)) == 3
        assert time.monotonic() - began < 5

    # the judge

    @settings(max_examples=60, deadline=None, suppress_health_check=UNHEALTHY)
    @given(texts=SAID, query=TEXTS.filter(lambda text: bool(text.strip()) and _is_valid(text)), split=st.integers(0, 8))
    def test_what_is_found_is_what_the_judge_says(self, texts: list[str], query: str, split: int) -> None:
        with Holdfast(self.open(new_namespace())) as hf:
            said(hf, *texts[:split])
            hf.search("anything")
            if texts[split:]:
                hf.sessions.append("s", *users(*texts[split:]))
            for substring in (False, True):
                found = sorted(one.message.text for one in hf.search(query, substring=substring))
                assert found == sorted(_expected(texts, query, substring))

    # queries that are none

    @pytest.mark.parametrize("text", ["", "  ", "\n", None, 5, b"x", "\ud800"])
    def test_a_blank_search_is_invalid(self, hf: Holdfast, text: Any) -> None:
        with pytest.raises(InvalidInput):
            hf.search(text)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"role": "robot"},
            {"role": 5},
            {"limit": -1},
            {"limit": "5"},
            {"created_after": NOON.replace(tzinfo=None)},
            {"created_before": "now"},
            {"substring": "yes"},
            {"syntax": 1},
            {"substring": True, "syntax": True},
            {"timeout": -1},
            {"progress": 5},
        ],
    )
    def test_a_search_with_a_wrong_option_is_invalid(self, hf: Holdfast, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            hf.search("x", **wrong)

    @pytest.mark.parametrize("name", ["agent_id", "session_id", "user_id"])
    def test_a_search_in_what_has_no_usable_id_is_invalid(self, hf: Holdfast, name: str) -> None:
        with pytest.raises(InvalidId):
            hf.search("x", **cast(Any, {name: ""}))

    # the backend's own language

    def test_a_query_with_a_syntax_is_the_backends_or_unsupported(self, hf: Holdfast, store: RecordStore) -> None:
        said(hf, "one ryokan", "two ryokans", "three 旅館で", "Été")
        if not isinstance(store, SearchesText) or store.text.language is None:
            with pytest.raises(Unsupported):
                hf.search("ryokan", syntax=True)
            return
        assert store.text.language == "FTS5"
        answers = {
            query: len(hf.search(query, syntax=True)) for query in ("ryok*", "ONE OR two", "旅館", 'é OR "旅 館"')
        }
        assert answers == {"ryok*": 2, "ONE OR two": 2, "旅館": 1, 'é OR "旅 館"': 1}
        assert seen(hf.search("ÉTÉ", syntax=True)) == {"Été"}
        with pytest.raises(InvalidInput):
            hf.search('"open', syntax=True)


def _expected(texts: list[str], query: str, substring: bool) -> Iterator[str]:
    wanted = matching.substring(query) if substring else matching.words(query)
    return (text for text in texts if wanted.count(matching.fold(text)))
