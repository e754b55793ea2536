"""Data for layers that scale images by a sampled maximum: their largest numbers lie outside the sample."""

from __future__ import annotations

import contextlib
import enum

import numpy as np
from numpy.typing import NDArray

from sanitized import Untimed
from warpsmith.devices.compiler import Binaries
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_maximum import Maximum
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, Measurement
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.judge import Operands


class Beside(enum.Enum):
    """Factor of the numbers outside the sample. The largest number in the sample is near 4."""

    LITTLE_LARGER = 100.0
    """Within the headroom."""
    FAR_LARGER = 1e6
    """Data beyond the headroom: the whole operand is split again."""
    ALL_OF_IT = 0.0
    """The sample is all zeros. The other numbers are as usual."""


def outcome_beside(
    runtime: Runtime, problem: Conv2d, program: Program, binaries: Binaries, beside: Beside
) -> Measurement | Failure:
    """Outcome on data with `beside`. Buffers are guarded and poisoned, and two runs must give the same bits. There are
    timed runs on GPUs only.
    """
    made = Untimed if runtime.device.kind is DeviceKind.HOST else Testbed
    policy, judge = TimingPolicy.for_kind(runtime.device.kind), BesideTheSample(beside)
    with contextlib.closing(made(runtime, problem, 3, policy, guarded=True, judge=judge)) as bed:
        return bed.evaluate(program, binaries, policy).outcome


class BesideTheSample(Conv2dJudge):
    """Judge whose inputs have every 63rd number outside the sample scaled by `beside`, or a sample of zeros."""

    def __init__(self, beside: Beside) -> None:
        self._beside = beside

    def inputs(self, problem: Conv2d, generator: np.random.Generator) -> Operands:
        found = dict(super().inputs(problem, generator))
        for operand in problem.inputs:
            maximum = Maximum.of("", operand, problem.scales)
            if maximum.is_sampled:
                numbers = found[operand.name].reshape(-1)
                is_read = _is_read(maximum)
                if self._beside is Beside.ALL_OF_IT:
                    numbers[is_read] = 0.0
                else:
                    numbers[np.flatnonzero(~is_read)[::63]] *= self._beside.value
        return found


def _is_read(maximum: Maximum) -> NDArray[np.bool_]:
    """True for each number, by its index, that the sample contains."""
    found = np.zeros(maximum.operand.size, dtype=bool)
    for image in range(maximum.images):
        first = -(-image * maximum.numbers // 4)  # a vector of four
        read = first + np.arange(0, maximum.fours // maximum.step * maximum.step, maximum.step)
        found[(4 * read[:, None] + np.arange(4)).reshape(-1)] = True
    return found
