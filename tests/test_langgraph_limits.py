"""Messages of LangGraph's at the limits: large ones, pictures, contents that mean nothing to Holdfast."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph

import holdfast
from holdfast import Holdfast
from holdfast.adapters.langgraph import HoldfastSaver
from holdfast.errors import InvalidInput

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def hf(tmp_path: Path) -> Iterator[Holdfast]:
    with holdfast.open(f"sqlite:///{tmp_path}/graphs.db", timeout=5) as hf:
        yield hf


def _graph(hf: Holdfast, serde: JsonPlusSerializer | None = None) -> Any:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("answer", lambda _: {"messages": [AIMessage("ok")]})
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=HoldfastSaver(hf, serde=serde))


def _kept(hf: Holdfast, *messages: BaseMessage) -> list[Any]:
    """What another saver reads of messages that a graph was given."""
    _graph(hf).invoke({"messages": list(messages)}, CONFIG)
    return [one.content for one in _graph(hf).get_state(CONFIG).values["messages"][: len(messages)]]


def test_messages_of_megabytes_come_back(hf: Holdfast) -> None:
    texts = [f"{n} " + "word " * 500_000 for n in range(3)]
    assert _kept(hf, *map(HumanMessage, texts)) == texts
    assert [one.text for one in hf.sessions.messages("t")][:3] == texts


def test_a_large_picture_is_kept_beside_its_message(hf: Holdfast) -> None:
    body = base64.b64encode(random.Random(7).randbytes(300_000)).decode()
    content: Any = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{body}"}}]
    assert _kept(hf, HumanMessage(content, id="m")) == [content]


def test_a_large_picture_can_be_said_again_under_the_same_id(hf: Holdfast) -> None:
    body = base64.b64encode(random.Random(7).randbytes(300_000)).decode()
    content: Any = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{body}"}}]
    _kept(hf, HumanMessage("a picture follows", id="m"))
    assert _kept(hf, HumanMessage(content, id="m")) == [content]
    assert _graph(hf).get_state(CONFIG).values["messages"][0].id == "m"


def test_a_block_that_is_no_picture_whatever_it_says_is_kept(hf: Holdfast) -> None:
    content: Any = [{"type": "image_url", "url": "https://example.org/a.png"}, {"type": "image_url", "image_url": None}]
    assert _kept(hf, HumanMessage(content)) == [content]


class Reversed:
    """A cipher for tests."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversed", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:  # noqa: ARG002
        return ciphertext[::-1]


def test_a_pickle_is_refused_also_when_it_is_encrypted(hf: Holdfast) -> None:
    serde = EncryptedSerializer(Reversed(), JsonPlusSerializer(pickle_fallback=True))
    checkpoint = {**empty_checkpoint(), "channel_values": {"x": object()}, "channel_versions": {"x": 1}}
    with pytest.raises(InvalidInput, match="no pickles"):
        HoldfastSaver(hf, serde=serde).put(CONFIG, checkpoint, {}, {"x": 1})  # type: ignore[arg-type]


class Rated(HumanMessage):
    """A message of a class that LangGraph builds only where it is allowed."""

    stars: int = 0


def test_a_message_of_a_class_that_may_not_be_built_is_a_dict_and_the_graph_goes_on(hf: Holdfast) -> None:
    _graph(hf).invoke({"messages": [Rated(content="Nice", id="m", stars=5)]}, CONFIG)
    strict = _graph(hf, JsonPlusSerializer(allowed_msgpack_modules=[]))
    assert strict.get_state(CONFIG).values["messages"][0]["stars"] == 5
    strict.invoke({"messages": [HumanMessage("Thank you")]}, CONFIG)
    assert [one.content for one in strict.get_state(CONFIG).values["messages"]] == ["Nice", "ok", "Thank you", "ok"]
