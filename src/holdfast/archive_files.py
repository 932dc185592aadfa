"""The files of an export, in a folder or a .zip: written whole or not at all, read without trust in names and sizes."""

from __future__ import annotations

import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from holdfast.contracts import MAX_BYTES
from holdfast.cuts import POINTERS, UNSEEN
from holdfast.errors import AlreadyExists, CorruptData, InvalidInput
from holdfast.ids import new_id

MANIFEST = "manifest.json"
BLOBS = "blobs.jsonl"
RECORDS = {f"{kind.name}.jsonl": kind for kind in (*UNSEEN, *POINTERS)}
MAX_LINE = 2 * MAX_BYTES
MAX_MANIFEST = 1024 * 1024
MAX_RATIO = 200
PIECE = 1024 * 1024

_BLOB = re.compile(r"blobs/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_FOLDER = re.compile(r"blobs/([0-9a-f]{2}/)?")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def blob_name(digest: bytes) -> str:
    """Where the bytes of a digest stand."""
    return f"blobs/{digest.hex()[:2]}/{digest.hex()}"


def _is_known(name: str) -> bool:
    return name in (MANIFEST, BLOBS) or name in RECORDS or _BLOB.fullmatch(name) is not None


# writing

Writes = Callable[[bytes], object]


class Target(Protocol):
    """Where files are written, one after the other."""

    @contextmanager
    def file(self, name: str) -> Iterator[Writes]:
        """A new file; it ends with the block."""
        ...


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def file(self, name: str) -> Iterator[Writes]:
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())


class _Zip:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    @contextmanager
    def file(self, name: str) -> Iterator[Writes]:
        # Stored and with a fixed time and mode: compressors differ from machine to machine, and so would the bytes.
        entry = zipfile.ZipInfo(name, _EPOCH)
        entry.create_system, entry.external_attr = 3, (stat.S_IFREG | 0o644) << 16
        with self._archive.open(entry, "w", force_zip64=True) as file:
            yield file.write


@contextmanager
def writing(path: Path) -> Iterator[Target]:
    """A place to write files to, which becomes the path when the block ends well; AlreadyExists if it is there."""
    if path.exists():
        raise AlreadyExists(f"{path} exists; export to a new path")
    draft = path.with_name(f".{path.name}.{new_id()}")
    try:
        if path.suffix == ".zip":
            with draft.open("xb") as file:
                with zipfile.ZipFile(file, "w") as archive:
                    yield _Zip(archive)
                file.flush()
                os.fsync(file.fileno())
        else:
            draft.mkdir()
            yield _Folder(draft)
        draft.rename(path)
    except OSError as cause:
        raise InvalidInput(f"{path} cannot be written: {cause}") from cause
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        with suppress(OSError):
            draft.unlink(missing_ok=True)


# reading


class Source(Protocol):
    """Files that are read."""

    sizes: dict[str, int]

    def open(self, name: str) -> BinaryIO:
        """One of them."""
        ...


class _FolderSource:
    """A folder of plain files; a link in it is refused, as it could lead anywhere."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.sizes = dict(self._walk(""))

    def _walk(self, under: str) -> Iterator[tuple[str, int]]:
        with os.scandir(self._path / under) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                name = under + entry.name
                if entry.is_dir(follow_symlinks=False) and _FOLDER.fullmatch(f"{name}/"):
                    yield from self._walk(f"{name}/")
                elif entry.is_file(follow_symlinks=False) and _is_known(name):
                    yield name, entry.stat(follow_symlinks=False).st_size
                else:
                    raise CorruptData(f"{name!r} is no file of an export; take it out, or export again")

    def open(self, name: str) -> BinaryIO:
        return open(self._path / name, "rb", opener=_open_unlinked)


def _open_unlinked(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))  # which Windows has not


class _ZipSource:
    """The entries of a .zip; what they unpack to is bounded by what the file is large."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive = archive
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in archive.infolist():
            self._add(entry)
        self.sizes = {name: entry.file_size for name, entry in self._entries.items()}
        if sum(self.sizes.values()) > MAX_RATIO * size:
            raise CorruptData(
                f"the .zip unpacks to more than {MAX_RATIO} times its size; unpack it and import the folder"
            )

    def _add(self, entry: zipfile.ZipInfo) -> None:
        name = entry.orig_filename  # as it stands in the file: zipfile itself cuts and turns names
        mode = entry.external_attr >> 16
        if _FOLDER.fullmatch(name) and entry.file_size == 0:
            return
        if not _is_known(name) or (stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
            raise CorruptData(f"{name!r} is no file of an export; take it out, or export again")
        if name in self._entries:
            raise CorruptData(f"the .zip has {name!r} twice; export again")
        if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise CorruptData(f"{name!r} is encrypted or compressed in a way that is not read; unpack the .zip")
        self._entries[name] = entry

    def open(self, name: str) -> BinaryIO:
        return self._archive.open(self._entries[name])  # type: ignore[return-value]


@contextmanager
def reading(path: Path) -> Iterator[Source]:
    """The files of an export, of which none has a name that is not expected."""
    try:
        if path.is_dir():
            yield _FolderSource(path)
        else:
            with zipfile.ZipFile(path) as archive:
                yield _ZipSource(archive, path.stat().st_size)
    except FileNotFoundError as cause:
        raise InvalidInput(f"{path} is no export: {cause}") from cause
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as cause:
        raise CorruptData(f"{path} is no sound .zip: {cause}") from cause
    except OSError as cause:
        raise InvalidInput(f"{path} cannot be read: {cause}") from cause
