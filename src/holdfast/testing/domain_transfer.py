"""Copying, exporting and importing: everything arrives, the same everywhere, and nobody sees half of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.backends.memory import MemoryStore
from holdfast.client import Holdfast, copy
from holdfast.contracts import BlobStore, KeepsBlobs, RecordStore
from holdfast.errors import AlreadyExists, Busy, ConnectionFailed, InvalidInput
from holdfast.kinds import HEADS
from holdfast.model import Agent, Message, Progress
from holdfast.testing.driving import Again, Door, HoldfastKit, texts, users
from holdfast.testing.everything import DATA, fill, held
from holdfast.testing.planting import BreaksOff, add_fields


class TransferKit(HoldfastKit):
    """Subclass it as `TestMyTransfers` and say how to `open` the store; never override a test."""

    @pytest.fixture
    def other(self) -> Iterator[Holdfast]:
        """A store of another backend."""
        with Holdfast(MemoryStore()) as other:
            yield other

    # all of it

    def test_a_copy_out_of_this_backend_has_everything(self, hf: Holdfast, store: RecordStore, other: Holdfast) -> None:
        fill(Holdfast(store))
        add_fields(store, HEADS, "kyoto-chat", of_a_later_version=[1.0, None])
        done = copy(Holdfast(store), other)
        assert {record.kind for record in held(other._store)} == set(DATA)
        assert (held(other._store), done.records) == (held(store), done.written)
        assert (other.verify().problems, hf.verify().problems) == ([], [])

    def test_a_copy_into_this_backend_has_everything(self, door: Door, other: Holdfast) -> None:
        fill(other)
        copy(other, Holdfast(door.store))
        hf = door.reopen()
        assert (held(door.store), hf.verify().problems) == (held(other._store), [])

    def test_a_copy_lives(self, other: Holdfast, store: RecordStore, again: Again) -> None:
        fill(other)
        copy(other, Holdfast(store))
        hf = again()
        hf.sessions.append("kyoto-chat", *users("goes on"))
        assert texts(hf, "kyoto-chat")[-1] == "goes on"
        assert [found.message.text for found in hf.search("goes")] == ["goes on"]
        assert hf.checkpoints.restore("kyoto-scout-two", force=True).missing == []
        assert [one.embedding.id for one in hf.embeddings.search([1.0, 0.5], model="kyoto-m")] == ["kyoto-v", "kyoto-w"]
        with hf.runs.start("kyoto-chat", key="done") as run:
            assert run.append(Message.user("book"))[0].text == "book"

    def test_copying_again_writes_nothing(self, hf: Holdfast, store: RecordStore, other: Holdfast) -> None:
        fill(Holdfast(store))
        first, second = (copy(Holdfast(store), other) for _ in range(2))
        assert (first.written, second.written, second.records, second.blobs) == (first.records, 0, first.records, 0)
        back = copy(other, Holdfast(store))
        assert (back.written, hf.verify().problems) == (0, [])

    def test_a_copy_tells_how_far_it_has_come(self, hf: Holdfast, store: RecordStore, other: Holdfast) -> None:
        fill(Holdfast(store))
        told: list[Progress] = []
        copy(Holdfast(store), other, progress=told.append)
        last = {one.what: (one.done, one.total) for one in told}
        assert last["messages"] == (hf.stats().messages,) * 2
        assert {kind.name for kind in DATA} | {"blobs"} == set(last)

    # beside what is there

    def test_two_stores_come_together_where_they_do_not_meet(
        self, hf: Holdfast, store: RecordStore, other: Holdfast
    ) -> None:
        fill(Holdfast(store), "kyoto")
        fill(other, "osaka")
        copy(other, Holdfast(store))
        assert {agent.id for agent in hf.agents.list()} == {"kyoto-scout", "osaka-scout"}
        assert hf.verify().problems == []

    @pytest.mark.parametrize("change", ["session", "agent", "artifact", "embedding"])
    def test_what_is_there_with_other_content_is_refused_and_stays(
        self, hf: Holdfast, store: RecordStore, other: Holdfast, change: str
    ) -> None:
        fill(other)
        if change == "session":
            hf.sessions.create(id="kyoto-chat", title="another")
        elif change == "agent":
            hf.agents.save(Agent(id="kyoto-scout", name="another"))
        elif change == "artifact":
            hf.artifacts.put(b"another", name="kyoto-shared")
        else:
            hf.embeddings.upsert("another", [1.0, 2.0, 3.0], model="kyoto-m")
        before = held(store)
        with pytest.raises(AlreadyExists, match="kyoto"):
            copy(other, Holdfast(store))
        assert held(store) == before

    # interrupted

    @pytest.mark.parametrize("commits", [0, 1, 5, 10, 16])
    def test_a_copy_that_breaks_off_shows_nothing_and_is_finished_later(
        self, hf: Holdfast, store: RecordStore, other: Holdfast, commits: int
    ) -> None:
        fill(other)
        with pytest.raises(ConnectionFailed):
            copy(other, Holdfast(BreaksOff(store, commits), blobs=_blobs(store)))
        assert (list(hf.sessions.list()), list(hf.agents.list()), list(hf.search("ryokan"))) == ([], [], [])
        assert (hf.verify().problems, hf.sessions.get("kyoto-chat")) == ([], None)
        other.sessions.append("kyoto-chat", *users("later"))
        copy(other, Holdfast(store))
        assert (held(store), hf.verify().problems) == (held(other._store), [])

    def test_what_was_deleted_after_an_interruption_does_not_come_back(
        self, hf: Holdfast, store: RecordStore, other: Holdfast
    ) -> None:
        fill(other)
        with pytest.raises(ConnectionFailed):
            copy(other, Holdfast(BreaksOff(store, 14), blobs=_blobs(store)))
        for id in ("kyoto-chat-fork", "kyoto-chat-later", "kyoto-chat-empty"):
            other.sessions.delete(id)
        other.checkpoints.delete("kyoto-chat-at")
        other.sessions.redact("kyoto-chat", "photo", "asked to")
        other.sessions.create(id="kyoto-chat-empty", title="another of this id")
        copy(other, Holdfast(store))
        assert (held(store), hf.verify().problems) == (held(other._store), [])

    # meanwhile

    @pytest.mark.parametrize("at", [0, 4, 9, 15, 22, 30])
    def test_a_source_that_is_written_to_gives_a_sound_copy(
        self, hf: Holdfast, store: RecordStore, other: Holdfast, at: int
    ) -> None:
        fill(other)
        copy(other, Holdfast(store), progress=_after(at, lambda: _write_everywhere(other)))
        assert hf.verify().problems == []
        for session in hf.sessions.list():
            hf.sessions.append(session.id, *users("goes on"))
            assert texts(hf, session.id)[-1] == "goes on"
        assert hf.checkpoints.restore("kyoto-scout-one", force=True).missing == ["kyoto-chat-copy"]

    @pytest.mark.parametrize("at", [0, 7, 15, 25])
    def test_what_is_deleted_meanwhile_is_not_copied_by_halves(
        self, hf: Holdfast, store: RecordStore, other: Holdfast, at: int
    ) -> None:
        fill(other)
        fill(other, "osaka")

        def delete() -> None:
            other.sessions.delete("kyoto-chat-fork")
            other.agents.delete("osaka-scout")
            other.gc(grace_s=0)

        copy(other, Holdfast(store), progress=_after(at, delete))
        assert (held(store), hf.verify().problems) == (held(other._store), [])

    @pytest.mark.parametrize("commits", [1, 2, 4])
    def test_what_is_being_deleted_stays_behind(
        self, hf: Holdfast, store: RecordStore, other: Holdfast, commits: int
    ) -> None:
        fill(other)
        for run in other.runs.list("kyoto-chat"):
            other.runs.halt(run.id)
        with pytest.raises(ConnectionFailed):
            Holdfast(BreaksOff(other._store, commits)).sessions.delete("kyoto-chat")
        copy(other, Holdfast(store))
        assert (hf.sessions.get("kyoto-chat"), hf.verify().problems) == (None, [])
        assert texts(hf, "kyoto-chat-fork") == texts(other, "kyoto-chat-fork")

    def test_a_copy_ends_at_its_timeout_and_goes_on_later(
        self, hf: Holdfast, store: RecordStore, other: Holdfast
    ) -> None:
        fill(other)
        with pytest.raises((Busy, ConnectionFailed)):  # a server that is slow may not have answered even once
            copy(other, Holdfast(store), timeout=0)
        assert list(hf.sessions.list()) == []
        copy(other, Holdfast(store), timeout=60)
        assert held(store) == held(other._store)

    # as files

    @pytest.mark.parametrize("name", ["all.zip", "all"])
    def test_an_export_is_the_same_from_any_backend(
        self, hf: Holdfast, store: RecordStore, other: Holdfast, tmp_path: Path, name: str
    ) -> None:
        fill(Holdfast(store))
        for path in ("here", "there", "back"):
            (tmp_path / path).mkdir()
        done = hf.export(tmp_path / "here" / name)
        read = other.import_from(tmp_path / "here" / name)
        other.export(tmp_path / "there" / name)
        assert (held(other._store), read.written) == (held(store), done.records)
        assert _files(tmp_path / "there") == _files(tmp_path / "here")
        assert hf.import_from(tmp_path / "there" / name).written == 0

    def test_an_import_into_this_backend_exports_the_same(
        self, hf: Holdfast, other: Holdfast, again: Again, tmp_path: Path
    ) -> None:
        fill(other)
        sent = other.export(tmp_path / "sent.zip")
        hf.import_from(tmp_path / "sent.zip")
        hf = again()
        assert (hf.export(tmp_path / "back.zip"), hf.verify().problems) == (sent, [])
        assert (tmp_path / "back.zip").read_bytes() == (tmp_path / "sent.zip").read_bytes()

    def test_an_export_of_a_store_that_is_written_to_is_sound(
        self, hf: Holdfast, store: RecordStore, other: Holdfast, tmp_path: Path
    ) -> None:
        plain = Holdfast(store)
        fill(plain)
        for at in range(0, 20, 4):
            plain.export(tmp_path / f"{at}.zip", progress=_after(at, lambda: _write_everywhere(plain)))
        hf.export(tmp_path / "gone.zip", progress=_after(7, lambda: plain.sessions.delete("kyoto-chat-fork")))
        other.import_from(tmp_path / "gone.zip")
        assert (held(other._store), other.verify().problems) == (held(store), [])
        for at in range(0, 20, 4):
            with Holdfast(MemoryStore()) as third:
                third.import_from(tmp_path / f"{at}.zip")
                assert third.verify().problems == []

    def test_an_export_replaces_nothing(self, hf: Holdfast, tmp_path: Path) -> None:
        folder = tmp_path / "exports"
        (folder / "all").mkdir(parents=True)
        (folder / "all.zip").write_text("before")
        for name in ("all.zip", "all"):
            with pytest.raises(AlreadyExists):
                hf.export(folder / name)
        with pytest.raises(InvalidInput):
            hf.export(folder / "none" / "all.zip")
        assert sorted(path.name for path in folder.rglob("*")) == ["all", "all.zip"]
        assert (folder / "all.zip").read_text() == "before"

    def test_a_path_that_is_no_export_is_invalid(self, hf: Holdfast, store: RecordStore, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        for path in (tmp_path / "empty", tmp_path / "none", "", 5):
            with pytest.raises(InvalidInput):
                hf.import_from(path)  # type: ignore[arg-type]
        assert held(store) == []


def _after(reports: int, act: Callable[[], None]) -> Callable[[Progress], None]:
    """Do something once, when so many reports have been made."""
    left = [reports]

    def told(_: Progress) -> None:
        left[0] -= 1
        if left[0] == -1:
            act()

    return told


def _write_everywhere(hf: Holdfast) -> None:
    """Change everything that can change, without deleting a session."""
    hf.sessions.append("kyoto-chat", Message.user("meanwhile"), Message.assistant("indeed"))
    hf.sessions.append("kyoto-chat", *users("from the beginning"), parent="first")
    hf.sessions.append("kyoto-chat-fork", *users("meanwhile"))
    made = hf.sessions.fork("kyoto-chat")
    hf.sessions.append(made.id, *users("on a new fork"))
    hf.sessions.create(agent_id="kyoto-scout")
    hf.agents.set_state("kyoto-scout", "n", 3)
    hf.checkpoints.create(session_id="kyoto-chat")
    hf.checkpoints.create(agent_id="kyoto-scout")
    with hf.runs.start(made.id) as run:
        run.append(*users("in a run"))
    hf.artifacts.put(b"meanwhile", name="map", session_id="kyoto-chat")
    hf.embeddings.upsert("kyoto-w", [1.0, 1.0], model="kyoto-m")
    hf.embeddings.upsert(made.id, [1.0, 1.0], model="kyoto-m")
    hf.sessions.redact("kyoto-chat", "offer", "asked to")


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _blobs(store: RecordStore) -> BlobStore:
    assert isinstance(store, KeepsBlobs)
    return store.blobs()
