"""Runs: drives of an agent that survive a crash."""

from __future__ import annotations

from holdfast.testing.domain_run_events import RunEventTests
from holdfast.testing.domain_run_holds import RunHoldTests
from holdfast.testing.domain_run_keys import RunKeyTests
from holdfast.testing.domain_run_loops import RunLoopTests
from holdfast.testing.domain_run_replays import RunReplayTests


class RunKit(RunHoldTests, RunReplayTests, RunKeyTests, RunLoopTests, RunEventTests):
    """Subclass it as `TestMyRuns` and say how to `open` the store; never override a test."""
