"""Large parts of messages are kept as artifacts by themselves, and live as long as a message has them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.client import Holdfast
from holdfast.contracts import KeepsBlobs, RecordStore
from holdfast.errors import InvalidInput, NotFound
from holdfast.kinds import PARTS
from holdfast.model import Attachment, Audio, Code, File, Image, Message, Part, Text, Video
from holdfast.parts import INLINE_LIMIT
from holdfast.testing.driving import Again, HoldfastKit, texts
from holdfast.testing.records import dump

LARGE = bytes(range(256)) * (INLINE_LIMIT // 256) + b"!"
LARGE_TEXT = "é" * INLINE_LIMIT


def picture(**fields: Any) -> Message:
    """What a person says with a large picture."""
    return Message.user("look", Image(data=LARGE, mime_type="image/png", name="map.png", detail="high"), **fields)


class PartKit(HoldfastKit):
    """Subclass it as `TestMyParts` and say how to `open` the store; never override a test."""

    @pytest.fixture(autouse=True)
    def _session(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s")

    def test_a_large_part_is_kept_as_an_artifact(self, hf: Holdfast, again: Again) -> None:
        (appended,) = hf.sessions.append("s", picture())
        hf = again()
        (read,) = hf.sessions.messages("s")
        _, part = read.content
        assert isinstance(part, Image)
        assert (read, part.data, part.mime_type, part.detail) == (appended, None, "image/png", "high")
        assert hf.artifacts.read(part.artifact_id or "") == LARGE
        found = hf.artifacts.get(part.artifact_id)
        assert found is not None
        assert (found.name, found.content_type, found.size) == ("map.png", "image/png", len(LARGE))

    def test_every_large_part_and_attachment_moves_and_no_small_one(self, hf: Holdfast, again: Again) -> None:
        small: list[Part] = [
            Image(data=LARGE[:-1]),
            Text(text=LARGE_TEXT),
            Code(code=LARGE_TEXT),
            File(url="file:///x"),
        ]
        large: list[Part] = [kind(data=LARGE) for kind in (Image, Audio, Video, File)]
        attached = [
            Attachment(type="file", name="data", data=LARGE),
            Attachment(type="code", name="text", content=LARGE_TEXT),
            Attachment(type="file", name="small", content="small"),
            Attachment(type="image", name="elsewhere", url="https://example.com/x.png", size=5),
        ]
        hf.sessions.append("s", Message.user(*small, *large, attachments=attached))
        hf = again()
        (read,) = hf.sessions.messages("s")
        assert [*read.content[:4], *read.attachments[2:]] == [*small, *attached[2:]]
        moved: list[Any] = [*read.content[4:], *read.attachments[:2]]
        assert [hf.artifacts.read(one.artifact_id) for one in moved] == [LARGE] * 5 + [LARGE_TEXT.encode()]
        assert [(one.size, one.data, one.content) for one in read.attachments[:2]] == [
            (len(LARGE), None, None),
            (len(LARGE_TEXT.encode()), None, None),
        ]

    def test_appending_it_again_adds_nothing(self, hf: Holdfast, store: RecordStore) -> None:
        said = picture()
        first = hf.sessions.append("s", said)
        before = dump(store)
        assert hf.sessions.append("s", said) == first
        assert hf.sessions.append("s", *hf.sessions.messages("s")) == first
        assert (dump(store), len([row for row in before if row.kind is PARTS])) == (before, 1)

    def test_more_than_a_commit_can_hold_is_appended(self, hf: Holdfast, again: Again) -> None:
        data = LARGE * 40
        hf.sessions.append("s", Message.user(Image(data=data)), Message.user("next"))
        assert _bytes_of(again(), "s") == [data]

    def test_the_limit_can_be_set(self, store: RecordStore, hf: Holdfast) -> None:
        for limit, kept in ((3, 0), (2, 1)):
            Holdfast(store, inline_limit=limit).sessions.append("s", Message.user(Image(data=b"abc")))
            assert len([row for row in dump(store) if row.kind is PARTS]) == kept
        with pytest.raises(InvalidInput):
            Holdfast(store, inline_limit=-1)
        assert len(list(hf.sessions.messages("s"))) == 2

    def test_a_checkpoint_s_messages_move_too(self, hf: Holdfast, again: Again) -> None:
        hf.checkpoints.create(session_id="s", messages=[picture()])
        assert _bytes_of(again(), "s") == [LARGE]

    # as long as a message has them

    def test_a_fork_keeps_the_parts_of_its_source(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.append("s", picture())
        hf.sessions.fork("s", id="shares")
        hf.sessions.fork("s", id="copies", copy=True)
        hf.sessions.delete("s")
        hf.gc(grace_s=0)
        hf = again()
        assert [_bytes_of(hf, id) for id in ("shares", "copies")] == [[LARGE], [LARGE]]
        hf.sessions.delete("shares")
        hf.gc(grace_s=0)
        assert _bytes_of(hf, "copies") == [LARGE]

    def test_the_bytes_go_with_the_last_message_that_has_them(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.create(id="t")
        for id in ("s", "t"):
            hf.sessions.append(id, picture())
        artifact_id = _ids_of(hf, "s")[0]
        for id, left in (("s", LARGE), ("t", None)):
            hf.sessions.delete(id)
            hf.gc(grace_s=0)
            assert (hf.artifacts.get(artifact_id) and hf.artifacts.read(artifact_id)) == left
        assert (dump(store), hf.stats().bytes) == ([], 0)

    def test_the_parts_of_a_branch_that_only_the_deleted_reached_go(self, hf: Holdfast, store: RecordStore) -> None:
        first, _ = hf.sessions.append("s", Message.user("one"), Message.user("two"))
        hf.sessions.fork("s", id="f")
        hf.sessions.append("s", picture(), parent=first.id)
        hf.sessions.delete("s")
        assert (hf.gc(grace_s=0).blobs, texts(hf, "f")) == (1, ["one", "two"])
        assert not [row for row in dump(store) if row.kind is PARTS]

    def test_a_redacted_message_loses_its_parts(self, hf: Holdfast, again: Again) -> None:
        said = picture()
        hf.sessions.append("s", said)
        (artifact_id,) = _ids_of(hf, "s")
        hf.sessions.redact("s", said.id, "asked to")
        assert hf.artifacts.get(artifact_id) is None
        assert again().gc(grace_s=0).blobs == 1

    def test_a_redacted_message_leaves_shared_bytes_to_the_others(self, hf: Holdfast, again: Again) -> None:
        said, other = picture(), hf.artifacts.put(LARGE, name="map.png")
        hf.sessions.append("s", said)
        hf.sessions.redact("s", said.id, "asked to")
        hf.gc(grace_s=0)
        assert again().artifacts.read(other.id) == LARGE

    def test_what_was_read_can_be_appended_elsewhere(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.append("s", picture())
        hf.sessions.create(id="t")
        hf.sessions.append("t", *hf.sessions.messages("s"))
        hf.sessions.delete("s")
        hf.gc(grace_s=0)
        assert _bytes_of(again(), "t") == [LARGE]

    def test_bytes_that_are_not_there_cannot_be_referred_to(self, hf: Holdfast, store: RecordStore) -> None:
        before = dump(store)
        with pytest.raises(NotFound):
            hf.sessions.append("s", Message.user(Image(artifact_id=f"sha256:{'0' * 64}")))
        assert dump(store) == before

    def test_an_artifact_of_one_s_own_is_referred_to_by_its_id(self, hf: Holdfast, again: Again) -> None:
        put = hf.artifacts.put(LARGE, name="map.png", session_id="s")
        hf.sessions.append("s", Message.user(Image(artifact_id=put.id)))
        assert _bytes_of(again(), "s") == [LARGE]

    # damage

    def test_missing_bytes_and_a_part_without_its_message_are_found(self, hf: Holdfast, store: RecordStore) -> None:
        hf.sessions.append("s", picture())
        assert isinstance(store, KeepsBlobs)
        blobs = store.blobs()
        (digest,) = (blob.digest for blob in blobs.list())
        blobs.delete(digest)
        assert [problem.kind for problem in hf.verify().problems] == ["parts"]
        blobs.put([LARGE])
        assert hf.verify().ok


def _ids_of(hf: Holdfast, session_id: str) -> list[str]:
    parts = [part for message in hf.sessions.messages(session_id) for part in message.content]
    return [part.artifact_id for part in parts if isinstance(part, Image) and part.artifact_id is not None]


def _bytes_of(hf: Holdfast, session_id: str) -> list[bytes]:
    return [hf.artifacts.read(id) for id in _ids_of(hf, session_id)]
