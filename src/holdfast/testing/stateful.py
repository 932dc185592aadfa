"""Any backend against the one in RAM: random histories of calls must look the same from outside."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from holdfast.testing.opening import StoreKit
from holdfast.testing.stateful_beside import ArtifactSteps, EmbeddingSteps, LookingSteps, RecordSteps
from holdfast.testing.stateful_checkpoints import CheckpointSteps
from holdfast.testing.stateful_runs import RunSteps
from holdfast.testing.stateful_sessions import AgentSteps, MessageSteps, SessionSteps


class Histories(
    AgentSteps,
    SessionSteps,
    MessageSteps,
    CheckpointSteps,
    RunSteps,
    RecordSteps,
    ArtifactSteps,
    EmbeddingSteps,
    LookingSteps,
):
    """Every step there is, in any order."""


class StatefulKit(StoreKit):
    """Subclass it as `TestMyStates` and say how to `open` the store; never override a test."""

    histories: ClassVar[int] = 20
    """How many to try, of fifty calls each."""

    def test_any_history_of_calls_looks_as_it_does_in_memory(self) -> None:
        machine = type("Machine", (Histories,), {"kit": self})
        slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=self.histories, stateful_step_count=50, deadline=None, suppress_health_check=slow
            ),
        )
