"""The Claude Agent SDK keeps its transcripts in Holdfast: its own conformance suite, and what a store adds to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from claude_agent_sdk import SessionStore, import_session_to_store, project_key_for_directory
from claude_agent_sdk.testing import run_session_store_conformance
from importing import TIDES, TRANSCRIPT
from servers import shared
from servers.postgres import start

import holdfast
from holdfast import Holdfast, InvalidInput, codec
from holdfast.adapters.claude_agent import HoldfastSessionStore, session_id_of
from holdfast.ids import new_id

T = TypeVar("T")

KEY: Any = {"project_key": "tides", "session_id": TIDES}
ID = f"{TIDES}/tides"
LINES: list[Any] = [json.loads(line) for line in TRANSCRIPT.read_text().splitlines()]


def run(doing: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(doing)


def exactly(entries: Any) -> list[str]:
    """Entries as texts that tell 1, 1.0 and True apart."""
    return [json.dumps(entry, sort_keys=True) for entry in entries]


def line(uuid: str, parent: str | None, text: str, kind: str = "user", **more: Any) -> Any:
    said = {"role": kind, "content": text}
    at = "2026-01-01T02:00:01.123Z"
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "timestamp": at, "message": said, **more}


@pytest.fixture
def hf() -> Holdfast:
    return holdfast.open("memory:")


@pytest.fixture
def store(hf: Holdfast) -> HoldfastSessionStore:
    return HoldfastSessionStore(hf)


@pytest.fixture(params=["memory", "sqlite", "file", "postgres"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Holdfast]:
    """Empty stores of each backend, any number of them."""

    def make() -> Holdfast:
        name = new_id()
        urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/{name}.db", "file": f"file:///{tmp_path}/{name}"}
        url = shared("postgres", start) if request.param == "postgres" else urls[request.param]
        opened = holdfast.open(url, namespace=name)
        request.addfinalizer(opened.close)
        return opened

    return make


# the contract


def test_the_conformance_suite_of_the_sdk_passes_whole(fresh: Callable[[], Holdfast]) -> None:
    made: list[HoldfastSessionStore] = []

    def make() -> SessionStore:
        made.append(HoldfastSessionStore(fresh()))
        return made[-1]

    run(run_session_store_conformance(make))
    optional = ("list_sessions", "list_session_summaries", "delete", "list_subkeys")
    assert all(getattr(HoldfastSessionStore, name) is not getattr(SessionStore, name) for name in optional)
    assert len(made) == 15


def test_every_line_of_a_transcript_comes_back_as_it_was(fresh: Callable[[], Holdfast]) -> None:
    hf = fresh()
    odd = [{"type": "x", "n": float("inf"), "torn": "\ud800"}, {"type": "x", "$": {"$is": 1}, "list": [1, 1.0, True]}]
    run(HoldfastSessionStore(hf).append(KEY, LINES + odd))
    assert exactly(run(HoldfastSessionStore(hf).load(KEY))) == exactly(LINES + odd)
    assert hf.verify().ok


@pytest.mark.parametrize("size", [1, 3, 100])
def test_lines_may_come_in_any_batches_and_again(hf: Holdfast, store: HoldfastSessionStore, size: int) -> None:
    named = [one for one in LINES if "uuid" in one]
    for _ in range(2):
        for start_at in range(0, len(named), size):
            run(store.append(KEY, named[start_at : start_at + size]))
    run(HoldfastSessionStore(hf).append(KEY, [*named, {**named[0], "isMeta": True}]))
    assert exactly(run(store.load(KEY))) == exactly(named)
    assert hf.sessions.tree(ID).branch_points == ["a-4"]


def test_transcripts_on_disk_come_in_by_the_sdks_own_import(
    store: HoldfastSessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    project = project_key_for_directory(str(tmp_path))
    folder = tmp_path / "claude" / "projects" / project
    (folder / TIDES / "subagents").mkdir(parents=True)
    (folder / f"{TIDES}.jsonl").write_text(TRANSCRIPT.read_text())
    (folder / TIDES / "subagents" / "agent-1.jsonl").write_text(json.dumps(line("s-1", None, "Look")) + "\n")
    run(import_session_to_store(TIDES, store, directory=str(tmp_path), batch_size=4))
    key: Any = {"project_key": project, "session_id": TIDES}
    assert exactly(run(store.load(key))) == exactly(LINES)
    assert run(store.list_subkeys(key)) == ["subagents/agent-1"]


def test_lines_without_a_uuid_are_kept_each_time(store: HoldfastSessionStore) -> None:
    for _ in range(2):
        run(store.append(KEY, [{"type": "mode", "mode": "plan"}]))
    assert len(run(store.load(KEY)) or []) == 2


def test_a_batch_that_is_tried_again_opens_no_branch(hf: Holdfast, store: HoldfastSessionStore) -> None:
    batch = [line("u-1", None, "a"), {"type": "cost"}, line("a-1", "u-1", "b", "assistant")]
    for _ in range(2):
        run(store.append(KEY, batch))
    assert (run(store.load(KEY)) or [])[:3] == batch
    assert len(hf.sessions.tree(ID).branches) == 1


@pytest.mark.parametrize("entries", ["text", [1], [{"type": "x", "value": object()}]])
def test_what_is_no_line_is_refused(store: HoldfastSessionStore, entries: Any) -> None:
    with pytest.raises(InvalidInput, match="entr"):
        run(store.append(KEY, entries))


@pytest.mark.parametrize("key", [{}, {"project_key": "a"}, {"project_key": "a", "session_id": "b", "subpath": ""}])
def test_what_is_no_key_is_refused(store: HoldfastSessionStore, key: Any) -> None:
    with pytest.raises(InvalidInput, match="project_key"):
        run(store.load(key))


def test_keys_that_read_alike_are_kept_apart(store: HoldfastSessionStore) -> None:
    keys: list[Any] = [{"project_key": "a/b", "session_id": "c"}, {"project_key": "b", "session_id": "c/a"}]
    keys += [{"project_key": "a", "session_id": "c", "subpath": "b"}, {"project_key": "a%2Fb", "session_id": "c"}]
    for n, key in enumerate(keys):
        run(store.append(key, [{"type": "x", "n": n}]))
    assert [run(store.load(key)) for key in keys] == [[{"type": "x", "n": n}] for n in range(4)]


# what it is in Holdfast


def test_a_transcript_is_a_conversation(hf: Holdfast, store: HoldfastSessionStore) -> None:
    run(store.append(KEY, [one for one in LINES if not one.get("isSidechain")]))
    said = [one for one in hf.sessions.messages(ID) if one.content or one.tool_calls or one.reasoning]
    assert [one.id for one in said] == ["u-1", "a-1", "a-2", "a-3", "r-1", "r-2", "a-4", "u-3", "a-6"]
    assert [(one.tool_call_id, one.tool_name) for one in said[4:6]] == [("toolu_1", "Read"), ("toolu_2", "Task")]
    assert (said[1].reasoning, said[2].tool_calls[0].arguments) == ("Two tables to read.", {"file": "tides.csv"})
    assert [one.message.id for one in hf.search("tomorrow", agent_id="tides")] == ["u-2"]
    found = hf.sessions.get(ID)
    assert found is not None
    assert (found.agent_id, found.title) == ("tides", "When is high tide in Brest?")


def test_an_answer_of_several_lines_is_counted_once(hf: Holdfast, store: HoldfastSessionStore) -> None:
    for one in [one for one in LINES if not one.get("isSidechain")]:
        run(store.append(KEY, [one]))
    uses = hf.usage.list(ID)
    assert (uses[0].message_id, uses[0].output, uses[0].total) == ("a-1", 42, 172)
    assert sum(one.output for one in uses) == 42 + 9 + 4 + 5


def test_a_text_is_stored_once(hf: Holdfast, store: HoldfastSessionStore) -> None:
    long = "The tide comes in at six and goes out at noon, say the tables."
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": long}]}
    said = line("u-1", None, long)
    told = {
        **line("u-2", "u-1", ""),
        "message": {"role": "user", "content": [result]},
        "toolUseResult": {"stdout": long},
    }
    run(store.append(KEY, [said, told]))
    assert [codec.encode_message(one)[0].decode().count(long) for one in hf.sessions.messages(ID)] == [1, 1]
    assert run(store.load(KEY)) == [said, told]


def test_lines_that_say_nothing_open_no_branch(hf: Holdfast) -> None:
    note = {"type": "attachment", "uuid": "n-1", "parentUuid": "u-1"}
    lines = [
        line("u-1", None, "a"),
        note,
        {**note, "uuid": "n-2"},
        line("a-1", "n-1", "b", "assistant"),
        {"type": "cost"},
    ]
    for one in [*lines, line("u-2", "a-1", "c")]:
        run(HoldfastSessionStore(hf).append(KEY, [one]))
    assert len(hf.sessions.tree(ID).branches) == 1


def test_an_edited_prompt_is_a_branch(hf: Holdfast, store: HoldfastSessionStore) -> None:
    run(store.append(KEY, [line("u-1", None, "a"), line("a-1", "u-1", "b", "assistant"), line("u-2", "a-1", "c")]))
    run(store.append(KEY, [line("u-3", "a-1", "d")]))
    run(store.append(KEY, [line("u-4", None, "e"), line("a-4", "u-4", "f", "assistant")]))
    assert [one.text for one in hf.sessions.messages(ID)] == ["e", "f"]
    assert hf.sessions.tree(ID).branch_points == ["a-1", None]
    assert [one["uuid"] for one in run(store.load(KEY)) or []] == ["u-1", "a-1", "u-2", "u-3", "u-4", "a-4"]


def test_what_follows_a_compaction_stays_on_the_branch(hf: Holdfast, store: HoldfastSessionStore) -> None:
    boundary = {"type": "system", "uuid": "c-1", "parentUuid": None, "logicalParentUuid": "u-1"}
    summary = line("s-1", "c-1", "It was about tides.", isCompactSummary=True)
    run(store.append(KEY, [line("u-1", None, "a"), boundary, summary]))
    assert len(hf.sessions.tree(ID).branches) == 1


def test_a_fork_can_be_resumed(hf: Holdfast, store: HoldfastSessionStore) -> None:
    run(store.append(KEY, [line("u-1", None, "a"), line("a-1", "u-1", "b", "assistant"), line("u-2", "a-1", "c")]))
    other: Any = {**KEY, "session_id": "other"}
    hf.sessions.fork(ID, at="a-1", id=session_id_of(other))
    run(store.append(other, [line("u-3", "a-1", "d")]))
    assert [one["uuid"] for one in run(store.load(other)) or []] == ["u-1", "a-1", "u-3"]
    assert [one["uuid"] for one in run(store.load(KEY)) or []] == ["u-1", "a-1", "u-2"]
    assert {one["session_id"] for one in run(store.list_sessions("tides"))} == {TIDES, "other"}


def test_what_another_program_says_and_what_is_redacted_are_lines(hf: Holdfast, store: HoldfastSessionStore) -> None:
    run(store.append(KEY, [line("u-1", None, "secret"), line("a-1", "u-1", "b", "assistant")]))
    hf.sessions.append(ID, {"role": "user", "content": "by hand"})
    hf.sessions.redact(ID, "u-1", "asked to")
    first, _, third = run(store.load(KEY)) or []
    assert (first["uuid"], "secret" in json.dumps(first)) == ("u-1", False)
    assert (third["parentUuid"], third["message"]["content"]) == ("a-1", [{"type": "text", "text": "by hand"}])


def test_a_title_of_the_sdk_is_the_title(hf: Holdfast, store: HoldfastSessionStore) -> None:
    run(store.append(KEY, [line("u-1", None, "a"), {"type": "custom-title", "customTitle": "Tides"}]))
    found = hf.sessions.get(ID)
    assert found is not None
    assert found.title == "Tides"


# many of them


def test_a_summary_that_another_writer_has_overtaken_is_made_anew(hf: Holdfast, store: HoldfastSessionStore) -> None:
    run(store.append(KEY, [line("u-1", None, "a")]))
    stale = hf.sessions.get(ID)
    assert stale is not None
    run(HoldfastSessionStore(hf).append(KEY, [{"type": "custom-title", "customTitle": "Tides"}]))
    hf.sessions.update(ID, metadata=stale.metadata)  # as if that writer had been killed before it could sum up
    [summary] = run(store.list_session_summaries("tides"))
    assert (summary["data"]["custom_title"], summary["data"]["first_prompt"]) == ("Tides", "a")
    run(store.append(KEY, [{"type": "tag", "tag": "x"}]))
    [summary] = run(store.list_session_summaries("tides"))
    assert (summary["data"]["custom_title"], summary["data"]["tag"]) == ("Tides", "x")


def test_a_project_of_many_sessions_is_listed_whole(hf: Holdfast, store: HoldfastSessionStore) -> None:
    hf.sessions.create(id="own", agent_id="tides")

    async def fill() -> None:
        await asyncio.gather(*(store.append({**KEY, "session_id": f"s{n}"}, [{"type": "x"}]) for n in range(130)))

    run(fill())
    assert {one["session_id"] for one in run(store.list_sessions("tides"))} == {f"s{n}" for n in range(130)}
    assert len(run(store.list_session_summaries("tides"))) == 130


def test_many_writers_lose_nothing(hf: Holdfast) -> None:
    async def fill() -> None:
        stores = [HoldfastSessionStore(hf) for _ in range(8)]
        lines = [[{"type": "x", "uuid": f"{n}-{k}"} for k in range(40)] for n in range(8)]
        await asyncio.gather(*(one.append(KEY, given) for one, given in zip(stores, lines, strict=True)))

    run(fill())
    assert len(run(HoldfastSessionStore(hf).load(KEY)) or []) == 8 * 40


def test_an_async_store_is_taken_as_well(tmp_path: Path) -> None:
    async def talk() -> Any:
        async with holdfast.aopen(f"sqlite:///{tmp_path}/a.db") as hf:
            store = HoldfastSessionStore(hf)
            await store.append(KEY, LINES)
            return await store.load(KEY)

    assert exactly(run(talk())) == exactly(LINES)


def test_transcripts_of_deep_directories_are_kept_with_their_subagents(store: HoldfastSessionStore) -> None:
    deep = project_key_for_directory("/srv/" + "a-long-name/" * 30)
    key: Any = {"project_key": deep, "session_id": TIDES}
    below: Any = {**key, "subpath": "subagents/agent-a1b2c3d4e5f6"}
    run(store.append(key, [line("u-1", None, "above")]))
    run(store.append(below, [line("u-2", None, "below")]))
    assert run(store.load(below)) == [line("u-2", None, "below")]
    assert [one["session_id"] for one in run(store.list_sessions(deep))] == [TIDES]
    assert run(store.list_subkeys(key)) == [below["subpath"]]
    run(store.delete(key))
    assert run(store.load(below)) is None


def test_metadata_of_ones_own_does_not_hide_a_transcript(hf: Holdfast, store: HoldfastSessionStore) -> None:
    run(store.append(KEY, [line("u-1", None, "Tides?")]))
    hf.sessions.update(ID, metadata={"customer": 7})
    assert [one["session_id"] for one in run(store.list_sessions("tides"))] == [TIDES]


def test_lines_of_more_than_one_commit_are_kept(store: HoldfastSessionStore) -> None:
    lines = [line(f"u-{n}", f"u-{n - 1}" if n else None, f"{n} " + "word " * 400_000) for n in range(5)]
    run(store.append(KEY, lines))
    assert run(store.load(KEY)) == lines
