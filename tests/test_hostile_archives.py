"""An import takes nothing on trust: whatever is wrong with an export, it is refused and nothing is written."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import AlreadyExists, CorruptData, Holdfast, HoldfastError, IntegrityError, InvalidInput, MigrationError
from holdfast.archive_files import MAX_RATIO
from holdfast.backends.memory import MemoryStore
from holdfast.codec import digest
from holdfast.contracts import Put, Record
from holdfast.kinds import AGENTS, PRUNED
from holdfast.testing.everything import fill, held

Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything in it."""
    folder = tmp_path_factory.mktemp("exports") / "all"
    with holdfast.open("memory:") as hf:
        fill(hf)
        hf.export(folder)
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "all"))


@pytest.fixture
def empty() -> Iterator[Holdfast]:
    with Holdfast(MemoryStore()) as hf:
        yield hf


# ways to forge


def _seal(folder: Path, *names: str) -> None:
    """Let the manifest say of these files what they now are, as a forger would."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    for name in names:
        body = (folder / name).read_bytes()
        found = {"lines": body.count(b"\n"), "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        manifest["files"][name] = found
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def _lines(name: str, change: Callable[[list[bytes]], list[bytes]]) -> Damage:
    """Change the lines of a file and seal it again."""

    def damage(folder: Path) -> None:
        lines = (folder / name).read_bytes().splitlines(keepends=True)
        (folder / name).write_bytes(b"".join(change(lines)))
        _seal(folder, name)

    return damage


def _first(name: str, old: bytes, new: bytes) -> Damage:
    def change(lines: list[bytes]) -> list[bytes]:
        assert old in lines[0]
        return [lines[0].replace(old, new, 1), *lines[1:]]

    return _lines(name, change)


def _body(name: str, change: Callable[[dict[str, object]], None], at: int = 0) -> Damage:
    """Change what a record says, with a checksum that fits."""

    def changed(lines: list[bytes]) -> list[bytes]:
        line = json.loads(lines[at])
        change(line["body"])
        body = json.dumps(line["body"], separators=(",", ":"), ensure_ascii=False).encode()
        line["sha256"] = hashlib.sha256(body).hexdigest()
        lines[at] = json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        return lines

    return _lines(name, changed)


def _manifest(**changes: object) -> Damage:
    def damage(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}, indent=2) + "\n")

    return damage


def _add(name: str, content: bytes = b"x") -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    return damage


def _flip(name: str) -> Damage:
    def damage(folder: Path) -> None:
        body = bytearray((folder / name).read_bytes())
        body[len(body) // 2] ^= 1
        (folder / name).write_bytes(body)

    return damage


def _a_blob(folder: Path) -> Path:
    return next(path for path in sorted(folder.glob("blobs/*/*")) if path.stat().st_size > 1)


def _link(name: str) -> Damage:
    def damage(folder: Path) -> None:
        moved = folder.parent / "elsewhere"
        (folder / name).rename(moved)
        (folder / name).symlink_to(moved)

    return damage


def _cut_blob(folder: Path) -> None:
    _a_blob(folder).write_bytes(_a_blob(folder).read_bytes()[:-1])


def _flip_blob(folder: Path) -> None:
    _flip(str(_a_blob(folder).relative_to(folder)))(folder)


def _unknown_blob(folder: Path) -> None:
    name = hashlib.sha256(b"more").hexdigest()
    _add(f"blobs/{name[:2]}/{name}", b"more")(folder)


def _listed_blob(folder: Path) -> None:
    """A blob that is there and listed, and that nothing refers to."""
    name = hashlib.sha256(b"more").hexdigest()
    _unknown_blob(folder)
    line = b'{"sha256":"%s","bytes":4}\n' % name.encode()
    _lines("blobs.jsonl", lambda lines: sorted([*lines, line]))(folder)


FOLDERS: dict[str, tuple[type[HoldfastError], Damage]] = {
    "an unknown file": (CorruptData, _add("more.txt")),
    "an unknown kind": (CorruptData, _add("holds.jsonl")),
    "a file in a wrong place": (CorruptData, _add("blobs/x")),
    "a blob under another name": (CorruptData, _add("blobs/ab/" + "cd" * 32)),
    "a folder too many": (CorruptData, _add("more/agents.jsonl")),
    "a missing file": (CorruptData, lambda folder: (folder / "agents.jsonl").unlink()),
    "a missing manifest": (InvalidInput, lambda folder: (folder / "manifest.json").unlink()),
    "a link for a file": (CorruptData, _link("agents.jsonl")),
    "a link for a folder": (CorruptData, _link("blobs")),
    "a newer version": (MigrationError, _manifest(version=2, more={})),
    "an older version": (MigrationError, _manifest(version=0)),
    "another format": (CorruptData, _manifest(format="another")),
    "a field too many": (CorruptData, _manifest(more=1)),
    "no files": (CorruptData, _manifest(files={})),
    "a manifest that is no JSON": (CorruptData, _add("manifest.json", b"{")),
    "a manifest that is a list": (CorruptData, _add("manifest.json", b"[]")),
    "a manifest nested deeply": (CorruptData, _add("manifest.json", b"[" * 100_000)),
    "a manifest too large": (CorruptData, _add("manifest.json", b" " * 2_000_000)),
    "a flipped bit in records": (HoldfastError, _flip("messages.jsonl")),
    "a line cut off": (CorruptData, _lines("messages.jsonl", lambda lines: [*lines[:-1], lines[-1][:-1]])),
    "a line that is no JSON": (CorruptData, _lines("messages.jsonl", lambda lines: [b"{}x\n", *lines])),
    "an empty line": (CorruptData, _lines("messages.jsonl", lambda lines: [*lines, b"\n"])),
    "a line twice": (CorruptData, _lines("messages.jsonl", lambda lines: [lines[0], *lines])),
    "lines in another order": (CorruptData, _lines("messages.jsonl", lambda lines: lines[::-1])),
    "a line with spaces": (CorruptData, _first("agents.jsonl", b'{"key":', b'{ "key":')),
    "a line with a field twice": (CorruptData, _first("agents.jsonl", b'{"key":', b'{"key":{"id":"x"},"key":')),
    "a line with a field too many": (CorruptData, _first("agents.jsonl", b'{"key":', b'{"more":1,"key":')),
    "a message taken out": (IntegrityError, _lines("messages.jsonl", lambda lines: [lines[0], *lines[2:]])),
    "a head taken out": (HoldfastError, _lines("heads.jsonl", lambda lines: lines[1:])),
    "an agent taken out": (HoldfastError, _lines("agents.jsonl", lambda lines: lines[1:])),
    "sessions taken out": (HoldfastError, _lines("sessions.jsonl", lambda lines: lines[1:])),
    "branches taken out": (HoldfastError, _lines("branches.jsonl", lambda lines: lines[1:])),
    "a body that does not hash": (IntegrityError, _first("agents.jsonl", b'"revision":', b'"revision":1')),
    "a key of a wrong type": (CorruptData, _first("messages.jsonl", b'"branch":1', b'"branch":"1"')),
    "a key without a part": (CorruptData, _first("messages.jsonl", b'"branch":1,', b"")),
    "a key beyond 64 bits": (CorruptData, _first("messages.jsonl", b'"branch":1', b'"branch":' + b"9" * 20)),
    "a key with a control character": (CorruptData, _first("agents.jsonl", b'{"id":"kyoto', b'{"id":"\\u0000kyoto')),
    "a key that escapes": (HoldfastError, _first("agents.jsonl", b'{"id":"kyoto', b'{"id":"../../kyoto')),
    "a link that is no hex": (CorruptData, _first("messages.jsonl", b'"link":"', b'"link":"zz')),
    "another link": (IntegrityError, _first("messages.jsonl", b'"n":1', b'"n":2')),
    "another message": (IntegrityError, _body("messages.jsonl", lambda body: body.update(role="system"))),
    "a message that says nothing": (IntegrityError, _body("messages.jsonl", dict.clear)),
    "another id in the body": (IntegrityError, _body("agents.jsonl", lambda body: body.update(id="other"))),
    "another owner of a checkpoint": (HoldfastError, _body("checkpoints.jsonl", lambda body: body.update(uid="x"))),
    "a blob cut off": (CorruptData, _cut_blob),
    "a flipped bit in a blob": (IntegrityError, _flip_blob),
    "a missing blob": (CorruptData, lambda folder: _a_blob(folder).unlink()),
    "a blob that nothing speaks of": (CorruptData, _unknown_blob),
    "a blob that nothing refers to": (CorruptData, _listed_blob),
    "a blob that is not listed": (CorruptData, _lines("blobs.jsonl", lambda lines: lines[1:])),
    "a blob listed twice": (CorruptData, _lines("blobs.jsonl", lambda lines: [lines[0], *lines])),
}


@pytest.mark.parametrize("what", FOLDERS)
def test_a_folder_that_is_not_what_it_says_is_refused(empty: Holdfast, folder: Path, what: str) -> None:
    error, damage = FOLDERS[what]
    damage(folder)
    with pytest.raises(error):
        empty.import_from(folder)
    assert (held(empty._store), list(_blobs(empty))) == ([], [])


@pytest.mark.parametrize("what", [what for what in FOLDERS if "link for" not in what])
def test_a_zip_that_is_not_what_it_says_is_refused(empty: Holdfast, folder: Path, tmp_path: Path, what: str) -> None:
    error, damage = FOLDERS[what]
    damage(folder)
    with pytest.raises(error):
        empty.import_from(_zip(folder, tmp_path / "all.zip"))
    assert (held(empty._store), list(_blobs(empty))) == ([], [])


def test_what_was_not_damaged_is_taken(empty: Holdfast, folder: Path, tmp_path: Path) -> None:
    _seal(folder, "agents.jsonl", "messages.jsonl")
    assert empty.import_from(_zip(folder, tmp_path / "all.zip")).written > 0
    assert empty.import_from(folder).written == 0


# what only a .zip can be


NAMES = ["../x", "/etc/x", "C:/x", "a\\b", "blobs\\x", "blobs/../agents.jsonl", "./agents.jsonl", "agents.jsonl\0x", ""]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_leads_elsewhere_is_refused(empty: Holdfast, folder: Path, tmp_path: Path, name: str) -> None:
    path = _zip(folder, tmp_path / "all.zip", {name.replace("\0", "Q") or "Q": b"x"})
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"agents.jsonlQx", b"agents.jsonl\0x") if "\0" in name else raw)
    with pytest.raises((CorruptData, InvalidInput)):
        empty.import_from(path)
    assert held(empty._store) == []


def test_an_entry_twice_is_refused(empty: Holdfast, folder: Path, tmp_path: Path) -> None:
    path = _zip(folder, tmp_path / "all.zip")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("agents.jsonl", b"")
    with pytest.raises(CorruptData, match="twice"):
        empty.import_from(path)


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFDIR, stat.S_IFCHR])
def test_an_entry_that_is_no_file_is_refused(empty: Holdfast, folder: Path, tmp_path: Path, mode: int) -> None:
    (folder / "agents.jsonl").unlink()
    entry = zipfile.ZipInfo("agents.jsonl")
    entry.create_system, entry.external_attr = 3, (mode | 0o777) << 16
    path = _zip(folder, tmp_path / "all.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(entry, b"/etc/passwd")
    with pytest.raises(CorruptData, match="no file of an export"):
        empty.import_from(path)


def test_a_zip_that_unpacks_to_too_much_is_refused(empty: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "agents.jsonl").write_bytes(b" " * 10_000_000)
    path = _zip(tmp_path / "all", tmp_path / "all.zip", compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size * MAX_RATIO < 10_000_000
    with pytest.raises(CorruptData, match="times its size"):
        empty.import_from(path)


def test_a_zip_that_hides_its_size_is_refused(empty: Holdfast, folder: Path, tmp_path: Path) -> None:
    honest = (folder / "agents.jsonl").read_bytes()
    (folder / "agents.jsonl").write_bytes(honest + b" " * 50_000_000)
    path = _zip(folder, tmp_path / "all.zip", compression=zipfile.ZIP_DEFLATED)
    size, small = ((len(honest) + n).to_bytes(4, "little") for n in (50_000_000, 0))
    path.write_bytes(path.read_bytes().replace(size, small))
    with pytest.raises(HoldfastError):
        empty.import_from(path)
    assert held(empty._store) == []


@pytest.mark.parametrize("change", [lambda raw: raw[:-30], lambda raw: raw[: len(raw) // 2], lambda _: b"no zip"])
def test_a_torn_zip_is_refused(empty: Holdfast, folder: Path, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path = _zip(folder, tmp_path / "all.zip")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CorruptData, match="zip"):
        empty.import_from(path)


def test_a_zip_that_somebody_has_packed_again_is_taken(empty: Holdfast, folder: Path, tmp_path: Path) -> None:
    path = _zip(folder, tmp_path / "all.zip", {"blobs/": b""}, compression=zipfile.ZIP_DEFLATED)
    assert empty.import_from(path).written > 0


# what is sound and still odd


def test_bodies_that_are_no_plain_json_come_back_byte_for_byte(empty: Holdfast, tmp_path: Path) -> None:
    with Holdfast(MemoryStore()) as hf:
        fill(hf)
        pruned = next(record for record in held(hf._store) if record.kind is PRUNED)
        body = b'{ "pruned" : 1e2, "\xc3\xa9":"\\u00e9" }'
        hf._store.commit([Put(Record(PRUNED, pruned.key, body, digest(body)))])
        hf.export(tmp_path / "all")
        empty.import_from(tmp_path / "all")
        assert held(empty._store) == held(hf._store)
        assert b'"base64"' in (tmp_path / "all" / "pruned.jsonl").read_bytes()


def test_a_damaged_source_is_not_exported(tmp_path: Path) -> None:
    with Holdfast(MemoryStore()) as hf:
        fill(hf)
        agent = next(record for record in held(hf._store) if record.kind is AGENTS)
        hf._store.commit([Put(Record(AGENTS, agent.key, agent.body.replace(b"kyoto", b"osaka"), agent.digest))])
        with pytest.raises(IntegrityError, match="agents"):
            hf.export(tmp_path / "all.zip")
        with Holdfast(MemoryStore()) as target, pytest.raises(IntegrityError, match="agents"):
            holdfast.copy(hf, target)
    assert os.listdir(tmp_path) == []


def test_an_import_beside_other_content_is_refused(empty: Holdfast, folder: Path) -> None:
    empty.sessions.create(id="kyoto-chat")
    before = held(empty._store)
    with pytest.raises(AlreadyExists, match="kyoto-chat"):
        empty.import_from(folder)
    assert held(empty._store) == before


def _zip(folder: Path, path: Path, more: dict[str, bytes] | None = None, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in {**_tree(folder), **(more or {})}.items():
            archive.writestr(name, content)
    return path


def _tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _blobs(hf: Holdfast) -> Iterator[object]:
    assert hf._ground.blobs is not None
    return hf._ground.blobs.list()
