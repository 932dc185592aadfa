"""A gigabyte as an artifact: the time in and out beside a plain copy that hashes and syncs, and the memory it takes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from figures import Section, table
from rounds import DISK, folder, peak_mb

import holdfast

WORKLOAD = "an artifact of 1 GB"
PIECE = 1 << 20


def made(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(size // PIECE):
            file.write(os.urandom(PIECE))


def copied(source: Path, at: Path) -> None:
    """By hand: read, hash, write, sync."""
    digest = hashlib.sha256()
    with source.open("rb") as file, (at / "copy").open("wb") as out:
        while piece := file.read(PIECE):
            digest.update(piece)
            out.write(piece)
        out.flush()
        os.fdatasync(out.fileno())


def stored(source: Path, at: Path) -> None:
    with holdfast.open(f"sqlite:///{at / 'store.db'}") as hf:
        hf.artifacts.put(source, name="film", id="film")


def streamed(_source: Path, at: Path) -> None:
    with holdfast.open(f"sqlite:///{at / 'store.db'}") as hf:
        for _piece in hf.artifacts.stream("film"):
            pass


def in_files(source: Path, at: Path) -> None:
    with holdfast.open(f"file:///{at / 'store'}") as hf:
        hf.artifacts.put(source, name="film", id="film")


WAYS: dict[str, Callable[[Path, Path], None]] = {
    "copied": copied, "stored": stored, "streamed": streamed, "in_files": in_files,
}  # fmt: skip
SHOWN = {
    "copied": "by hand: copy, hash, sync", "stored": "put, SQLite", "streamed": "stream, SQLite, verified",
    "in_files": "put, files",
}  # fmt: skip


def results(quick: bool) -> Section:
    section = Section(title="An artifact of 1 GB, on the disk")
    rows = []
    with folder(DISK) as at:
        made(at / "film.bin", (16 if quick else 1024) * PIECE)
        for name, shown in SHOWN.items():
            command = [sys.executable, __file__, name, str(at / "film.bin"), str(at)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, before_mb, peak_mb = map(float, done.stdout.split())
            section.note(WORKLOAD, shown, seconds, "s")
            section.note(WORKLOAD, f"{shown}, memory above an idle process", peak_mb - before_mb, "MB")
            rows.append([shown, f"{seconds:.1f}", f"{peak_mb - before_mb:.0f}"])
    section.say(*table(["way", "s", "MB above an idle process"], rows))
    return section


if __name__ == "__main__":
    before, start = peak_mb(), time.perf_counter()
    WAYS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
    print(time.perf_counter() - start, before, peak_mb())
