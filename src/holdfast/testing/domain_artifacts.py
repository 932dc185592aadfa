"""Artifacts: bytes by name and version, stored once, checked when read, gone when nothing has them any more."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.blobs import GRACE_S
from holdfast.client import Holdfast
from holdfast.contracts import BlobStore, KeepsBlobs, RecordStore
from holdfast.errors import (
    AlreadyExists,
    HoldfastError,
    IntegrityError,
    InvalidId,
    InvalidInput,
    NotFound,
    Unsupported,
)
from holdfast.model import Agent, Artifact
from holdfast.testing.driving import Again, HoldfastKit
from holdfast.testing.planting import BreaksOff, DamagedBlobs
from holdfast.testing.records import dump

EVERY_BYTE = bytes(range(256))
MEGABYTE = 1024 * 1024


class ArtifactKit(HoldfastKit):
    """Subclass it as `TestMyArtifacts` and say how to `open` the store; never override a test."""

    # bytes in and out

    @pytest.mark.parametrize("content", [b"", b"\0", EVERY_BYTE, EVERY_BYTE * 5000])
    def test_any_bytes_come_back(self, hf: Holdfast, again: Again, content: bytes) -> None:
        put = hf.artifacts.put(content, name="x", content_type="image/png", metadata={"n": 42.0})
        hf = again()
        assert (hf.artifacts.get(put.id), hf.artifacts.read(put.id)) == (put, content)
        assert (put.name, put.version, put.size, put.content_type) == ("x", 1, len(content), "image/png")

    def test_five_megabytes_in_odd_pieces_come_back(self, hf: Holdfast, again: Again) -> None:
        whole = b"".join(bytes([n % 251]) * 7919 for n in range(5 * MEGABYTE // 7919))
        put = hf.artifacts.put((whole[at : at + 7919] for at in range(0, len(whole), 7919)), name="x")
        assert b"".join(again().artifacts.stream(put.id)) == whole

    def test_a_file_an_open_file_a_view_and_pieces_are_the_same(self, hf: Holdfast, tmp_path: Path) -> None:
        path = tmp_path / "content"
        path.write_bytes(EVERY_BYTE)
        given: list[Any] = [path, io.BytesIO(EVERY_BYTE), memoryview(EVERY_BYTE), bytearray(EVERY_BYTE)]
        given += [[EVERY_BYTE[:9], b"", EVERY_BYTE[9:]], iter([EVERY_BYTE])]
        put = [hf.artifacts.put(content, name=f"{n}") for n, content in enumerate(given)]
        assert {(one.digest, one.size) for one in put} == {(put[0].digest, 256)}
        assert hf.artifacts.read(put[-1].id) == EVERY_BYTE

    @pytest.mark.parametrize(
        ("start", "stop"), [(0, None), (0, 5), (3, 7), (255, 256), (4, 4), (250, 999), (999, None)]
    )
    def test_a_range_comes_back(self, hf: Holdfast, start: int, stop: int | None) -> None:
        put = hf.artifacts.put(EVERY_BYTE, name="x")
        assert b"".join(hf.artifacts.stream(put.id, start=start, stop=stop)) == EVERY_BYTE[start:stop]

    def test_an_artifact_is_saved_to_a_file(self, hf: Holdfast, tmp_path: Path) -> None:
        put = hf.artifacts.put(EVERY_BYTE, name="x")
        (tmp_path / "there").write_text("before")
        for name in ("new", "there"):
            assert hf.artifacts.save(put.id, tmp_path / name) == put
        assert {path.name: path.read_bytes() for path in tmp_path.glob("[nt]*")} == dict.fromkeys(
            ("new", "there"), EVERY_BYTE
        )

    # names and versions

    def test_saving_a_name_again_makes_the_next_version(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        first, second = (hf.artifacts.put(text, name="x", session_id="s") for text in (b"one", b"two"))
        hf = again()
        assert hf.artifacts.list(session_id="s") == [second]
        assert hf.artifacts.versions("x", "s") == [second, first]
        assert [(one.version, hf.artifacts.read(one.id)) for one in (first, second)] == [(1, b"one"), (2, b"two")]
        assert hf.artifacts.get(name="x", session_id="s") == second
        assert [hf.artifacts.get(name="x", session_id="s", version=n) for n in (1, 2, 3)] == [first, second, None]

    def test_names_are_apart_by_session(self, hf: Holdfast, again: Again) -> None:
        for id in ("a", "a_b"):
            hf.sessions.create(id=id)
        put = [hf.artifacts.put(b"x", name="x", session_id=id) for id in (None, "a", "a_b")]
        hf = again()
        assert {one.version for one in put} == {1}
        assert [hf.artifacts.get(name="x", session_id=id) for id in (None, "a", "a_b")] == put
        assert hf.artifacts.list(name="x") == put[::-1]

    @pytest.mark.parametrize("name", ["../../etc/x", "a/b.png", "a.json", "CON", "😀", "x" * 255, "%_'\"", "-"])
    def test_any_name_is_kept_exactly(self, hf: Holdfast, again: Again, name: str) -> None:
        put = [hf.artifacts.put(b"x", name=other) for other in (name, f"{name[:-1]}~")]
        hf = again()
        assert (list(hf.artifacts.list()), hf.artifacts.get(name=name)) == (put[::-1], put[0])

    def test_the_list_is_paged_newest_first(self, hf: Holdfast, again: Again) -> None:
        hf.sessions.create(id="s")
        put = [hf.artifacts.put(b"x", name=f"{n % 5}", session_id="s" if n % 2 else None) for n in range(10)]
        hf, seen, cursor = again(), list[Artifact](), None
        for _ in range(10):
            page = hf.artifacts.list(limit=3, cursor=cursor)
            seen, cursor = [*seen, *page], page.cursor
            if cursor is None:
                break
        assert seen == put[::-1]
        assert hf.artifacts.list(limit=2, offset=1) == put[-2:-4:-1]
        assert hf.artifacts.list(session_id="s", limit=100) == put[:0:-2]

    def test_what_is_not_there_is_none_or_nothing(self, hf: Holdfast) -> None:
        assert [hf.artifacts.get("none"), hf.artifacts.get(name="x"), hf.artifacts.get(name="x", version=2**70)] == [
            None
        ] * 3
        assert hf.artifacts.get(name="x", session_id="none") is None
        assert [*hf.artifacts.list(session_id="none"), *hf.artifacts.versions("x", "none")] == []
        hf.artifacts.delete("none")
        for ask in (hf.artifacts.read, hf.artifacts.stream):
            with pytest.raises(NotFound):
                ask("none")

    def test_a_put_into_an_unknown_session_is_not_found_and_reads_nothing(self, hf: Holdfast) -> None:
        source = io.BytesIO(EVERY_BYTE)
        with pytest.raises(NotFound):
            hf.artifacts.put(source, name="x", session_id="none")
        assert (source.tell(), hf.stats().bytes) == (0, 0)

    def test_a_put_with_an_id_is_safe_to_repeat(self, hf: Holdfast, store: RecordStore) -> None:
        first = hf.artifacts.put(b"one", name="x", id="mine", metadata={"n": 1})
        before = dump(store)
        assert hf.artifacts.put([b"o", b"ne"], name="x", id="mine", metadata={"n": 1}) == first
        for changes in ({"name": "y"}, {"content": b"two"}, {"metadata": None}, {"content_type": "text/plain"}):
            with pytest.raises(AlreadyExists):
                hf.artifacts.put(**{"content": b"one", "name": "x", "id": "mine", "metadata": {"n": 1}, **changes})  # type: ignore[arg-type]
        assert dump(store) == before

    # stored once

    def test_the_same_bytes_are_stored_once(self, hf: Holdfast, again: Again) -> None:
        content = EVERY_BYTE * 4000
        for name in ("x", "x", "y"):
            hf.artifacts.put(content, name=name)
        assert len(content) < again().stats().bytes < len(content) + 5000

    def test_deleting_one_of_two_keeps_the_bytes_for_the_other(self, hf: Holdfast, again: Again) -> None:
        one, other = (hf.artifacts.put(EVERY_BYTE, name=name) for name in ("x", "y"))
        hf.artifacts.delete(one.id)
        hf.gc(grace_s=0)
        hf = again()
        assert (hf.artifacts.get(one.id), hf.artifacts.read(other.id)) == (None, EVERY_BYTE)

    def test_deleting_the_newest_version_leaves_the_one_before(self, hf: Holdfast, again: Again) -> None:
        put = [hf.artifacts.put(text, name="x") for text in (b"1", b"2", b"3")]
        hf.artifacts.delete(put[2].id)
        hf.artifacts.delete(put[0].id)
        hf = again()
        assert (list(hf.artifacts.list()), hf.artifacts.get(name="x")) == ([put[1]], put[1])

    def test_nothing_is_left_of_the_last_version(self, hf: Holdfast, store: RecordStore) -> None:
        hf.artifacts.delete(hf.artifacts.put(EVERY_BYTE, name="x").id)
        collected = [hf.gc(grace_s=seconds).blobs for seconds in (GRACE_S, float("inf"), 0, 0)]
        assert (collected, hf.stats().bytes, dump(store)) == ([0, 0, 1, 0], 0, [])

    def test_bytes_whose_record_was_never_written_go_with_gc(self, hf: Holdfast, store: RecordStore) -> None:
        kept = hf.artifacts.put(b"kept", name="x")
        with pytest.raises(HoldfastError):
            Holdfast(BreaksOff(store, 0), blobs=_blobs(store)).artifacts.put(EVERY_BYTE, name="x")
        assert hf.artifacts.list() == [kept]
        assert (hf.gc().blobs, hf.gc(grace_s=0).blobs, hf.artifacts.read(kept.id)) == (0, 1, b"kept")

    def test_a_source_that_breaks_off_stores_nothing(self, hf: Holdfast, store: RecordStore) -> None:
        def broken() -> Iterator[bytes]:
            yield EVERY_BYTE
            raise OSError("the source broke off")

        with pytest.raises(OSError, match="the source broke off"):
            hf.artifacts.put(broken(), name="x")
        assert (dump(store), hf.stats().bytes) == ([], 0)

    # with its session

    def test_a_deleted_session_takes_its_artifacts_and_no_others(self, hf: Holdfast, again: Again) -> None:
        for id in ("a", "a_b"):
            hf.sessions.create(id=id)
        gone, *kept = (hf.artifacts.put(f"{id}".encode(), name="x", session_id=id) for id in ("a", "a_b", None))
        hf.sessions.delete("a")
        assert hf.gc(grace_s=0).blobs == 1
        hf = again()
        assert (hf.artifacts.get(gone.id), list(hf.artifacts.list())) == (None, kept[::-1])
        assert [hf.artifacts.read(one.id) for one in kept] == [b"a_b", b"None"]

    @pytest.mark.parametrize("commits", [1, 2])
    def test_artifacts_are_absent_from_the_moment_their_session_is(
        self, hf: Holdfast, store: RecordStore, commits: int
    ) -> None:
        hf.sessions.create(id="s")
        put = [hf.artifacts.put(b"x", name=f"{n}", session_id="s") for n in range(3)]
        with pytest.raises(HoldfastError):
            Holdfast(BreaksOff(store, commits)).sessions.delete("s")
        assert ([hf.artifacts.get(one.id) for one in put], list(hf.artifacts.list())) == ([None] * 3, [])
        hf.sessions.create(id="s")
        again = hf.artifacts.put(b"x", name="0", session_id="s")
        hf.gc(grace_s=0)
        assert (again.version, list(hf.artifacts.list()), hf.artifacts.read(again.id)) == (1, [again], b"x")

    def test_an_agent_takes_the_artifacts_of_its_sessions(self, hf: Holdfast, store: RecordStore) -> None:
        hf.agents.save(Agent(id="scout", name=""))
        hf.sessions.create(id="s", agent_id="scout")
        hf.artifacts.put(EVERY_BYTE, name="x", session_id="s")
        hf.agents.delete("scout")
        hf.gc(grace_s=0)
        assert (dump(store), hf.stats().bytes) == ([], 0)

    # damage

    @pytest.mark.parametrize("damage", [lambda whole: whole[:-1] + b"!", lambda whole: whole[:-1], lambda _: None])
    def test_damaged_bytes_are_an_integrity_error(
        self, hf: Holdfast, store: RecordStore, tmp_path: Path, damage: Callable[[bytes], bytes | None]
    ) -> None:
        put, sound = hf.artifacts.put(EVERY_BYTE, name="x"), hf.artifacts.put(b"sound", name="y")
        damaged = Holdfast(store, blobs=DamagedBlobs(_blobs(store), put.digest, damage))
        for ask in (damaged.artifacts.read, lambda id: damaged.artifacts.save(id, tmp_path / "out")):
            with pytest.raises(IntegrityError):
                ask(put.id)
        assert [problem.kind for problem in damaged.verify().problems] == ["artifacts"]
        assert (damaged.artifacts.read(sound.id), (tmp_path / "out").exists()) == (b"sound", False)

    # input

    @pytest.mark.parametrize("content", ["text", None, 5, {"a": 1}, [5], ["text"], io.StringIO("text"), Path("/none")])
    def test_content_that_is_no_bytes_is_invalid(self, hf: Holdfast, store: RecordStore, content: Any) -> None:
        with pytest.raises(InvalidInput):
            hf.artifacts.put(content, name="x")
        assert (dump(store), hf.stats().bytes) == ([], 0)

    @pytest.mark.parametrize(
        "given",
        [
            {"content_type": 5},
            {"metadata": {"x": float("nan")}},
            {"metadata": [1]},
            {"id": "sha256:" + "0" * 64},
            {"timeout": -1},
        ],
    )
    def test_a_put_that_could_not_read_back_is_invalid(self, hf: Holdfast, given: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            hf.artifacts.put(b"x", **{"name": "x", **given})
        assert hf.stats().bytes == 0

    def test_arguments_nobody_can_mean_are_invalid(self, hf: Holdfast, tmp_path: Path) -> None:
        put = hf.artifacts.put(b"x", name="x")
        named: list[Any] = [hf.artifacts.get, hf.artifacts.read, hf.artifacts.delete, hf.artifacts.versions]
        for ask in named:
            for bad in ("", 5, "a\n", "x" * 256):
                with pytest.raises(InvalidId):
                    ask(bad)
        calls: list[Callable[[], object]] = [
            lambda: hf.artifacts.get(),
            lambda: hf.artifacts.get(put.id, name="x"),
            lambda: hf.artifacts.get(name="x", version="1"),  # type: ignore[arg-type]
            lambda: hf.artifacts.stream(put.id, start=-1),
            lambda: hf.artifacts.stream(put.id, stop=1.5),  # type: ignore[arg-type]
            lambda: hf.artifacts.list(limit=-1),
            lambda: hf.artifacts.list(cursor="forged"),
            lambda: hf.artifacts.save(put.id, tmp_path / "none" / "x"),
            lambda: hf.artifacts.save(put.id, 5),  # type: ignore[arg-type]
            lambda: hf.artifacts.delete("sha256:" + "0" * 64),
            lambda: hf.gc(grace_s=-1),
        ]
        for call in calls:
            with pytest.raises(InvalidInput):
                call()

    def test_a_store_without_blobs_says_so(self, hf: Holdfast, store: RecordStore) -> None:
        put = hf.artifacts.put(b"x", name="x")
        bare = Holdfast(BreaksOff(store, 1))
        with pytest.raises(Unsupported):
            bare.artifacts.put(b"x", name="y")
        assert bare.artifacts.get(put.id) == put


def _blobs(store: RecordStore) -> BlobStore:
    assert isinstance(store, KeepsBlobs)
    return store.blobs()
