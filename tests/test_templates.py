"""What a framework keeps beside a message comes back as it was, whatever it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import CorruptData, Message, ToolCall
from holdfast.adapters._templates import as_text, leave_out, put_back, settled, storable
from holdfast.model import Image, JsonPart

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
KEYS = st.one_of(st.sampled_from(["$", "$is", "$text", "$data", "$json", "a", "b"]), st.text("abc$", max_size=3))
NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


def no_artifact(id: str) -> bytes:
    raise AssertionError(id)


@given(st.dictionaries(KEYS, VALUES, max_size=3), WORDS, st.binary(max_size=40), st.booleans())
def test_any_value_comes_back(value: dict[str, Any], text: str, data: bytes, ascii: bool) -> None:
    call = ToolCall(id="c", name="t", arguments=value)
    said = Message.assistant(text, Image(data=data), JsonPart(value=[value]), tool_calls=[call], reasoning=text * 2)
    message = settled(said)
    for one in (value, [value, text, text * 2, text[5:50]], json.dumps(value, ensure_ascii=ascii), {"$": [text]}):
        template = json.loads(json.dumps(leave_out(one, [message])))
        assert json.dumps(put_back(template, [message], no_artifact), sort_keys=True) == json.dumps(one, sort_keys=True)


@pytest.mark.parametrize("value", [{"x": float("nan")}, {"x": 2**80}, {"x": "\ud800"}])
def test_what_cannot_be_stored_comes_back_too(value: Any) -> None:
    assert not storable(value, "it")
    assert json.dumps(put_back(as_text(value, "it"), [], no_artifact)) == json.dumps(value)


@pytest.mark.parametrize(
    "template",
    [{"$": 7}, {"$": [0, 1]}, {"$": "x"}, {"$odd": 1}, {"$json": [0, 9]}, {"$data": [0, ""]}, {"$text": "{"}],
)
def test_a_template_that_does_not_fit_its_message_is_damage(template: Any) -> None:
    with pytest.raises(CorruptData, match="beside a message"):
        put_back({"deep": [template]}, [Message.user("short")], no_artifact)
