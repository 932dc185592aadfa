"""The folder of a store: where a namespace lives, which format it has, and whether its files are sound."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

import msgspec

from holdfast.backends._file import names
from holdfast.backends._file.disk import Disk
from holdfast.backends._file.journal import FOLDER, TEMPORARY
from holdfast.backends._file.lines import key_in, lines_in, size_in
from holdfast.backends._opened import no_folder
from holdfast.errors import BackendError, InvalidInput, MigrationError, NotFound
from holdfast.kinds import Kind

FORMAT = 1
FORMAT_FILE = "holdfast.json"
NAMESPACES = "namespaces"
_IGNORE_FILE = f"{FOLDER}/.gitignore"
_ATTRIBUTES_FILE = ".gitattributes"
_NEW_FILE = f"{TEMPORARY}/format"
_SAID = re.compile(rb'"format":\s*([0-9]+)')
_ATTRIBUTES = b"# Records are compared byte for byte: line ends must stay as they are.\n* -text\n"


def folder_of(path: str, namespace: str) -> str:
    """The folder of a namespace; the unnamed one has the store's own."""
    root = os.path.abspath(path)
    if os.path.exists(root) and not os.path.isdir(root):
        raise InvalidInput(f"{path} is a file; a file: address names a folder")
    return f"{root}/{NAMESPACES}/{names.escape(namespace)}" if namespace else root


def enter(path: str, disk: Disk, read_only: bool) -> None:
    """Have the folder there, made if need be, and refuse what this version must not touch."""
    if not read_only:
        make_root(path, disk)
    if read_only or disk.read(FORMAT_FILE) is not None:
        look(disk)


def make_root(path: str, disk: Disk) -> None:
    """Make the folder of a store and namespace, in a folder that must be there."""
    root = os.path.abspath(path)
    if os.path.exists(root) and not os.path.isdir(root):
        raise InvalidInput(f"{path} is a file; a file: address names a folder")
    if not os.path.isdir(os.path.dirname(root)):
        raise no_folder(path)
    above = Disk(os.path.dirname(root))
    above.make_folder(os.path.relpath(disk.root, above.root))


def prepare(disk: Disk, namespace: str) -> None:
    """Say in a new store what it is; its user holds the lock alone."""
    if disk.read(_IGNORE_FILE) is None:
        disk.write(_IGNORE_FILE, 0, b"*\n")
    if disk.read(FORMAT_FILE) is not None:
        return
    if disk.read(_ATTRIBUTES_FILE) is None:
        disk.write(_ATTRIBUTES_FILE, 0, _ATTRIBUTES)
        disk.sync(_ATTRIBUTES_FILE)
    disk.write(_NEW_FILE, 0, msgspec.json.encode({"format": FORMAT, "namespace": namespace}) + b"\n")
    disk.sync(_NEW_FILE)
    disk.rename(_NEW_FILE, FORMAT_FILE)
    for folder in ("", "..", *(("../..", "../../..") if namespace else ())):
        disk.sync_folder(folder)


def look(disk: Disk) -> None:
    """Check what a store says it is: NotFound if it is none, MigrationError if it is newer than this version."""
    content = disk.read(FORMAT_FILE)
    if content is None:
        raise NotFound(f"there is no store at {disk.root} yet; open it once without read_only")
    said = _SAID.search(content)
    if said is None:
        raise BackendError(
            f'{disk.path(FORMAT_FILE)} does not say its format; if it is damaged, write {{"format":{FORMAT}}} there'
        )
    if int(said[1]) > FORMAT:
        raise MigrationError(
            f"the store has format {int(said[1])}, this version knows {FORMAT}; upgrade Holdfast to open it"
        )


# going through all files


def files(disk: Disk, kinds: Iterable[Kind]) -> Iterator[str]:
    """The files of these kinds, in a stable order."""
    for top in sorted({names.HISTORIES, *(kind.name for kind in kinds)}):
        yield from _files_under(disk, top)


def _files_under(disk: Disk, folder: str) -> Iterator[str]:
    for name in disk.names(folder):
        if name.startswith("."):
            continue  # left there by the system or by an editor
        path = f"{folder}/{name}"
        if os.path.isdir(disk.path(path)):
            yield from _files_under(disk, path)
        else:
            yield path


def size_of(disk: Disk, path: str) -> int:
    """How many bytes of bodies a file holds."""
    return sum(size_in(line.raw) for line in lines_in(disk.read(path) or b""))


def problems_in(disk: Disk, path: str) -> Iterator[str]:
    """What is wrong with a file, line by line."""
    content = disk.read(path)
    if content is None:
        return
    if not path.endswith((names.RECORD, names.LOG)):
        yield f"{path} is no file of the store"
        return
    lines = list(lines_in(content))
    if content and not content.endswith(b"\n"):
        yield f"{path}: the last line does not end"
    if path.endswith(names.RECORD) and (len(lines) != 1 or lines[0].offset):
        yield f"{path} holds {len(lines)} records instead of one"
    for number, line in enumerate(lines, 1):
        if not line.sound:
            yield f"{path}: record {number} is damaged"
        elif not _belongs(path, key_in(line.raw) or []):
            yield f"{path}: record {number} belongs elsewhere"


def _belongs(path: str, key: list[str | int]) -> bool:
    """Whether a record with this key has its place in this file."""
    *folders, file = path.split("/")
    spelled = file.removesuffix(names.LOG) if file.endswith(names.LOG) else file.removesuffix(names.RECORD)
    if len(folders) == 1:
        return len(key) == 1 and names.stem(tuple(key)) == spelled
    if len(key) < 2 or folders[1] != names.part(key[0]):
        return False
    if file.endswith(names.LOG):
        return spelled.split(".")[1 : len(key) - 1] == [names.part(one) for one in key[1:-1]]
    return names.stem(tuple(key[1:])) == spelled
