"""Judge of image filters."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.reference.filter2d import Filter2dReference
from warpsmith.tuner.operations.filter2d.inputs import random_filter2d
from warpsmith.tuner.operations.filter2d.oracle import reference_filter2d
from warpsmith.tuner.operations.filter2d.peers import gpu_makers, scipy_makers
from warpsmith.tuner.operations.filter2d.samples import samples
from warpsmith.tuner.operations.filter2d.stress import stress_filter2d, stress_slack
from warpsmith.tuner.operations.judge import Judge
from warpsmith.tuner.operations.peer import PeerMaker
from warpsmith.tuner.operations.reference import Operands, References, Samples

_BEYOND = 32
"""Rows and columns by which a small problem's image exceeds the filter."""


class Filter2dJudge(Judge[Filter2d]):
    """Compares with float64 products with band matrices; peers are cuDNN, CuPy, NPP and SciPy."""

    def inputs(self, problem: Filter2d, generator: np.random.Generator) -> Operands:
        return random_filter2d(problem, generator)

    def stress_inputs(self, problem: Filter2d, generator: np.random.Generator) -> Operands:
        return stress_filter2d(problem, generator)

    def stress_slack(self, problem: Filter2d) -> float:
        return stress_slack(problem)

    def terms(self, problem: Filter2d) -> int:
        return math.prod(problem.filter)

    def references(self, problem: Filter2d, operands: Operands) -> References:
        return {problem.output.name: reference_filter2d(problem, operands["image"], operands["weights"])}

    def kernels(self, problem: Filter2d) -> Filter2dReference:  # noqa: ARG002 - there is one
        return Filter2dReference()

    def samples(self, problem: Filter2d, operands: Operands, indices: NDArray[np.int64]) -> Samples:
        return samples(problem, operands, indices)

    def smaller(self, problem: Filter2d) -> Filter2d:
        # A filter of 255x255 at four times its size would take 4e10 multiply-adds for each algorithm that cuDNN
        # tries.
        sizes = zip(problem.image, problem.filter, strict=True)
        rows, columns = (min(size, 4 * taps, taps + _BEYOND) for size, taps in sizes)
        return dataclasses.replace(problem, image=(rows, columns), pitch=None, result_pitch=None)

    def peers(self, problem: Filter2d, operands: Operands, kind: DeviceKind, sets: int) -> tuple[PeerMaker, ...]:
        return (scipy_makers if kind is DeviceKind.HOST else gpu_makers)(problem, operands, sets)
