"""A testbed on the host for one small image filter, where made-up candidates are verified and timed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import host_compiler
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, Measurement
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy

ROWS, COLUMNS = 6, 10
PROBLEM = Filter2d(image=(ROWS, COLUMNS), filter=(1, 2))
WIDTH = COLUMNS - 1
"""Columns of the result."""
QUICK = TimingPolicy(4, 4, 1e9, 1.0, 1.0, 2.0, 1, cold=False)
"""One run per sample: six in all, two of them warm-up."""
on_both = pytest.mark.parametrize("compiler", [None, host_compiler()], ids=["on the host", "on the device"])
"""Runs a test with verification on the host (no compiler) and on the device."""


@contextlib.contextmanager
def opened(host: HostRuntime, compiler: Compiler | None, problem: Filter2d = PROBLEM) -> Iterator[Testbed]:
    with contextlib.closing(Testbed(host, problem, 3, QUICK, guarded=True, compiler=compiler)) as testbed:
        yield testbed


def outcome(testbed: Testbed, candidate: Program, policy: TimingPolicy = QUICK) -> Measurement | Failure:
    return testbed.evaluate(candidate, host_compiler().compile_program(candidate), policy).outcome
