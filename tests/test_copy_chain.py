"""What was copied from backend to backend, through all of them, exports as the very bytes it began with."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from servers import mariadb, mongo, postgres, shared, valkey

import holdfast
from holdfast import Message
from holdfast.testing.everything import fill

MESSAGES = int(os.environ.get("HOLDFAST_TEST_CHAIN", "300"))
PER_APPEND = 100


@pytest.fixture
def addresses(tmp_path: Path) -> list[str]:
    """The way round: each backend that keeps everything, and at last a SQLite file again."""
    return [
        f"sqlite:///{tmp_path}/first.db",
        shared("postgres", postgres.start),
        shared("valkey", valkey.start),
        shared("mongo", mongo.start),
        f"surrealkv:///{tmp_path}/surreal",
        shared("mariadb", mariadb.start),
        f"file:///{tmp_path}/files",
        f"sqlite:///{tmp_path}/last.db",
    ]


def export(url: str, namespace: str, path: Path) -> bytes:
    with holdfast.open(url, namespace=namespace) as hf:
        assert hf.verify().problems == []
        hf.export(str(path))
    return path.read_bytes()


def test_a_copy_through_every_backend_exports_the_same_bytes(addresses: list[str], tmp_path: Path) -> None:
    space = "chain"
    with holdfast.open(addresses[0], namespace=space) as hf:
        fill(hf)
        chat = hf.sessions.create(title="long")
        for start in range(0, MESSAGES, PER_APPEND):
            hf.sessions.append(chat.id, *(Message.user(f"said {start + one}") for one in range(PER_APPEND)))
    first = export(addresses[0], space, tmp_path / "first.zip")
    for src, dst in pairwise(addresses):
        holdfast.copy(src, dst, src_namespace=space, dst_namespace=space)
    assert export(addresses[-1], space, tmp_path / "last.zip") == first
