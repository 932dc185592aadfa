"""A saver beside LangGraph's own: both get the same puts, and must then say the same."""

from __future__ import annotations

import copy
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver

from holdfast.adapters.langgraph import HoldfastSaver
from holdfast.client import Holdfast


class Twins(HoldfastSaver):
    """A HoldfastSaver that hands every acknowledged put on to LangGraph's saver in memory."""

    def __init__(self, hf: Holdfast) -> None:
        super().__init__(hf)
        self.other = InMemorySaver()

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Versions that differ on every fork, which LangGraph's saver needs."""
        return self.other.get_next_version(current, channel)

    def put(self, config: RunnableConfig, *given: Any) -> RunnableConfig:
        given = copy.deepcopy(given)  # the graph goes on meanwhile, and gives ids to messages
        self.other.put(config, *given)
        return super().put(config, *given)

    def put_writes(self, config: RunnableConfig, *given: Any) -> None:
        given = copy.deepcopy(given)
        self.other.put_writes(config, *given)
        super().put_writes(config, *given)

    def check(self, *thread_ids: str) -> int:
        """How many checkpoints there are, all the same on both sides."""
        fresh = HoldfastSaver(self._hf)  # which remembers nothing
        for thread_id in thread_ids:
            config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
            found = [plain(one) for one in fresh.list(config)]
            expected = [plain(one) for one in self.other.list(config)]
            assert [one["id"] for one in found] == sorted((one["id"] for one in found), reverse=True)
            for one, other in zip(sorted(found, key=_id), sorted(expected, key=_id), strict=True):
                assert one == other
            assert plain(fresh.get_tuple(config)) == plain(self.other.get_tuple(config))
        assert fresh._hf.verify().ok
        return len(found)


def _id(one: dict[str, Any]) -> str:
    return str(one["id"])


def plain(found: CheckpointTuple | None) -> dict[str, Any]:
    """What a saver has said, for comparison."""
    assert found is not None
    checkpoint = {name: value for name, value in found.checkpoint.items() if value is not None}
    return {
        "id": found.checkpoint["id"],
        "config": found.config["configurable"],
        "parent": None if found.parent_config is None else found.parent_config["configurable"],
        "checkpoint": checkpoint,
        "metadata": found.metadata,
        "writes": found.pending_writes,
    }
