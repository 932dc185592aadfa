"""Messages: what was said comes back as it was, in the order in which it was written."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast.client import Holdfast
from holdfast.errors import CorruptData
from holdfast.kinds import MESSAGES
from holdfast.model import (
    ArtifactRef,
    Attachment,
    Audio,
    Code,
    Compaction,
    File,
    Image,
    JsonPart,
    Message,
    Part,
    Text,
    ToolCall,
    Usage,
    Video,
)
from holdfast.testing.driving import Again, Door, HoldfastKit, exact, texts, users
from holdfast.testing.planting import envelope, plant_message, stored

PARTS: list[Part] = [
    Text(text="plain"),
    JsonPart(value={"n": 42, "f": 42.0, "s": "42", "none": None, "list": [1, [2, {}]]}),
    Image(url="https://example.com/a.png", detail="high"),
    Image(data=bytes(range(256)), mime_type="image/png"),
    Audio(data=b"\0\xff", mime_type="audio/wav"),
    Video(artifact_id="film", name="film.mp4"),
    File(url="s3://bucket/key", name="report.pdf"),
    Code(code="print('hi')", language="python"),
    ArtifactRef(artifact_id="map", name="map.png", mime_type="image/png"),
]
ATTACHMENTS = [
    Attachment(type="image", name="a.png", mime_type="image/png", data=bytes(range(256)), size=256),
    Attachment(type="audio", name="a.wav", url="https://example.com/a.wav"),
    Attachment(type="video", name="a.mp4", artifact_id="film", size=2**63 - 1),
    Attachment(type="file", name="ä 😀.pdf", content="text"),
    Attachment(type="code", name="a.py", content="print('\0')"),
]
RICH = Message.assistant(
    *PARTS,
    reasoning="because",
    tool_calls=[
        ToolCall(id="c1", name="book", arguments={"room": 7, "price": 7.0, "none": None}),
        ToolCall(id="c2", name="pay", arguments="{not json"),
    ],
    attachments=ATTACHMENTS,
    metadata={"seen": {"by": ["ann", "bob"]}, "empty": {}},
    usage=Usage(provider="p", model="m", input=1, output=2, total=3, cache_read=4, cache_write=5, cost=0.1),
)
PLACE = ("session_id", "branch", "seq", "parent_id")


def without_place(message: Message | None) -> dict[str, Any]:
    """What a message says, without where it stands."""
    assert message is not None
    return {name: getattr(message, name) for name in Message.__struct_fields__ if name not in PLACE}


class MessageTests(HoldfastKit):
    """Appending and reading on one branch."""

    # what was said comes back

    def test_a_rich_message_comes_back_deep_equal(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        (appended,) = hf.sessions.append("s", RICH)
        (found,) = again().sessions.messages("s")
        assert found == appended
        assert without_place(found) == without_place(RICH)
        assert exact(found.content) == exact(RICH.content)

    def test_a_tool_result_keeps_its_call_id_and_name(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.tool_result("c1", "done", tool_name="book"))
        (found,) = again().sessions.messages("s")
        assert (found.role, found.tool_call_id, found.tool_name) == ("tool", "c1", "book")
        assert found.text == "done"

    def test_a_compaction_comes_back(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        (first,) = hf.sessions.append("s", *users("first"))
        marker = Message.user("", is_compaction=True, compaction=Compaction(tail_start_id=first.id))
        hf.sessions.append("s", marker, Message.assistant("short", is_summary=True))
        _, found, summary = again().sessions.messages("s")
        assert (found.is_compaction, found.compaction) == (True, marker.compaction)
        assert summary.is_summary

    @pytest.mark.parametrize("metadata", [None, {}, {"n": 42}, {"n": 42.0}, {"n": "42"}, {"": None}])
    def test_message_metadata_comes_back_as_it_was(
        self, hf: Holdfast, again: Again, metadata: dict[str, Any] | None
    ) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.user("hi", metadata=metadata))
        (found,) = again().sessions.messages("s")
        assert exact(found.metadata) == exact(metadata)

    @pytest.mark.parametrize("text", ["", "a\0b", "a\r\nb", "\u2028", "😀👩‍👩‍👧", "中文", "e\u0301", "%_'\"\\", " a "])
    def test_any_text_comes_back(self, hf: Holdfast, again: Again, text: str) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", *users(text))
        assert texts(again(), "s") == [text]

    def test_a_message_of_a_megabyte_comes_back(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", *users("中" * 350_000))
        assert texts(again(), "s") == ["中" * 350_000]

    def test_a_time_comes_back_to_the_microsecond(self, hf: Holdfast, again: Again) -> None:
        said_at = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=timezone(timedelta(hours=9)))
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.user("hi", created_at=said_at))
        (found,) = again().sessions.messages("s")
        assert (found.created_at, found.created_at.utcoffset()) == (said_at, timedelta(0))

    def test_appending_leaves_the_callers_message_alone(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")
        message = Message.user("hi")
        hf.sessions.append("s", message)
        assert (message.session_id, message.seq, message.branch) == (None, None, None)

    # other forms of a message

    @pytest.mark.parametrize("role", ["system", "user", "assistant", "tool", "USER", "Assistant"])
    def test_a_dict_in_provider_form_is_a_message(self, hf: Holdfast, again: Again, role: str) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", {"role": role, "content": "hello"})
        (found,) = again().sessions.messages("s")
        assert (found.role, found.content) == (role.lower(), [Text(text="hello")])

    def test_a_dict_may_have_parts_and_calls(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        function = {"name": "book", "arguments": '{"room": 7}'}
        parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "https://e.com/a.png"}}]
        calls = [{"id": "c1", "type": "function", "function": function}, {"id": "c2", "name": "pay"}]
        hf.sessions.append("s", {"role": "assistant", "content": parts, "tool_calls": calls})
        (found,) = again().sessions.messages("s")
        assert found.content == [Text(text="a"), Image(url="https://e.com/a.png")]
        assert found.tool_calls == [
            ToolCall(id="c1", name="book", arguments={"room": 7}),
            ToolCall(id="c2", name="pay"),
        ]

    @pytest.mark.parametrize("raw", ["{oops", "", "NaN", '{"a": Infinity}', "[" * 100_000])
    def test_arguments_that_are_no_json_are_kept_as_written(self, hf: Holdfast, again: Again, raw: str) -> None:
        hf.sessions.create(id="s")
        call = {"id": "c", "function": {"name": "f", "arguments": raw}}
        hf.sessions.append("s", {"role": "assistant", "tool_calls": [call]})
        (found,) = again().sessions.messages("s")
        assert found.tool_calls == [ToolCall(id="c", name="f", arguments=raw)]

    def test_the_text_of_a_message_is_its_plain_view(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        hf.sessions.append("s", Message.user("one", Image(url="u"), Code(code="two")))
        assert texts(again(), "s") == ["one\ntwo"]

    @pytest.mark.parametrize("role", ["user", "USER", "User"])
    def test_a_stored_role_is_read_in_any_case(self, door: Door, role: str) -> None:
        door.hf.sessions.create(id="s")
        plant_message(door.store, "s", id="m", role=role, content=[{"type": "text", "text": "hi"}])
        (found,) = door.reopen().sessions.messages("s")
        assert (found.role, found.text) == ("user", "hi")

    @pytest.mark.parametrize("role", ["robot", "", None, 7])
    def test_an_unknown_stored_role_is_corrupt_data(self, door: Door, role: object) -> None:
        door.hf.sessions.create(id="s")
        door.hf.sessions.append("s", *users("fine"))
        plant_message(door.store, "s", id="m", role=role)
        hf = door.reopen()
        with pytest.raises(CorruptData, match="role"):
            list(hf.sessions.messages("s"))
        assert texts(hf, "s", stop=1) == ["fine"]

    def test_fields_of_a_later_version_stay_in_a_message(self, door: Door) -> None:
        door.hf.sessions.create(id="s")
        planted = plant_message(door.store, "s", id="m", role="user", mood={"value": 42.0})
        hf = door.reopen()
        hf.sessions.append("s", *users("next"))
        hf.sessions.update_usage("s", "m", Usage(input=1))
        copy = hf.sessions.fork("s", copy=True)
        (found, _) = hf.sessions.messages(copy.id)
        assert found.id == "m"
        assert exact(envelope(stored(door.store, MESSAGES, *planted.key))["mood"]) == exact({"value": 42.0})
