"""Timing policies of tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from warpsmith.generator.device import DeviceKind
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy

ONE_RUN = TimingPolicy(1, 1, 0.0, 1.0, 1.0, 1.0, 1, cold=False)
"""Policy for tests that look for faults and not for times: three timed runs, two of them warm-up."""
TWO_SAMPLES = TimingPolicy(2, 2, 1e6, 1e4, 1.0, 2.0, 1, cold=False)
"""Policy for tests that need a time, however rough: two samples of 10 us each."""


TIME_BRIEFLY = "import policies; policies.time_briefly()"
"""First line of a process that searches, if it finds this module."""
COMMAND_LINE = f"{TIME_BRIEFLY}; from warpsmith.cli import main; main()"
"""Text of a process that runs the command line."""


def time_briefly(replace: Callable[[Any, str, Any], None] = setattr) -> None:
    """Makes searches on the host take the fewest and shortest samples allowed, and twice as many for finalists.

    Samples that no test reads took a sixth of the processor time of tests that search. `replace` may be
    `monkeypatch.setattr`.
    """
    usual = TimingPolicy.for_kind

    def briefly(kind: DeviceKind, **conditions: Any) -> TimingPolicy:
        policy = usual(kind, **conditions)
        if kind is not DeviceKind.HOST:
            return policy
        return dataclasses.replace(
            policy, max_samples=policy.min_samples, budget_ns=5e6, sample_ns=200e3, final_factor=2
        )

    replace(TimingPolicy, "for_kind", briefly)
