"""LangGraph's own conformance suite, whole, with every capability."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from servers import shared
from servers.postgres import start

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver
from holdfast.ids import new_id


def _every_capability_holds(url: str) -> None:
    @checkpointer_test(name="HoldfastSaver")
    async def saver() -> AsyncGenerator[HoldfastSaver, None]:
        with holdfast.open(url, namespace=new_id()) as hf:
            yield HoldfastSaver(hf)
            assert hf.verify().ok

    report = asyncio.run(validate(saver))
    assert {name: result.failures for name, result in report.results.items() if not result.passed} == {}
    assert {name for name, result in report.results.items() if result.detected} == {
        one.value for one in ALL_CAPABILITIES
    }


def test_every_capability_holds_on_sqlite(tmp_path: Path) -> None:
    _every_capability_holds(f"sqlite:///{tmp_path}/graphs.db")


def test_every_capability_holds_in_files(tmp_path: Path) -> None:
    _every_capability_holds(f"file:///{tmp_path}/graphs")


def test_every_capability_holds_in_memory() -> None:
    _every_capability_holds("memory:")


def test_every_capability_holds_on_postgresql() -> None:
    _every_capability_holds(shared("postgres", start))
